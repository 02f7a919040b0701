"""A center's step: expectation maximisation on statistics, under the prior that the master sent.

The paper's iteration (Appendix A) and the corrected one share the E-step and the regression of the features on the
latent x; they differ in the step for the means, in whether a row (w_j, mu_j) is taken jointly, and in whether its
posterior spread is carried along (mean field). Either way the rows are never needed, only their statistics.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from vedute.model import complete
from vedute.model.means import joint_means, marginal_means, precisions, times
from vedute.model.parameters import Array
from vedute.model.stacked import Stacked, StackedPrior, State

SIGMA2_FLOOR = 1e-12  # in the units of the scaled data: keeps a perfectly explained view from dividing by zero


@dataclass(frozen=True)
class LocalRule:
    """Which variant of the local step a center runs."""

    mean: str = "joint"  # "joint": all observed views together; "marginal": each view alone, as in the paper
    spread: bool = True  # carry the posterior covariance of the rows of W through the E-step
    expand: bool = True  # where no prior holds W or mu, rescale W so that x has variance one (PX-EM: fewer steps)
    narrow: bool = False  # the paper's rule for views with d_k <= q: only the first d_k - 1 columns are free


@dataclass(frozen=True)
class Moments:
    """What the E-step tells of the latent x, summed over the rows of each pattern."""

    x: Array  # (B, P, q): mean of <x>
    XX: Array  # (B, P, q, q): sum of <x x'>
    TX: Array  # (B, D, q): sum of (centred t) <x>', the part within patterns


def e_step(stacked: Stacked, W: Array, inv: Array, P: Array, h: Array, mu: Array, m: Array) -> Moments:
    """Posterior moments of x: precision P, mean ``P^-1 (W' Psi^-1 (t - mu) - h + m)``."""
    BW = W * inv[..., None]
    Pinv = np.linalg.inv(P)
    centred = (stacked.mean - mu[:, None]) * stacked.mask
    x = times(centred @ BW - h + m[:, None], Pinv)
    projected = stacked.factor @ BW
    n = stacked.n[..., None, None]
    XX = n * (Pinv + x[..., :, None] * x[..., None, :])
    if len(stacked.mask) == 1:
        z = projected @ Pinv[:, 0]
        XX[:, 0] += z.mT @ z
    else:
        z = times(projected, Pinv[:, stacked.owner])
        patterns, begins = stacked.segments
        if len(patterns):
            XX[:, patterns] += np.add.reduceat(z[..., :, None] * z[..., None, :], begins, axis=1)
    return Moments(x, XX, stacked.factor.mT @ z)


def _by_class(stacked: Stacked, per_pattern: Array) -> Array:
    """Sums over the patterns that observe a class of features."""
    B, P = per_pattern.shape[:2]
    flat = stacked.class_mask @ per_pattern.reshape(B, P, -1)
    return flat.reshape(B, len(stacked.class_mask), *per_pattern.shape[2:])


def _design(stacked: Stacked, moments: Moments, *, joint: bool) -> Array:
    """For each class, the sum of <(x, 1)(x, 1)'> (joint) or of <x x'> over the rows that observe it."""
    if not joint:
        return _by_class(stacked, moments.XX)
    q = moments.x.shape[-1]
    block = np.empty((*moments.XX.shape[:2], q + 1, q + 1))
    block[..., :q, :q] = moments.XX
    block[..., :q, q] = block[..., q, :q] = stacked.n[..., None] * moments.x
    block[..., q, q] = stacked.n
    return _by_class(stacked, block)


def free_columns(sizes: tuple[int, ...], q: int, *, narrow: bool) -> Array:
    """For each view, how many columns of W are free (section 4.3.1: d_k - 1 where d_k <= q)."""
    d = np.array(sizes)
    return np.where((d <= q) & narrow, d - 1, q)


def _regress(
    stacked: Stacked,
    design: Array,
    ridge: Array,
    target: Array,
    prior_part: Array,
    free: NDArray[np.bool_] | None,
) -> tuple[Array, Array]:
    """Rows ``(target + prior_part) H`` and ``H = (design + ridge)^-1``; unfree columns and unseen classes stay zero."""
    size = design.shape[-1]
    matrix = design + ridge[..., None] * np.eye(size)
    if free is not None:
        matrix = np.where(free[:, :, None] & free[:, None, :], matrix, np.eye(size))
    unseen = stacked.class_mask.sum(axis=1) == 0
    if unseen.any():
        matrix = matrix + (unseen[:, None, None] & (ridge[..., None] == 0)) * np.eye(size)
    H = np.linalg.inv(matrix)
    if free is not None:
        H = H * (free[:, :, None] & free[:, None, :])
    return times(target + prior_part, H[:, stacked.class_of]), H


def _ridges(stacked: Stacked, prior: StackedPrior, sigma2: Array, q: int, *, joint: bool) -> Array:
    """(B, G, q or q+1): sigma2 over the prior variance of each coefficient of a row."""
    per_view = np.repeat((sigma2 * prior.precision_W)[..., None], q, axis=-1)
    if joint:
        per_view = np.concatenate([per_view, (sigma2 * prior.precision_mu)[..., None]], axis=-1)
    return np.asarray(per_view[:, stacked.class_view])


def _free(stacked: Stacked, q: int, size: int, rule: LocalRule) -> NDArray[np.bool_] | None:
    """(G, q or q+1): which coefficients of a row may differ from zero; None where all may."""
    if not rule.narrow or min(stacked.layout.sizes) > q:
        return None
    columns = free_columns(stacked.layout.sizes, q, narrow=True)[stacked.class_view]
    free = np.arange(size) < columns[:, None]
    free[:, q:] = True
    return free


def trusted(stacked: Stacked, prior: StackedPrior) -> Array:
    """(G, 1, 1): 1 where the prior of W says how far a center may stray; a flat prior gives no posterior to carry."""
    return (prior.precision_W > 0)[stacked.class_view, None, None].astype(float)


def iterate(stacked: Stacked, prior: StackedPrior, state: State, rule: LocalRule) -> State:
    """One local iteration: means, E-step, rows of W (and mu), sigma2."""
    view, q = stacked.layout.view_of, state.W.shape[-1]
    joint = rule.mean == "joint"
    inv = 1.0 / state.sigma2[:, view]
    spread = relative_spread(stacked, prior, state) if rule.spread else None
    P, h = precisions(stacked, state.W, state.W * inv[..., None], spread)
    local = (stacked, prior, state.W, inv)
    means = joint_means(*local, P, h) if joint else marginal_means(*local)
    mu = prior.mu + means.delta
    moments = e_step(stacked, state.W, inv, P, h, mu, means.m)

    origin = prior.mu if joint else mu
    gap = (stacked.mean - origin[:, None]) * stacked.mask
    weighted = gap * stacked.n[..., None]
    target = moments.TX + weighted.mT @ moments.x
    prior_part = (state.sigma2 * prior.precision_W)[:, view, None] * prior.W
    if joint:
        target = np.concatenate([target, weighted.sum(axis=1)[..., None]], axis=-1)
        prior_part = np.concatenate([prior_part, np.zeros((*prior_part.shape[:-1], 1))], axis=-1)
    ridge = _ridges(stacked, prior, state.sigma2, q, joint=joint)
    free = _free(stacked, q, ridge.shape[-1], rule)
    rows, H = _regress(stacked, _design(stacked, moments, joint=joint), ridge, target, prior_part, free)

    # At the solution rows X rows' = rows . (target + prior_part) - ridge . rows^2: the design is not needed again.
    residual = stacked.squares + (weighted * gap).sum(axis=1)
    residual = residual + (rows * (prior_part - target) - ridge[:, stacked.class_of] * rows**2).sum(axis=-1)
    squares = np.add.reduceat(residual, stacked.layout.starts, axis=1)
    if rule.spread:
        squares = squares + _unexplained(stacked, prior, state.sigma2, H, ridge)
    sigma2 = (squares + 2.0 * prior.beta) / (stacked.cells + 2.0 * (prior.alpha + 1.0))
    W = rows[..., :q]
    if rule.expand and not (prior.precision_W.any() or prior.precision_mu.any()):
        W = W @ np.linalg.cholesky(_latent_covariance(stacked, moments))
    return State(
        mu=origin + rows[..., q] if joint else mu,
        W=W,
        sigma2=np.maximum(sigma2, SIGMA2_FLOOR),
        m=means.m,
        cov=state.sigma2[:, stacked.class_view, None, None] * H,
    )


def _latent_covariance(stacked: Stacked, moments: Moments) -> Array:
    """(B, q, q): covariance of the latent x as the E-step found it; one, if W had the right scale."""
    N = stacked.n.sum(axis=1)[:, None, None]
    mean = (stacked.n[..., None] * moments.x).sum(axis=1) / N[..., 0]
    return np.asarray(moments.XX.sum(axis=1) / N - mean[..., :, None] * mean[..., None, :])


def relative_spread(stacked: Stacked, prior: StackedPrior, state: State) -> Array | None:
    """Covariance of a row (w_j, mu_j) over sigma2, where there is one already."""
    if state.cov is None:
        return None
    size = state.W.shape[-1] + 1
    relative = state.cov / state.sigma2[:, stacked.class_view, None, None] * trusted(stacked, prior)
    missing = size - relative.shape[-1]
    if not missing:
        return np.asarray(relative)
    # with the marginal mean a row is w_j alone
    return np.pad(relative, ((0, 0), (0, 0), (0, missing), (0, missing)))


def _unexplained(stacked: Stacked, prior: StackedPrior, sigma2: Array, H: Array, ridge: Array) -> Array:
    """(B, K): what the spread of the rows adds to the residual, sigma2 tr(H X) = sigma2 (free - tr(ridge H))."""
    diagonal = np.diagonal(H, axis1=-2, axis2=-1)  # zero for the columns that a narrow view holds at zero
    kept = ((diagonal > 0) - ridge * diagonal).sum(axis=-1) * trusted(stacked, prior)[:, 0, 0]
    seen = stacked.class_mask.any(axis=1)
    by_class = sigma2[:, stacked.class_view] * kept * stacked.class_weight * seen
    into_views = stacked.class_view[:, None] == np.arange(len(stacked.layout.names))
    return np.asarray((by_class[:, None] @ into_views)[:, 0])  # center by center: the bits of each alone


def fit(stacked: Stacked, prior: StackedPrior, start: State, rule: LocalRule, iterations: int) -> State:
    """Run the local iterations of one round."""
    narrow = rule.narrow and min(stacked.layout.sizes) <= start.W.shape[-1]
    expand = rule.expand and not (prior.precision_W.any() or prior.precision_mu.any())
    if (
        stacked.single
        and rule.mean == "marginal"
        and not (rule.spread or narrow or expand)
        and stacked.weight.max() == 1.0
    ):
        return _fit_complete(stacked, prior, start, iterations)
    state = start
    for _ in range(iterations):
        state = iterate(stacked, prior, state, rule)
    return state


def _fit_complete(stacked: Stacked, prior: StackedPrior, start: State, iterations: int) -> State:
    """The same for the paper's iteration on complete data, where all centers and views fit into the same operations."""
    padded = stacked.once(complete.pad)
    fixed = complete.begin_round(stacked, padded, prior)
    W, sigma2 = padded.spread(start.W), start.sigma2[..., None, None]
    for _ in range(iterations):
        before = sigma2
        W, sigma2, rest, H = complete.iterate(fixed, W, sigma2)
        sigma2 = np.maximum(sigma2, SIGMA2_FLOOR)
    mu = prior.mu + padded.gather((fixed.v - rest)[:, :, 0])
    cov = (before * H)[:, stacked.class_view]
    return State(mu, padded.gather(W), sigma2[..., 0, 0], np.zeros_like(start.m), cov)
