"""WAIC of fitted models over the centers: two short exchanges, and the rows are read once more at home.

First each center tells how precisely its rows fix the global parameters; the sum goes back to all. Then each reads its
rows, compares them with draws of its parameters, and tells the sums over its subjects.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import reduce
from operator import add

import numpy as np

from vedute.data.rows import Rows
from vedute.data.scaling import Scaler, scaling_of
from vedute.errors import UserError
from vedute.model.local_step import LocalRule
from vedute.model.parameters import Array, CenterParams
from vedute.model.prediction import posterior as latent_posterior
from vedute.model.prediction import predicted
from vedute.model.stacked import Stacked, StackedPrior, State, stack_prior, stack_statistics
from vedute.model.statistics import Statistics
from vedute.model.uncertainty import Evidence, Information, Posterior, center_posterior, evidence, information
from vedute.model.waic import Sums, pointwise, sums
from vedute.run.center import make_center, run_round
from vedute.run.exchange import read_inspected
from vedute.run.fitted_model import ADAPT_ITERATIONS, Model, Views
from vedute.run.protocol import Job

DRAWS = 200
SETTLE = 30  # local iterations that bring a center to rest under the final prior
ROWS = 2048  # rows that are judged at once: bounds memory


@dataclass(frozen=True)
class Settled:
    """A center at rest under the final prior of a model, and what its rows tell."""

    stacked: Stacked
    prior: StackedPrior
    state: State
    known: Information


def settle(model: Model, name: str, statistics: Statistics) -> Settled:
    """Bring a center to rest; ``statistics`` are in the units of the data. One that the model knows starts there."""
    scaled = _scaler(model, name).apply(statistics)
    center = make_center(name, scaled, model.prior.q)
    params = model.centers.get(name)
    iterations = ADAPT_ITERATIONS
    if params is not None and set(params.views) >= set(scaled.layout.names):
        center.state, iterations = _state(params, scaled), SETTLE
    # The paper's own rule has no posterior of mu; the joint one is asked here whatever rule fitted the model.
    rule = LocalRule(expand=False, narrow=model.settings.plan().rule.narrow)
    plan = replace(model.settings.plan(), redraw=False, own_start=False, align=False, rule=rule, iterations=iterations)
    run_round([center], model.prior, plan, round_=2)
    assert center.state is not None
    stacked, prior = stack_statistics([scaled]), stack_prior(model.prior, scaled.layout)
    return Settled(stacked, prior, center.state, information(stacked, prior, center.state))


def _scaler(model: Model, center: str) -> Scaler:
    if center in model.scalers:
        return model.scalers[center]
    if not scaling_of(model.settings.scaling).common:
        raise UserError(f"center {center!r} is not in the model, so its scaling is not known; leave it out")
    return next(iter(model.scalers.values()))


def _state(params: CenterParams, statistics: Statistics) -> State:
    views = [params.views[name] for name in statistics.layout.names]
    return State(
        np.concatenate([view.mu for view in views])[None],
        np.concatenate([view.W for view in views])[None],
        np.array([[view.sigma2 for view in views]]),
        params.m[None],
    )


def total_evidence(settled: Mapping[str, Settled]) -> Evidence:
    """How precisely all centers together know the global parameters."""
    return reduce(add, (evidence(part.stacked, part.known) for _, part in sorted(settled.items())))


def posteriors(model: Model, statistics: Mapping[str, Statistics]) -> dict[str, Posterior]:
    """The posterior of each center's parameters under a model."""
    settled = {name: settle(model, name, part) for name, part in statistics.items()}
    total = total_evidence(settled)
    return {
        name: center_posterior(part.stacked, part.prior, part.state, part.known, total)
        for name, part in settled.items()
    }


