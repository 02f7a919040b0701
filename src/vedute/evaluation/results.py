"""What an experiment leaves in its folder: tidy CSV, Markdown table, figures."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import pandas as pd

from vedute.data.files import write_whole
from vedute.evaluation.figures.comparison import figure
from vedute.evaluation.folds import Dataset
from vedute.evaluation.runner import Experiment
from vedute.evaluation.tables import markdown, summary

Draw = Callable[[pd.DataFrame, str], dict[str, bytes]]
UNITS = (
    "Errors in min-max scaled units; mean ± standard deviation over folds (of SD: over draws as well); accuracy by LDA "
    "on latent means."
)


def write(experiment: Experiment, lines: pd.DataFrame, out: Path, draw: Draw = figure) -> list[Path]:
    """Write all files; their paths, the table first."""
    table = summary(lines, experiment.paper_table)
    times = f"{lines['repeat'].nunique()} x 3-fold"
    found = {
        f"{experiment.name}.md": page(f"{experiment.name}: {times}", experiment.remarks, table).encode(),
        f"{experiment.name}.csv": csv(lines).encode(),
        f"{experiment.name}-data.csv": csv(described(experiment.source.draw(0))).encode(),
    }
    title = f"{experiment.about}, {times}; bars: one sd over folds{rings(experiment.paper_table)}"
    found |= {f"{experiment.name}.{kind}": data for kind, data in draw(table, title).items()}
    for name, data in found.items():
        write_whole(out / name, data)
    return [out / name for name in found]


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


def csv(lines: pd.DataFrame) -> str:
    """The tidy lines; six digits, or the noise of the last bits would change the file on every machine."""
    return lines.to_csv(index=False, float_format="%.6g", lineterminator="\n")


def page(title: str, remarks: Sequence[str], table: pd.DataFrame) -> str:
    """The Markdown table under its title, with what a reader has to know."""
    return "\n\n".join([f"# {title}", *remarks, UNITS, markdown(table)])
