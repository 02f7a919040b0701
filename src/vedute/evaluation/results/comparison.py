"""What an experiment that compares methods leaves in its folder."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd

from vedute.evaluation.figures.comparison import figure
from vedute.evaluation.folds import Dataset
from vedute.evaluation.results.writing import Drawn, csv, named, page, put
from vedute.evaluation.runner import Experiment
from vedute.evaluation.tables.comparison import markdown, summary

Draw = Callable[[pd.DataFrame, str], Drawn]
UNITS = (
    "Errors in min-max scaled units; mean ± standard deviation over folds (of SD: over draws as well); accuracy by LDA "
    "on latent means."
)


def write(experiment: Experiment, lines: pd.DataFrame, out: Path, draw: Draw = figure) -> list[Path]:
    """Write all files; their paths, the table first."""
    table, name = summary(lines, experiment.paper_table), experiment.name
    times = f"{lines['repeat'].nunique()} x 3-fold"
    title = f"{experiment.about}, {times}; bars: one sd over folds{rings(experiment.paper_table)}"
    found = {
        f"{name}.md": page(f"{name}: {times}", [*experiment.remarks, UNITS], markdown(table)),
        f"{name}.csv": csv(lines),
        f"{name}-data.csv": csv(described(experiment.source.draw(0))),
    }
    return put(found | named({name: draw(table, title)}), out)


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
