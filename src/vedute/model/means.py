"""The step for the means: mu of the features and m of the patients, with the latent x integrated out.

Given W and sigma2, the means (mu, m) and the latent means x_p of the patterns maximise one quadratic form. Eliminating
mu and m leaves a system for the x_p alone; eliminating the x_p leaves one for (mu, m). With a single pattern the
first is only q x q:

    [P - kappa I - W' Psi^-1 G W] x = W' Psi^-1 (I - G) v - h,    delta = G (v - W x),    m = kappa x

with v the mean of the rows less mu~, G = N s2_mu / (N s2_mu + sigma2) and kappa = N tau2 / (N tau2 + 1).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from vedute.model.parameters import Array
from vedute.model.stacked import Stacked, StackedPrior


@dataclass(frozen=True)
class Means:
    """mu - mu~ (B, D) and m (B, q), the posterior variances of the first and the covariance of the second (B, q, q)."""

    delta: Array
    m: Array
    var_delta: Array | None = None
    var_m: Array | None = None


def times(rows: Array, matrices: Array) -> Array:
    """Each row vector times its own matrix."""
    return np.asarray((rows[..., None, :] @ matrices)[..., 0, :])


def marginal_means(stacked: Stacked, prior: StackedPrior, W: Array, inv: Array, *, variances: bool = False) -> Means:
    """mu - mu~ by the paper's update, each view from its own marginal (Appendix A, parameter mu); m is zero."""
    B, D, q = W.shape
    if not stacked.single:
        return _marginal_by_center(stacked, prior, W, inv, variances)
    view = stacked.layout.view_of
    gain = _gain(stacked, prior, inv)
    v = stacked.mean[:, 0] - prior.mu
    loose = (1.0 - gain) * inv
    outer = (W[..., :, None] * (W * loose[..., None])[..., None, :]).reshape(B, D, q * q)
    lhs = np.add.reduceat(outer, stacked.layout.starts, axis=1).reshape(B, -1, q, q) + np.eye(q)
    rhs = np.add.reduceat(W * (loose * v)[..., None], stacked.layout.starts, axis=1)
    x = np.linalg.solve(lhs, rhs[..., None])[..., 0]
    delta = gain * (v - (W * x[:, view]).sum(axis=-1))
    if not variances:
        return Means(delta, np.zeros((B, q)))
    inverse = np.linalg.inv(lhs) / stacked.n[:, 0, None, None, None]
    looseness = 1.0 / (stacked.n * inv + prior.precision_mu[view])
    var_delta = looseness + gain**2 * (times(W, inverse[:, view]) * W).sum(axis=-1)
    return Means(delta, np.zeros((B, q)), var_delta, np.zeros((B, q, q)))


def _marginal_by_center(stacked: Stacked, prior: StackedPrior, W: Array, inv: Array, variances: bool) -> Means:
    B, D, q = W.shape
    delta, var_delta = np.zeros((B, D)), np.zeros((B, D))
    for b in range(B):
        base = prior.mu[b if len(prior.mu) > 1 else 0]
        for k, cols in enumerate(stacked.layout.slices.values()):
            mask, Wk, inv_k = stacked.mask[:, cols], W[b, cols], inv[b, cols]
            P = np.eye(q) + _grams(mask, Wk, Wk * inv_k[:, None])
            dev = stacked.mean[b][:, cols] - base[cols]
            system = _System(mask, stacked.n[b], dev, Wk, inv_k, P, np.zeros((len(mask), q)))
            precision_mu = np.full(len(inv_k), prior.precision_mu[k])
            delta[b, cols] = system.solve(precision_mu, 0.0)[0]
            if variances:
                var_delta[b, cols] = system.variances(precision_mu, 0.0)[0]
    return Means(delta, np.zeros((B, q)), *((var_delta, np.zeros((B, q, q))) if variances else ()))


def _grams(mask: Array, W: Array, BW: Array) -> Array:
    """For each pattern, the sum of w_j w_j' / sigma2_j over the features it observes."""
    q = W.shape[-1]
    outer = (W[..., :, None] * BW[..., None, :]).reshape(*W.shape[:-1], q * q)
    return np.asarray((mask @ outer).reshape(*W.shape[:-2], len(mask), q, q))


