"""Scaling: from the units of the data to comparable ones and back, agreed from sums that add over centers.

A :class:`Scaling` is one way of doing it: which sums it asks the centers for, and what it makes of them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import reduce
from operator import add
from typing import Any, ClassVar, Protocol

import numpy as np

from vedute.errors import Refused, UserError
from vedute.model.parameters import Array, Layout, Schema, readonly
from vedute.model.statistics import Statistics

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


@dataclass(frozen=True)
class Extremes:
    """What one center tells of the extremes of each feature: whether it saw any cell, the lowest and the highest."""

    seen: Array
    low: Array
    high: Array


class RowsRead(Protocol):
    """What a center knows of its own rows: their statistics and extremes, in the units of the data."""

    @property
    def statistics(self) -> Statistics:
        """Of the views that it holds."""

    @property
    def low(self) -> Array:
        """The lowest value of each feature."""

    @property
    def high(self) -> Array:
        """The highest one."""


class Centers(Protocol):
    """The centers of a run, as far as a scaling asks them."""

    def sums(self) -> dict[str, Sums]:
        """Counts and sums of each."""

    def squares(self, mean: Array) -> dict[str, Array]:
        """Their sums of squares about a common mean."""

    def extremes(self) -> dict[str, Extremes]:
        """Their extremes."""

    def inspect(self, total: Sums, squares: Array) -> None:
        """Refuse columns of which the sums over all centers tell nothing."""


class Scaling:
    """One way to comparable units; this one keeps those of the data."""

    steps: ClassVar[tuple[str, ...]] = ()  # the sums that it asks for
    extremes: ClassVar[bool] = False  # whether centers must note lowest and highest values as they read
    common: ClassVar[bool] = True  # whether all centers have the same
    ranged: ClassVar[bool] = False  # whether every feature needs a public range
    leaves: ClassVar[str] = ""  # what leaves a center for it, in words
    warning: ClassVar[str] = ""  # what a hospital should know before it agrees

    def public(self, layout: Layout, ranges: Ranges | None) -> Scaler | None:
        """The scaler, where everybody knows it beforehand: it costs no privacy, because no data were looked at."""
        return identity(layout)

    def agree(self, layout: Layout, centers: Centers, ranges: Ranges | None) -> Scaler | None:
        """The common scaler; None where each center has its own."""
        return self.public(layout, ranges)

    def at_center(self, layout: Layout, rows: RowsRead | None, ranges: Ranges | None, agreed: Scaler | None) -> Scaler:
        """The scaler of one center, of the study's ``layout``; ``agreed`` is the common one, if it was told."""
        found = agreed if self.steps else self.public(layout, ranges)
        if found is None:
            raise Refused("the scaling of the run was never told")
        return found


class Declared(Scaling):
    """By public ranges."""

    ranged: ClassVar[bool] = True

    def public(self, layout: Layout, ranges: Ranges | None) -> Scaler:
        """From the ranges of the study."""
        return declared(layout, ranges)


@dataclass(frozen=True)
class SharedMoments(Scaling):
    """From means and variances over all centers: one unit for each feature, or (``by_view``) for each view."""

    by_view: bool

    steps: ClassVar[tuple[str, ...]] = ("sums", "squares")
    leaves: ClassVar[str] = (
        "once, for each column, the number of values, their sum and the sum of their squared deviations; "
    )

    def public(self, layout: Layout, ranges: Ranges | None) -> None:
        """Nobody knows it yet."""

    def agree(self, layout: Layout, centers: Centers, ranges: Ranges | None) -> Scaler:
        """Two rounds of sums; a center that falls silent in between is in neither."""
        parts, again = centers.sums(), dict[str, Array]()
        while set(again) != set(parts):
            parts = {name: parts[name] for name in again or parts}
            total = reduce(add, (parts[name] for name in sorted(parts)))
            again = centers.squares(total.mean)
        squares = reduce(add, (again[name] for name in sorted(again)))
        centers.inspect(total, squares)
        return (view_scaler if self.by_view else standard_scaler)(layout, total, squares)


