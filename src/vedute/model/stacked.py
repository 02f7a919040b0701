"""Statistics laid out for EM: one center, or several of the same shape computed as one.

Arrays have a leading axis over centers. Centers share a bunch only when their statistics have the same shape and the
same patterns, so that the numbers of each are the same bits as if it were alone.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from vedute.model.parameters import Array, GlobalPrior
from vedute.model.schema import Layout
from vedute.model.statistics import Statistics

T = TypeVar("T")


@dataclass(frozen=True)
class Bunch:
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

    def once(self, make: Callable[[Bunch], T]) -> T:
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
    """Parameters of the centers of a bunch, and the covariance of a row (w_j, mu_j) for each class of features."""

    mu: Array  # (B, D)
    W: Array  # (B, D, q)
    sigma2: Array  # (B, K)
    m: Array  # (B, q)
    cov: Array | None = None  # (B, G, q+1, q+1)


def make_bunch(parts: Sequence[Statistics], weight: Array | None = None) -> Bunch:
    """Stack the statistics of centers that :func:`shape_key` finds alike."""
    first = parts[0]
    factor = np.stack([part.factor for part in parts])
    tags = np.column_stack([first.layout.view_of, first.mask.T])
    _, representative, class_of = np.unique(tags, axis=0, return_index=True, return_inverse=True)
    ones = np.ones(first.layout.total) if weight is None else weight
    return Bunch(
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
    """Centers with equal keys can be computed as one bunch."""
    return (statistics.layout, statistics.mask.tobytes(), statistics.factor.shape, statistics.owner.tobytes())


@dataclass(frozen=True)
class StackedPrior:
    """The global prior over the features of a bunch; precisions instead of variances, so that flat is zero."""

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