def precisions(stacked: Stacked, W: Array, BW: Array, spread: Array | None) -> tuple[Array, Array]:
    """P (B, P, q, q), the posterior precision of x, and h (B, P, q), what the spread of (w, mu) takes from its mean.

    ``spread`` (B, G, q+1, q+1) is the covariance of a row (w_j, mu_j) over sigma2, or None.
    """
    q = W.shape[-1]
    P = (W.mT @ BW)[:, None] if stacked.single else _grams(stacked.mask, W, BW)
    P = P + np.eye(q)
    if spread is None:
        return P, np.zeros((*P.shape[:2], q))
    heavy = (stacked.class_weight[:, None] * stacked.class_mask).T  # (P, G)
    flat = spread[..., :q, :q].reshape(*spread.shape[:2], q * q)
    return P + (heavy @ flat).reshape(P.shape), heavy @ spread[..., :q, q]


def _gain(stacked: Stacked, prior: StackedPrior, inv: Array) -> Array:
    """G (B, D): how far the mean of the rows is believed, against the prior of mu."""
    informed = stacked.n_features * inv
    return np.asarray(informed / (informed + prior.precision_mu[stacked.layout.view_of]))


def joint_means(
    stacked: Stacked, prior: StackedPrior, W: Array, inv: Array, P: Array, h: Array, *, variances: bool = False
) -> Means:
    """mu - mu~ and m from all observed views together; with ``variances`` also how uncertain they are."""
    if not stacked.single:
        return _joint_by_center(stacked, prior, W, inv, P, h, variances)
    N = stacked.n[:, :1]
    kappa = N * prior.tau2 / (N * prior.tau2 + 1.0)
    gain = _gain(stacked, prior, inv)
    v = stacked.mean[:, 0] - prior.mu
    BW = W * inv[..., None]
    lhs = P[:, 0] - kappa[..., None] * np.eye(W.shape[-1]) - W.mT @ (BW * gain[..., None])
    rhs = times((1.0 - gain) * v, BW) - h[:, 0]
    x = np.linalg.solve(lhs, rhs[..., None])[..., 0]
    delta = gain * (v - (W @ x[..., None])[..., 0])
    if not variances:
        return Means(delta, kappa * x)
    inverse = np.linalg.inv(lhs) / N[..., None]
    looseness = 1.0 / (N * inv + prior.precision_mu[stacked.layout.view_of])
    var_delta = looseness + gain**2 * ((W @ inverse) * W).sum(axis=-1)
    var_m = (kappa / N)[..., None] * np.eye(W.shape[-1]) + (kappa**2)[..., None] * inverse
    return Means(delta, kappa * x, var_delta, var_m)


def _joint_by_center(
    stacked: Stacked, prior: StackedPrior, W: Array, inv: Array, P: Array, h: Array, variances: bool
) -> Means:
    precision_mu = prior.precision_mu[stacked.layout.view_of]
    parts = []
    for b in range(len(W)):
        dev = stacked.mean[b] - prior.mu[b if len(prior.mu) > 1 else 0]
        system = _System(stacked.mask, stacked.n[b], dev, W[b], inv[b], P[b], h[b])
        delta, m = system.solve(precision_mu, prior.tau2)
        parts.append((delta, m, *(system.variances(precision_mu, prior.tau2) if variances else (0.0, 0.0))))
    joined = [np.stack(column) for column in zip(*parts, strict=True)]
    return Means(*joined) if variances else Means(joined[0], joined[1])


