"""The figure of an experiment: errors of all methods in each scenario, the paper's as rings."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

COLOURS = (
    "#0072b2",
    "#56b4e9",
    "#d55e00",
    "#000000",
    "#009e73",
    "#cc79a7",
    "#e69f00",
    "#999999",
    "#f0e442",
)  # Okabe and Ito
METRICS = {"train_mae": "MAE, train", "test_mae": "MAE, test", "accuracy": "accuracy in the latent space"}


def figure(table: pd.DataFrame, title: str) -> dict[str, bytes]:
    """PNG and SVG of one panel for each metric: mean and standard deviation over folds."""
    from matplotlib import rc_context
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    with rc_context({"svg.hashsalt": "vedute", "svg.fonttype": "none"}):  # the same table gives the same bytes
        drawn = Figure(figsize=(9.5, 10.0), layout="constrained")
        FigureCanvasAgg(drawn)
        panels = np.atleast_1d(drawn.subplots(len(METRICS), 1, sharex=True))
        for axes, (metric, label) in zip(panels, METRICS.items(), strict=True):
            _panel(axes, table, metric)
            axes.set_ylabel(label)
        drawn.suptitle(title)
        handles, labels = panels[0].get_legend_handles_labels()
        drawn.legend(handles, labels, loc="outside lower center", ncols=2, frameon=False, fontsize=9)
        return {"png": as_bytes(drawn, "png"), "svg": as_bytes(drawn, "svg")}


def as_bytes(drawn: Figure, kind: str) -> bytes:
    """A figure as a file, without the hour it was drawn."""
    buffer = io.BytesIO()
    about = {"Software": None} if kind == "png" else {"Date": None}
    drawn.savefig(buffer, format=kind, dpi=150, metadata=about)
    return buffer.getvalue()


def _panel(axes: Axes, table: pd.DataFrame, metric: str) -> None:
    places = list(dict.fromkeys(zip(table["scenario"], table["centers"], strict=True)))
    methods = list(dict.fromkeys(zip(table["method"], table["scaling"], strict=True)))
    step = 0.8 / len(methods)
    for i, ((method, scaling), colour) in enumerate(zip(methods, COLOURS, strict=False)):
        rows = table[(table["method"] == method) & (table["scaling"] == scaling)]
        where = [places.index(place) for place in zip(rows["scenario"], rows["centers"], strict=True)]
        x = np.array(where) - 0.4 + step * (i + 0.5)
        axes.errorbar(
            x, rows[metric], yerr=rows[f"{metric}_sd"], color=colour, marker="o", markersize=4, linestyle="none",
            capsize=2, label=f"{method} ({scaling} scaling)",
        )  # fmt: skip
        paper = f"{metric}_paper"
        if paper in rows and rows[paper].notna().any():
            axes.plot(x, rows[paper], color=colour, marker="o", markersize=9, fillstyle="none", linestyle="none",
                      label="the paper's own")  # fmt: skip
    axes.set_xticks(range(len(places)), [f"{scenario}\n{centers}" for scenario, centers in places])
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(axis="y", color="#eeeeee")
    axes.set_axisbelow(True)
