"""What the choice of components leaves in its folder."""

from __future__ import annotations

from pathlib import Path

import pandas as pd

from vedute_reproduction.figures.selection import figure
from vedute_reproduction.results.comparison import rings
from vedute_reproduction.results.writing import csv, named, page, put
from vedute_reproduction.studies import Given
from vedute_reproduction.tables.selection import markdown, summary

ABOUT = (
    "Scenario IID, 3 centers. 'step' is the difference of WAIC to one component fewer, over its standard error by the "
    "paper's formula, with a plus under the root where it has a minus; 'paired' takes the difference on each fold, "
    "which both share, first; 'recommended' counts the folds, of those in which a number could be fitted, in which it "
    "is the least within two standard errors of the best. WAIC cannot be compared with the paper's: ours is a sum over "
    "all centers in the units of the data, the paper's is in scaled units and looks like a mean over centers; ours "
    "draws parameters from the posterior of each center, from what the paper draws it does not say. Standard errors "
    "are over folds, which share rows (on a data set all of them the same subjects): they are too small, for the paper "
    "as for us. Errors of the paper preset are in units of each center and of the test rows, those of the default "
    "preset in units of all train rows."
)


def write(name: str, lines: pd.DataFrame, out: Path, given: Given) -> list[Path]:
    """Write all files; their paths, the table first."""
    table, times = summary(lines, given.printed), f"{lines['repeat'].nunique()} x 3-fold"
    title = f"{given.about}, scenario IID, 3 centers, {times}{rings(given.printed)}"
    text = page(f"{name}: {times}", [*given.remarks, ABOUT], markdown(table))
    found = {f"{name}.md": text, f"{name}.csv": csv(lines)}
    return put(found | named({name: figure(lines, table, title)}), out)
