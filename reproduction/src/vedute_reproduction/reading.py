"""What the page reads in the lines of experiments that compare methods."""

from __future__ import annotations

import math
from typing import Any

import pandas as pd

from vedute_reproduction.contenders import PAPER
from vedute_reproduction.prose import rows, told

Results = dict[str, pd.DataFrame]  # the lines of the experiments, by the names of their files
Facts = dict[str, Any]  # what a part of the page tells, by the names that the template has for it


def means(lines: pd.DataFrame, metric: str, scaling: str = "shared") -> pd.DataFrame:
    """Mean over folds of each method (columns) in each scenario and number of centers."""
    own = lines[lines["scaling"] == scaling]
    found = own.groupby(["scenario", "centers", "method"], sort=False)[metric].mean().unstack("method")
    places = list(dict.fromkeys(zip(own["scenario"], own["centers"], strict=True)))
    return found.loc[places, list(dict.fromkeys(own["method"]))]


def value(table: pd.DataFrame, scenario: str, centers: int, method: str) -> float:
    """One cell of such a table."""
    found: Any = table.at[(scenario, centers), method]
    return float(found)


def ratios(lines: pd.DataFrame, yardstick: str) -> pd.DataFrame:
    """Mean test error with one scaling for all, of each method (columns) over that of one of them."""
    error = means(lines, "test_mae")
    return error.div(error[yardstick], axis=0).drop(columns=yardstick)


def against(lines: pd.DataFrame, ours: str, theirs: str, scaling: str = "shared") -> pd.DataFrame:
    """Our test error over another method's, and our accuracy less its in points, wherever both were run."""
    error, right = (means(lines, metric, scaling) for metric in ("test_mae", "accuracy"))
    found = pd.DataFrame({"error": error[ours] / error[theirs], "points": (right[ours] - right[theirs]) * 100})
    return found.dropna(subset=["error"])


def at_sites(values: pd.Series[float], scenario: str = "sites") -> float:
    """The value with the true centers."""
    return float(values.xs(scenario, level="scenario").iloc[0])


def by_scaling(table: pd.DataFrame, metric: str, form: str, paper: str = "the paper") -> str:
    """One metric of the paper preset beside the paper's, by the scaling of the test rows."""
    chosen = table[(table["method"] == PAPER) & table["scenario"].isin(["IID", "G", "K", "G/K"])]
    body = []
    for (scenario, n), part in chosen.groupby(["scenario", "centers"], sort=False):
        own = part.set_index("scaling")
        found = own[metric].to_dict()
        if n == 1:
            continue
        cells = (found["per center"], found.get("per center, test as one", math.nan), found["shared"])
        printed = told(float(own[f"{metric}_paper"].to_dict()["per center"]), form)
        body.append([str(scenario), str(n), printed, *(told(cell, form) for cell in cells)])
    head = ["scenario", "centers", paper, "each part by itself", "test rows as one", "one scaling for all"]
    return rows(head, body)
