"""What an experiment that compares methods shows: its table, the paper's values beside ours, and its figure."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from vedute.errors import UserError
from vedute.model.parameters import Array
from vedute_reproduction.canvas import COLOURS, canvas, finished, logarithmic, tidy
from vedute_reproduction.contenders import ASIDE, DEFAULT, MCVAE, OWN, PAPER, PRIVATE, UNTUNED, VAE, YARDSTICK
from vedute_reproduction.folds import Dataset
from vedute_reproduction.methods import LONGEST, ROUNDS
from vedute_reproduction.prose import about, rows
from vedute_reproduction.runner import Experiment
from vedute_reproduction.writing import Drawn, csv, named, page, put

if TYPE_CHECKING:
    from matplotlib.artist import Artist
    from matplotlib.axes import Axes

Draw = Callable[[pd.DataFrame, str], Drawn]
Styles = dict[str, tuple[str, str]]  # label -> colour and marker


METRICS = {"train_mae": "MAE train", "test_mae": "MAE test", "accuracy": "accuracy"}
KEY = ["scenario", "centers", "method", "scaling"]
PRINTED = {
    PAPER: "Fed-mv-PPCA",
    PRIVATE: "DP-Fed-mv-PPCA",
    **{name + how: name for name in (VAE, MCVAE) for how in ("", UNTUNED)},
}  # our names of what the paper prints; it scales each center by itself
FAR = 3.0  # what is so many times the least needs a log axis, or the rest cannot be told apart
AS_ONE = " (test rows scaled as one)"
FIXED = {PAPER: COLOURS[0], PRIVATE: COLOURS[1], DEFAULT: COLOURS[2], YARDSTICK: COLOURS[3]}  # in all figures
MARKERS = ("o", "s", "^")  # a method and its variations, which share a colour
NAMES = {"train_mae": "MAE, train", "test_mae": "MAE, test", "accuracy": "accuracy"}  # on axes
RING: dict[str, Any] = {"marker": "o", "markersize": 9, "fillstyle": "none", "linestyle": "none"}
RINGS = "the paper's own, in the colour of the method"


def write(experiment: Experiment, lines: pd.DataFrame, out: Path, draw: Draw | None = None) -> list[Path]:
    """Write all files; their paths, the table first."""
    table, name = summary(lines, experiment.paper_table), experiment.name
    times = f"{lines['repeat'].nunique()} x 3-fold"
    title = f"{experiment.about}, {times}; bars: one sd over folds{rings(experiment.paper_table)}"
    found = {
        f"{name}.md": page(
            f"{name}: {experiment.about}, {times}",
            [*experiment.remarks, about("comparison", ROUNDS, LONGEST)],
            markdown(table),
        ),
        f"{name}.csv": csv(lines),
        f"{name}-data.csv": csv(described(experiment.source.draw(0))),
    }
    return put(found | named({name: (draw or figure)(table, title)}), out)


def rings(paper_table: str | None) -> str:
    """What the rings of a figure are, for its title."""
    return "" if paper_table is None else f"; rings: the paper, on {paper_table.split('_')[0]}"


def described(data: Dataset) -> pd.DataFrame:
    """What a study holds: features of each view; subjects by group, by true center, and with every cell; cells."""
    found = [("view", name, rows.shape[1]) for name, rows in data.views.items()]
    for what, labels in (("group", data.groups), ("center", data.sites)):
        names, counts = np.unique(labels if labels is not None else [], return_counts=True)
        found += [(what, str(name), int(n)) for name, n in zip(names, counts, strict=True)]
    if data.sites is not None:
        found += [
            ("complete", str(site), int(data.complete[data.sites == site].sum())) for site in np.unique(data.sites)
        ]
    whole = int(data.complete.sum())
    found += [("subjects", "used", len(data)), ("subjects", "left out", data.left_out), ("subjects", "complete", whole)]
    cells = ~np.isnan(np.concatenate(list(data.views.values()), axis=1))
    found += [("cells", "observed", int(cells.sum())), ("cells", "of complete", int(cells[data.complete].sum()))]
    return pd.DataFrame(found, columns=["what", "name", "count"])


def paper_table(name: str) -> pd.DataFrame:
    """A table of Balelli, Silva and Lorenzi, as printed: SD_2 or ADNI_fedprox (appendix B), ADNI_2 (section 4.3.2).

    The names are those of the labels in the paper's source; all rows of these tables are there.
    """
    with files("vedute_reproduction").joinpath("paper_tables.csv").open(encoding="utf-8") as file:
        whole = pd.read_csv(file)
    found = whole[whole["table"] == name].drop(columns="table")
    if found.empty:
        raise UserError(f"the paper has no table {name!r}; known are {', '.join(whole['table'].unique())}")
    return found.reset_index(drop=True)


def printed(name: str, metric: str) -> pd.DataFrame:
    """One metric of a table of the paper: scenarios and centers by methods."""
    return paper_table(name).set_index(["scenario", "centers", "method"])[metric].unstack("method")


def summary(lines: pd.DataFrame, paper: str | None = None) -> pd.DataFrame:
    """Mean and standard deviation over all folds, and what the paper prints beside rows that are scaled as there.

    A fold whose error is no number makes the mean NaN; an accuracy can be unknown, where all rows are of one group.
    """
    grouped = lines.groupby(KEY, sort=False)
    scores = grouped[list(METRICS)]
    means = scores.mean()
    for metric in ("train_mae", "test_mae"):
        means[metric] = grouped[metric].agg(lambda errors: errors.mean(skipna=False))
    found = means.join(scores.std(ddof=0).add_suffix("_sd")).join(grouped.size().rename("folds"))
    found = found.reset_index()
    if paper is None:
        return found
    theirs = paper_table(paper).assign(scaling="per center")
    named = found.assign(method=found["method"].replace(PRINTED))
    beside = named[KEY].merge(theirs, on=KEY, how="left").drop(columns=KEY)
    return found.join(beside.add_suffix("_paper"))


def gaps(table: pd.DataFrame) -> pd.DataFrame:
    """Ours over the paper's, minus one, for the rows that stand in the paper."""
    beside = table.dropna(subset=["train_mae_paper"])
    found = beside[["scenario", "centers", "method"]].copy()
    for metric in METRICS:
        found[metric] = beside[metric] / beside[f"{metric}_paper"] - 1.0
    return found.reset_index(drop=True)


