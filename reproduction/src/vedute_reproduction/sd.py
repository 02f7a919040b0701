"""Synthetic data in all scenarios: the paper's table SD_2."""

from __future__ import annotations

import numpy as np
import pandas as pd

from vedute_reproduction.arms import Arm
from vedute_reproduction.comparison import METRICS, PRINTED, gaps, paper_table, summary
from vedute_reproduction.contenders import (
    DEFAULT,
    ENCODERS,
    MCVAE,
    PAPER,
    PRIVATE,
    SCATTERED,
    SCENARIOS,
    STARTED,
    STARTS,
    SUMS,
    TESTED,
    UNTUNED,
    YARDSTICK,
    longer,
    settings,
    tuned,
    untuned,
)
from vedute_reproduction.methods import FedMvPPCA
from vedute_reproduction.prose import rows
from vedute_reproduction.reading import Facts, Results, against, by_scaling, means, ratios, value
from vedute_reproduction.runner import Experiment, Setting
from vedute_reproduction.studies import SyntheticStudy


def experiment(*, rivals: bool = True) -> Experiment:
    """The paper's table SD_2."""
    blocks = [block for dealing, n in SCENARIOS for block in settings(5, dealing, n, rivals=rivals)]
    blocks += [Setting(dealing, n, parted(5), "parted") for dealing in SCATTERED for n in (3, 6)]
    if rivals:  # where most centers have the fewest steps
        blocks.append(Setting("IID", 6, (longer(MCVAE, tuned(5, MCVAE), "shared"),), "longer", stacked=True))
        slow = tuple(longer(name + UNTUNED, untuned(5, name), "per center") for name in ENCODERS)
        blocks.append(Setting("IID", 3, slow, "longer", stacked=True))
        even = [place for place in SCENARIOS if place[0] == "IID"]
        blocks += [Setting(*place, started(5), "started", stacked=True) for place in even]
    return Experiment("sd", "SD", SyntheticStudy(), tuple(blocks), "SD_2")


def parted(q: int) -> tuple[Arm, ...]:
    """The paper preset, its test rows dealt in each way: what of it lowers the accuracy?"""
    method = FedMvPPCA(q, "paper")
    return tuple(Arm(PAPER + name, method, "per center", parting=parting) for parting, name in TESTED.items())


def started(q: int) -> tuple[Arm, ...]:
    """The untuned ones with noise that begins elsewhere: how much of their error is that of a start?"""
    return tuple(
        Arm(f"{name}{UNTUNED}{STARTED}{np.exp(start):.2g}", untuned(q, name, start), "per center")
        for name in ENCODERS
        for start in STARTS[1:]
    )


def facts(results: Results) -> Facts:
    """Agreement with the paper, the two effects of scaling, and where its algorithm fails without it."""
    lines = results["sd"]
    table, ratio = summary(lines, "SD_2"), ratios(lines, YARDSTICK)
    apart, private = (gaps(table[table["method"] == name]) for name in (PAPER, PRIVATE))
    iid = table[(table["method"] == PAPER) & (table["scenario"] == "IID")].sort_values(["scaling", "centers"])
    asked = (lines["method"] == PAPER) & (lines["scaling"] == "per center") & (lines["scenario"] == "IID")
    beside = against(lines, DEFAULT, SUMS)["error"]
    return {
        "lines": lines,
        "apart": apart,
        "worst": apart[["train_mae", "test_mae"]].abs().to_numpy().max(),
        "inside": inside(lines, PAPER),
        "beside": _beside(table, apart),
        "private": private,
        "private_inside": inside(lines, PRIVATE),
        "trend": rows(
            ["centers", "scaling", "train", "test"],
            [
                [str(row["centers"]), str(row["scaling"]), f"{row['train_mae']:.4f}", f"{row['test_mae']:.4f}"]
                for row in iid.to_dict("records")
            ],
        ),
        "grown": {how: _grown(table, how) for how in ("per center", "per center, test as one")},
        "errors": by_scaling(table, "test_mae", ".4f"),
        "accuracies": by_scaling(table, "accuracy", ".3f"),
        "parted": _parted(lines, table),
        "by_draw": lines[asked & (lines["centers"] == 3)].groupby("repeat")["accuracy"].mean(),
        "ratio": ratio,
        "default": ratio[DEFAULT],
        "by_scenario": ratio[DEFAULT].groupby(level="scenario", sort=False).mean(),
        "paper": ratio[PAPER],
        "folds": _by_fold(lines),
        "even": beside.drop(["K", "G/K"], level="scenario"),
        "lacking": beside.loc[["K", "G/K"]],
    }


