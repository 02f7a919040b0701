"""What a center gives to the master: sums that add over centers, and nothing else; also as one vector of numbers.

W is known up to a rotation of the latent space, so a center first turns its own to lie as near the prior's as it can.
The likelihood and the prior of the case mix do not change, the prior of W only rises (orthogonal Procrustes). Two
centers that found the same W up to a rotation agree after it, even when the common W~ is still a random start.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy.special import digamma

from vedute.model.local_step import LocalRule, e_step, relative_spread
from vedute.model.means import joint_means, marginal_means, precisions
from vedute.model.parameters import Array, CenterParams, GlobalPrior, Layout, ViewParams
from vedute.model.stacked import Stacked, StackedPrior, State


@dataclass(frozen=True)
class ViewContribution:
    """Sums over centers for one view; deviations are from the prior of the round."""

    centers: float  # how many centers hold the view
    count: Array  # (d,) how many of them observed each feature
    d_mu: Array  # (d,) sum of mu_c - mu~
    d_W: Array  # (d, q) sum of W_c - W~
    sq_mu: float  # sum of |mu_c - mu~|^2
    sq_W: Array  # (q, q) sum of (W_c - W~)'(W_c - W~)
    var_mu: float  # posterior variance of mu_c, summed over features (0: plug-in)
    var_W: Array  # (q, q) posterior covariance of the rows of W_c, summed over features
    turn: Array  # (q, q) sum of R_c - I, the rotations by which the centers aligned themselves
    mu_gain: float  # sum of the weight of the data in mu, against its prior
    precision: float  # sum of the expected 1/sigma2
    log_sigma2: float  # sum of the expected ln sigma2
    noise_gain: float  # sum of the weight of the data in sigma2, against its prior

    def __add__(self, other: ViewContribution) -> ViewContribution:
        mine, theirs = self.__dict__, other.__dict__
        return ViewContribution(**{name: mine[name] + theirs[name] for name in mine})


@dataclass(frozen=True)
class Contribution:
    """Sums over centers: a part for each view, and the case mix."""

    views: Mapping[str, ViewContribution]
    centers: float
    m: Array  # (q,) sum of the m_c
    sq_m: Array  # (q, q) sum of m_c m_c'
    var_m: Array  # (q, q) sum of their posterior covariances
    subjects: float  # how many
    sq_x: Array  # (q, q) sum over subjects of <(x - m_c)(x - m_c)'> (0: plug-in)

    def __add__(self, other: Contribution) -> Contribution:
        views = dict(self.views)
        for name, part in other.views.items():
            views[name] = views[name] + part if name in views else part
        mine, theirs = self.__dict__, other.__dict__
        return Contribution(views, **{name: mine[name] + theirs[name] for name in mine if name != "views"})


def contributions(
    stacked: Stacked, prior: StackedPrior, state: State, turns: Array, rule: LocalRule, *, posterior: bool
) -> list[Contribution]:
    """The contribution of each center of a stack; ``posterior`` adds the spreads that the paper leaves out."""
    seen = (stacked.n_features > 0) * 1.0
    d_mu = (state.mu - prior.mu) * seen
    d_W = (state.W - prior.W) * seen[..., None]
    starts = stacked.layout.starts
    sq_mu = np.add.reduceat(d_mu**2, starts, axis=1)
    q = state.W.shape[-1]
    sq_W = np.stack([d_W[:, cols].mT @ d_W[:, cols] for cols in stacked.layout.slices.values()], axis=1)
    half_cells = stacked.cells / 2.0
    gain = half_cells / np.maximum(half_cells + prior.alpha, half_cells)  # a flat prior (alpha = -1) has no weight
    precision: Array
    if posterior:
        var_mu, var_W, mu_gain, var_m = _spreads(stacked, prior, state, rule, seen)
        a = np.maximum(prior.alpha + half_cells, 0.5)
        b = state.sigma2 * (a + 1.0)  # sigma2 is the mode b / (a + 1)
        precision, log_sigma2 = a / b, np.log(b) - digamma(a)
        sq_x = _latent_scatter(stacked, prior, state, rule)
    else:
        var_mu, var_W, mu_gain = np.zeros_like(sq_mu), np.zeros_like(sq_W), np.ones_like(sq_mu)
        var_m = sq_x = np.zeros((len(sq_mu), q, q))
        precision, log_sigma2 = 1.0 / state.sigma2, np.log(state.sigma2)
    turned = turns - np.eye(q)
    found = []
    for c in range(len(d_mu)):
        views = {
            name: ViewContribution(
                1.0, seen[c, cols], d_mu[c, cols], d_W[c, cols], sq_mu[c, k], sq_W[c, k], var_mu[c, k], var_W[c, k],
                turned[c], mu_gain[c, k], precision[c, k], log_sigma2[c, k], gain[c, k],
            )
            for k, (name, cols) in enumerate(stacked.layout.slices.items())
        }  # fmt: skip
        m = state.m[c]
        subjects = float(stacked.n[c].sum())
        found.append(Contribution(views, 1.0, m, np.outer(m, m), var_m[c], subjects, sq_x[c]))
    return found


def _latent_scatter(stacked: Stacked, prior: StackedPrior, state: State, rule: LocalRule) -> Array:
    """(B, q, q): the sum over subjects of <(x - m)(x - m)'>, at the final parameters."""
    inv = 1.0 / state.sigma2[:, stacked.layout.view_of]
    spread = relative_spread(stacked, prior, state) if rule.spread else None
    P, h = precisions(stacked, state.W, state.W * inv[..., None], spread)
    moments = e_step(stacked, state.W, inv, P, h, state.mu, state.m)
    sum_x = (stacked.n[..., None] * moments.x).sum(axis=1)
    cross = sum_x[..., :, None] * state.m[..., None, :]
    N = stacked.n.sum(axis=1)[:, None, None]
    return np.asarray(moments.XX.sum(axis=1) - cross - cross.mT + N * state.m[..., :, None] * state.m[..., None, :])


