"""What an experiment leaves in its folder: tidy CSV, Markdown table, figures."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import pandas as pd

from vedute.data.files import write_whole
from vedute.evaluation.figures import figure
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
    title = f"{experiment.name}: {lines['repeat'].nunique()} x 3-fold"
    found = {
        f"{experiment.name}.md": page(title, experiment.remarks, table).encode(),
        f"{experiment.name}.csv": csv(lines).encode(),
    }
    found |= {f"{experiment.name}.{kind}": data for kind, data in draw(table, title).items()}
    for name, data in found.items():
        write_whole(out / name, data)
    return [out / name for name in found]


def csv(lines: pd.DataFrame) -> str:
    """The tidy lines; six digits, or the noise of the last bits would change the file on every machine."""
    return lines.to_csv(index=False, float_format="%.6g", lineterminator="\n")


def page(title: str, remarks: Sequence[str], table: pd.DataFrame) -> str:
    """The Markdown table under its title, with what a reader has to know."""
    return "\n\n".join([f"# {title}", *remarks, UNITS, markdown(table)])