def inside(lines: pd.DataFrame, method: str) -> tuple[int, int]:
    """How many of the errors that the paper prints lie within the range of our draws, and how many there are."""
    own = lines[(lines["method"] == method) & (lines["scaling"] == "per center")]
    by_draw = own.groupby(["scenario", "centers", "repeat"])[list(METRICS)].mean()
    table = paper_table("SD_2")
    theirs = table[table["method"] == PRINTED[method]].set_index(["scenario", "centers"])
    found = 0
    for metric in ("train_mae", "test_mae"):
        drawn = by_draw[metric].groupby(["scenario", "centers"])
        low, high = drawn.min().reindex(theirs.index), drawn.max().reindex(theirs.index)
        found += int(((theirs[metric] >= low) & (theirs[metric] <= high)).sum())
    return found, 2 * len(theirs)


def _beside(table: pd.DataFrame, apart: pd.DataFrame) -> str:
    """Our errors, the paper's, and the gap."""
    ours = table[table["method"] == PAPER].dropna(subset=["train_mae_paper"])
    body = []
    for row, gap in zip(ours.to_dict("records"), apart.to_dict("records"), strict=True):
        cells = [str(row["scenario"]), str(row["centers"])]
        for metric in ("train_mae", "test_mae"):
            cells += [f"{row[metric]:.4f}", f"{row[f'{metric}_paper']:.4f}", f"{gap[metric]:+.0%}"]
        body.append(cells)
    return rows(["scenario", "centers", "train", "paper", "gap", "test", "paper", "gap"], body)


def _grown(table: pd.DataFrame, how: str) -> dict[str, list[float]]:
    """How much the error grows from IID to K and G/K, with parts scaled by themselves or alike."""
    own = table[table["method"] == PAPER].set_index(["scenario", "centers", "scaling"])["test_mae"]
    return {s: [own[s, n, how] / own["IID", n, "per center"] - 1.0 for n in (3, 6)] for s in ("K", "G/K")}


def _parted(lines: pd.DataFrame, table: pd.DataFrame) -> Facts:
    """The same fits judged on test rows that are dealt in each way."""
    own = {metric: means(lines, metric, "per center") for metric in ("accuracy", "test_mae")}
    beside = table[(table["method"] == PAPER) & (table["scaling"] == "per center")]
    theirs = beside.set_index(["scenario", "centers"])[["accuracy_paper", "test_mae_paper"]]
    body = []
    for scenario in SCATTERED:
        for n in (3, 6):
            cells = [scenario, str(n)]
            for metric, form in (("accuracy", ".3f"), ("test_mae", ".4f")):
                cells += [f"{theirs.loc[(scenario, n), f'{metric}_paper']:{form}}"]
                cells += [f"{value(own[metric], scenario, n, PAPER + part):{form}}" for part in TESTED.values()]
            body.append(cells)
    ways = ["paper", "one part", "by groups", "by views", "by both"]
    as_one = means(lines, "accuracy", "per center, test as one")
    return {
        "table": rows(
            ["scenario", "centers", *(f"{what}, {way}" for what in ("accuracy", "error") for way in ways)], body
        ),
        "right": {
            parting: [value(own["accuracy"], scenario, n, PAPER + part) for scenario in SCATTERED for n in (3, 6)]
            for parting, part in TESTED.items()
        },
        "as_one": [value(as_one, "G/K", n, PAPER) for n in (3, 6)],
        "apart": {
            part.removeprefix(", test rows "): own["test_mae"][PAPER + part].loc["G/K"]
            / theirs["test_mae_paper"].loc["G/K"]
            - 1.0
            for part in TESTED.values()
        },
    }


def _by_fold(lines: pd.DataFrame) -> dict[str, pd.Series[float]]:
    """What the worst means hide: the ratio of the paper preset to PCA on single folds, with 3 centers."""
    own = lines[lines["scaling"] == "shared"].pivot_table(
        index=["scenario", "centers", "repeat", "fold"], columns="method", values="test_mae"
    )
    ratio = own[PAPER] / own[YARDSTICK]
    return {scenario: ratio.xs((scenario, 3), level=("scenario", "centers")) for scenario in SCATTERED}
