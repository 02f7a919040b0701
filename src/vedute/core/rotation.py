"""Views much wider than the center has rows: the same step in a small rotated basis.

Noise is isotropic within a view, so a view may be rotated freely. All that the local step touches lies in the span of
the rows, of the prior's means and of the starting values: in an orthonormal basis Q of that span the step costs
nothing that grows with the width. The directions outside the span carry neither data nor loadings, but they still count
as dimensions: one coordinate that is always zero stands for all of them, with their number as its weight.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from scipy.linalg import qr

from vedute.core.bunch import Bunch, StackedPrior, make_bunch
from vedute.core.center import State
from vedute.core.layout import Layout
from vedute.core.params import Array
from vedute.core.stats import Statistics

NEGLIGIBLE = 1e-13  # a direction shorter than this, relative to the longest, is rounding error


@dataclass(frozen=True)
class Rotation:
    """Orthonormal bases of the rows of the wide views of a center, made once; other views keep their coordinates."""

    statistics: Statistics
    bases: Mapping[str, Array]


def find_rotation(statistics: Statistics, q: int) -> Rotation | None:
    """A rotation of the views that are wider than their rows could fill, or None if there are none."""
    bases = {}
    for name, columns in statistics.layout.slices.items():
        mask = statistics.mask[:, columns]
        whole = mask.all(axis=1)
        span = int(whole.sum()) + int(np.isin(statistics.owner, np.flatnonzero(whole)).sum()) + 2 * q + 2
        if (whole | ~mask.any(axis=1)).all() and 2 * span < mask.shape[1]:
            rows = np.vstack([statistics.mean[whole, columns], statistics.factor[:, columns]])
            bases[name] = _orthonormal(rows.T)
    return Rotation(statistics, bases) if bases else None


def _orthonormal(vectors: Array) -> Array:
    Q, R, _ = qr(vectors, mode="economic", pivoting=True, check_finite=False)
    lengths = np.abs(np.diag(R))
    return np.asarray(Q[:, lengths > NEGLIGIBLE * max(lengths[0], np.finfo(float).tiny)])


def _extended(basis: Array, vectors: Array) -> Array:
    """The basis, extended by what the vectors add to its span."""
    rest = vectors - basis @ (basis.T @ vectors)
    rest -= basis @ (basis.T @ rest)  # once more: the first pass leaves rounding errors
    R = qr(rest, mode="r", pivoting=True, check_finite=False)[0]
    if np.abs(R[0, 0]) <= NEGLIGIBLE * max(float(np.abs(vectors).max()), np.finfo(float).tiny):
        return basis
    fresh = _orthonormal(rest)
    fresh -= basis @ (basis.T @ fresh)  # where the vectors nearly agree, their difference blew those errors up
    return np.hstack([basis, qr(fresh, mode="economic", check_finite=False)[0]])


@dataclass(frozen=True)
class Turned:
    """A local problem in rotated coordinates, and the way back."""

    bunch: Bunch
    prior: StackedPrior
    start: State
    layout: Layout
    bases: Mapping[str, Array]

    def back(self, vectors: Array) -> Array:
        """(..., r) or (r, ...) coordinates of all views into features; the coordinates are on the first axis."""
        parts = []
        for name, columns in self.bunch.layout.slices.items():
            part = vectors[columns]
            parts.append(self.bases[name] @ part[:-1] if name in self.bases else part)
        return np.concatenate(parts)

    def state_back(self, state: State) -> State:
        """The state of the (single) center in the coordinates of the features."""
        return State(self.back(state.mu[0])[None], self.back(state.W[0])[None], state.sigma2, state.m, state.cov)


def turn(rotation: Rotation, prior: StackedPrior, start: State) -> Turned:
    """Bring the statistics, the prior and the starting values of one center into rotated coordinates."""
    statistics = rotation.statistics
    layout = statistics.layout
    vectors = np.column_stack([prior.mu[0], prior.W[0], start.mu[0], start.W[0]])
    bases = {name: _extended(Q, vectors[layout.slices[name]]) for name, Q in rotation.bases.items()}

    def rotated(columns_last: Array) -> Array:
        parts = []
        for name, columns in layout.slices.items():
            part = columns_last[..., columns]
            if name in bases:
                part = np.concatenate([part @ bases[name], np.zeros((*part.shape[:-1], 1))], axis=-1)
            parts.append(part)
        return np.concatenate(parts, axis=-1)

    sizes, weights, masks = [], [], []
    for name, columns in layout.slices.items():
        mask = statistics.mask[:, columns]
        if name in bases:
            d, r = bases[name].shape
            mask = np.repeat(mask[:, :1], r + 1, axis=1)
            weights.append(np.append(np.ones(r), d - r))
        else:
            weights.append(np.ones(mask.shape[1]))
        sizes.append(mask.shape[1])
        masks.append(mask)
    small = Statistics(
        Layout(layout.names, tuple(sizes)), np.concatenate(masks, axis=1), statistics.n,
        rotated(statistics.mean), rotated(statistics.factor), statistics.owner,
    )  # fmt: skip
    mu, W, mu0, W0 = np.split(rotated(vectors.T).T, np.cumsum([1, prior.W.shape[-1], 1]), axis=1)
    turned_prior = StackedPrior(
        mu.T, W[None], prior.precision_mu, prior.precision_W, prior.alpha, prior.beta, prior.tau2
    )
    turned_start = State(mu0.T, W0[None], start.sigma2, start.m, start.cov)
    return Turned(make_bunch([small], np.concatenate(weights)), turned_prior, turned_start, layout, bases)