def markdown(table: pd.DataFrame, paper: str = "paper") -> str:
    """The table as Markdown, one line for each scenario, number of centers and method; ``paper`` heads its values."""
    beside = "train_mae_paper" in table
    head = ["scenario", "centers", "method", "scaling"]
    for title in METRICS.values():
        head += [title, f"{title}, {paper}"] if beside else [title]
    body = []
    for row in table.to_dict("records"):
        cells = [str(row[column]) for column in KEY]
        for metric in METRICS:
            cells.append(_plus_minus(row[metric], row[f"{metric}_sd"]))
            if beside:
                cells.append(_plus_minus(row[f"{metric}_paper"], row[f"{metric}_sd_paper"]))
        body.append(cells)
    return rows(head, body)


def _plus_minus(mean: float, sd: float) -> str:
    return "" if mean != mean else f"{mean:.4f} ± {sd:.4f}"


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
            for axes, (metric, label) in zip(own, NAMES.items(), strict=True):
                _panel(axes, rows, metric, looks)
                axes.set_ylabel(label)
                if rows[metric].max() > FAR * rows[metric].min():
                    logarithmic(axes)
                    axes.set_ylabel(f"{label}, log scale")
                axes.set_title(name, fontsize=9)
        panels[-1].set_xlabel("scenario, number of centers")
        found = _legend(panels, looks)
        return finished(drawn, title, (list(found.values()), list(found)))


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


def _legend(panels: Iterable[Axes], looks: Styles) -> dict[str, Artist]:
    """Each label once, whichever panels it is in; a ring of no method's colour for the values that were printed."""
    drawn: dict[str, Artist] = {}
    for axes in panels:
        if any(line.get_fillstyle() == "none" for line in axes.lines):
            axes.plot([], [], color="0.3", label=RINGS, **RING)
        drawn |= {label: handle for handle, label in zip(*axes.get_legend_handles_labels(), strict=True)}
    return {label: drawn[label] for label in (*looks, RINGS) if label in drawn}


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
