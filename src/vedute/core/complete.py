"""The paper's iteration for complete data, several centers at once, with as few array operations as it takes.

The same step as :func:`vedute.core.center.iterate` with the marginal mean, for bunches in which every row has every
feature. Views are padded to one width (zero rows of W stay zero), so that an operation serves all views of all centers,
and the scatter itself stands in place of its factor.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from vedute.core.bunch import Bunch, StackedPrior
from vedute.core.params import Array


@dataclass(frozen=True)
class Padded:
    """The fixed quantities of a round; K views of at most d features each."""

    v: Array  # (B, K, d): mean of the rows less mu~
    S: Array  # (B, K d, K d): centred scatter
    squares: Array  # (B, K): its trace, view by view
    N: Array  # (B, 1)
    W: Array  # (K, d, q): the prior's W~
    denominator: Array  # (B, K): N d_k + 2 (alpha + 1)


def pad(bunch: Bunch, prior: StackedPrior) -> Padded:
    """Lay out a round for :func:`iterate`."""
    where = positions(bunch)
    K, d = len(bunch.layout.sizes), max(bunch.layout.sizes)
    B = len(bunch.n)
    S = np.zeros((B, K * d, K * d))
    S[:, where[:, None], where] = bunch.factor.mT @ bunch.factor
    return Padded(
        spread(bunch.mean[:, 0] - prior.mu, where, K, d),
        S,
        np.add.reduceat(bunch.squares, bunch.layout.starts, axis=1),
        bunch.n[:, :1],
        spread(np.ascontiguousarray(prior.W[0].T), where, K, d).transpose(1, 2, 0).copy(),
        bunch.cells + 2.0 * (prior.alpha + 1.0),
    )


def positions(bunch: Bunch) -> Array:
    """Where each feature stands among the padded ones."""
    view, d = bunch.layout.view_of, max(bunch.layout.sizes)
    return np.asarray(view * d + np.arange(len(view)) - bunch.layout.starts[view])


def spread(rows: Array, where: Array, K: int, d: int) -> Array:
    """(B, D) features into padded (B, K, d)."""
    padded = np.zeros((len(rows), K * d))
    padded[:, where] = rows
    return padded.reshape(len(rows), K, d)


def iterate(
    fixed: Padded, prior: StackedPrior, W: Array, sigma2: Array, eye: Array
) -> tuple[Array, Array, Array, Array]:
    """One local iteration (Appendix A): W (B, K, d, q), sigma2 (B, K), and t - mu of the mean row and H on the way."""
    B, K, d, q = W.shape
    N, v = fixed.N, fixed.v
    hold = sigma2 * prior.precision_mu
    gain = N / (N + hold)  # how far the mean of the rows is believed, against mu~
    G = W.mT @ W
    loose = ((1.0 - gain) / sigma2)[..., None, None]
    inverses = np.linalg.inv(
        np.concatenate([eye + loose * G, eye + (G / sigma2[..., None, None]).sum(axis=1, keepdims=True)], axis=1)
    )
    Pinv = inverses[:, K]
    x_view = (v[..., None, :] @ W) @ inverses[:, :K] * loose
    rest = v - gain[..., None] * (v - (W @ x_view.mT)[..., 0])  # mean row less mu

    A = (W / sigma2[..., None, None]).reshape(B, K * d, q) @ Pinv
    flat = rest.reshape(B, K * d, 1)
    x = flat.mT @ A
    SA = fixed.S @ A
    Nx = N[..., None] * x
    TX = (SA + flat * Nx).reshape(B, K, d, q)
    XX = N[..., None] * Pinv + A.mT @ SA + x.mT * Nx

    ridge = (sigma2 * prior.precision_W)[..., None, None]
    H = np.linalg.inv(XX[:, None] + ridge * eye)
    new_W = (TX + ridge * fixed.W) @ H
    residual = (new_W * (ridge * (fixed.W - new_W) - TX)).reshape(B, K, d * q).sum(axis=2)
    residual += fixed.squares + N * (rest * rest).sum(axis=2)
    return new_W, (residual + 2.0 * prior.beta) / fixed.denominator, rest, H
