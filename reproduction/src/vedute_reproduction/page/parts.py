"""What the parts of the page on reproduction have in common."""

from __future__ import annotations

import math
import re
import textwrap
from collections.abc import Iterable, Mapping
from typing import Any

import pandas as pd

from vedute_reproduction.contenders import PAPER
from vedute_reproduction.writing import rows, told

Results = Mapping[str, pd.DataFrame]  # the lines of the experiments, by the names of their files


def span(values: Iterable[float], form: str) -> str:
    """The smallest and the largest of some values."""
    found = [float(value) for value in values if value == value]
    low, high = format(min(found), form), format(max(found), form)
    return low if low == high else f"{low} to {high}"


def times(lines: pd.DataFrame) -> str:
    """How often an experiment was repeated."""
    return f"{lines['repeat'].nunique()} x {lines['fold'].nunique()}-fold"


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


def placed(values: pd.DataFrame, form: str = ".3f") -> str:
    """A table with a line for each scenario and number of centers."""
    body = [
        [str(scenario), str(n), *(told(value, form) for value in row)]
        for (scenario, n), row in zip(values.index.to_list(), values.to_numpy().tolist(), strict=True)
    ]
    return rows(["scenario", "centers", *map(str, values.columns)], body)


def bullets(told: Iterable[str]) -> str:
    """A list, wrapped."""
    wrapped = textwrap.TextWrapper(120, "* ", "  ", break_on_hyphens=False)
    return "\n".join(wrapped.fill(" ".join(one.split())) for one in told)


def at_most(share: float, digits: int = 0) -> str:
    """A bound in per cent, rounded up, or the sentence that states it would be false."""
    step = 10.0 ** (digits + 2)
    return f"{math.ceil(share * step - 1e-9) / step:.{digits}%}"


def listed(values: pd.Series[float], form: str) -> str:
    """Values with their scenarios and numbers of centers, for a sentence."""
    cells = zip(values.index.to_list(), values.to_list(), strict=True)
    return ", ".join(f"{format(value, form)} ({scenario}, {n} center{'s'[: n > 1]})" for (scenario, n), value in cells)


def at_sites(values: pd.Series[float], scenario: str = "sites") -> float:
    """The value with the true centers."""
    return float(values.xs(scenario, level="scenario").iloc[0])


def filled(text: str) -> str:
    """Paragraphs wrapped again, which computed numbers have made uneven; tables, lists and headings as they are."""
    return "\n\n".join(
        block
        if block.startswith(("|", "#", "*", "!", "    "))
        else textwrap.fill(" ".join(block.split()), 120, break_on_hyphens=False)
        for block in re.split(r"\n{2,}", text)
    )


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


def against(lines: pd.DataFrame, ours: str, theirs: str, scaling: str = "shared") -> pd.DataFrame:
    """Our test error over another method's, and our accuracy less its in points, wherever both were run."""
    error, right = (means(lines, metric, scaling) for metric in ("test_mae", "accuracy"))
    found = pd.DataFrame({"error": error[ours] / error[theirs], "points": (right[ours] - right[theirs]) * 100})
    return found.dropna(subset=["error"])
