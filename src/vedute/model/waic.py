"""WAIC, the widely applicable information criterion: how well a model foretells subjects it has not seen.

A center draws its parameters from their posterior under the final prior (:mod:`vedute.model.uncertainty`) and asks
for the log density of each of its subjects under each draw. With l_ns that of subject n under draw s

    lppd_n = ln mean_s exp(l_ns),    p_n = var_s(l_ns),    WAIC = -2 sum_n (lppd_n - p_n)

(Gelman, Hwang & Vehtari 2014). The terms of a subject stay at home; their sums over subjects are shared.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import logsumexp

from vedute.model.means import times
from vedute.model.parameters import Array
from vedute.model.prediction import patterns
from vedute.model.seeds import stream
from vedute.model.uncertainty import Posterior, symmetric_basis

BLOCK = 20  # draws that are made and used together: bounds memory, and is part of what the seed means


@dataclass(frozen=True)
class Draws:
    """Draws of a center's parameters, one per entry of the first axis; ``c = mu + W m`` is the expected row."""

    c: Array  # (S, D)
    W: Array  # (S, D, q)
    noise: Array  # (S, D): sigma2 of each feature's view


def draw(posterior: Posterior, n: int, rng: np.random.Generator) -> Draws:
    """``n`` independent draws of the parameters."""
    D, q = posterior.W.shape
    across = np.empty((D, n, q + 1))
    across[..., :q] = rng.standard_normal((D, n, q)) @ posterior.root_W[posterior.class_of].mT
    across[..., q] = rng.standard_normal((D, n)) * posterior.sd_c[posterior.class_of, None]
    across = _off_span(posterior, across).transpose(1, 0, 2)
    a = rng.standard_normal((n, q)) @ posterior.root_a.T
    b = rng.standard_normal((n, len(posterior.root_Z))) @ posterior.root_Z.T
    Z = (b @ symmetric_basis(q).reshape(-1, q * q)).reshape(n, q, q)
    sigma2 = posterior.rate / rng.standard_gamma(posterior.shape, (n, len(posterior.shape)))
    return Draws(
        posterior.c + across[..., q] + a @ posterior.W.T,
        posterior.W + across[..., :q] + posterior.W @ Z,
        sigma2[:, posterior.layout.view_of],
    )


def _off_span(posterior: Posterior, across: Array) -> Array:
    """(D, ...) without what lies along the columns of W, in the metric of the noise."""
    weight = 1.0 / np.sqrt(posterior.noise)
    U, size, _ = np.linalg.svd(posterior.W * weight[:, None], full_matrices=False)
    U = U[:, size > size[0] * len(U) * np.finfo(float).eps]
    flat = across.reshape(len(U), -1) * weight[:, None]
    return np.asarray(((flat - U @ (U.T @ flat)) / weight[:, None]).reshape(across.shape))


def log_densities(draws: Draws, rows: Array) -> Array:
    """(S, n): log density of the observed cells of each row (NaN: missing) under each draw."""
    masks, pattern = patterns(~np.isnan(rows))
    return _log_densities(draws, draws.c.mean(axis=0), rows, masks, pattern)


def _log_densities(draws: Draws, origin: Array, rows: Array, masks: Array, pattern: NDArray[np.intp]) -> Array:
    """``-1/2 [sum ln(2 pi sigma2) + ln|P| + |r|^2 / sigma2 - |L^-1 W' Psi^-1 r|^2]`` with ``r = t - c``, ``P = L L'``.

    r is never made, for there is one for each row and each draw: its two terms are expanded into products of matrices.
    Everything is taken from an origin that lies near every c, so that little cancels.
    """
    S, D, q = draws.W.shape
    gap = np.where(masks[pattern] > 0, rows - origin, 0.0)
    c = draws.c - origin
    inv = 1.0 / draws.noise
    BW = draws.W * inv[..., None]
    outer = (draws.W[..., :, None] * BW[..., None, :]).reshape(S, D, q * q)
    L = np.linalg.cholesky((masks @ outer).reshape(S, len(masks), q, q) + np.eye(q))
    logdet = 2.0 * np.log(np.diagonal(L, axis1=-2, axis2=-1)).sum(-1) + np.log(2.0 * np.pi * draws.noise) @ masks.T
    fixed = logdet + (inv * c**2) @ masks.T  # (S, P)
    square = inv @ (gap**2).T - 2.0 * (inv * c) @ gap.T + fixed[:, pattern]
    pulled = gap @ BW - (masks @ (BW * c[..., None]))[:, pattern]  # (S, n, q)
    whiten = np.linalg.inv(L).mT
    explained = pulled @ whiten[:, 0] if len(masks) == 1 else times(pulled, whiten[:, pattern])
    return np.asarray(-0.5 * (square - (explained**2).sum(-1)))


def pointwise(posterior: Posterior, rows: Array, seed: int, name: str, n_draws: int) -> tuple[Array, Array]:
    """lppd and p_waic of each row. The draws depend on seed and name alone: each chunk of rows meets the same ones."""
    masks, pattern = patterns(~np.isnan(rows))
    found = []
    for block, start in enumerate(range(0, n_draws, BLOCK)):
        draws = draw(posterior, min(BLOCK, n_draws - start), stream(seed, "waic", name, block))
        found.append(_log_densities(draws, posterior.c, rows, masks, pattern))
    densities = np.concatenate(found)
    return logsumexp(densities, axis=0) - np.log(len(densities)), densities.var(axis=0, ddof=1)


@dataclass(frozen=True)
class Sums:
    """What a center shares of its subjects' terms, for several models at once; the sums of centers add."""

    n: int
    lppd: Array  # (models,)
    p: Array  # (models,)
    squares: Array  # (models,): of lppd_n - p_n
    gaps: Array  # (models, models): squares of the differences of lppd_n - p_n between models

    def __add__(self, other: Sums) -> Sums:
        return Sums(
            self.n + other.n,
            self.lppd + other.lppd,
            self.p + other.p,
            self.squares + other.squares,
            self.gaps + other.gaps,
        )

    @property
    def waic(self) -> Array:
        """(models,): smaller is better."""
        return -2.0 * (self.lppd - self.p)

    def se(self) -> Array:
        """(models,): standard error of WAIC, the subjects being a sample."""
        return _standard_error(self.n, self.lppd - self.p, self.squares)

    def difference(self, model: int) -> tuple[Array, Array]:
        """WAIC of each model less that of one of them, and the standard errors, which are far below those of WAIC."""
        elpd = self.lppd - self.p
        gap = elpd[model] - elpd
        return 2.0 * gap, _standard_error(self.n, gap, self.gaps[model])


def sums(lppd: Array, p: Array) -> Sums:
    """The sums of some subjects, from their terms (models, n)."""
    elpd = lppd - p
    gaps = ((elpd[:, None] - elpd[None]) ** 2).sum(axis=-1)
    return Sums(elpd.shape[1], lppd.sum(axis=1), p.sum(axis=1), (elpd**2).sum(axis=1), gaps)


def _standard_error(n: int, total: Array, squares: Array) -> Array:
    """Of -2 times a sum over n subjects."""
    variance = np.maximum(squares - total**2 / n, 0.0) / max(n - 1, 1)
    return np.asarray(2.0 * np.sqrt(n * variance))
