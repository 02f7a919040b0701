"""The rounds of a federation written plainly, in one process: who took part in which round decides the model."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
from threadpoolctl import threadpool_limits

from hospitals import as_one_study
from vedute.data.rows import StudyRows
from vedute.data.scaling import Scaler
from vedute.data.study import Study
from vedute.model.parameters import GlobalPrior
from vedute.run.center import Center, make_center, run_round
from vedute.run.exchange import InProcess, Participant, make_job, read_inspected
from vedute.run.fitted_model import Model
from vedute.run.protocol import Answer, Progress, Question
from vedute.run.server import Master, conclude, fit, parameters, starting_prior
from vedute.run.settings import Settings


def with_participation(
    shared: Path, nodes: Mapping[str, Path], settings: Settings, present: Sequence[Sequence[str]]
) -> Model:
    """The model when ``present[r - 1]`` answer round r; a center that missed a round begins again at the prior."""
    rows = StudyRows(Study.load(as_one_study(shared, nodes)))
    job = make_job(rows, settings)
    with threadpool_limits(1, user_api="blas"):
        centers = {one.name: one for one in read_inspected(rows, job)}
        first = [centers[name] for name in present[0]]  # they agreed on the scaling
        once = replace(job, settings=replace(settings, rounds=1))
        agreed = fit(once, InProcess(once, first, policy=settings.policy)).model.scalers[present[0][0]]
        progress = Progress(starting_prior(job.schema.layout, settings))
        master = Master(settings.master_rule(), settings.tol, settings.policy)
        for name, one in centers.items():
            centers[name] = Participant(name, one.data, center=_fresh(one, agreed, settings))
        for r, names in enumerate(present, 1):
            answers = {}
            for name, one in centers.items():
                if name not in names:
                    one.center = _fresh(one, agreed, settings)
                    continue
                assert one.center is not None
                basis = progress.basis if one.center.state is not None else None
                (share,) = run_round([one.center], progress.prior, settings.plan(), r, basis)
                answers[name] = Answer(one.views, share)
            progress = master.step(progress, (0.0, (0, 0)), answers)
        last = InProcess(job, [centers[name] for name in present[-1]], policy=settings.policy)
        params = parameters(last.ask(Question("finish", prior=progress.prior, basis=progress.basis)))
        return conclude(job, progress, params, dict.fromkeys(present[-1], agreed))


def _fresh(one: Participant, scaler: Scaler, settings: Settings) -> Center:
    return make_center(one.name, scaler.apply(one.data.statistics), settings.n_components)


def same_prior(a: GlobalPrior, b: GlobalPrior) -> None:
    """Bit for bit."""
    for view in a.views:
        for part in vars(a.views[view]):
            np.testing.assert_array_equal(getattr(a.views[view], part), getattr(b.views[view], part), f"{view}.{part}")
    assert a.tau2 == b.tau2
