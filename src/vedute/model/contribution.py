"""What a center gives to the master: sums that add over centers, and nothing else."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from scipy.special import digamma

from vedute.model.local_step import LocalRule, e_step, relative_spread
from vedute.model.means import joint_means, marginal_means, precisions
from vedute.model.parameters import Array
from vedute.model.stacked import Bunch, StackedPrior, State


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
    bunch: Bunch, prior: StackedPrior, state: State, turns: Array, rule: LocalRule, *, posterior: bool
) -> list[Contribution]:
    """The contribution of each center of a bunch; ``posterior`` adds the spreads that the paper leaves out."""
    seen = (bunch.n_features > 0) * 1.0
    d_mu = (state.mu - prior.mu) * seen
    d_W = (state.W - prior.W) * seen[..., None]
    starts = bunch.layout.starts
    sq_mu = np.add.reduceat(d_mu**2, starts, axis=1)
    q = state.W.shape[-1]
    sq_W = np.stack([d_W[:, cols].mT @ d_W[:, cols] for cols in bunch.layout.slices.values()], axis=1)
    half_cells = bunch.cells / 2.0
    gain = half_cells / np.maximum(half_cells + prior.alpha, half_cells)  # a flat prior (alpha = -1) has no weight
    precision: Array
    if posterior:
        var_mu, var_W, mu_gain, var_m = _spreads(bunch, prior, state, rule, seen)
        a = np.maximum(prior.alpha + half_cells, 0.5)
        b = state.sigma2 * (a + 1.0)  # sigma2 is the mode b / (a + 1)
        precision, log_sigma2 = a / b, np.log(b) - digamma(a)
        sq_x = _latent_scatter(bunch, prior, state, rule)
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
            for k, (name, cols) in enumerate(bunch.layout.slices.items())
        }  # fmt: skip
        m = state.m[c]
        subjects = float(bunch.n[c].sum())
        found.append(Contribution(views, 1.0, m, np.outer(m, m), var_m[c], subjects, sq_x[c]))
    return found


def _latent_scatter(bunch: Bunch, prior: StackedPrior, state: State, rule: LocalRule) -> Array:
    """(B, q, q): the sum over subjects of <(x - m)(x - m)'>, at the final parameters."""
    inv = 1.0 / state.sigma2[:, bunch.layout.view_of]
    spread = relative_spread(bunch, prior, state) if rule.spread else None
    P, h = precisions(bunch, state.W, state.W * inv[..., None], spread)
    moments = e_step(bunch, state.W, inv, P, h, state.mu, state.m)
    sum_x = (bunch.n[..., None] * moments.x).sum(axis=1)
    cross = sum_x[..., :, None] * state.m[..., None, :]
    N = bunch.n.sum(axis=1)[:, None, None]
    return np.asarray(moments.XX.sum(axis=1) - cross - cross.mT + N * state.m[..., :, None] * state.m[..., None, :])


def _spreads(
    bunch: Bunch, prior: StackedPrior, state: State, rule: LocalRule, seen: Array
) -> tuple[Array, Array, Array, Array]:
    """V_mu (B, K), V_W (B, K, q, q), the weight of the data in mu (B, K), and the covariance of m (B, q, q)."""
    view = bunch.layout.view_of
    inv = 1.0 / state.sigma2[:, view]
    if rule.mean == "joint":
        P, h = precisions(bunch, state.W, state.W * inv[..., None], None)
        means = joint_means(bunch, prior, state.W, inv, P, h, variances=True)
    else:
        means = marginal_means(bunch, prior, state.W, inv, variances=True)
    assert means.var_delta is not None
    assert means.var_m is not None
    assert state.cov is not None
    starts, weight = bunch.layout.starts, seen * bunch.weight
    gain = bunch.n_features * inv / (bunch.n_features * inv + prior.precision_mu[view] + (seen == 0))
    cells = np.maximum(np.add.reduceat(weight, starts, axis=1), 1.0)
    q = state.W.shape[-1]
    into_views = (bunch.class_view == np.arange(len(starts))[:, None]) * 1.0  # (K, G)
    observed = bunch.class_weight * (bunch.class_mask.sum(axis=1) > 0)
    per_class = (state.cov[..., :q, :q] * observed[:, None, None]).reshape(len(state.cov), len(observed), q * q)
    return (
        np.add.reduceat(means.var_delta * weight, starts, axis=1),
        (into_views @ per_class).reshape(len(per_class), len(starts), q, q),
        np.add.reduceat(gain * weight, starts, axis=1) / cells,
        means.var_m,
    )
