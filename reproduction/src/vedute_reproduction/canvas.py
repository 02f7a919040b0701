"""Figures that come out the same, byte for byte, from the same numbers."""

from __future__ import annotations

import io
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


WIDTH = 9.5  # inches, of which a page shows about a hundred dots each
DOTS = 110
COLOURS = (
    "#0072b2", "#56b4e9", "#d55e00", "#000000", "#009e73", "#cc79a7", "#e69f00", "#999999", "#882255",
    "#999933",
)  # Okabe and Ito, with Tol's wine and olive where they have a yellow that is faint on white  # fmt: skip


@contextmanager
def canvas(height: float, width: float = WIDTH) -> Iterator[Figure]:
    """A figure to draw on."""
    from matplotlib import rc_context
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    with rc_context({"svg.hashsalt": "vedute", "svg.fonttype": "none", "font.size": 9.0}):
        drawn = Figure(figsize=(width, height), layout="constrained")
        FigureCanvasAgg(drawn)
        yield drawn


def files(drawn: Figure) -> dict[str, bytes]:
    """The figure as PNG and SVG, without the hour it was drawn."""
    found = {}
    for kind, about in (("png", {"Software": None}), ("svg", {"Date": None})):
        buffer = io.BytesIO()
        drawn.savefig(buffer, format=kind, dpi=DOTS, metadata=about)
        found[kind] = buffer.getvalue()
    return found


def finished(drawn: Figure, title: str, legend: tuple[Any, Any] | None = None, columns: int = 2) -> dict[str, bytes]:
    """The files of a figure under its title, with the legend (handles and labels) below it."""
    drawn.suptitle(title, parse_math=False)
    if legend is not None:
        drawn.legend(*legend, loc="outside lower center", ncols=columns, frameon=False)
    return files(drawn)


def logarithmic(axes: Axes) -> None:
    """A log axis of one decade or two, with ticks that do not run into each other."""
    from matplotlib.ticker import LogLocator, NullFormatter

    axes.set_yscale("log")
    axes.yaxis.set_major_locator(LogLocator(subs=(1.0, 1.5, 2.0, 3.0, 5.0, 7.0)))
    axes.yaxis.set_major_formatter("{x:g}")
    axes.yaxis.set_minor_formatter(NullFormatter())


def tidy(axes: Axes) -> None:
    """No frame but the axes, and a faint grid."""
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(axis="y", color="#eeeeee")
    axes.set_axisbelow(True)
