"""What the local step climbs, from statistics alone: likelihood, posterior, and the bound of the mean-field variant.

Each is one number per center of a stack. Besides checking that a step never falls, they compare models where only
(noised) statistics may be used. Features that no row observes are integrated out and add nothing.
"""

from __future__ import annotations

import numpy as np
from scipy.special import gammaln

from vedute.model.local_step import relative_spread, trusted
from vedute.model.means import precisions, times
from vedute.model.parameters import Array
from vedute.model.stacked import Stacked, StackedPrior, State


def log_likelihood(stacked: Stacked, state: State) -> Array:
    """(B,): ln p(rows | mu, W, sigma2, m), the latent x ~ N(m, I) integrated out."""
    return _evidence(stacked, state, None)


def log_posterior(stacked: Stacked, prior: StackedPrior, state: State) -> Array:
    """(B,): the log likelihood and the log priors of mu, W, sigma2 and m; a flat prior adds nothing."""
    return log_likelihood(stacked, state) + log_prior(stacked, prior, state)


def variational_bound(stacked: Stacked, prior: StackedPrior, state: State) -> Array:
    """(B,): the evidence lower bound where rows (w_j, mu_j) are Gaussian with covariance ``state.cov``.

    x has its best q(x) given those rows; m and sigma2 are points. Rows of a view whose prior of W is flat have no
    posterior to carry: they are points too.
    """
    return _evidence(stacked, state, relative_spread(stacked, prior, state)) + (
        log_prior(stacked, prior, state) + _rows_entropy(stacked, prior, state)
    )


def _evidence(stacked: Stacked, state: State, spread: Array | None) -> Array:
    """Expected log likelihood of the rows with the best q(x): for a single x

    ``-1/2 [sum_j ln(2 pi sigma2_j) + ln|P| + min_x {|t - mu - W x|^2 / sigma2 + x'Sx + 2 h'x + s + |x - m|^2}]``

    with S, h, s the parts (w,w), (w,mu), (mu,mu) of the spread over sigma2, summed over the observed features; without
    a spread this is the log likelihood. Residuals are squared as they are, so that nothing cancels.
    """
    inv = 1.0 / state.sigma2[:, stacked.layout.view_of]
    BW = state.W * inv[..., None]
    P, h = precisions(stacked, state.W, BW, spread)
    stiff, _ = precisions(stacked, np.zeros_like(BW), np.zeros_like(BW), spread)  # I + S
    Pinv = np.linalg.inv(P)
    gap = (stacked.mean - state.mu[:, None]) * stacked.mask
    x = times(gap @ BW - h + state.m[:, None], Pinv)
    z = times(stacked.factor @ BW, Pinv[:, stacked.owner])
    left = (gap - x @ state.W.mT) * stacked.mask
    within = (stacked.factor - z @ state.W.mT) * stacked.mask[stacked.owner]
    of_means = (left**2 * inv[:, None]).sum(-1) + (times(x, stiff) * x + 2.0 * x * (h - state.m[:, None])).sum(-1)
    of_rows = (within**2 * inv[:, None]).sum(-1) + (times(z, stiff[:, stacked.owner]) * z).sum(-1)
    offset = (state.m**2).sum(-1)[:, None] + _mean_spread(stacked, spread) + np.linalg.slogdet(P)[1]
    total = (stacked.n * (of_means + offset)).sum(-1) + of_rows.sum(-1)
    total = total + (stacked.cells * np.log(2.0 * np.pi * state.sigma2)).sum(-1)
    return np.asarray(-0.5 * total)


def _mean_spread(stacked: Stacked, spread: Array | None) -> Array:
    """(B, P): the variance of the means over sigma2, summed over the features that a pattern observes."""
    if spread is None:
        return np.zeros_like(stacked.n)
    return np.asarray((spread[..., -1, -1] * stacked.class_weight) @ stacked.class_mask)


def log_prior(stacked: Stacked, prior: StackedPrior, state: State) -> Array:
    """(B,): log density of a center's parameters under the global prior (eqs. 4 to 6, and m ~ N(0, tau2 I))."""
    starts, q = stacked.layout.starts, state.W.shape[-1]
    seen = (stacked.n_features > 0) * stacked.weight
    number = np.add.reduceat(seen, starts, axis=1)
    sq_mu = np.add.reduceat(seen * (state.mu - prior.mu) ** 2, starts, axis=1)
    sq_W = np.add.reduceat(seen * ((state.W - prior.W) ** 2).sum(-1), starts, axis=1)
    total = _log_normal(prior.precision_mu, sq_mu, number) + _log_normal(prior.precision_W, sq_W, number * q)
    proper = (prior.alpha > 0) & (prior.beta > 0)
    a, b = np.where(proper, prior.alpha, 1.0), np.where(proper, prior.beta, 1.0)
    total = total + np.where(proper, a * np.log(b) - gammaln(a), 0.0)
    total = total - (prior.alpha + 1.0) * np.log(state.sigma2) - prior.beta / state.sigma2
    of_m: Array = np.zeros(len(total))
    if prior.tau2 > 0:
        of_m = _log_normal(np.array(1.0 / prior.tau2), (state.m**2).sum(-1), np.array(float(q)))
    return np.asarray(total.sum(-1) + of_m)


def _log_normal(precision: Array, squares: Array, number: Array) -> Array:
    """Log density of ``number`` normal values with given sum of squares; zero where the precision is zero (flat)."""
    proper = precision > 0
    scale = np.log(np.where(proper, precision, 1.0) / (2.0 * np.pi))
    return np.asarray(0.5 * np.where(proper, number * scale - precision * squares, 0.0))


def _rows_entropy(stacked: Stacked, prior: StackedPrior, state: State) -> Array:
    """(B,): entropy of the rows' posterior, less what their spread takes from the expected log prior."""
    if state.cov is None:
        return np.zeros(len(state.mu))
    q, size = state.W.shape[-1], state.cov.shape[-1]
    precision = np.repeat(prior.precision_W[:, None], q, axis=1)
    precision = np.column_stack([precision, prior.precision_mu])[stacked.class_view, :size]  # (G, size)
    carried = (stacked.class_weight * stacked.class_mask.any(axis=1)) * trusted(stacked, prior)[:, 0, 0]
    entropy = size * np.log(2.0 * np.pi * np.e) + np.linalg.slogdet(state.cov)[1]
    penalty = (precision * np.diagonal(state.cov, axis1=-2, axis2=-1)).sum(-1)
    return np.asarray(0.5 * np.where(carried > 0, carried * (entropy - penalty), 0.0).sum(-1))
