"""A center: what it knows of its rows, complaints about them, and the state that stays at home between rounds.

Centers are computed alone (across machines) or several stacked (in one process): the same code, the same bits.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from vedute.errors import BreakdownError, DataWarning, UserError
from vedute.model.contribution import Contribution, align, contributions, rebased
from vedute.model.local_step import fit, free_columns
from vedute.model.parameters import Array, CenterParams, GlobalPrior, Layout, Schema, ViewParams
from vedute.model.seeds import RoundStream, stream
from vedute.model.stacked import (
    Rotation,
    Stacked,
    StackedPrior,
    State,
    Turned,
    find_rotation,
    shape_key,
    stack_prior,
    stack_statistics,
    turn,
)
from vedute.model.statistics import Accumulator, Statistics
from vedute.run.settings import Plan


@dataclass(frozen=True)
class CenterData:
    """What a center knows of its rows after reading them once, in the units of the data."""

    statistics: Statistics  # of the views of which something was observed
    low: Array
    high: Array
    digest: str = ""  # the identity of the rows


def known_of(accumulator: Accumulator, digest: str = "") -> CenterData:
    """What an accumulator has read, without views of which nothing was observed."""
    statistics = accumulator.finish()
    if not len(statistics.n):
        return CenterData(statistics, accumulator.low, accumulator.high, digest)
    held = statistics.held()
    columns = [accumulator.layout.slices[name] for name in held.layout.names]
    low, high = (np.concatenate([ends[cols] for cols in columns]) for ends in (accumulator.low, accumulator.high))
    return CenterData(held, low, high, digest)


@dataclass
class Center:
    """One center; ``state`` is the only thing that changes."""

    name: str
    statistics: Statistics  # in scaled units
    iterations: int | None = None  # a number of local iterations of its own, for a slower or larger center
    state: State | None = None
    rotation: Rotation | None = None
    streams: dict[tuple[int, str], RoundStream] = field(default_factory=dict, repr=False)

    def redraws(self, seed: int, view: str) -> RoundStream:
        """The random stream from which a view's parameters are drawn anew each round (paper preset)."""
        if (seed, view) not in self.streams:
            self.streams[seed, view] = RoundStream(seed, "redraw", self.name, view)
        return self.streams[seed, view]

    def parameters(self, basis: Array | None = None) -> CenterParams:
        """The center's own parameters after the last round, in the latent basis that the last prior is written in."""
        assert self.state is not None
        state = self.state if basis is None else rebased(self.state, basis)
        views = {
            name: ViewParams(state.mu[0, cols], state.W[0, cols], state.sigma2[0, k])
            for k, (name, cols) in enumerate(self.statistics.layout.slices.items())
        }
        return CenterParams(views, state.m[0])


def make_center(name: str, statistics: Statistics, q: int, iterations: int | None = None) -> Center:
    """A center that has read its data; wide views are rotated once and for all."""
    return Center(name, statistics, iterations, rotation=find_rotation(statistics, q))


def run_round(
    centers: Sequence[Center],
    prior: GlobalPrior,
    plan: Plan,
    round_: int,
    basis: Array | None = None,
    stacked: Stacked | None = None,
) -> list[Contribution]:
    """The local steps of one round for centers that :func:`groups` found alike; each keeps its new state.

    ``basis`` is the change of latent basis that the prior was written in since the centers' states; ``stacked`` are the
    centers' statistics, where they were stacked before.
    """
    if basis is not None:
        for center in centers:
            center.state = None if center.state is None else rebased(center.state, basis)
    whole = stack_prior(prior, centers[0].statistics.layout)
    start = _join([_start(center, whole, plan, round_) for center in centers])
    iterations = _iterations(centers[0], plan, round_)
    rotation = centers[0].rotation
    turned: Turned | None = None
    if rotation is None:
        stacked, local_prior = stacked or stack(centers), whole
    else:
        turned = turn(rotation, whole, start)
        stacked, local_prior, start = turned.stacked, turned.prior, turned.start
    try:
        state = fit(stacked, local_prior, start, plan.rule, iterations)
    except np.linalg.LinAlgError:
        names = ", ".join(repr(center.name) for center in centers)
        raise BreakdownError(
            f"center {names}: the local step broke down in round {round_}: {plan.q} components cannot be told from its "
            "rows in these units; take fewer, scale each feature by itself (scaling='shared-standard'), or leave the "
            "center out"
        ) from None
    turns: Array = np.broadcast_to(np.eye(plan.q), (len(centers), plan.q, plan.q))
    if plan.align:
        state, turns = align(stacked, local_prior, state)
    shared = contributions(stacked, local_prior, state, turns, plan.rule, posterior=plan.posterior)
    if turned is not None:
        state = turned.state_back(state)
        shared = [_contribution_back(turned, part, whole, state, centers[0]) for part in shared]
    for c, center in enumerate(centers):
        center.state = _part(state, c)
    return shared