def _spreads(
    stacked: Stacked, prior: StackedPrior, state: State, rule: LocalRule, seen: Array
) -> tuple[Array, Array, Array, Array]:
    """V_mu (B, K), V_W (B, K, q, q), the weight of the data in mu (B, K), and the covariance of m (B, q, q)."""
    view = stacked.layout.view_of
    inv = 1.0 / state.sigma2[:, view]
    if rule.mean == "joint":
        P, h = precisions(stacked, state.W, state.W * inv[..., None], None)
        means = joint_means(stacked, prior, state.W, inv, P, h, variances=True)
    else:
        means = marginal_means(stacked, prior, state.W, inv, variances=True)
    assert means.var_delta is not None
    assert means.var_m is not None
    assert state.cov is not None
    starts, weight = stacked.layout.starts, seen * stacked.weight
    gain = stacked.n_features * inv / (stacked.n_features * inv + prior.precision_mu[view] + (seen == 0))
    cells = np.maximum(np.add.reduceat(weight, starts, axis=1), 1.0)
    q = state.W.shape[-1]
    into_views = (stacked.class_view == np.arange(len(starts))[:, None]) * 1.0  # (K, G)
    observed = stacked.class_weight * (stacked.class_mask.sum(axis=1) > 0)
    per_class = (state.cov[..., :q, :q] * observed[:, None, None]).reshape(len(state.cov), len(observed), q * q)
    return (
        np.add.reduceat(means.var_delta * weight, starts, axis=1),
        (into_views @ per_class).reshape(len(per_class), len(starts), q, q),
        np.add.reduceat(gain * weight, starts, axis=1) / cells,
        means.var_m,
    )


def align(stacked: Stacked, prior: StackedPrior, state: State) -> tuple[State, Array]:
    """The state with its latent space rotated towards the prior's W~, and the rotations (B, q, q)."""
    weight = np.where(prior.precision_W > 0, prior.precision_W, prior.precision_W.max() or 1.0)
    seen = (stacked.n_features > 0) * weight[stacked.layout.view_of]
    R = rotation_towards(state.W * seen[..., None], prior.W)
    q = R.shape[-1]
    cov = state.cov
    if cov is not None:
        whole = np.broadcast_to(np.eye(cov.shape[-1]), (len(R), 1, *cov.shape[-2:])).copy()
        whole[..., :q, :q] = R[:, None]
        cov = whole.mT @ cov @ whole
    return State(state.mu, state.W @ R, state.sigma2, (state.m[:, None] @ R)[:, 0], cov), R


