"""What an experiment that compares methods leaves in its folder."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd

from vedute_reproduction.figures.comparison import figure
from vedute_reproduction.folds import Dataset
from vedute_reproduction.methods import LONGEST, ROUNDS
from vedute_reproduction.results.writing import Drawn, csv, named, page, put
from vedute_reproduction.runner import Experiment
from vedute_reproduction.tables.comparison import markdown, summary

Draw = Callable[[pd.DataFrame, str], Drawn]
READING = f"""Errors are mean absolute errors of reconstruction by the global parameters, over observed cells, as a
plain mean over centers (train) or over the parts of the test rows (test). Accuracy is that of a linear discriminant
analysis fitted on train latent means and scored on test latent means. ± is one standard deviation over folds; each
repetition of SD, the synthetic data, draws parameters anew as well, while the paper has one draw of them. Other
machines give other last digits, and auto-encoders train on a GPU where there is one.

Units are min-max scaled, and those of one scaling are not those of another: "per center" scales each center, and each
part of the test rows, by its own smallest and largest values; "per center, test as one" takes those of all test rows
for all their parts; "shared" scales all by those of all train rows, so that errors are smaller numbers.

The scenarios are the paper's. IID deals rows at random. G: a third of the centers has both groups, a third only the
first, a third only the second. K: groups are even, but a third of the centers lacks the second view and a third the
third. G/K does both. "sites" are the true centers. Test rows are whole in IID and G; in K and G/K they come in three
parts, dealt as the train rows are, unless a name says how they are parted. With "known sites" test rows are judged by
the sites that they come from.

The paper preset runs the paper's {ROUNDS} rounds, or as one center its 800 iterations; "DP" is its policy at eps = 10
for each mechanism, round 1 raw. The default preset ends when a round changes its parameters by less than a part in
10,000, or after {LONGEST} rounds. Behind its name stands what is undone of it: one noise for all features, rows
projected onto the loadings, complete rows alone, or an end after {ROUNDS} rounds.

"PCA, pooled" and "factor analysis, pooled" learn from all complete train rows with all views, also in K and G/K, where
the others have what the centers hold; their units are those of all other methods, and their train errors there are over
cells that no other method has. "PCA, from sums" is the PCA of the sums that centers can send, as packages for federated
PCA compute it, with features that nobody has together taken as uncorrelated; "MOFA, pooled" sees in one place what the
centers hold. "PPCA, each center alone" is measured on the views that the center has, and its accuracy is a mean over
centers that have both groups: where views or groups are dealt unevenly it cannot be compared with the others.
"Untuned" auto-encoders have one step in an epoch and learn the noise by Adam; the others have it at its optimum."""


def write(experiment: Experiment, lines: pd.DataFrame, out: Path, draw: Draw = figure) -> list[Path]:
    """Write all files; their paths, the table first."""
    table, name = summary(lines, experiment.paper_table), experiment.name
    times = f"{lines['repeat'].nunique()} x 3-fold"
    title = f"{experiment.about}, {times}; bars: one sd over folds{rings(experiment.paper_table)}"
    found = {
        f"{name}.md": page(f"{name}: {experiment.about}, {times}", [*experiment.remarks, READING], markdown(table)),
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
