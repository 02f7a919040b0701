"""The shape and the parameters of the model (paper, section 3.1): views, columns, a center, and the prior above.

The schema is the same for all centers; a layout says where the features of each view stand when all lie side by side.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.floating[Any]]
Spreads = tuple[float, float, float]


def readonly(array: Any) -> Array:
    """A read-only float64 copy: parameters are values, nobody changes them in place."""
    copy = np.array(array, dtype=np.float64)
    copy.setflags(write=False)
    return copy


@dataclass(frozen=True)
class ViewParams:
    """One view in one center: ``t = W x + mu + eps``, ``eps ~ N(0, sigma2 I)`` (eq. 1)."""

    mu: Array
    W: Array
    sigma2: float

    def __post_init__(self) -> None:
        object.__setattr__(self, "mu", readonly(self.mu))
        object.__setattr__(self, "W", readonly(self.W))
        object.__setattr__(self, "sigma2", float(self.sigma2))


@dataclass(frozen=True)
class CenterParams:
    """All that describes one center: its views and its case mix ``m``, the mean of its patients' latent x."""

    views: Mapping[str, ViewParams]
    m: Array

    def __post_init__(self) -> None:
        object.__setattr__(self, "views", dict(self.views))
        object.__setattr__(self, "m", readonly(self.m))

    @property
    def q(self) -> int:
        """Number of latent components."""
        return len(self.m)


@dataclass(frozen=True)
class ViewPrior:
    """The global distribution of one view's parameters over the centers (eqs. 4 to 6).

    An infinite ``sigma2_mu`` or ``sigma2_W`` is a flat prior, and so is ``alpha = -1, beta = 0`` for the noise.
    """

    mu: Array
    W: Array
    sigma2_mu: float
    sigma2_W: float
    alpha: float
    beta: float
    n_centers: int = 0

    def __post_init__(self) -> None:
        object.__setattr__(self, "mu", readonly(self.mu))
        object.__setattr__(self, "W", readonly(self.W))
        for name in ("sigma2_mu", "sigma2_W", "alpha", "beta"):
            object.__setattr__(self, name, float(getattr(self, name)))
        object.__setattr__(self, "n_centers", int(self.n_centers))

    @property
    def sigma2(self) -> float:
        """The typical noise variance: the inverse of the mean precision, defined for every alpha > 0."""
        return self.beta / self.alpha

    @property
    def spreads(self) -> Spreads:
        """How far centers lie apart: standard deviations of mu, of W and of ln sigma2 (about alpha^-1/2)."""
        noise = self.alpha**-0.5 if self.alpha > 0 else math.inf
        return math.sqrt(self.sigma2_mu), math.sqrt(self.sigma2_W), noise


@dataclass(frozen=True)
class GlobalPrior:
    """The global distribution over centers: a prior per view, and ``tau2``, the variance of the case mix."""

    views: Mapping[str, ViewPrior]
    tau2: float = 0.0
    q: int = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "views", dict(self.views))
        object.__setattr__(self, "tau2", float(self.tau2))
        object.__setattr__(self, "q", next(iter(self.views.values())).W.shape[1])

    @property
    def spreads(self) -> dict[str, Spreads]:
        """How far centers lie apart in each view."""
        return {name: view.spreads for name, view in self.views.items()}

    def with_views(self, views: Mapping[str, ViewPrior]) -> GlobalPrior:
        """The same prior with some views replaced."""
        return replace(self, views={**self.views, **views})


def flat_view_prior(d: int, q: int, W: Array | None = None) -> ViewPrior:
    """A prior that tells nothing; ``W`` may still name a common starting point for the centers."""
    start = np.zeros((d, q)) if W is None else W
    return ViewPrior(np.zeros(d), start, np.inf, np.inf, alpha=-1.0, beta=0.0)


@dataclass(frozen=True)
class Layout:
    """The views of a data set, in order, with their numbers of features."""

    names: tuple[str, ...]
    sizes: tuple[int, ...]

    @cached_property
    def starts(self) -> NDArray[np.intp]:
        """First column of each view."""
        return np.concatenate([[0], np.cumsum(self.sizes)[:-1]]).astype(np.intp)

    @cached_property
    def total(self) -> int:
        """Number of features of all views together (the paper's d)."""
        return int(sum(self.sizes))

    @cached_property
    def view_of(self) -> NDArray[np.intp]:
        """For each feature, the index of its view."""
        return np.repeat(np.arange(len(self.names)), self.sizes)

    @cached_property
    def slices(self) -> Mapping[str, slice]:
        """For each view, its columns."""
        ends = np.cumsum(self.sizes)
        return {n: slice(int(e - d), int(e)) for n, d, e in zip(self.names, self.sizes, ends, strict=True)}

    def restrict(self, names: Iterable[str]) -> Layout:
        """The layout of a center that holds only some of the views, in the same order."""
        held = set(names)
        pairs = [(n, d) for n, d in zip(self.names, self.sizes, strict=True) if n in held]
        return Layout(tuple(n for n, _ in pairs), tuple(d for _, d in pairs))


@dataclass(frozen=True)
class Schema:
    """The views of a study and the columns of each, sorted by the names of the views; the same for all centers."""

    columns: Mapping[str, tuple[str, ...]]

    def __post_init__(self) -> None:
        object.__setattr__(self, "columns", {view: tuple(self.columns[view]) for view in sorted(self.columns)})

    @cached_property
    def layout(self) -> Layout:
        """The views with their numbers of features."""
        return Layout(tuple(self.columns), tuple(len(names) for names in self.columns.values()))

    def restrict(self, views: Iterable[str]) -> Schema:
        """What a center has that holds only some of the views."""
        return Schema({view: self.columns[view] for view in views})