def rebased(state: State, L: Array) -> State:
    """The same model with its latent space written in another basis: x -> L^-1 x, W -> W L, m -> L^-1 m."""
    q = len(L)
    cov = state.cov
    if cov is not None:
        whole = np.eye(cov.shape[-1])
        whole[:q, :q] = L
        cov = whole.T @ cov @ whole
    return State(state.mu, state.W @ L, state.sigma2, np.linalg.solve(L, state.m.T).T, cov)


def rotation_towards(W: Array, target: Array) -> Array:
    """The orthogonal R that brings ``W R`` nearest to the target."""
    U, _, Vt = np.linalg.svd(W.mT @ target)
    return np.asarray(U @ Vt)


def principal_axes(prior: GlobalPrior) -> Array:
    """The rotation that makes components uncorrelated in what they explain, largest first, largest loading positive."""
    W = np.concatenate([v.W / np.sqrt(v.sigma2) for v in prior.views.values()])
    _, _, Vt = np.linalg.svd(W.T @ W)
    turned = W @ Vt.T
    signs = np.sign(turned[np.abs(turned).argmax(axis=0), np.arange(turned.shape[1])])
    return np.asarray(Vt.T * np.where(signs == 0, 1.0, signs))


def turned_prior(prior: GlobalPrior, R: Array) -> GlobalPrior:
    """The prior with its latent space rotated."""
    return prior.with_views({name: replace(view, W=view.W @ R) for name, view in prior.views.items()})


def turned_center(center: CenterParams, R: Array) -> CenterParams:
    """The parameters of a center with its latent space rotated."""
    views = {name: ViewParams(view.mu, view.W @ R, view.sigma2) for name, view in center.views.items()}
    return CenterParams(views, center.m @ R)


Shapes = Mapping[str, tuple[int, ...]]


def view_shapes(d: int, q: int) -> Shapes:
    """The parts of a view's contribution, in order."""
    return {
        "centers": (), "count": (d,), "d_mu": (d,), "d_W": (d, q), "sq_mu": (), "sq_W": (q, q), "var_mu": (),
        "var_W": (q, q), "turn": (q, q), "mu_gain": (), "precision": (), "log_sigma2": (), "noise_gain": (),
    }  # fmt: skip


def common_shapes(q: int) -> Shapes:
    """The parts that all views share, in order."""
    return {"centers": (), "m": (q,), "sq_m": (q, q), "var_m": (q, q), "subjects": (), "sq_x": (q, q)}


def packed_size(layout: Layout, q: int) -> int:
    """How many numbers a contribution has."""
    return _size(common_shapes(q)) + sum(_size(view_shapes(d, q)) for d in layout.sizes)


def pack(contribution: Contribution, layout: Layout) -> Array:
    """All numbers of a contribution; zeros for views of the layout that it lacks."""
    q = len(contribution.m)
    parts = [_flat(contribution, common_shapes(q))]
    for name, d in zip(layout.names, layout.sizes, strict=True):
        shapes = view_shapes(d, q)
        held = contribution.views.get(name)
        parts.append(np.zeros(_size(shapes)) if held is None else _flat(held, shapes))
    return np.concatenate(parts)


def unpack(vector: Array, layout: Layout, q: int) -> Contribution:
    """The contribution again; views that no center held are left out."""
    common, at = _cut(vector, 0, common_shapes(q))
    views = {}
    for name, d in zip(layout.names, layout.sizes, strict=True):
        parts, at = _cut(vector, at, view_shapes(d, q))
        if round(float(parts["centers"])) > 0:
            views[name] = ViewContribution(**parts)
    return Contribution(views, **common)


def _size(shapes: Shapes) -> int:
    return sum(math.prod(shape) for shape in shapes.values())


def _flat(value: object, shapes: Shapes) -> Array:
    return np.concatenate([np.ravel(getattr(value, name)) for name in shapes])


def _cut(vector: Array, at: int, shapes: Shapes) -> tuple[dict[str, Any], int]:
    found: dict[str, Any] = {}
    for name, shape in shapes.items():
        size = math.prod(shape)
        part = np.asarray(vector[at : at + size]).reshape(shape)
        found[name] = part if shape else part[()]
        at += size
    return found, at
