"""The paper's iteration for complete data, several centers at once, with as few array operations as it takes.

The same step as :func:`vedute.model.local_step.iterate` with the marginal mean, for stacks in which every row has
every feature. Views are padded to one width (zero rows of W stay zero), so that an operation serves all views of all
centers, and the scatter itself stands in place of its factor.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from vedute.model.parameters import Array
from vedute.model.stacked import Stacked, StackedPrior


@dataclass(frozen=True)
class Padded:
    """A stack with its K views padded to d features each."""

    where: NDArray[np.intp]  # (D,): where each feature stands among the padded ones
    S: Array  # (B, K d, K d): centred scatter
    squares: Array  # (B, K): its trace, view by view
    mean: Array  # (B, K, d): mean of the rows

    def spread(self, rows: Array) -> Array:
        """(B, D, ...) features into padded (B, K, d, ...)."""
        _, K, d = self.mean.shape
        padded = np.zeros((len(rows), K * d, *rows.shape[2:]))
        padded[:, self.where] = rows
        return padded.reshape(len(rows), K, d, *rows.shape[2:])

    def gather(self, padded: Array) -> Array:
        """Back to (B, D, ...)."""
        B, K, d = padded.shape[:3]
        return np.asarray(padded.reshape(B, K * d, *padded.shape[3:])[:, self.where])


def pad(stacked: Stacked) -> Padded:
    """Lay out a stack; needed once, not every round."""
    view, starts = stacked.layout.view_of, stacked.layout.starts
    B, K, d = len(stacked.n), len(starts), max(stacked.layout.sizes)
    where = view * d + np.arange(len(view)) - starts[view]
    S = np.zeros((B, K * d, K * d))
    S[:, where[:, None], where] = stacked.factor.mT @ stacked.factor
    mean = np.zeros((B, K * d))
    mean[:, where] = stacked.mean[:, 0]
    return Padded(where, S, np.add.reduceat(stacked.squares, starts, axis=1), mean.reshape(B, K, d))


@dataclass(frozen=True)
class Round:
    """What does not change during a round; shaped so that it multiplies (B, K, d, q) arrays as it is."""

    S: Array  # (B, K d, K d)
    v: Array  # (B, K, 1, d): mean of the rows less mu~
    N: Array  # (B, 1, 1)
    N4: Array  # (B, 1, 1, 1)
    W: Array  # (1, K, d, q): the prior's W~
    precision_mu: Array  # (K, 1, 1)
    precision_W: Array  # (K, 1, 1)
    squares: Array  # (B, K, 1, 1): trace of the scatter plus 2 beta
    cells: Array  # (B, K, 1, 1): N d_k + 2 (alpha + 1)
    eye: Array  # (q, q)


def begin_round(stacked: Stacked, padded: Padded, prior: StackedPrior) -> Round:
    """Lay out the prior of a round."""
    return Round(
        padded.S,
        (padded.mean - padded.spread(prior.mu))[:, :, None],
        stacked.n[..., None],
        stacked.n[..., None, None],
        padded.spread(prior.W),
        prior.precision_mu[:, None, None],
        prior.precision_W[:, None, None],
        (padded.squares + 2.0 * prior.beta)[..., None, None],
        (stacked.cells + 2.0 * (prior.alpha + 1.0))[..., None, None],
        np.eye(prior.W.shape[-1]),
    )


def iterate(fixed: Round, W: Array, sigma2: Array) -> tuple[Array, Array, Array, Array]:
    """One local iteration (Appendix A): W (B, K, d, q) and sigma2 (B, K, 1, 1); on the way H and the mean less mu."""
    B, K, d, q = W.shape
    N, N4, v = fixed.N, fixed.N4, fixed.v
    hold = sigma2 * fixed.precision_mu
    doubt = hold / (N4 + hold)  # how far mu~ is believed, against the mean of the rows
    BW = W / sigma2
    G = W.mT @ BW
    both = np.empty((B, K + 1, q, q))
    np.multiply(doubt, G, out=both[:, :K])
    np.add.reduce(G, axis=1, out=both[:, K])
    both += fixed.eye
    inverses = np.linalg.inv(both)
    pulled = (v @ BW @ inverses[:, :K]) @ W.mT
    rest = doubt * (v + (1.0 - doubt) * pulled)  # the mean of the rows less mu

    Pinv = inverses[:, K]
    A = BW.reshape(B, K * d, q) @ Pinv
    flat = rest.reshape(B, 1, K * d)
    x = flat @ A
    x *= N
    TX = fixed.S @ A
    TX += flat.mT * x
    XX = A.mT @ TX
    XX += N * Pinv

    ridge = sigma2 * fixed.precision_W
    held = ridge * fixed.W
    TX = TX.reshape(B, K, d, q)
    H = np.linalg.inv(XX[:, None] + ridge * fixed.eye)
    new_W = (TX + held) @ H
    TX += ridge * new_W - held
    told = np.vecdot(new_W.reshape(B, K, d * q), TX.reshape(B, K, d * q))
    squares = fixed.squares + N4 * (rest @ rest.mT) - told[..., None, None]
    return new_W, squares / fixed.cells, rest, H
