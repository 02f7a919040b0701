"""What the experiment on spreads that collapse leaves in its folder."""

from __future__ import annotations

from pathlib import Path

import pandas as pd

from vedute_reproduction.collapse import COUNTS, LOST, ROUNDS, SD, SUBJECTS
from vedute_reproduction.figures.collapse import figure
from vedute_reproduction.results.writing import csv, named, page, put
from vedute_reproduction.tables.collapse import markdown, summary

ABOUT = (
    f"Draws of the model itself with {' or '.join(map(str, COUNTS))} centers of {SUBJECTS} subjects, in which the "
    f"standard deviation of W between centers is {SD['W']:g} and that of mu {SD['mu']:g}, without and with patients "
    f"that differ by center (a latent mean of each, the case mix). What a fit finds after {ROUNDS} rounds over the "
    "truth: median over draws and views, and in brackets the quartiles over these, which are no interval of "
    f"confidence. W is lost where less than {LOST:g} of the truth is found."
)


def write(lines: pd.DataFrame, out: Path) -> list[Path]:
    """Write all files; their paths, the table first."""
    repeats = lines["repeat"].nunique()
    title = f"Spread between centers, median over draws of the model ({repeats} for each setting) and their views"
    found = {
        "collapse.md": page(title, [ABOUT], markdown(summary(lines))),
        "collapse.csv": csv(lines),
    }
    return put(found | named({"collapse": figure(lines, title)}), out)
