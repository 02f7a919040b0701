"""The second moments of the rows of a center, so measured that one subject moves them by a known length at most.

A subject becomes a vector u of bounded length: its observed cells in units of the declared ranges, about their
middle, shrunk to length B at most; then one entry ``w = B / (2 sqrt K)`` for each of the K views it has. A
missing cell is the middle of its range, that is 0. So |u|^2 <= B^2 + K w^2 = 5/4 B^2 =: M, and if one subject is
replaced by another the matrix ``sum u u'`` moves by

    |u u' - v v'|^2 = |u|^4 + |v|^4 - 2 (u'v)^2 <= 2 M^2        (Frobenius norm; attained where u'v = 0).

Entries of u are whole multiples of 2^-12, so that the sums are exact in floating point, whatever their order,
and the bound holds for what is computed, not only for what is meant.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from vedute.errors import UserError
from vedute.model.parameters import Array, Layout

UNIT = 4096.0  # one range is this many steps; rounding to a step is far below any noise
EXACT = 2.0**53  # whole numbers below this are exact in float64


@dataclass(frozen=True)
class Ranges:
    """The declared, public range of every feature of the views a center holds."""

    layout: Layout
    low: Array
    high: Array

    @property
    def middle(self) -> Array:
        """The public centre of each feature."""
        return (self.low + self.high) / 2.0

    @property
    def width(self) -> Array:
        """The length of each range: the unit in which a feature is measured."""
        return self.high - self.low


@dataclass(frozen=True)
class Bound:
    """The public bound B on a subject's length, in whole steps, and what follows from it."""

    length: int
    weight: int
    views: int

    @property
    def sensitivity(self) -> float:
        """How far one replaced subject moves the matrix (Frobenius), in units of squared ranges."""
        return math.sqrt(2.0) * (self.length**2 + self.views * self.weight**2) / UNIT**2

    @property
    def most_rows(self) -> int:
        """The number of subjects up to which the sums are exact."""
        return int(EXACT / max(UNIT / 2, self.weight) ** 2)


def make_bound(layout: Layout, bound: float | None) -> Bound:
    """B as given, or 1/4 sqrt(d): about 1.5 times the length of a row whose sd is a sixth of the ranges."""
    length = math.floor(UNIT * (0.25 * math.sqrt(layout.total) if bound is None else bound))
    views = len(layout.names)
    weight = math.floor(length / (2.0 * math.sqrt(views)))
    if weight < 1:
        raise UserError(f"the bound {bound} is too small: give a length in units of the ranges, such as 1")
    return Bound(length, weight, views)


@dataclass(frozen=True)
class Told:
    """What a center may tell its own staff, and nobody else, about its data meeting the ranges."""

    outside: Mapping[str, int]  # cells beyond their declared range, by view
    shrunk: int  # subjects longer than B
    missing: Mapping[str, int]  # cells missing inside views that a subject has


class SecondMoments:
    """Folds chunks of rows into the exact matrix ``sum u u'``, which must not leave without noise."""

    def __init__(self, ranges: Ranges, bound: Bound) -> None:
        self.ranges, self.bound = ranges, bound
        self.rows = 0
        size = ranges.layout.total + bound.views
        self._steps = np.zeros((size, size), dtype=np.int64)
        self._outside = np.zeros(bound.views, dtype=np.int64)
        self._missing = np.zeros(bound.views, dtype=np.int64)
        self._shrunk = 0

    def add(self, views: Mapping[str, Array]) -> None:
        """Rows of the same subjects in all views; NaN is a missing cell, an absent view is missing for all."""
        layout = self.ranges.layout
        n = len(next(iter(views.values())))
        step = max(1, min(self.bound.most_rows, (1 << 22) // layout.total))
        for start in range(0, n, step):
            block = np.full((min(step, n - start), layout.total), np.nan)
            for name, columns in layout.slices.items():
                if name in views:
                    block[:, columns] = views[name][start : start + step]
            self._fold(block)

    def _fold(self, rows: Array) -> None:
        layout = self.ranges.layout
        observed = ~np.isnan(rows)
        z = np.where(observed, (rows - self.ranges.middle) / self.ranges.width, 0.0)
        held = np.logical_or.reduceat(observed, layout.starts, axis=1)
        self._outside += np.add.reduceat(np.abs(z) > 0.5, layout.starts, axis=1).sum(axis=0)
        self._missing += np.add.reduceat(~observed & held[:, layout.view_of], layout.starts, axis=1).sum(axis=0)
        steps, shrunk = shrink(np.rint(np.clip(z, -0.5, 0.5) * UNIT), self.bound.length)
        u = np.hstack([steps, held * float(self.bound.weight)])
        self._steps += (u.T @ u).astype(np.int64)
        self._shrunk += shrunk
        self.rows += len(rows)

    def matrix(self) -> Array:
        """The exact matrix, in units of squared ranges."""
        if self.rows > self.bound.most_rows:
            raise UserError(f"subject-level privacy handles at most {self.bound.most_rows} subjects per center")
        return self._steps / UNIT**2

    def told(self) -> Told:
        """What to tell at home."""
        names = self.ranges.layout.names
        outside, missing = self._outside.tolist(), self._missing.tolist()
        return Told(dict(zip(names, outside, strict=True)), self._shrunk, dict(zip(names, missing, strict=True)))


def shrink(steps: Array, length: int) -> tuple[Array, int]:
    """Whole vectors shrunk toward zero until none is longer than ``length``, and how many had to be."""
    size = (steps**2).sum(axis=1)
    long = np.flatnonzero(size > length**2)
    shrunk = len(long)
    while len(long):  # cutting off the fraction never lengthens; rounding of the factor might, so look again
        factor = length / np.sqrt(size[long]) * (1.0 - 2.0**-50)
        steps[long] = np.trunc(steps[long] * factor[:, None])
        size = (steps**2).sum(axis=1)
        long = np.flatnonzero(size > length**2)
    return steps, shrunk


def checked_ranges(layout: Layout, columns: Mapping[str, tuple[str, ...]], ranges: Mapping[str, Array]) -> Ranges:
    """The ranges of all features as one array, or an error that names the columns without a usable one."""
    parts: list[Array] = []
    problems: list[str] = []
    for name, size in zip(layout.names, layout.sizes, strict=True):
        given = np.asarray(ranges.get(name, np.full((size, 2), np.nan)), dtype=np.float64)
        if given.shape != (size, 2):
            raise UserError(f"ranges of view {name!r}: expected {size} pairs (low, high), got shape {given.shape}")
        bad = ~(np.isfinite(given).all(axis=1) & (given[:, 0] < given[:, 1]))
        for column in np.flatnonzero(bad):
            what = "lacks a range" if np.isnan(given[column]).any() else "has low >= high or an infinite end"
            problems.append(f"{name}.{columns[name][column]} {what}")
        parts.append(given)
    if problems:
        shown = "; ".join(problems[:10]) + (f"; and {len(problems) - 10} more" if len(problems) > 10 else "")
        raise UserError(
            f"subject-level privacy needs a public range (low < high) for every column, declared without "
            f"looking at the data: {shown}"
        )
    whole: NDArray[np.float64] = np.vstack(parts)
    return Ranges(layout, whole[:, 0], whole[:, 1])
