"""What the privacy experiment leaves in its folder."""

from __future__ import annotations

from pathlib import Path

import pandas as pd

from vedute_reproduction.figures.privacy import course, spread, sweeps, totals
from vedute_reproduction.results.writing import csv, named, page, put
from vedute_reproduction.studies import Given
from vedute_reproduction.tables.privacy import by_round, markdown, summary
from vedute_reproduction.tables.significance import TEST

READING = (
    "Policy 'paper' is the paper's Algorithm 2, policy 'subject' our own (see privacy.md). Scenario IID, 3 centers, "
    "delta = 0.01 for each mechanism. Errors in min-max scaled units: of each center and of the test rows ('per "
    "center'), or of all train rows ('shared'). rho is the factor by which the clip bound grows in a round when "
    "updates are noise; from 1 on the run diverges (its test error is told by the median over folds), and one that can "
    "no longer be computed is judged by its last prior. The true total is that of all rounds at delta = 1e-5, for one "
    "whole center replaced under the policy paper and for one subject replaced under the policy subject; raw values "
    "make it infinite. Noise is seeded, to find the same numbers again."
)
RANGES = (
    "The declared ranges of the policy subject are here the smallest and largest train values of all centers, in place "
    "of ranges that a study would know beforehand and must not look up in its data."
)


def write(name: str, points: pd.DataFrame, rounds: pd.DataFrame, out: Path, given: Given) -> list[Path]:
    """Write tables and figures; their paths, the table first."""
    table, walked = summary(points, f"{given.printed}_2"), by_round(rounds)
    times, about = f"{points['repeat'].nunique()} x 3-fold", given.about
    said = [f"Data: {about}.", *given.remarks, READING, RANGES, TEST]
    found = {
        f"{name}.md": page(f"{name}: {times}", said, markdown(table)),
        f"{name}.csv": csv(points),
        f"{name}-rounds.csv": csv(walked),
    }
    drawn = {
        name: sweeps(points, table, f"{about}, scenario IID, 3 centers, {times}"),
        f"{name}-total": totals(points, f"{about}, scenario IID, 3 centers, {times}; bars: one sd"),
        f"{name}-spread": spread(walked, f"{about}, scenario G/K, 3 centers, {times}"),
        f"{name}-rounds": course(walked, f"{about}, scenario IID, 3 centers, {times}; bands: one sd"),
    }
    return put(found | named(drawn), out)
