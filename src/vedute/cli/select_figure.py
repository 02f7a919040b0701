"""The figure of ``vedute select``: WAIC and error against the number of components."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from vedute.run.model_choice import Choice, Selection

COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#56b4e9")  # told apart by the colour-blind too
NEAR = 10.0  # differences of WAIC below this are drawn on a plain scale, above on a logarithmic one


def figure_png(selection: Selection) -> bytes:
    """Both curves, one line for each scaling, the recommended choice marked."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(10.0, 4.2), layout="constrained")
    FigureCanvasAgg(figure)
    left, right = figure.subplots(1, 2)
    for colour, (scaling, choices) in zip(COLOURS, _by_scaling(selection).items(), strict=False):
        q = [choice.components for choice in choices]
        gap = [choice.difference for choice in choices]
        bars = [choice.difference_se for choice in choices]
        left.errorbar(q, gap, yerr=bars, color=colour, marker="o", capsize=3, label=str(scaling or "none"))
        right.plot(q, [choice.mae for choice in choices], color=colour, marker="o", label=str(scaling or "none"))
    chosen = selection.choices[selection.recommended]
    left.set_yscale("symlog", linthresh=NEAR)
    left.axhline(0.0, color="0.7", linewidth=1.0, zorder=0)
    left.set_ylabel("WAIC, difference to the best (± one standard error)")
    right.set_ylabel("mean absolute error (standard deviations)")
    right.set_ylim(bottom=0.0)
    for axes, value in ((left, chosen.difference), (right, chosen.mae)):
        _finish(axes, chosen, value, [choice.components for choice in selection.choices])
    left.legend(title="scaling", frameon=False)
    figure.suptitle(f"recommended: {chosen.components} components, scaling {chosen.scaling or 'none'}")
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png", dpi=150, metadata={"Software": None})
    return buffer.getvalue()


def _by_scaling(selection: Selection) -> dict[str | None, list[Choice]]:
    found: dict[str | None, list[Choice]] = {}
    for choice in selection.choices:
        found.setdefault(choice.scaling, []).append(choice)
    return found


def _finish(axes: Axes, chosen: Choice, value: float, components: list[int]) -> None:
    axes.plot(chosen.components, value, marker="o", markersize=14, fillstyle="none", color="black")
    axes.set_xticks(sorted(set(components)))
    axes.set_xlabel("components")
    axes.spines[["top", "right"]].set_visible(False)
