"""From the lines of the privacy experiment to its tables, with the paper's values where it printed any."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd

from vedute_reproduction.folds import N_FOLDS
from vedute_reproduction.private import MAIN
from vedute_reproduction.tables.cells import rows, told
from vedute_reproduction.tables.comparison import printed
from vedute_reproduction.tables.significance import holm, mark, paired_p, worse

POINT = ["sweep", "policy", "first_round", "epsilon", "clip", "scaling"]
METRICS = {"test_mae": "MAE test", "accuracy": "accuracy"}
EXPLODES = 1.0  # rho from which the clip bound grows
PAPER_NAMES = {("none", ""): "Fed-mv-PPCA", ("paper", "raw"): "DP-Fed-mv-PPCA"}


def summary(lines: pd.DataFrame, table: str) -> pd.DataFrame:
    """One row for each point: medians, means and spreads over folds, marks, and what the paper prints."""
    found = []
    lines = lines.fillna({"first_round": ""})
    for point, own in lines.groupby(POINT, sort=False, dropna=False):
        about = dict(zip(POINT, point, strict=True))
        folds = own.set_index(["repeat", "fold"])
        about |= {"rho": folds["rho"].iloc[0], "total": folds["total"].iloc[0], "folds": len(folds)}
        about["noise_ratio"] = folds["noise_ratio"].quantile(0.5)
        plain = _plain(lines, str(about["scaling"]))
        for metric in METRICS:
            values = folds[metric]
            about |= {
                metric: values.mean(),
                f"{metric}_sd": values.std(ddof=0),
                f"{metric}_median": values.quantile(0.5),
            }
            if about["sweep"] not in ("none", "mean"):
                about[f"{metric}_p"] = paired_p(values.to_list(), plain[metric].loc[values.index].to_list())
                about[f"{metric}_worse"] = worse(values, plain[metric], larger=metric == "test_mae")
            about[f"{metric}_paper"] = _printed(about, metric, table)
        found.append(about)
    whole = pd.DataFrame(found)
    for metric in METRICS:
        for _, part in whole.groupby("sweep", sort=False):
            asked = part[f"{metric}_p"].dropna()
            whole.loc[asked.index, f"{metric}_p"] = holm(asked.to_list())
    return whole


def _plain(lines: pd.DataFrame, scaling: str) -> pd.DataFrame:
    own = lines[(lines["sweep"] == "none") & (lines["scaling"] == scaling)]
    return own.set_index(["repeat", "fold"])


def _printed(about: dict[str, object], metric: str, table: str) -> float:
    """The paper prints its sweeps as pictures; only the points of its tables have numbers: no privacy, and eps = 10."""
    method = PAPER_NAMES.get((str(about["policy"]), str(about["first_round"])))
    shown = about["sweep"] == "none" or (about["sweep"] == "eps" and about["epsilon"] == MAIN.epsilon)
    if method is None or not shown or about["scaling"] != "per center":
        return float("nan")
    return float(printed(table, metric)[method]["IID", 3])


def markdown(table: pd.DataFrame, paper: str = "paper") -> str:
    """One line for each point; ``paper`` heads its values."""
    head = ["policy", "round 1", "eps of a mechanism", "clip", "rho", "true total eps", "units"]
    for title in METRICS.values():
        head += [title, paper, "worse in"]
    body = []
    repeats = int(table["folds"].max()) // N_FOLDS
    for row in table.to_dict("records"):
        subject = row["policy"] == "subject"
        cells = ["the mean alone" if row["sweep"] == "mean" else str(row["policy"]), str(row["first_round"])]
        cells += [
            "" if subject else told(row["epsilon"], ".3g"),
            told(row["clip"], ".3g"),
            told(row["rho"], ".3g"),
            _total(row),
        ]
        cells.append(str(row["scaling"]))
        for metric in METRICS:
            cells += [_measured(row, metric), told(row[f"{metric}_paper"], ".4g"), _worse(row, metric, repeats)]
        body.append(cells)
    return rows(head, body)


def _total(row: Mapping[Any, Any]) -> str:
    if str(row["sweep"]) == "mean":
        return ""
    return "infinite" if row["total"] != row["total"] else f"{row['total']:,.0f}"


def _measured(row: Mapping[Any, Any], metric: str) -> str:
    if row[metric] != row[metric]:
        return ""
    stars = mark(row.get(f"{metric}_p", float("nan"))).replace("*", r"\*")
    if metric == "test_mae" and row["rho"] >= EXPLODES:
        return f"{row['test_mae_median']:.1e}, diverged {stars}".strip()
    return f"{row[metric]:.4f} ± {row[f'{metric}_sd']:.4f} {stars}".strip()


def _worse(row: Mapping[Any, Any], metric: str, repeats: int) -> str:
    found = row.get(f"{metric}_worse", float("nan"))
    return "" if found != found or row[metric] != row[metric] else f"{found:.0f} of {repeats}"


def by_round(lines: pd.DataFrame) -> pd.DataFrame:
    """Mean, standard deviation and median over folds of each quantity after each round."""
    keys = ["scenario", "run", "quantity", "view", "round"]
    grouped = lines.groupby(keys, sort=False)["value"]
    found = pd.DataFrame({"mean": grouped.mean(), "sd": grouped.std(ddof=0), "median": grouped.median()})
    return found.join(grouped.size().rename("folds")).reset_index()


def after_all(rounds: pd.DataFrame, quantity: str, run: str) -> dict[str, float]:
    """The mean of one quantity after the last round (scenario IID), for each view."""
    asked = (rounds["quantity"] == quantity) & (rounds["run"] == run) & (rounds["scenario"] == "IID")
    last = rounds[asked & (rounds["round"] == rounds.loc[asked, "round"].max())]
    return dict(zip(last["view"], last["mean"], strict=True))


def floored(rounds: pd.DataFrame, run: str) -> float:
    """The first kept round (G/K) from which on the median sd of W of every view stands where it ends."""
    own = rounds[(rounds["scenario"] == "G/K") & (rounds["run"] == run) & (rounds["quantity"] == "W")]
    wide = own.pivot(index="round", columns="view", values="median")
    return float((wide <= 1.01 * wide.iloc[-1]).all(axis=1).idxmax())


def collapse(rounds: pd.DataFrame, run: str, share: float) -> dict[str, float]:
    """The first kept round (G/K) after which the median sd of W of each view is below a share of its first."""
    own = rounds[(rounds["scenario"] == "G/K") & (rounds["run"] == run) & (rounds["quantity"] == "W")]
    wide = own.pivot(index="round", columns="view", values="median")
    below = wide < share * wide.iloc[0]
    return {str(view): float(low.idxmax()) if low.any() else float(np.nan) for view, low in below.items()}
