"""The figure of an experiment: errors of all methods in each scenario, the paper's as rings."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from vedute.evaluation.drawing import COLOURS, canvas, files, tidy
from vedute.evaluation.experiments import ASIDE

if TYPE_CHECKING:
    from matplotlib.axes import Axes

MARKERS = ("o", "s", "^", "D")  # one more for each time that the colours are used up
METRICS = {"train_mae": "MAE, train", "test_mae": "MAE, test", "accuracy": "accuracy in the latent space"}


def figure(table: pd.DataFrame, title: str) -> dict[str, bytes]:
    """PNG and SVG: a row for each metric, a column for each way of scaling; mean and standard deviation over folds."""
    table = table[[not any(aside in name for aside in ASIDE) for name in table["method"]]]
    shared = table["scaling"] == "shared"
    columns = {"each center by itself": table[~shared], "one scaling for all": table[shared]}
    columns = {name: rows for name, rows in columns.items() if len(rows)}
    with canvas(11.0, 8.5 * len(columns)) as drawn:
        panels = drawn.subplots(len(METRICS) + 1, len(columns), squeeze=False, height_ratios=(4, 4, 4, 2))
        for (name, rows), own in zip(columns.items(), panels.T, strict=True):
            own[0].set_title(name)
            for axes, (metric, label) in zip(own, METRICS.items(), strict=False):
                _panel(axes, rows, metric)
                axes.set_ylabel(label)
            handles, labels = own[0].get_legend_handles_labels()
            own[-1].axis("off")
            own[-1].legend(handles, labels, loc="upper center", ncols=2, frameon=False, fontsize=9)
        drawn.suptitle(title)
        return files(drawn)


def _panel(axes: Axes, table: pd.DataFrame, metric: str) -> None:
    places = list(dict.fromkeys(zip(table["scenario"], table["centers"], strict=True)))
    methods = list(dict.fromkeys(zip(table["method"], table["scaling"], strict=True)))
    step = 0.8 / len(methods)
    for i, (method, scaling) in enumerate(methods):
        colour, marker = COLOURS[i % len(COLOURS)], MARKERS[i // len(COLOURS)]
        rows = table[(table["method"] == method) & (table["scaling"] == scaling)]
        where = [places.index(place) for place in zip(rows["scenario"], rows["centers"], strict=True)]
        x = np.array(where) - 0.4 + step * (i + 0.5)
        label = f"{method} (test rows scaled as one)" if scaling.endswith("as one") else method
        axes.errorbar(
            x, rows[metric], yerr=rows[f"{metric}_sd"], color=colour, marker=marker, markersize=4, linestyle="none",
            capsize=2, label=label,
        )  # fmt: skip
        paper = f"{metric}_paper"
        if paper in rows and rows[paper].notna().any():
            axes.plot(x, rows[paper], color=colour, marker=marker, markersize=9, fillstyle="none", linestyle="none",
                      label=f"{method}: the paper's own")  # fmt: skip
    labels = [f"{str(scenario).replace(' ', chr(10))}\n{centers}" for scenario, centers in places]
    axes.set_xticks(range(len(places)), labels)
    tidy(axes)