@dataclass(frozen=True)
class Judge:
    """One model as one center sees it."""

    model: Model
    center: str
    posterior: Posterior

    def judge(self, rows: Array, unit: Array, draws: int) -> tuple[Array, Array, float]:
        """lppd and p_waic of each row in the units of the data, and the sum of absolute errors over ``unit``.

        ``rows`` are those of all views of the model, in the units of the data. Errors are those of the global
        parameters, as in the paper.
        """
        layout, scaler = self.model.layout, _scaler(self.model, self.center)
        shift, scale = np.zeros(layout.total), np.ones(layout.total)
        for name, columns in layout.slices.items():
            if name in scaler.shift:
                shift[columns], scale[columns] = scaler.shift[name], scaler.scale[name]
        scaled = (rows - shift) / scale
        own = np.concatenate([np.arange(layout.total)[layout.slices[n]] for n in self.posterior.layout.names])
        lppd, p = pointwise(self.posterior, scaled[:, own], self.model.settings.seed, self.center, draws)
        emission = self.model.emission(None)
        errors = np.abs(predicted(emission, latent_posterior(emission, scaled)) - scaled) * scale / unit
        return lppd - ~np.isnan(rows[:, own]) @ np.log(scale[own]), p, float(np.nansum(errors))


class Scorer:
    """Takes in the rows of one center, chunk by chunk, and keeps sums alone."""

    def __init__(self, judges: Sequence[Judge], unit: Array, draws: int, threads: int) -> None:
        self.judges, self.unit, self.draws = judges, unit, draws
        self.threads = threads
        size = len(judges)
        self.sums = Sums(0, np.zeros(size), np.zeros(size), np.zeros(size), np.zeros((size, size)))
        self.errors = np.zeros(size)
        self.cells = 0

    @property
    def mae(self) -> Array:
        """(models,): mean absolute error over the observed cells."""
        return self.errors / max(self.cells, 1)

    def add(self, views: Views) -> None:
        """Judge some rows by all models."""
        layout = self.judges[0].model.layout
        n = len(next(iter(views.values())))
        for start in range(0, n, ROWS):
            rows = np.full((min(ROWS, n - start), layout.total), np.nan)
            for name, columns in layout.slices.items():
                if name in views:
                    rows[:, columns] = views[name][start : start + ROWS]
            rows = rows[~np.isnan(rows).all(axis=1)]  # nobody foretells a subject of whom nothing is known
            if len(rows):
                self._score(rows)

    def _score(self, rows: Array) -> None:
        def by(judge: Judge) -> tuple[Array, Array, float]:
            return judge.judge(rows, self.unit, self.draws)

        with ThreadPoolExecutor(self.threads) as pool:
            lppd, p, errors = zip(*pool.map(by, self.judges), strict=True)
        self.sums = self.sums + sums(np.stack(lppd), np.stack(p))
        self.errors += np.array(errors)
        self.cells += int((~np.isnan(rows)).sum())


@dataclass(frozen=True)
class Waic:
    """WAIC of one model and what it is made of: ``waic = -2 (lppd - p)``; ``float()`` gives it."""

    waic: float
    se: float  # standard error, the subjects being a sample
    lppd: float  # log pointwise predictive density of the subjects
    p: float  # effective number of parameters
    n: int

    def __float__(self) -> float:
        return self.waic


def score(
    models: Sequence[Model],
    statistics: Mapping[str, Statistics],
    rows: Rows,
    unit: Array,
    *,
    draws: int = DRAWS,
    threads: int = 1,
) -> tuple[Sums, Array]:
    """The sums over all centers for each model, and its mean absolute error (mean over centers, in ``unit``)."""
    known = [posteriors(model, statistics) for model in models]

    def make(center: str) -> Scorer:
        judges = [Judge(model, center, found[center]) for model, found in zip(models, known, strict=True)]
        return Scorer(judges, unit, draws, threads)

    scorers = [part.result for _, part in sorted(rows.fold(make).items())]
    return reduce(add, (scorer.sums for scorer in scorers)), np.mean([scorer.mae for scorer in scorers], axis=0)


def model_waic(model: Model, rows: Rows, *, draws: int = DRAWS, threads: int = 1) -> Waic:
    """WAIC of one model on the rows of some centers, which are read twice: into statistics, and to be judged."""
    for view, names in rows.schema.columns.items():
        if model.columns.get(view) != names:
            raise UserError(f"view {view!r} is not in the model, or has other columns there; give the views of the fit")
    read = read_inspected(rows, Job(rows.schema, model.settings))
    statistics = {one.name: one.data.statistics for one in read}
    found, _ = score([model], statistics, rows, np.ones(model.layout.total), draws=draws, threads=threads)
    return Waic(float(found.waic[0]), float(found.se()[0]), float(found.lppd[0]), float(found.p[0]), found.n)