def stack(centers: Sequence[Center]) -> Stacked:
    """The statistics of alike centers as one stack."""
    return stack_statistics([center.statistics for center in centers])


def groups(centers: Sequence[Center], plan: Plan) -> list[list[Center]]:
    """Centers that can be computed as one stack; a center with rotated views is alone."""
    found: dict[object, list[Center]] = {}
    for center in centers:
        settled = center.state is not None  # a newcomer has no covariance of its rows yet
        key = center.name if center.rotation else (shape_key(center.statistics), center.iterations, settled)
        found.setdefault(key, []).append(center)
    return list(found.values())


def _iterations(center: Center, plan: Plan, round_: int) -> int:
    usual = plan.first_iterations if round_ == 1 else plan.iterations
    return usual if center.iterations is None else center.iterations


def _start(center: Center, prior: StackedPrior, plan: Plan, round_: int) -> State:
    """Where a center begins a round: at the state it left, at the prior, or at a draw (paper preset)."""
    layout = center.statistics.layout
    known = prior.alpha > 0
    if plan.own_start and round_ == 1:
        return _random_start(center, prior, plan)
    if plan.redraw and known.all():
        return _drawn_start(center, prior, plan, round_)
    if center.state is not None:
        return center.state
    sigma2 = np.where(known, prior.beta / np.where(known, prior.alpha, 1.0), _half_variance(center.statistics))
    m = np.zeros((1, plan.q))
    mu = np.where(prior.precision_mu[layout.view_of] > 0, prior.mu[0], _feature_means(center.statistics))
    return State(mu[None], prior.W, sigma2[None], m)


def _random_start(center: Center, prior: StackedPrior, plan: Plan) -> State:
    """Initialisation 1 of the paper: random W and sigma2, each view from a stream of its own.

    Where the master gave a prior for a parameter (initialisation 2), the center begins there instead.
    """
    layout = center.statistics.layout
    W, sigma2 = np.empty((layout.total, plan.q)), np.empty(len(layout.names))
    for k, (name, columns) in enumerate(layout.slices.items()):
        rng = stream(plan.seed, "start", center.name, name)
        W[columns] = rng.uniform(-2.0, 2.0, (layout.sizes[k], plan.q))
        sigma2[k] = rng.uniform(0.1, 0.5)
    given = (prior.precision_W > 0)[layout.view_of, None]
    start = _freed(np.where(given, prior.W[0], W), layout, plan)
    sigma2 = np.where(prior.precision_W > 0, prior.beta / np.maximum(prior.alpha, 1e-12), sigma2)
    return State(_feature_means(center.statistics)[None], start[None], sigma2[None], np.zeros((1, plan.q)))


def _drawn_start(center: Center, prior: StackedPrior, plan: Plan, round_: int) -> State:
    """Algorithm 1: each round begins with theta_c drawn from P(theta_c | theta~)."""
    layout = center.statistics.layout
    W, sigma2 = np.empty((layout.total, plan.q)), np.empty(len(layout.names))
    for k, (name, columns) in enumerate(layout.slices.items()):
        rng = center.redraws(plan.seed, name).at(round_)
        sd = 0.0 if prior.precision_W[k] == 0 else prior.precision_W[k] ** -0.5
        W[columns] = prior.W[0, columns] + sd * rng.standard_normal((layout.sizes[k], plan.q))
        sigma2[k] = prior.beta[k] / rng.standard_gamma(prior.alpha[k])
    return State(prior.mu, _freed(W, layout, plan)[None], sigma2[None], np.zeros((1, plan.q)))


def _freed(W: Array, layout: Layout, plan: Plan) -> Array:
    """The loadings (D, q) with zeros in the pinned columns of the paper's narrow views."""
    if not plan.rule.narrow or min(layout.sizes) > plan.q:
        return W
    columns = free_columns(layout.sizes, plan.q, narrow=True)[layout.view_of]
    return np.where(np.arange(plan.q) < columns[:, None], W, 0.0)


def _feature_means(statistics: Statistics) -> Array:
    counts = statistics.counts()
    return np.where(counts > 0, statistics.sums() / np.maximum(counts, 1.0), 0.0)


def _half_variance(statistics: Statistics) -> Array:
    """Half of each view's variance: an even guess between noise and signal."""
    starts = statistics.layout.starts
    squares = np.add.reduceat(statistics.squares_about(_feature_means(statistics)), starts)
    cells = np.add.reduceat(statistics.counts(), starts)
    return np.asarray(np.maximum(0.5 * squares / np.maximum(cells, 1.0), 1e-6))


def _join(states: Sequence[State]) -> State:
    if len(states) == 1:
        return states[0]
    covs = [s.cov for s in states if s.cov is not None]
    return State(
        np.concatenate([s.mu for s in states]),
        np.concatenate([s.W for s in states]),
        np.concatenate([s.sigma2 for s in states]),
        np.concatenate([s.m for s in states]),
        np.concatenate(covs) if len(covs) == len(states) else None,
    )


