"""What the experiment on hidden views leaves in its folder."""

from __future__ import annotations

from pathlib import Path

import pandas as pd

from vedute_reproduction.figures.missing import figure
from vedute_reproduction.missing import N_CENTERS
from vedute_reproduction.results.writing import csv, named, page, put
from vedute_reproduction.studies import Given
from vedute_reproduction.tables.missing import markdown, summary

ABOUT = (
    "Rows dealt evenly to 6 centers; each view in turn is hidden in each third of them. Explained is the share of the "
    "squared distance to the mean of the others; ± is one sd over thirds and repetitions. Ridge in each center alone: "
    "every center that has the view fits its own, penalty chosen there, and the predictions are averaged. 'q chosen by "
    "hiding': the number of components that best predicts the view in one more center from which it is hidden, of 1, "
    "2, 3 and that of the tables; the column q has the mean of those chosen. 'Global parameters': the rows are placed "
    "by these, and by the parameters of their center otherwise. 'Holders alone': the centers that lack the view take "
    "no part in the fit, and are told what it says; of MOFA the same is called 'rows of holders'. Pooled rows: one "
    "place sees all rows."
)


def write(name: str, lines: pd.DataFrame, out: Path, given: Given) -> list[Path]:
    """Table, tidy lines and figure."""
    table, times = summary(lines), f"{lines['repeat'].nunique()} x 3 thirds"
    title = f"{given.about}: a view hidden in a third of {N_CENTERS} centers, {times}"
    found = {
        f"{name}.md": page(f"{name}: {times}", [f"Data: {given.about}.", *given.remarks, ABOUT], markdown(table)),
        f"{name}.csv": csv(lines),
    }
    return put(found | named({name: figure(table, f"{title}\nbars: one sd over both, cut off at ±100%")}), out)