@dataclass
class _System:
    """The normal equations of one center with several patterns, in whichever unknowns are fewer."""

    mask: Array
    n: Array
    dev: Array
    W: Array
    inv: Array
    P: Array
    h: Array

    def __post_init__(self) -> None:
        self.BW = self.W * self.inv[:, None]
        self.v = self.dev * self.mask
        self.Pinv = np.linalg.inv(self.P)
        self.u = self.v @ self.BW - self.h  # (P, q): right-hand side of each pattern at mu = mu~, m = 0
        self.n_j = self.n @ self.mask

    def solve(self, precision_mu: Array, tau2: float) -> tuple[Array, Array]:
        """delta (D,) and m (q,)."""
        seen = self.n_j > 0
        if seen.sum() + self.W.shape[1] <= self.P.shape[0] * self.W.shape[1]:
            matrix, rhs = self._of_features(precision_mu, tau2)
            solution = np.linalg.solve(matrix, rhs)
            D = len(self.W)
            return solution[:D], solution[D:] if tau2 > 0 else np.zeros(self.W.shape[1])
        matrix, rhs, ease, kappa = self._of_patterns(precision_mu, tau2)
        x = np.linalg.solve(matrix, rhs.ravel()).reshape(rhs.shape)
        nx = self.n[:, None] * x
        pull = self.n @ self.v - (self.W * (self.mask.T @ nx)).sum(axis=1)
        return ease * self.inv * pull, kappa * nx.sum(axis=0)

    def variances(self, precision_mu: Array, tau2: float) -> tuple[Array, Array]:
        """Posterior variances of the deltas (D,) and the covariance of m (q, q)."""
        D, q = self.W.shape
        if (self.n_j > 0).sum() + q <= self.P.shape[0] * q:
            matrix, _ = self._of_features(precision_mu, tau2)
            inverse = np.linalg.inv(matrix)
            return np.diag(inverse)[:D], inverse[D:, D:] if tau2 > 0 else np.zeros((q, q))
        matrix, rhs, ease, kappa = self._of_patterns(precision_mu, tau2)
        weighted = (matrix.reshape(*rhs.shape, *rhs.shape) * self.n[:, None, None, None]).reshape(matrix.shape)
        cov = np.linalg.inv(weighted).reshape(*rhs.shape, *rhs.shape)  # of the x_p, (P, q, P, q)
        share = self.n[:, None] * self.mask  # (P, D)
        half = np.einsum("pj,paqb,jb->jqa", share, cov, self.W, optimize=True)
        quad = np.einsum("jqa,qj,ja->j", half, share, self.W, optimize=True)
        total = np.einsum("p,paqb,q->ab", self.n, cov, self.n, optimize=True)
        return ease + (ease * self.inv) ** 2 * quad, kappa * np.eye(q) + kappa**2 * total

    def _of_features(self, precision_mu: Array, tau2: float) -> tuple[Array, Array]:
        D, q = self.W.shape
        pulled = times(self.u, self.Pinv)  # (P, q)
        root = np.linalg.cholesky(self.Pinv) * np.sqrt(self.n)[:, None, None]
        spanned = (self.mask[:, :, None] * (self.BW @ root)).transpose(1, 0, 2).reshape(D, -1)
        dd = np.diag(self.n_j * self.inv + precision_mu + (self.n_j + precision_mu == 0)) - spanned @ spanned.T
        pulled_n = self.n[:, None] * pulled
        rhs = self.inv * (self.n @ self.v) - ((self.mask.T @ pulled_n) * self.BW).sum(axis=1)
        if tau2 == 0:
            return dd, rhs
        weighted = self.n[:, None, None] * self.Pinv
        seen_by = (self.mask.T @ weighted.reshape(len(self.n), -1)).reshape(D, q, q)
        dm = times(self.BW, seen_by)
        mm = (self.n.sum() + 1.0 / tau2) * np.eye(q) - weighted.sum(axis=0)
        return np.block([[dd, dm], [dm.T, mm]]), np.concatenate([rhs, pulled_n.sum(axis=0)])

    def _of_patterns(self, precision_mu: Array, tau2: float) -> tuple[Array, Array, Array, float]:
        n_patterns, q = self.u.shape
        ease = 1.0 / (self.n_j * self.inv + precision_mu + (self.n_j + precision_mu == 0))
        kappa = tau2 / (self.n.sum() * tau2 + 1.0)
        shared = (ease * self.inv**2)[:, None, None] * self.W[:, :, None] * self.W[:, None, :]  # (D, q, q)
        both = np.einsum("pj,qj,jab->paqb", self.mask, self.mask, shared, optimize=True)
        both += kappa * np.eye(q)[None, :, None, :]
        matrix = -both * self.n[None, None, :, None]
        where = np.arange(n_patterns)
        matrix[where, :, where, :] += self.P
        rhs = self.u - self.mask @ (self.BW * (ease * self.inv * (self.n @ self.v))[:, None])
        return matrix.reshape(n_patterns * q, n_patterns * q), rhs, ease, kappa
