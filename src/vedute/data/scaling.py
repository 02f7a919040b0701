"""Scaling: from the units of the data to comparable ones and back, agreed from sums that add over centers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from operator import add

import numpy as np

from vedute.errors import UserError
from vedute.model.parameters import Array, readonly
from vedute.model.schema import Layout
from vedute.model.statistics import Statistics

SCALINGS = ("shared-standard", "shared-view", "shared-minmax", "center-minmax", "declared")
Ranges = Mapping[str, Array]  # view -> (d, 2): lowest and highest value of each feature, publicly known


@dataclass(frozen=True)
class Scaler:
    """``scaled = (t - shift) / scale``, feature by feature, for each view."""

    shift: Mapping[str, Array]
    scale: Mapping[str, Array]

    def __post_init__(self) -> None:
        object.__setattr__(self, "shift", {name: readonly(a) for name, a in self.shift.items()})
        object.__setattr__(self, "scale", {name: readonly(a) for name, a in self.scale.items()})

    def transform(self, views: Mapping[str, Array]) -> dict[str, Array]:
        """Scaled views."""
        return {name: (rows - self.shift[name]) / self.scale[name] for name, rows in views.items()}

    def inverse(self, views: Mapping[str, Array]) -> dict[str, Array]:
        """Views in their original units."""
        return {name: rows * self.scale[name] + self.shift[name] for name, rows in views.items()}

    def vectors(self, layout: Layout) -> tuple[Array, Array]:
        """Shift and scale of all features of a layout, side by side."""
        return (
            np.concatenate([self.shift[name] for name in layout.names]),
            np.concatenate([self.scale[name] for name in layout.names]),
        )

    def apply(self, statistics: Statistics) -> Statistics:
        """Scaled statistics, without reading the rows again."""
        return statistics.rescaled(*self.vectors(statistics.layout))


def from_vectors(layout: Layout, shift: Array, scale: Array) -> Scaler:
    """A scaler from shifts and scales side by side; a feature that does not vary keeps its unit."""
    safe = np.where(scale > 0, scale, 1.0)
    return Scaler(
        {name: shift[cols] for name, cols in layout.slices.items()},
        {name: safe[cols] for name, cols in layout.slices.items()},
    )


def identity(layout: Layout) -> Scaler:
    """No scaling."""
    return from_vectors(layout, np.zeros(layout.total), np.ones(layout.total))


@dataclass(frozen=True)
class Sums:
    """What the centers add up to agree on a scaling: the cells of each feature and their sum."""

    counts: Array
    sums: Array

    def __add__(self, other: Sums) -> Sums:
        return Sums(self.counts + other.counts, self.sums + other.sums)

    @property
    def mean(self) -> Array:
        """The mean of each feature over all centers; 0 where no cell was observed."""
        return np.asarray(self.sums / np.maximum(self.counts, 1.0))


def sums_of(layout: Layout, part: Statistics) -> Sums:
    """The share of one center, in the layout of the study: zero for the views that it lacks."""
    counts, sums = np.zeros(layout.total), np.zeros(layout.total)
    where = _columns(layout, part.layout)
    counts[where], sums[where] = part.counts(), part.sums()
    return Sums(counts, sums)


def squares_of(layout: Layout, part: Statistics, mean: Array) -> Array:
    """The second share of one center: sums of squares about the mean that all agreed on."""
    squares = np.zeros(layout.total)
    where = _columns(layout, part.layout)
    squares[where] = part.squares_about(mean[where])
    return squares


def standard_scaler(layout: Layout, total: Sums, squares: Array) -> Scaler:
    """Mean 0 and variance 1 for each feature, from the sums over all centers."""
    return from_vectors(layout, total.mean, np.sqrt(squares / np.maximum(total.counts, 1.0)))


def view_scaler(layout: Layout, total: Sums, squares: Array) -> Scaler:
    """Mean 0 for each feature, and variance 1 for each view as a whole: one scale for all its features.

    For views whose features share a unit. Noise that is equal in all of them stays so, as the model has it; scaling
    each feature by itself makes it unequal, and further components pay for that.
    """
    starts = layout.starts
    pooled = np.add.reduceat(squares, starts) / np.maximum(np.add.reduceat(total.counts, starts), 1.0)
    return from_vectors(layout, total.mean, np.sqrt(pooled)[layout.view_of])


def agreed_scaler(scaling: str, layout: Layout, parts: Sequence[Statistics]) -> Scaler:
    """The scaling "shared-standard" or "shared-view" of centers in one process, in the order given."""
    total = reduce(add, (sums_of(layout, part) for part in parts))
    squares = reduce(add, (squares_of(layout, part, total.mean) for part in parts))
    return (view_scaler if scaling == "shared-view" else standard_scaler)(layout, total, squares)


def minmax(layout: Layout, lows: Sequence[tuple[Layout, Array]], highs: Sequence[tuple[Layout, Array]]) -> Scaler:
    """Lowest value 0 and highest 1 over the given centers."""
    low, high = np.full(layout.total, np.inf), np.full(layout.total, -np.inf)
    for own, values in lows:
        low[_columns(layout, own)] = np.minimum(low[_columns(layout, own)], values)
    for own, values in highs:
        high[_columns(layout, own)] = np.maximum(high[_columns(layout, own)], values)
    seen = np.isfinite(low)
    return from_vectors(layout, np.where(seen, low, 0.0), np.where(seen, high - np.where(seen, low, 0.0), 1.0))


def declared(layout: Layout, ranges: Ranges | None) -> Scaler:
    """Scaling by public ranges: costs no privacy, because no data were looked at."""
    missing = [name for name in layout.names if ranges is None or name not in ranges]
    if missing:
        raise UserError(
            f"scaling 'declared' needs the range of every feature; view {missing[0]!r} has none. "
            "Give ranges={view: [[low, high], ...]} or choose another scaling"
        )
    assert ranges is not None
    bounds = np.concatenate([np.asarray(ranges[name], dtype=float) for name in layout.names])
    return from_vectors(layout, bounds[:, 0], bounds[:, 1] - bounds[:, 0])


def _columns(whole: Layout, own: Layout) -> Array:
    return np.concatenate([np.arange(whole.slices[n].start, whole.slices[n].stop) for n in own.names])
