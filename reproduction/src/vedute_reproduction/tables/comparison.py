"""From the tidy lines of an experiment to a table with the paper's value in the next column."""

from __future__ import annotations

from importlib.resources import files

import pandas as pd

from vedute.errors import UserError
from vedute_reproduction.experiments import MCVAE, PAPER, PRIVATE, UNTUNED, VAE
from vedute_reproduction.tables.cells import rows

METRICS = {"train_mae": "MAE train", "test_mae": "MAE test", "accuracy": "accuracy"}
KEY = ["scenario", "centers", "method", "scaling"]
PRINTED = {
    PAPER: "Fed-mv-PPCA",
    PRIVATE: "DP-Fed-mv-PPCA",
    **{name + how: name for name in (VAE, MCVAE) for how in ("", UNTUNED)},
}  # our names of what the paper prints; it scales each center by itself


def paper_table(name: str) -> pd.DataFrame:
    """A table of Balelli, Silva and Lorenzi, as printed: SD_2 or ADNI_fedprox (appendix B), ADNI_2 (section 4.3.2).

    The names are those of the labels in the paper's source; all rows of these tables are there.
    """
    with files("vedute_reproduction.tables").joinpath("paper_tables.csv").open(encoding="utf-8") as file:
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
