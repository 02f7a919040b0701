"""What the experiment on spreads that collapse leaves in its folder."""

from __future__ import annotations

from pathlib import Path

import pandas as pd

from vedute.evaluation.figures.collapse import figure
from vedute.evaluation.results.writing import csv, named, page, put
from vedute.evaluation.tables.collapse import markdown, summary


def write(lines: pd.DataFrame, out: Path) -> list[Path]:
    """Write all files; their paths, the table first."""
    repeats = lines["repeat"].nunique()
    title = f"Spread between centers, median over {repeats} draws of the model and their views"
    found = {"collapse.md": page(title, [], markdown(summary(lines))), "collapse.csv": csv(lines)}
    return put(found | named({"collapse": figure(lines, title)}), out)