def _part(state: State, c: int) -> State:
    cov = None if state.cov is None else state.cov[c : c + 1]
    return State(state.mu[c : c + 1], state.W[c : c + 1], state.sigma2[c : c + 1], state.m[c : c + 1], cov)


def _contribution_back(
    turned: Turned, shared: Contribution, prior: StackedPrior, state: State, center: Center
) -> Contribution:
    """Deviations in feature coordinates; the sums of squares and variances do not depend on the basis."""
    views = dict(shared.views)
    for name in turned.bases:
        columns = center.statistics.layout.slices[name]
        seen = views[name].count[0]
        views[name] = replace(
            views[name],
            count=np.full(columns.stop - columns.start, seen),
            d_mu=(state.mu[0, columns] - prior.mu[0, columns]) * seen,
            d_W=(state.W[0, columns] - prior.W[0, columns]) * seen,
        )
    return replace(shared, views=views)


def inspect_centers(schema: Schema, centers: Mapping[str, Statistics]) -> None:
    """Complain about features that tell nothing and about centers that nothing ties together."""
    layout, names = schema.layout, named_features(schema)
    seen, varies = np.zeros(layout.total, dtype=bool), np.zeros(layout.total, dtype=bool)
    low, high = np.full(layout.total, np.inf), np.full(layout.total, -np.inf)
    for center, statistics in centers.items():
        require_subjects(center, statistics)
        own = np.concatenate([np.arange(layout.total)[layout.slices[view]] for view in statistics.layout.names])
        counts = statistics.counts()
        mean = statistics.sums() / np.maximum(counts, 1.0)
        moving = statistics.squares_about(mean) > 1e-20 * np.maximum(counts * mean**2, 1e-300)
        here = counts > 0
        _warn_of_columns(center, names, own, here, moving)
        seen[own] |= here
        varies[own] |= moving
        low[own] = np.where(here, np.minimum(low[own], mean), low[own])
        high[own] = np.where(here, np.maximum(high[own], mean), high[own])
    _refuse(names, ~seen, "missing for all subjects of all centers")
    _refuse(names, ~(varies | (high > low)), "constant over all centers")
    _warn_untied(centers)


def named_features(schema: Schema) -> list[str]:
    """All columns, each with its view."""
    return [f"{view}.{column}" for view, columns in schema.columns.items() for column in columns]


def require_subjects(center: str, statistics: Statistics) -> None:
    """At least two subjects, of whom something was observed."""
    if statistics.n_rows == 0:
        raise UserError(f"center {center!r}: nothing was observed for any subject; leave the center out")
    if statistics.n_rows == 1:
        raise UserError(f"center {center!r} has one subject, which tells nothing of variation; leave it out")


def inspect_sums(schema: Schema, counts: Array, squares: Array) -> None:
    """The same complaints about features from sums over centers elsewhere."""
    names = named_features(schema)
    _refuse(names, counts == 0, "missing for all subjects of all centers")
    _refuse(names, (counts > 0) & (squares <= 0), "constant over all centers")


def _warn_of_columns(
    center: str, names: list[str], own: NDArray[np.intp], here: NDArray[np.bool_], moving: NDArray[np.bool_]
) -> None:
    for bad, what in ((~here, "missing for all subjects"), (here & ~moving, "constant")):
        if bad.any():
            listed = _listed([names[j] for j in own[bad]])
            _warn(f"center {center!r}: {listed} {_is(bad)} {what}; the fit goes on, other centers inform it")


def _refuse(names: list[str], bad: NDArray[np.bool_], what: str) -> None:
    if bad.any():
        listed = _listed([names[j] for j in np.flatnonzero(bad)])
        raise UserError(f"{listed} {_is(bad)} {what}: it tells nothing; leave it out of its view")


def _is(bad: NDArray[np.bool_]) -> str:
    return "is" if bad.sum() == 1 else "are"


def _listed(names: list[str]) -> str:
    shown = ", ".join(names[:5]) + (f" and {len(names) - 5} more" if len(names) > 5 else "")
    return ("column " if len(names) == 1 else "columns ") + shown


def _warn_untied(centers: Mapping[str, Statistics]) -> None:
    held = {name: set(statistics.layout.names) for name, statistics in centers.items()}
    first, *rest = held
    tied = set(held[first])
    while joining := [name for name in rest if held[name] & tied]:
        for name in joining:
            tied |= held[name]
            rest.remove(name)
    if rest:
        _warn(
            f"center {rest[0]!r} has no view in common with {first!r}, not even through other centers: "
            "their latent spaces are not tied, so compare each only with itself"
        )


def _warn(message: str) -> None:
    warnings.warn(message, DataWarning, stacklevel=4)
