"""Heart disease: random centers, and four true hospitals whose patients and missing cells differ widely."""

from __future__ import annotations

from pathlib import Path

import pandas as pd

from vedute_reproduction.adni import gained, study
from vedute_reproduction.contenders import COMPLETE, DEFAULT, ONE_NOISE, OWN, PROJECTED, SUMS, YARDSTICK
from vedute_reproduction.prose import rows
from vedute_reproduction.reading import Facts, Results, against, at_sites, means, ratios, value
from vedute_reproduction.runner import Experiment
from vedute_reproduction.studies import OpenData, check_columns, check_groups, read_folder

OBSERVED = (
    "All {all} subjects are used with the cells they have; errors are over observed cells. Rivals that need complete "
    "rows learn from those; no center alone is fitted, because some have none."
)
HEART4 = OpenData("heart4", ("CLINIC", "EXERCISE"), "group", "site", 6, complete=False)


def experiment(folder: Path, *, rivals: bool = True) -> Experiment:
    """Random centers and the four true hospitals, whose patients and missing cells differ widely."""
    data = read_folder(folder, HEART4)
    check_groups(data, folder)
    check_columns(data, folder)
    remarks = (OBSERVED.format(all=len(data)),)
    return study(HEART4.name, HEART4.name, data, HEART4.n_components, rivals=rivals, remarks=remarks)


def facts(results: Results) -> Facts:
    """Random and true centers, and why ours lies above PCA."""
    lines = results["heart4"]
    error, ratio, right = means(lines, "test_mae"), ratios(lines, YARDSTICK), means(lines, "accuracy")
    points = right.sub(right[YARDSTICK], axis=0) * 100
    alone, projected = error[DEFAULT]["IID", 1], error[DEFAULT + PROJECTED]
    beside = against(lines, DEFAULT, SUMS)
    steps = (
        (", one noise for all features, complete rows alone, rows projected", ONE_NOISE + COMPLETE + PROJECTED),
        (", one noise for all features, complete rows alone", ONE_NOISE + COMPLETE),
        (", one noise for all features", ONE_NOISE),
        ("", ""),
    )
    undone = [[DEFAULT + told, f"{value(ratio, 'IID', 1, DEFAULT + name):.3f}"] for told, name in steps]
    return {
        "lines": lines,
        "three": error[DEFAULT]["IID", 3] / alone,
        "six": error[DEFAULT]["IID", 6] / alone,
        "sites": at_sites(error[DEFAULT]) / alone,
        "rough": at_sites(projected) / projected["IID", 1],
        "alone": value(ratio, "IID", 1, DEFAULT),
        "projected": value(ratio, "IID", 1, DEFAULT + PROJECTED),
        "undone": rows(["", "test error over PCA"], undone),
        "held": _held(results["heart4-data"]),
        "even": beside.drop(["sites", "known sites"], level="scenario", errors="ignore")["error"],
        "beside": at_sites(beside["error"]),
        "less": -beside["points"],
        "own": at_sites(ratio[DEFAULT + OWN], "known sites"),
        "typical": at_sites(ratio[DEFAULT], "known sites"),
        "points": points[DEFAULT],
        "own_points": at_sites(points[DEFAULT + OWN], "known sites"),
        "one_noise": points[DEFAULT + ONE_NOISE],
        "gained": gained(lines),
        "ratio": ratio[[name for name in ratio if name == DEFAULT + OWN or not str(name).startswith(f"{DEFAULT},")]],
    }


def _held(counted: pd.DataFrame) -> Facts:
    """How many rows have every cell, who has none such, and what the others hold."""
    held = counted.set_index(["what", "name"])["count"]
    return {
        "complete": held["subjects", "complete"],
        "used": held["subjects", "used"],
        "none": [str(site) for site, n in held["complete"].items() if n == 0],
        "share": 1.0 - held["cells", "of complete"] / held["cells", "observed"],
    }
