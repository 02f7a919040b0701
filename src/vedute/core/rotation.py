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
from numpy.typing import NDArray
from scipy.linalg import qr

from vedute.core.bunch import Bunch, StackedPrior, make_bunch
from vedute.core.center import State
from vedute.core.layout import Layout
from vedute.core.params import Array
from vedute.core.stats import Statistics

ORTHOGONAL = 1e-12  # how far directions may lean on each other
NEGLIGIBLE = 1e-13  # a direction shorter than this, relative to the longest, is rounding error


@dataclass(frozen=True)
class Rotation:
    """Orthonormal bases of the rows of the wide views of a center, made once; other views keep their coordinates.

    ``means`` and ``factors`` are the statistics of the wide views in these bases: later directions add nothing to them.
    """

    statistics: Statistics
    bases: Mapping[str, Array]
    means: Mapping[str, Array]
    factors: Mapping[str, Array]


def find_rotation(statistics: Statistics, q: int) -> Rotation | None:
    """A rotation of the views that are wider than their rows could fill, or None if there are none."""
    bases, means, factors = {}, {}, {}
    for name, columns in statistics.layout.slices.items():
        mask = statistics.mask[:, columns]
        whole = mask.all(axis=1)
        span = int(whole.sum()) + int(np.isin(statistics.owner, np.flatnonzero(whole)).sum()) + 2 * q + 2
        if (whole | ~mask.any(axis=1)).all() and 2 * span < mask.shape[1]:
            rows = np.vstack([statistics.mean[whole, columns], statistics.factor[:, columns]])
            bases[name] = _orthonormal(rows.T)
            means[name] = statistics.mean[:, columns] @ bases[name]
            factors[name] = statistics.factor[:, columns] @ bases[name]
    return Rotation(statistics, bases, means, factors) if bases else None


def _orthonormal(vectors: Array) -> Array:
    Q, R, _ = qr(vectors, mode="economic", pivoting=True, check_finite=False)
    lengths = np.abs(np.diag(R))
    return np.asarray(Q[:, lengths > NEGLIGIBLE * max(lengths[0], np.finfo(float).tiny)])


@dataclass(frozen=True)
class Basis:
    """The basis Q of a view's rows, and E, the directions that this round's vectors add; a basis as wide as the view
    is read from memory as seldom as can be."""

    Q: Array
    E: Array

    @property
    def size(self) -> int:
        """Number of directions."""
        return int(self.Q.shape[1] + self.E.shape[1])

    def back(self, coordinates: Array) -> Array:
        """(r, ...) coordinates into features."""
        r = self.Q.shape[1]
        return np.asarray((coordinates[:r].T @ self.Q.T).T + self.E @ coordinates[r:])


def _extended(Q: Array, vectors: Array) -> tuple[Basis, Array]:
    """The basis with the directions that the vectors add to its span, and the vectors' coordinates in it."""
    inside = (vectors.T @ Q).T  # as products of few rows with Q: half as long as the other way round
    rest = vectors - (inside.T @ Q.T).T
    longest = max(float(np.abs(vectors).max()), np.finfo(float).tiny)
    if float(np.abs(rest).max()) <= NEGLIGIBLE * longest:
        return Basis(Q, rest[:, :0]), inside
    E = _orthonormal(rest)
    while float(np.abs(leak := (E.T @ Q).T).max()) > ORTHOGONAL:  # where little was left, rounding errors were blown up
        E = qr(E - Q @ leak, mode="economic", check_finite=False)[0]
    return Basis(Q, E), np.vstack([inside, E.T @ vectors])


@dataclass(frozen=True)
class Turned:
    """A local problem in rotated coordinates, and the way back."""

    bunch: Bunch
    prior: StackedPrior
    start: State
    bases: Mapping[str, Basis]

    def state_back(self, state: State) -> State:
        """The state of the (single) center in the coordinates of the features."""
        both = np.column_stack([state.mu[0], state.W[0]])
        parts = []
        for name, columns in self.bunch.layout.slices.items():
            part = both[columns]
            parts.append(self.bases[name].back(part[:-1]) if name in self.bases else part)
        whole = np.concatenate(parts)
        return State(whole[None, :, 0], whole[None, :, 1:], state.sigma2, state.m, state.cov)


def turn(rotation: Rotation, prior: StackedPrior, start: State) -> Turned:
    """Bring the statistics, the prior and the starting values of one center into rotated coordinates."""
    statistics = rotation.statistics
    vectors = np.column_stack([prior.mu[0], prior.W[0], start.W[0]])  # where mu starts does not matter
    bases: dict[str, Basis] = {}
    sizes: list[int] = []
    masks: list[NDArray[np.bool_]] = []
    weights: list[Array] = []
    means: list[Array] = []
    factors: list[Array] = []
    turned: list[Array] = []
    for name, columns in statistics.layout.slices.items():
        mask, mean, factor = statistics.mask[:, columns], statistics.mean[:, columns], statistics.factor[:, columns]
        weight, mine = np.ones(mask.shape[1]), vectors[columns]
        if name in rotation.bases:
            bases[name], inside = _extended(rotation.bases[name], mine)
            r, extra = bases[name].size, bases[name].E.shape[1] + 1  # one more for all directions outside the span
            mask = np.repeat(mask[:, :1], r + 1, axis=1)
            weight = np.append(np.ones(r), len(mine) - r)
            mean, factor = (np.pad(part[name], ((0, 0), (0, extra))) for part in (rotation.means, rotation.factors))
            mine = np.vstack([inside, np.zeros((1, vectors.shape[1]))])
        sizes.append(mask.shape[1])
        masks.append(mask)
        for found, part in ((weights, weight), (means, mean), (factors, factor), (turned, mine)):
            found.append(part)
    small = Statistics(
        Layout(statistics.layout.names, tuple(sizes)), np.concatenate(masks, axis=1), statistics.n,
        np.concatenate(means, axis=1), np.concatenate(factors, axis=1), statistics.owner,
    )  # fmt: skip
    mu, W, W0 = np.split(np.concatenate(turned), np.cumsum([1, prior.W.shape[-1]]), axis=1)
    turned_prior = StackedPrior(
        mu.T, W[None], prior.precision_mu, prior.precision_W, prior.alpha, prior.beta, prior.tau2
    )
    turned_start = State(mu.T, W0[None], start.sigma2, start.m, start.cov)
    return Turned(make_bunch([small], np.concatenate(weights)), turned_prior, turned_start, bases)
