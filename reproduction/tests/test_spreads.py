"""The spreads that are drawn are those of the priors."""

from dataclasses import replace

import numpy as np
import pytest

from vedute.model.parameters import GlobalPrior, ViewPrior
from vedute.privacy.update import public_prior
from vedute_reproduction.privacy import spreads


def test_spreads_are_read_off_the_priors_and_flat_rounds_left_out() -> None:
    first = public_prior([("A", 3)], 2, seed=0)
    flat = GlobalPrior({"A": ViewPrior(np.zeros(3), np.zeros((3, 2)), np.inf, np.inf, -1.0, 0.0)})
    later = GlobalPrior({"A": replace(first.views["A"], sigma2_W=0.25, sigma2_mu=4.0)})
    found = spreads([flat, first, later], "A")
    assert found["mu"] == pytest.approx([0.1, 2.0])
    assert found["W"] == pytest.approx([0.1, 0.5])
    assert len(found["sigma2"]) == 2