class SharedExtremes(Scaling):
    """From the lowest and highest values over all centers, each of which is the value of a real subject."""

    steps: ClassVar[tuple[str, ...]] = ("extremes",)
    extremes: ClassVar[bool] = True
    leaves: ClassVar[str] = "once, for each column, its lowest and its highest value; "
    warning: ClassVar[str] = (
        "WARNING: the scaling 'shared-minmax' sends the lowest and the highest value of every column. Each of them is "
        "the value of a real patient, and others may recognise it. Ask the coordinator for 'shared-standard' or "
        "'declared'."
    )

    def public(self, layout: Layout, ranges: Ranges | None) -> None:
        """Nobody knows it yet."""

    def agree(self, layout: Layout, centers: Centers, ranges: Ranges | None) -> Scaler:
        """One round of extremes."""
        parts = centers.extremes().values()
        low = np.minimum.reduce([np.where(part.seen > 0, part.low, np.inf) for part in parts])
        high = np.maximum.reduce([np.where(part.seen > 0, part.high, -np.inf) for part in parts])
        return minmax(layout, low, high)


class OwnExtremes(Scaling):
    """Each center scales by its own lowest and highest values, as in the paper; nobody else learns them."""

    extremes: ClassVar[bool] = True
    common: ClassVar[bool] = False

    def public(self, layout: Layout, ranges: Ranges | None) -> None:
        """Nothing is common."""

    def at_center(self, layout: Layout, rows: RowsRead | None, ranges: Ranges | None, agreed: Scaler | None) -> Scaler:
        """Lowest value 0 and highest 1, of the views that the center holds."""
        assert rows is not None
        return minmax(rows.statistics.layout, rows.low, rows.high)


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


def extremes_of(layout: Layout, part: RowsRead) -> Extremes:
    """The extremes of one center, in the layout of the study; unseen features have none."""
    seen, low, high = (np.zeros(layout.total) for _ in range(3))
    where = _columns(layout, part.statistics.layout)
    there = np.isfinite(part.low)
    seen[where], low[where], high[where] = there, np.where(there, part.low, 0.0), np.where(there, part.high, 0.0)
    return Extremes(seen, low, high)


def minmax(layout: Layout, low: Array, high: Array) -> Scaler:
    """Lowest value 0 and highest 1; a feature without extremes (not finite) keeps its unit."""
    seen = np.isfinite(low)
    return from_vectors(layout, np.where(seen, low, 0.0), np.where(seen, high - np.where(seen, low, 0.0), 1.0))


def declared(layout: Layout, ranges: Ranges | None) -> Scaler:
    """The scaler of public ranges."""
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


def named_ranges(ranges: Any, schema: Schema, *, partial: bool = False) -> Ranges | None:
    """Public ranges as (d, 2) arrays, from arrays or from ``{column: (low, high)}``.

    With ``partial`` columns may lack one (NaN), for those who can tell which columns they need.
    """
    if ranges is None:
        return None
    columns = schema.columns
    found = {}
    for view, given in ranges.items():
        if view not in columns:
            raise UserError(f"ranges: view {view!r} is not in the data; known are {', '.join(map(repr, columns))}")
        if isinstance(given, Mapping):
            lacking = [name for name in columns[view] if name not in given]
            if lacking and not partial:
                raise UserError(f"ranges of view {view!r}: columns without one: {', '.join(lacking)}")
            given = [given.get(name, (np.nan, np.nan)) for name in columns[view]]
        bounds = np.asarray(given, dtype=float)
        if bounds.shape != (len(columns[view]), 2):
            raise UserError(f"ranges of view {view!r} must be {len(columns[view])} pairs (low, high)")
        good = np.isfinite(bounds).all(axis=1) & (bounds[:, 0] < bounds[:, 1])
        if partial:
            good |= np.isnan(bounds).all(axis=1)
        if not good.all():
            j = int(np.argmin(good))
            raise UserError(
                f"ranges of view {view!r}, column {columns[view][j]!r}: low must be below high, both finite"
            )
        found[view] = bounds
    return found


SCALINGS: dict[str, Scaling] = {
    "shared-standard": SharedMoments(by_view=False),
    "shared-view": SharedMoments(by_view=True),
    "shared-minmax": SharedExtremes(),
    "center-minmax": OwnExtremes(),
    "declared": Declared(),
}


def scaling_of(name: str | None) -> Scaling:
    """The scaling that settings name; None is that of the data's own units."""
    return Scaling() if name is None else SCALINGS[name]
