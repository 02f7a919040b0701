"""From the statistics of centers to a fitted model: agree on a scaling, run the rounds, bring the result into order."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

import numpy as np

from vedute.data.scaling import Ranges, Scaler, agreed_scaler, declared, identity, minmax
from vedute.data.study import Study
from vedute.errors import ConvergenceWarning, UserError
from vedute.model.master import unbiased
from vedute.model.parameters import Array, CenterParams, GlobalPrior, ViewParams, flat_view_prior
from vedute.model.schema import Layout
from vedute.model.seeds import stream
from vedute.model.statistics import Accumulator, Statistics
from vedute.run.center import Center, make_center
from vedute.run.fitted_model import Model
from vedute.run.loop import Progress, rounds
from vedute.run.settings import Settings
from vedute.run.threads import in_threads

FIRST_NOISE = (2.25, 0.625)  # weak inverse-gamma prior on sigma2 in round 1, as the authors' code has it
PIECE_ROWS = 1 << 15  # rows in memory that one thread folds at a time


@dataclass(frozen=True)
class Folded:
    """What a center knows of its data after reading them once."""

    statistics: Statistics
    low: Array
    high: Array
    fingerprint: str = ""  # of the rows, where they came from files


def fold(layout: Layout, centers: Mapping[str, Mapping[str, Array]], settings: Settings) -> dict[str, Folded]:
    """Read the views of centers that are in memory, in pieces on several threads."""

    def read(piece: tuple[str, int]) -> Accumulator:
        name, start = piece
        accumulator = Accumulator(layout.restrict(centers[name]), extremes=needs_extremes(settings))
        accumulator.add({view: rows[start : start + PIECE_ROWS] for view, rows in centers[name].items()})
        return accumulator

    lengths = {name: len(next(iter(views.values()))) for name, views in centers.items()}
    pieces = [(name, start) for name, n in lengths.items() for start in range(0, n, PIECE_ROWS)]
    found: dict[str, Accumulator] = {}
    for (name, start), part in zip(pieces, in_threads(read, pieces), strict=True):
        if start == 0:
            found[name] = part
        else:
            found[name].absorb(part)
    return {name: folded(accumulator) for name, accumulator in found.items()}


def folded(accumulator: Accumulator) -> Folded:
    """What an accumulator has read, without views of which nothing was observed."""
    statistics = accumulator.finish()
    if not len(statistics.n):
        return Folded(statistics, accumulator.low, accumulator.high)
    held = statistics.held()
    columns = [accumulator.layout.slices[name] for name in held.layout.names]
    low, high = (np.concatenate([ends[cols] for cols in columns]) for ends in (accumulator.low, accumulator.high))
    return Folded(held, low, high)


def read_study(study: Study, settings: Settings) -> tuple[Layout, dict[str, tuple[str, ...]], dict[str, Folded]]:
    """Read all files of a study once, in chunks; the rows are then forgotten."""
    columns = {view: study.columns[view] for view in sorted(study.columns)}
    layout = Layout(tuple(columns), tuple(len(names) for names in columns.values()))
    read = study.fold(lambda center: Accumulator(layout, extremes=needs_extremes(settings)))
    return (
        layout,
        columns,
        {name: replace(folded(part.result), fingerprint=part.fingerprint) for name, part in read.items()},
    )


def needs_extremes(settings: Settings) -> bool:
    """Whether the scaling looks at smallest and largest values."""
    return settings.scaling in ("shared-minmax", "center-minmax")


@dataclass(frozen=True)
class Ready:
    """Centers that have read and scaled their data, and the prior they begin with."""

    layout: Layout
    centers: tuple[Center, ...]
    scalers: Mapping[str, Scaler]  # of each center; the same one for all unless each scales by itself
    start: GlobalPrior


def prepare(
    layout: Layout,
    read: Mapping[str, Folded],
    settings: Settings,
    ranges: Ranges | None = None,
    prior: GlobalPrior | None = None,
) -> Ready:
    """Agree on the scaling and make the centers ready for round 1."""
    check_components(layout, settings)
    scalers = _scalers(layout, read, settings, ranges)

    def make(name: str) -> Center:
        scaled = scalers[name].apply(read[name].statistics)
        return make_center(name, scaled, settings.n_components, settings.iterations_of(name))

    centers = tuple(in_threads(make, sorted(read)))
    return Ready(layout, centers, scalers, starting_prior(layout, settings, prior))


def check_components(layout: Layout, settings: Settings) -> None:
    """Fewer components than features, or there is nothing to compress."""
    if settings.n_components >= layout.total:
        raise UserError(
            f"n_components={settings.n_components} must be smaller than the number of features, {layout.total}"
        )


def _scalers(
    layout: Layout, read: Mapping[str, Folded], settings: Settings, ranges: Ranges | None
) -> dict[str, Scaler]:
    parts = [read[name] for name in sorted(read)]  # the order in which they add up, in one process or in many
    if settings.scaling == "center-minmax":
        return {name: minmax(part.statistics.layout, *_extremes([part])) for name, part in read.items()}
    if settings.scaling is None:
        common = identity(layout)
    elif settings.scaling == "declared":
        common = declared(layout, ranges)
    elif settings.scaling == "shared-minmax":
        common = minmax(layout, *_extremes(parts))
    else:
        common = agreed_scaler(settings.scaling, layout, [part.statistics for part in parts])
    return dict.fromkeys(read, common)


def _extremes(parts: list[Folded]) -> tuple[list[tuple[Layout, Array]], list[tuple[Layout, Array]]]:
    return [(p.statistics.layout, p.low) for p in parts], [(p.statistics.layout, p.high) for p in parts]


def starting_prior(layout: Layout, settings: Settings, given: GlobalPrior | None = None) -> GlobalPrior:
    """The prior of round 1: flat, around one seeded W~ for all centers; views that the user gave a prior keep it.

    On scaled data the noise has a weak prior, lest a center with a handful of subjects explain them perfectly.
    """
    q, views = settings.n_components, {}
    for name, d in zip(layout.names, layout.sizes, strict=True):
        if given is not None and name in given.views:
            views[name] = given.views[name]
            continue
        start = None if settings.paper else stream(settings.seed, "shared start", name).standard_normal((d, q))
        flat = flat_view_prior(d, q, None if start is None else start * np.sqrt(0.5 / q))
        alpha, beta = (flat.alpha, flat.beta) if settings.scaling is None else FIRST_NOISE
        views[name] = replace(flat, alpha=alpha, beta=beta)
    return GlobalPrior(views, 0.0 if given is None else given.tau2)


def run(
    ready: Ready,
    settings: Settings,
    *,
    threads: int = 1,
    resume: Progress | None = None,
    on_round: Callable[[Progress], None] | None = None,
) -> Progress:
    """All rounds, with a warning if they ran out before the prior had settled."""
    progress = rounds(
        ready.centers, ready.start, settings.plan(), settings.master_rule(),
        n_rounds=settings.rounds, tol=settings.tol, threads=threads, resume=resume, on_round=on_round,
    )  # fmt: skip
    if settings.tol is not None and not progress.converged and not settings.paper:
        warnings.warn(
            f"the rounds ran out: after {settings.rounds} the global prior still changes by "
            f"{progress.history[-1].change:.1e} a round (tol={settings.tol:g}); raise rounds, or tol if that is enough",
            ConvergenceWarning,
            stacklevel=3,
        )
    return progress


def conclude(ready: Ready, progress: Progress, settings: Settings, columns: Mapping[str, tuple[str, ...]]) -> Model:
    """The model of the last round: variances over n - 1 centers, components in order of what they explain."""
    prior = progress.prior
    centers = {center.name: center.parameters(progress.basis) for center in ready.centers}
    if not settings.paper:
        prior = unbiased(prior)
        R = principal_axes(prior)
        prior = prior.with_views({n: replace(v, W=v.W @ R) for n, v in prior.views.items()})
        centers = {name: _rotated(center, R) for name, center in centers.items()}
    return Model(ready.layout, columns, prior, centers, ready.scalers, settings)


def principal_axes(prior: GlobalPrior) -> Array:
    """The rotation that makes components uncorrelated in what they explain, largest first, largest loading positive."""
    W = np.concatenate([v.W / np.sqrt(v.sigma2) for v in prior.views.values()])
    _, _, Vt = np.linalg.svd(W.T @ W)
    turned = W @ Vt.T
    signs = np.sign(turned[np.abs(turned).argmax(axis=0), np.arange(turned.shape[1])])
    return np.asarray(Vt.T * np.where(signs == 0, 1.0, signs))


def _rotated(center: CenterParams, R: Array) -> CenterParams:
    return CenterParams({name: ViewParams(v.mu, v.W @ R, v.sigma2) for name, v in center.views.items()}, center.m @ R)
