"""WAIC, the widely applicable information criterion: how well a model foretells subjects it has not seen.

A center draws theta = (mu, W, sigma2, m) from its posterior under the final prior and asks for the log density of each
of its subjects under each draw. With l_ns that of subject n under draw s

    lppd_n = ln mean_s exp(l_ns),    p_n = var_s(l_ns),    WAIC = -2 sum_n (lppd_n - p_n)

(Gelman, Hwang & Vehtari 2014). The terms of a subject stay at home; their sums over subjects are shared.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import logsumexp

from vedute.core.bunch import Bunch, StackedPrior
from vedute.core.center import State
from vedute.core.layout import Layout
from vedute.core.means import precisions
from vedute.core.params import Array
from vedute.core.predict import patterns
from vedute.core.streams import stream

BLOCK = 20  # draws that are made and used together: bounds memory, and is part of what the seed means
LEAST_SHAPE = 0.5  # of the inverse gamma, where a flat prior and hardly a cell leave none


@dataclass(frozen=True)
class Posterior:
    """What one center knows of its parameters, in scaled units: independent normal rows (w_j, mu_j), normal m,
    inverse-gamma sigma2."""

    layout: Layout
    mean: Array  # (D, q+1): rows (w_j, mu_j)
    root: Array  # (G, q+1, q+1): a square root of the covariance of a row, for each class of features
    class_of: NDArray[np.intp]  # (D,)
    m: Array  # (q,)
    m_root: Array  # (q, q)
    shape: Array  # (K,)
    rate: Array  # (K,)

    @property
    def q(self) -> int:
        """Number of latent components."""
        return len(self.m)


@dataclass(frozen=True)
class Draws:
    """Some draws of a center's parameters, one per entry of the first axis."""

    mu: Array  # (S, D)
    W: Array  # (S, D, q)
    noise: Array  # (S, D): sigma2 of each feature's view
    m: Array  # (S, q)


def center_posterior(bunch: Bunch, prior: StackedPrior, state: State) -> Posterior:
    """The posterior of a center (the only one of its bunch) whose local step has settled at ``state``."""
    assert state.cov is not None
    a = np.maximum(prior.alpha + bunch.cells[0] / 2.0, LEAST_SHAPE)
    return Posterior(
        layout=bunch.layout,
        mean=np.column_stack([state.W[0], state.mu[0]]),
        root=_root(state.cov[0]),
        class_of=bunch.class_of,
        m=state.m[0],
        m_root=_case_mix_root(bunch, prior, state),
        shape=a,
        rate=state.sigma2[0] * (a + 1.0),  # sigma2 is the mode b / (a + 1)
    )


def _case_mix_root(bunch: Bunch, prior: StackedPrior, state: State) -> Array:
    """m given the rows (w_j, mu_j) has precision ``sum_p n_p (I - P_p^-1) + I / tau2``.

    Not its marginal variance: m and mu can hardly be told apart, but the densities depend on mu + W m alone, which is
    well known.
    """
    q = len(state.m[0])
    if prior.tau2 == 0:
        return np.zeros((q, q))
    inv = 1.0 / state.sigma2[:, bunch.layout.view_of]
    P, _ = precisions(bunch, state.W, state.W * inv[..., None], None)
    told = (bunch.n[0][:, None, None] * (np.eye(q) - np.linalg.inv(P[0]))).sum(axis=0)
    return _root(np.linalg.inv(told + np.eye(q) / prior.tau2))


def _root(cov: Array) -> Array:
    """``R`` with ``R R' = cov``, also where some coefficients are held at zero and have no variance."""
    values, vectors = np.linalg.eigh(cov)
    return np.asarray(vectors * np.sqrt(np.maximum(values, 0.0))[..., None, :])


def draw(posterior: Posterior, n: int, rng: np.random.Generator) -> Draws:
    """``n`` independent draws of the parameters."""
    D, size = posterior.mean.shape
    z = rng.standard_normal((D, n, size))
    rows = posterior.mean[:, None] + z @ posterior.root[posterior.class_of].mT
    rows = rows.transpose(1, 0, 2)
    sigma2 = posterior.rate / rng.standard_gamma(posterior.shape, (n, len(posterior.shape)))
    m = posterior.m + rng.standard_normal((n, posterior.q)) @ posterior.m_root.T
    return Draws(rows[..., -1], rows[..., :-1], sigma2[:, posterior.layout.view_of], m)


def log_densities(draws: Draws, rows: Array) -> Array:
    """(S, n): log density of the observed cells of each row (NaN: missing) under each draw."""
    masks, pattern = patterns(~np.isnan(rows))
    origin = (draws.mu + (draws.W @ draws.m[..., None])[..., 0]).mean(axis=0)
    gap = np.where(masks[pattern] > 0, rows - origin, 0.0)
    return _log_densities(draws, origin, gap, masks, pattern)


def _log_densities(draws: Draws, origin: Array, gap: Array, masks: Array, pattern: NDArray[np.intp]) -> Array:
    """``-1/2 [sum ln(2 pi sigma2) + ln|P| + |r|^2 / sigma2 - |L^-1 W' Psi^-1 r|^2]``, ``r = gap - (mu + W m - origin)``.

    r is never made, for there is one for each row and each draw; both of its terms are expanded into products of
    matrices. The origin is near every mu + W m, so that little cancels.
    """
    S, D, q = draws.W.shape
    inv = 1.0 / draws.noise
    c = draws.mu + (draws.W @ draws.m[..., None])[..., 0] - origin
    BW = draws.W * inv[..., None]
    outer = (draws.W[..., :, None] * BW[..., None, :]).reshape(S, D, q * q)
    L = np.linalg.cholesky((masks @ outer).reshape(S, len(masks), q, q) + np.eye(q))
    logdet = 2.0 * np.log(np.diagonal(L, axis1=-2, axis2=-1)).sum(-1) + np.log(2.0 * np.pi * draws.noise) @ masks.T
    fixed = logdet + (inv * c**2) @ masks.T  # (S, P)
    square = inv @ (gap**2).T - 2.0 * (inv * c) @ gap.T + fixed[:, pattern]
    pulled = gap @ BW - (masks @ (BW * c[..., None]))[:, pattern]  # (S, n, q)
    whiten = np.linalg.inv(L).mT
    if len(masks) == 1:
        explained = pulled @ whiten[:, 0]
    else:
        explained = (pulled[..., None, :] @ whiten[:, pattern])[..., 0, :]
    return np.asarray(-0.5 * (square - (explained**2).sum(-1)))


def pointwise(posterior: Posterior, rows: Array, seed: int, name: str, n_draws: int) -> tuple[Array, Array]:
    """lppd and p_waic of each row. The draws depend on seed and name alone: each chunk of rows meets the same ones."""
    masks, pattern = patterns(~np.isnan(rows))
    origin = posterior.mean[:, -1] + posterior.mean[:, :-1] @ posterior.m
    gap = np.where(masks[pattern] > 0, rows - origin, 0.0)
    found = []
    for block, start in enumerate(range(0, n_draws, BLOCK)):
        draws = draw(posterior, min(BLOCK, n_draws - start), stream(seed, "waic", name, block))
        found.append(_log_densities(draws, origin, gap, masks, pattern))
    densities = np.concatenate(found)
    return logsumexp(densities, axis=0) - np.log(len(densities)), densities.var(axis=0, ddof=1)
