"""The figure of an experiment: errors of all methods in each scenario, the paper's as rings."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from vedute.core.params import Array
from vedute_reproduction.experiments import ASIDE, DEFAULT, OWN, PAPER, PRIVATE, UNTUNED, YARDSTICK
from vedute_reproduction.figures.canvas import COLOURS, canvas, files, logarithmic, tidy

if TYPE_CHECKING:
    from matplotlib.artist import Artist
    from matplotlib.axes import Axes

FAR = 3.0  # what is so many times the least needs a log axis, or the rest cannot be told apart
AS_ONE = " (test rows scaled as one)"
FIXED = {PAPER: COLOURS[0], PRIVATE: COLOURS[1], DEFAULT: COLOURS[2], YARDSTICK: COLOURS[3]}  # in all figures
MARKERS = ("o", "s", "^")  # a method and its variations, which share a colour
METRICS = {"train_mae": "MAE, train", "test_mae": "MAE, test", "accuracy": "accuracy"}  # in the latent space
RING: dict[str, Any] = {"marker": "o", "markersize": 9, "fillstyle": "none", "linestyle": "none"}
PRINTED = "the paper's own, in the colour of the method"
Styles = dict[str, tuple[str, str]]  # label -> colour and marker


def figure(table: pd.DataFrame, title: str) -> dict[str, bytes]:
    """PNG and SVG: a panel for each way of scaling and metric; mean and standard deviation over folds."""
    table = table[[not any(aside in name for aside in ASIDE) for name in table["method"]]]
    as_one = table["scaling"].str.endswith("as one")
    table = table.assign(label=table["method"].where(~as_one, table["method"] + AS_ONE))
    looks, shared = styles(table["label"]), table["scaling"] == "shared"
    parts = {"each center scaled by itself": table[~shared], "one scaling for all": table[shared]}
    parts = {name: rows for name, rows in parts.items() if len(rows)}
    with canvas(0.8 + 2.6 * len(METRICS) * len(parts)) as drawn:
        panels = drawn.subplots(len(METRICS) * len(parts), 1)
        for i, (name, rows) in enumerate(parts.items()):
            own = panels[i * len(METRICS) : (i + 1) * len(METRICS)]
            for axes, (metric, label) in zip(own, METRICS.items(), strict=True):
                _panel(axes, rows, metric, looks)
                axes.set_ylabel(label)
                if rows[metric].max() > FAR * rows[metric].min():
                    logarithmic(axes)
                    axes.set_ylabel(f"{label}, log scale")
                axes.set_title(name, fontsize=9)
        panels[-1].set_xlabel("scenario, number of centers")
        drawn.suptitle(title, parse_math=False)
        drawn.legend(handles=_legend(panels, looks), loc="outside lower center", ncols=2, frameon=False)
        return files(drawn)


def reach(rows: pd.DataFrame, metric: str) -> tuple[Array, Array]:
    """One standard deviation down and up; no accuracy is above 1."""
    sd = rows[f"{metric}_sd"].to_numpy(dtype=float)
    return sd, np.minimum(sd, 1.0 - rows[metric].to_numpy(dtype=float)) if metric == "accuracy" else sd


def styles(labels: Iterable[str]) -> Styles:
    """A method looks the same wherever it stands; its variations have its colour and another marker."""
    families: dict[str, list[str]] = {}
    for label in dict.fromkeys(labels):
        families.setdefault(_family(label), []).append(label)
    free = (colour for colour in COLOURS if colour not in FIXED.values())
    chosen = {name: FIXED.get(name) or next(free) for name in families}
    return {
        label: (chosen[name], marker)
        for name, own in families.items()
        for label, marker in zip(own, MARKERS, strict=False)
    }


def _family(label: str) -> str:
    for variation in (UNTUNED, OWN, AS_ONE):
        label = label.removesuffix(variation)
    return label


def _legend(panels: Iterable[Axes], looks: Styles) -> list[Artist]:
    """Each label once, whichever panels it is in; a ring of no method's colour for the values that were printed."""
    drawn: dict[str, Artist] = {}
    for axes in panels:
        if any(line.get_fillstyle() == "none" for line in axes.lines):
            axes.plot([], [], color="0.3", label=PRINTED, **RING)
        drawn |= {label: handle for handle, label in zip(*axes.get_legend_handles_labels(), strict=True)}
    return [drawn[label] for label in (*looks, PRINTED) if label in drawn]


def _panel(axes: Axes, table: pd.DataFrame, metric: str, looks: Styles) -> None:
    places = list(dict.fromkeys(zip(table["scenario"], table["centers"], strict=True)))
    labels = list(dict.fromkeys(table["label"]))
    step = 0.8 / len(labels)
    ringed: set[str] = set()
    for i, label in enumerate(labels):
        colour, marker = looks[label]
        rows = table[table["label"] == label]
        where = [places.index(place) for place in zip(rows["scenario"], rows["centers"], strict=True)]
        x = np.array(where) - 0.4 + step * (i + 0.5)
        bars = reach(rows, metric)
        axes.errorbar(
            x, rows[metric], yerr=bars, color=colour, marker=marker, markersize=4, linestyle="none",
            capsize=2, label=label,
        )  # fmt: skip
        for place in places[1:] if i == 0 else ():
            axes.axvline(places.index(place) - 0.5, color="#eeeeee", linewidth=1.0, zorder=0)
        paper = f"{metric}_paper"
        if paper in rows and rows[paper].notna().any() and _family(label) not in ringed:  # it prints each once
            ringed.add(_family(label))
            axes.plot(x, rows[paper], color=colour, **RING)
    ticks = [f"{str(scenario).replace(' ', chr(10))}\n{centers}" for scenario, centers in places]
    axes.set_xticks(range(len(places)), ticks)
    tidy(axes)
