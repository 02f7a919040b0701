"""Statistics as the local step takes them: alike centers stacked, and wide views in a small rotated basis.

Arrays have a leading axis over centers. Centers are stacked only when their statistics have the same shape and the same
patterns, so that the numbers of each are the same bits as if it were alone.

Noise is isotropic within a view, so a view may be rotated freely. All that the local step touches lies in the span of
the rows, of the prior's means and of the starting values: in an orthonormal basis Q of that span the step costs
nothing that grows with the width. The directions outside the span carry neither data nor loadings, but they still count
as dimensions: one coordinate that is always zero stands for all of them, with their number as its weight.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from vedute.model.parameters import Array, GlobalPrior, Layout
from vedute.model.statistics import Statistics

T = TypeVar("T")


@dataclass(frozen=True)
class Stacked:
    """Stacked statistics. Features that share a view and the patterns they occur in form a class."""

    layout: Layout
    mask: Array  # (P, D) 0/1: what each pattern observes
    n: Array  # (B, P)
    mean: Array  # (B, P, D)
    factor: Array  # (B, R, D)
    owner: NDArray[np.intp]  # (R,)
    weight: Array  # (D,): how many features a coordinate stands for (more than one only in rotated views)
    squares: Array  # (B, D): diagonal of the centred scatter
    class_of: NDArray[np.intp]  # (D,)
    class_mask: Array  # (G, P)
    class_view: NDArray[np.intp]  # (G,)
    class_weight: Array  # (G,): number of features of the class

    def once(self, make: Callable[[Stacked], T]) -> T:
        """``make(self)``, made the first time and kept."""
        if make.__name__ not in self.__dict__:
            self.__dict__[make.__name__] = make(self)
        found: T = self.__dict__[make.__name__]
        return found

    @property
    def single(self) -> bool:
        """Whether all rows observe the same features, so that there is one E-step for all of them."""
        return len(self.mask) == 1 and bool(self.mask.all())

    @cached_property
    def n_features(self) -> Array:
        """(B, D): number of rows that observe each feature."""
        return self.n @ self.mask

    @cached_property
    def cells(self) -> Array:
        """(B, K): number of observed cells of each view."""
        return np.add.reduceat(self.n_features * self.weight, self.layout.starts, axis=1)

    @cached_property
    def sums(self) -> Array:
        """(B, D): sum of the observed cells of each feature."""
        return (self.n[:, None, :] @ self.mean)[:, 0]

    @cached_property
    def segments(self) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
        """Patterns that have factor rows, and where the rows of each begin."""
        return np.unique(self.owner, return_index=True)


@dataclass(frozen=True)
class State:
    """Parameters of the centers of a stack, and the covariance of a row (w_j, mu_j) for each class of features."""

    mu: Array  # (B, D)
    W: Array  # (B, D, q)
    sigma2: Array  # (B, K)
    m: Array  # (B, q)
    cov: Array | None = None  # (B, G, q+1, q+1)


def stack_statistics(parts: Sequence[Statistics], weight: Array | None = None) -> Stacked:
    """Stack the statistics of centers that :func:`shape_key` finds alike."""
    first = parts[0]
    factor = np.stack([part.factor for part in parts])
    tags = np.column_stack([first.layout.view_of, first.mask.T])
    _, representative, class_of = np.unique(tags, axis=0, return_index=True, return_inverse=True)
    ones = np.ones(first.layout.total) if weight is None else weight
    return Stacked(
        layout=first.layout,
        mask=first.mask.astype(float),
        n=np.stack([part.n for part in parts]),
        mean=np.stack([part.mean for part in parts]),
        factor=factor,
        owner=first.owner,
        weight=ones,
        squares=(factor**2).sum(axis=1),
        class_of=class_of.ravel(),
        class_mask=first.mask.T[representative].astype(float),
        class_view=first.layout.view_of[representative],
        class_weight=np.asarray(np.bincount(class_of.ravel(), weights=ones), dtype=float),
    )


def shape_key(statistics: Statistics) -> tuple[object, ...]:
    """Centers with equal keys can be computed as one stack."""
    return (statistics.layout, statistics.mask.tobytes(), statistics.factor.shape, statistics.owner.tobytes())


@dataclass(frozen=True)
class StackedPrior:
    """The global prior over the features of a stack; precisions instead of variances, so that flat is zero."""

    mu: Array  # (B or 1, D)
    W: Array  # (B or 1, D, q)
    precision_mu: Array  # (K,)
    precision_W: Array  # (K,)
    alpha: Array  # (K,)
    beta: Array  # (K,)
    tau2: float


def stack_prior(prior: GlobalPrior, layout: Layout) -> StackedPrior:
    """The part of the prior that concerns the views of a layout."""
    views = [prior.views[name] for name in layout.names]
    return StackedPrior(
        mu=np.concatenate([v.mu for v in views])[None],
        W=np.concatenate([v.W for v in views])[None],
        precision_mu=np.array([1.0 / v.sigma2_mu for v in views]),
        precision_W=np.array([1.0 / v.sigma2_W for v in views]),
        alpha=np.array([v.alpha for v in views]),
        beta=np.array([v.beta for v in views]),
        tau2=prior.tau2,
    )


NEGLIGIBLE = 1e-13  # a direction shorter than this, relative to the longest, is rounding error
LITTLE = 1e-3  # less than this of a vector is found only roughly by one projection
BLOCK = 1024  # features that are brought into triangular form together, in the cache


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
            bases[name] = _orthonormal(rows)
            means[name] = statistics.mean[:, columns] @ bases[name].T
            factors[name] = statistics.factor[:, columns] @ bases[name].T
    return Rotation(statistics, bases, means, factors) if bases else None


def _orthonormal(vectors: Array) -> Array:
    """Orthonormal rows with the span of the given ones, by Householder's reflections, block by block of features."""
    m, d = vectors.shape
    lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
    width = max(BLOCK, 2 * m)
    padded = np.zeros((m, -(-d // width) * width))
    np.divide(vectors, np.where(lengths > 0, lengths, 1.0), out=padded[:, :d])
    Q, R = np.linalg.qr(padded.reshape(m, -1, width).transpose(1, 2, 0))
    top, R = np.linalg.qr(R.reshape(-1, m))
    U, sizes, _ = np.linalg.svd(R)
    turn = top.reshape(len(Q), m, m) @ U[:, sizes > NEGLIGIBLE * max(sizes[0], np.finfo(float).tiny)]
    return np.asarray((turn.mT @ Q.mT).swapaxes(0, 1).reshape(turn.shape[-1], -1)[:, :d])


@dataclass(frozen=True)
class Basis:
    """The basis Q of a view's rows, and E, the directions that this round's vectors add; a row is a direction.

    Each is as wide as the view, so they are read from memory as seldom as can be.
    """

    Q: Array
    E: Array

    @property
    def size(self) -> int:
        """Number of directions."""
        return len(self.Q) + len(self.E)

    def back(self, coordinates: Array) -> Array:
        """(..., r) coordinates into features."""
        r = len(self.Q)
        return np.asarray(coordinates[..., :r] @ self.Q + coordinates[..., r:] @ self.E)


def _extended(Q: Array, vectors: Array) -> tuple[Basis, Array]:
    """The basis with the directions that the vectors add to its span, and the vectors' coordinates in it."""
    inside = vectors @ Q.T
    rest = vectors - inside @ Q
    lengths, left = np.linalg.norm(vectors, axis=1), np.linalg.norm(rest, axis=1)
    outside = left > NEGLIGIBLE * lengths
    if (left < LITTLE * lengths)[outside].any():
        rest -= (rest @ Q.T) @ Q  # where little is left, rounding errors lean on Q
    E = _orthonormal(rest[outside]) if outside.any() else rest[:0]
    return Basis(Q, E), np.hstack([inside, rest @ E.T])


@dataclass(frozen=True)
class Turned:
    """A local problem in rotated coordinates, and the way back."""

    stacked: Stacked
    prior: StackedPrior
    start: State
    bases: Mapping[str, Basis]

    def state_back(self, state: State) -> State:
        """The state of the (single) center in the coordinates of the features."""
        both = np.vstack([state.mu, state.W[0].T])
        parts = []
        for name, columns in self.stacked.layout.slices.items():
            part = both[:, columns]
            parts.append(self.bases[name].back(part[:, :-1]) if name in self.bases else part)
        whole = np.hstack(parts)
        return State(whole[:1], np.ascontiguousarray(whole[1:].T)[None], state.sigma2, state.m, state.cov)


def turn(rotation: Rotation, prior: StackedPrior, start: State) -> Turned:
    """Bring the statistics, the prior and the starting values of one center into rotated coordinates."""
    statistics = rotation.statistics
    # Where mu starts does not matter. Late rounds begin near W~: the difference is a direction, the start would not be.
    vectors = np.vstack([prior.mu, prior.W[0].T, (start.W[0] - prior.W[0]).T])
    bases: dict[str, Basis] = {}
    sizes: list[int] = []
    masks: list[NDArray[np.bool_]] = []
    weights: list[Array] = []
    means: list[Array] = []
    factors: list[Array] = []
    turned: list[Array] = []
    for name, columns in statistics.layout.slices.items():
        mask, mean, factor = statistics.mask[:, columns], statistics.mean[:, columns], statistics.factor[:, columns]
        weight, mine = np.ones(mask.shape[1]), vectors[:, columns]
        if name in rotation.bases:
            bases[name], inside = _extended(rotation.bases[name], mine)
            r, extra = bases[name].size, len(bases[name].E) + 1  # one more for all directions outside the span
            mask = np.repeat(mask[:, :1], r + 1, axis=1)
            weight = np.append(np.ones(r), mine.shape[1] - r)
            mean, factor = (np.pad(part[name], ((0, 0), (0, extra))) for part in (rotation.means, rotation.factors))
            mine = np.pad(inside, ((0, 0), (0, 1)))
        sizes.append(mask.shape[1])
        masks.append(mask)
        for found, part in ((weights, weight), (means, mean), (factors, factor), (turned, mine)):
            found.append(part)
    small = Statistics(
        Layout(statistics.layout.names, tuple(sizes)), np.concatenate(masks, axis=1), statistics.n,
        np.concatenate(means, axis=1), np.concatenate(factors, axis=1), statistics.owner,
    )  # fmt: skip
    mu, W, gap = np.split(np.hstack(turned), np.cumsum([1, prior.W.shape[-1]]))
    turned_prior = StackedPrior(
        mu, W.T[None], prior.precision_mu, prior.precision_W, prior.alpha, prior.beta, prior.tau2
    )
    turned_start = State(mu, (W + gap).T[None], start.sigma2, start.m, start.cov)
    return Turned(stack_statistics([small], np.concatenate(weights)), turned_prior, turned_start, bases)
