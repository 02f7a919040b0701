"""What the page is made of, as plain values: sections with sentences, tables and figures, and numbers in words."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from vedute.report.charts import MANY, Chart

UNKNOWN = "not known"


@dataclass(frozen=True)
class Option:
    """One state of a figure on the page: what a menu calls it, the chart, and its height in pixels."""

    label: str
    chart: Chart
    height: int


@dataclass(frozen=True)
class Figure:
    """A figure of the page, what it shows in words, and the states that a menu offers."""

    key: str
    alt: str
    options: tuple[Option, ...]
    menu: str = ""


@dataclass(frozen=True)
class Table:
    """A table of texts; all but the first ``labels`` columns are numbers. A ``folded`` one opens when asked."""

    caption: str
    head: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    labels: int = 1
    folded: bool = False


@dataclass(frozen=True)
class Section:
    """One chapter of the page; ``missing`` says what is not shown, and why."""

    key: str
    title: str
    sentences: tuple[str, ...] = ()
    figures: tuple[Figure, ...] = ()
    tables: tuple[Table, ...] = ()
    missing: tuple[str, ...] = ()
    banner: str = ""

    @property
    def lead(self) -> str:
        """The chapter in a sentence."""
        return self.banner or (*self.sentences, "")[0]


def row_height(rows: int) -> int:
    """The height of a chart with so many rows: room for names while there are few."""
    return 120 + (26 * rows if rows <= MANY else 360)


def num(value: float, digits: int = 2) -> str:
    """A number for people; what cannot be told is said so."""
    if math.isnan(value):
        return UNKNOWN
    if math.isinf(value):
        return "infinity" if value > 0 else "minus infinity"
    if value == 0 or 1e-3 <= abs(value) < 1e5:
        return f"{value:z.{digits}f}"  # z: no minus before a zero
    return f"{value:.{digits}g}"


def percent(share: float) -> str:
    """A share of one as a percentage."""
    if 0 < share < 0.005:
        return "below 1 %"
    return UNKNOWN if math.isnan(share) else f"{100 * share:.0f} %"


def count(n: int, what: str, several: str | None = None) -> str:
    """``1 center``, ``2 centers``."""
    return f"{n:,} {what if n == 1 else several or what + 's'}"


def listed(names: Sequence[str], most: int = 6) -> str:
    """Some names in a sentence."""
    shown = list(names[:most])
    if len(names) > most:
        return ", ".join(shown) + f" and {len(names) - most} more"
    return " and ".join([", ".join(shown[:-1]), shown[-1]]) if len(shown) > 1 else "".join(shown)
