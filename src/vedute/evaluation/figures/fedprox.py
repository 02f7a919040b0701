"""The figure of the lambda sweep: how auto-encoders fare as FedProx pulls harder, two layers and ours beside them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pandas as pd

from vedute.evaluation.experiments import DEFAULT, LAMBDAS, MCVAE, PAPER, TWO_LAYERS, VAE
from vedute.evaluation.figures.canvas import COLOURS, canvas, files, tidy
from vedute.evaluation.figures.comparison import METRICS, reach

if TYPE_CHECKING:
    from matplotlib.axes import Axes

LAYERED, MINE = len(LAMBDAS), len(LAMBDAS) + 1  # places on the axis after those of lambda


def figure(table: pd.DataFrame, title: str) -> dict[str, bytes]:
    """PNG and SVG: a row for each metric, a column for each auto-encoder and number of centers."""
    counts = list(dict.fromkeys(table["centers"]))
    columns = [(name, n) for name in (VAE, MCVAE) for n in counts]
    with canvas(9.5, 4.2 * len(columns)) as drawn:
        panels = drawn.subplots(len(METRICS), len(columns), squeeze=False, sharex=True, sharey="row")
        for (name, n), own in zip(columns, panels.T, strict=True):
            own[0].set_title(f"{name}, {n} centers")
            for axes, metric in zip(own, METRICS, strict=True):
                _panel(axes, table[table["centers"] == n], name, metric)
            own[-1].set_xlabel("lambda of FedProx")
        for axes, label in zip(panels[:, 0], METRICS.values(), strict=True):
            axes.set_ylabel(label)
        handles, labels = panels[0, 0].get_legend_handles_labels()
        drawn.legend(handles, labels, loc="outside lower center", ncols=3, frameon=False)
        drawn.suptitle(title, parse_math=False)
        return files(drawn)


def _panel(axes: Axes, table: pd.DataFrame, name: str, metric: str) -> None:
    methods = {f"{name}, lambda {value:g}": i for i, value in enumerate(LAMBDAS)}
    methods |= {name + TWO_LAYERS: LAYERED, PAPER: MINE, DEFAULT: MINE}
    for scaling, colour in (("per center", COLOURS[2]), ("shared", COLOURS[0])):
        rows = table[(table["scaling"] == scaling) & table["method"].isin(methods)]
        if scaling == "shared":
            rows = rows[rows["method"] != PAPER]  # ours as it is meant to be used with each scaling
        x = rows["method"].map(methods) + (0.12 if scaling == "shared" else -0.12)
        label = (
            "each center scaled by itself (ours: paper preset)"
            if scaling == "per center"
            else "one scaling for all (ours: default preset)"
        )
        axes.errorbar(x, rows[metric], yerr=reach(rows, metric), color=colour, marker="o", linestyle="none", capsize=2,
                      label=label)  # fmt: skip
        if f"{metric}_paper" in rows and scaling == "per center":
            axes.plot(x, rows[f"{metric}_paper"], color=colour, marker="o", markersize=9, fillstyle="none",
                      linestyle="none", label="the paper's own, on ADNI")  # fmt: skip
    ticks = [*(f"{value:g}" for value in LAMBDAS), "two\nlayers", "ours"]
    axes.set_xticks(range(len(ticks)), ticks)
    tidy(axes)
