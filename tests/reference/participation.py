"""The rounds of a federation written plainly, in one process: who took part in which round decides the model."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
from threadpoolctl import threadpool_limits

from hospitals import as_one_study
from vedute.data.study import Study
from vedute.data.study_views import named_ranges
from vedute.model.parameters import GlobalPrior
from vedute.run.center import make_center, run_round
from vedute.run.fitted_model import Model
from vedute.run.fitting import conclude, prepare, read_study
from vedute.run.loop import Progress, advance
from vedute.run.settings import Settings


def with_participation(
    shared: Path, nodes: Mapping[str, Path], settings: Settings, present: Sequence[Sequence[str]]
) -> Model:
    """The model when ``present[r - 1]`` answer round r; a center that missed a round begins again at the prior."""
    whole = Study.load(as_one_study(shared, nodes))
    layout, columns, read = read_study(whole, settings)
    with threadpool_limits(1, user_api="blas"):
        first = {name: read[name] for name in present[0]}  # they agreed on the scaling
        ready = prepare(layout, first, settings, named_ranges(whole.ranges, layout, columns))
        scaler = ready.scalers[present[0][0]]
        centers = {
            name: make_center(name, scaler.apply(part.statistics), settings.n_components) for name, part in read.items()
        }
        progress = Progress(ready.start)
        for r, names in enumerate(present, 1):
            shares = {}
            for name, center in centers.items():
                if name not in names:
                    centers[name] = make_center(name, center.statistics, settings.n_components)
                    continue
                basis = progress.basis if center.state is not None else None
                (shares[name],) = run_round([center], progress.prior, settings.plan(), r, basis)
            progress = advance(progress, shares, settings.master_rule(), settings.tol, 0.0, (0, 0))
        last = tuple(center for center in centers.values() if center.name in present[-1])
        return conclude(replace(ready, centers=last), progress, settings, columns)


def same_prior(a: GlobalPrior, b: GlobalPrior) -> None:
    """Bit for bit."""
    for view in a.views:
        for part in vars(a.views[view]):
            np.testing.assert_array_equal(getattr(a.views[view], part), getattr(b.views[view], part), f"{view}.{part}")
    assert a.tau2 == b.tau2
