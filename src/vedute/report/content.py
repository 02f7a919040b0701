"""What a page is made of: sections with sentences, tables and figures, all as plain values."""

from __future__ import annotations

import html
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from vedute.model.parameters import Array

COLOURS = ("#0072b2", "#d55e00", "#009e73", "#a6548a", "#8c6d00", "#1f6f8b", "#7a4b1e", "#5b5b5b")  # dark on white
INK = "#1d2730"
BLUES = [[0, "#f2f7fb"], [0.5, "#a3cfea"], [1, "#4599cf"]]  # light enough for numbers in ink
UNKNOWN = "not known"
LABEL = 28  # characters of a name beside an axis; hovering and the tables show all of it
MANY = 40  # rows of a figure beyond which their names no longer fit


@dataclass(frozen=True)
class Table:
    """A table of texts; all but the first ``labels`` columns are numbers. A ``folded`` one opens when asked."""

    caption: str
    head: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    labels: int = 1
    folded: bool = False


@dataclass(frozen=True)
class Option:
    """One state of a figure: traces and layout as plotly takes them.

    ``columns`` holds, for some traces, all components of their points, ``covs`` those of an ellipse about its one
    point: the page then offers a choice of the two components to look at.
    """

    label: str
    data: tuple[Mapping[str, Any], ...]
    layout: Mapping[str, Any]
    columns: tuple[Sequence[Sequence[float | None]], ...] = ()
    covs: Mapping[int, Sequence[Sequence[float | None]]] | None = None


@dataclass(frozen=True)
class Figure:
    """A figure, what it shows in words, and the states that a menu offers."""

    key: str
    alt: str
    options: tuple[Option, ...]
    menu: str = ""


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


def safe(name: str) -> str:
    """A name for a figure: plotly reads a few HTML tags in texts, so none may be left."""
    return html.escape(name, quote=False)


def short(name: str) -> str:
    """The same beside an axis, where there is little room."""
    return safe(name if len(name) <= LABEL else name[: LABEL - 1] + "…")


def numbers(values: Array | Sequence[float]) -> list[float | None]:
    """Numbers for a figure, to five digits; NaN and infinity, which JSON does not know, are gaps."""
    return [float(f"{v:.5g}") if math.isfinite(v) else None for v in np.asarray(values, dtype=float).ravel()]


def name_axis(names: Sequence[str], *, down: bool = False, **more: Any) -> dict[str, Any]:
    """An axis with a place for each name, from the top ``down``; names stay away where they would not fit."""
    ends = [-0.6, len(names) - 0.4]
    ends = ends[::-1] if down else ends
    axis: dict[str, Any] = {"zeroline": False, "automargin": True, "ticks": "", "ticklabelstandoff": 6, "range": ends}
    axis |= more
    if len(names) > MANY:
        return {**axis, "showticklabels": False}
    return {**axis, "tickmode": "array", "tickvals": list(range(len(names))), "ticktext": [short(n) for n in names]}


def layout(height: int, **more: Any) -> dict[str, Any]:
    """The common look."""
    return {
        "height": height,
        "margin": {"l": 60, "r": 16, "t": 40, "b": 56},
        "font": {"family": "system-ui, sans-serif", "size": 13, "color": INK},
        "paper_bgcolor": "#ffffff",
        "plot_bgcolor": "#ffffff",
        "colorway": list(COLOURS),
        "hoverlabel": {"align": "left"},
        "legend": {"orientation": "h", "traceorder": "normal", "yanchor": "bottom", "y": 1.0, "x": 0},
        **more,
    }


def row_height(rows: int) -> int:
    """The height of a figure with so many rows: room for names while there are few."""
    return 120 + (26 * rows if rows <= MANY else 360)
