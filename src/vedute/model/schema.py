"""The views of a study, their columns, and where the features of each stand when all views lie side by side."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray


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
