"""The figure of the lambda sweep: how auto-encoders fare as FedProx pulls harder, two layers and ours beside them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pandas as pd

from vedute_reproduction.experiments import DEFAULT, LAMBDAS, MCVAE, PAPER, TWO_LAYERS, VAE
from vedute_reproduction.figures.canvas import COLOURS, canvas, files, tidy
from vedute_reproduction.figures.comparison import METRICS, RING, reach
from vedute_reproduction.tables.comparison import printed

if TYPE_CHECKING:
    from matplotlib.axes import Axes

LAYERED, MINE = len(LAMBDAS), len(LAMBDAS) + 1  # places on the axis after those of lambda


def figure(table: pd.DataFrame, title: str) -> dict[str, bytes]:
    """PNG and SVG: a column for each auto-encoder, a row for each metric and number of centers."""
    counts = list(dict.fromkeys(table["centers"]))
    lines = [(n, metric) for n in counts for metric in METRICS]
    with canvas(1.0 + 2.3 * len(lines)) as drawn:
        panels = drawn.subplots(len(lines), 2, squeeze=False, sharex=True, sharey="row")
        for name, own in zip((VAE, MCVAE), panels.T, strict=True):
            own[0].set_title(name)
            for axes, (n, metric) in zip(own, lines, strict=True):
                _panel(axes, table[table["centers"] == n], name, metric)
            own[-1].set_xlabel("lambda of FedProx")
        for axes, (n, metric) in zip(panels[:, 0], lines, strict=True):
            axes.set_ylabel(f"{METRICS[metric]}, {n} centers")
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
            rings = [*zip(x, rows[f"{metric}_paper"], strict=True), (MINE - 0.12, _printed(table, metric))]
            axes.plot(*zip(*rings, strict=True), color=colour, label="the paper's own, on ADNI", **RING)
    ticks = [*(f"{value:g}" for value in LAMBDAS), "two\nlayers", "ours"]
    axes.set_xticks(range(len(ticks)), ticks)
    tidy(axes)


def _printed(table: pd.DataFrame, metric: str) -> float:
    """What the paper prints of its own method, with as many centers."""
    return float(printed("ADNI_2", metric)["Fed-mv-PPCA"]["G", int(table["centers"].iloc[0])])
