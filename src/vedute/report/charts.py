"""The values of charts, computed once and drawn twice: by plotly on the page and by matplotlib for a paper."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from vedute.model.parameters import Array

COLOURS = ("#0072b2", "#d55e00", "#009e73", "#a6548a", "#8c6d00", "#1f6f8b", "#7a4b1e", "#5b5b5b")  # dark on white
INK, SOFT, EMPTY = "#1d2730", "#777777", "#e8e8e8"  # of words and error bars, of what stands behind, of an empty cell
BLUES = ("#f2f7fb", "#a3cfea", "#4599cf")  # light enough for numbers in ink
MANY = 40  # rows of a chart beyond which their names no longer fit


def colour(k: int) -> str:
    """The colour of the k-th of several things; the first ones are told apart by the colour-blind too."""
    return COLOURS[k % len(COLOURS)]


@dataclass(frozen=True)
class Axis:
    """What is told along an axis; ``whole`` wants a tick at each whole number, or power of ten where it is ``log``."""

    title: str
    log: bool = False
    from_zero: bool = False
    whole: bool = False


@dataclass(frozen=True)
class Series:
    """Points, bars or a line of one name.

    ``errors`` are half the lengths of error bars, shape (n,), or what they reach below and above, shape (2, n): along y
    in :class:`Lines`, along x elsewhere. ``texts`` say of each point what it is, or else its name does.
    """

    name: str
    x: Array
    y: Array
    errors: Array | None = None
    texts: Sequence[str] = ()
    colour: str = COLOURS[0]


@dataclass(frozen=True)
class Lines:
    """Lines over a common x. ``hover`` is what a point tells, with {x}, {y} and {text} in it."""

    series: Sequence[Series]
    x: Axis
    y: Axis
    hover: str
    markers: bool = True


@dataclass(frozen=True)
class Bars:
    """Bars from the left, in rows that have names; series of other colours stand in other rows, or are stacked."""

    rows: Sequence[str]
    series: Sequence[Series]
    x: Axis
    hover: str
    stacked: bool = False


@dataclass(frozen=True)
class Dots:
    """Points with error bars, in rows that have names; ``mark`` is a value to compare with, and its name."""

    rows: Sequence[str]
    series: Sequence[Series]
    x: Axis
    hover: str
    mark: tuple[float, str] | None = None


@dataclass(frozen=True)
class Heatmap:
    """Percentages by rows and columns, in words inside the ``cells`` and at length in ``texts``.

    With a title of its ``scale`` a colour bar is drawn; without one, a cell of zero is empty rather than pale.
    """

    rows: Sequence[str]
    columns: Sequence[str]
    values: Array
    cells: Sequence[Sequence[str]]
    texts: Sequence[Sequence[str]]
    title: str = ""  # of the columns
    scale: str = ""
    roomy: bool = True  # the page has room for the cells' words


@dataclass(frozen=True)
class Points:
    """Subjects of one colour in the latent space, (n, q), what each is, and the center of each."""

    name: str
    x: Array
    texts: Sequence[str]
    centers: Sequence[str]


@dataclass(frozen=True)
class Cross:
    """The case mix of a center, and the posterior covariance of a single subject there."""

    center: str
    mean: Array
    cov: Array


@dataclass(frozen=True)
class Cloud:
    """Subjects in the latent space, of which two components are seen at a time."""

    parts: Sequence[Points]
    crosses: Sequence[Cross]
    by_center: bool  # each part is a center, and its cross has its colour


@dataclass(frozen=True)
class Strip:
    """Subjects in a latent space of one component, in a row for each center."""

    rows: Sequence[str]
    parts: Sequence[Points]
    crosses: Sequence[Cross]
    x: Axis


Chart = Lines | Bars | Dots | Heatmap | Cloud | Strip


def array(values: Sequence[float] | Sequence[tuple[float, float]]) -> Array:
    """Numbers of a chart."""
    return np.array(values, dtype=float)
