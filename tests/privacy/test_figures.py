"""The picture of the spreads shows what the priors say."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from vedute.model.parameters import GlobalPrior, ViewPrior
from vedute.privacy.figures import plot_spreads, spreads
from vedute.privacy.update import public_prior


def test_spreads_are_read_off_the_priors_and_flat_rounds_left_out() -> None:
    first = public_prior([("A", 3)], 2, seed=0)
    flat = GlobalPrior({"A": ViewPrior(np.zeros(3), np.zeros((3, 2)), np.inf, np.inf, -1.0, 0.0)})
    later = GlobalPrior({"A": replace(first.views["A"], sigma2_W=0.25, sigma2_mu=4.0)})
    found = spreads([flat, first, later], "A")
    assert found["mu"] == pytest.approx([0.1, 2.0])
    assert found["W"] == pytest.approx([0.1, 0.5])
    assert len(found["sigma2"]) == 2


def test_a_picture_is_drawn(tmp_path: Path) -> None:
    prior = public_prior([("A", 3), ("B", 2)], 2, seed=0)
    plot_spreads({"rho 0.6": [prior, prior], "rho 1.3": [prior, prior]}, str(tmp_path / "spreads.png"))
    assert (tmp_path / "spreads.png").stat().st_size > 5000
