"""What the experiment on variability leaves in its folder."""

from __future__ import annotations

from pathlib import Path

import pandas as pd

from vedute_reproduction.figures.variability import centers, features
from vedute_reproduction.results.writing import csv, named, page, put
from vedute_reproduction.studies import Given
from vedute_reproduction.tables.variability import markdown
from vedute_reproduction.variability import Scene

ABOUT = (
    "Scenario G/K, 3 centers, one scaling for all. Of the three parts of the test rows one lacks the second view and "
    "one the third; both are imputed from the other views. The parts are dealt as the train rows are, by groups and "
    "views, or by views alone; the figures show the former. Errors in standard deviations of the truth, mean over "
    "features. The mean is that of the train rows which have the view; where a part of the test rows holds one group "
    "only, it can lie further than a standard deviation from them. Distances are Kolmogorov's, between the truth and "
    "the predicted distribution: that imputed for these subjects, and the global one, which knows nothing of them; "
    "'by chance' is what is expected of as many rows of the very distribution that is predicted."
)


def write(name: str, lines: pd.DataFrame, scene: Scene, out: Path, given: Given) -> list[Path]:
    """Table, tidy lines, the features of the drawn fold, and the figures."""
    times = f"{lines['repeat'].nunique()} x 3-fold"
    said = [f"Data: {given.about}.", *given.remarks, ABOUT]
    found = {
        f"{name}.md": page(f"{name}: {times}", said, markdown(lines)),
        f"{name}.csv": csv(lines),
        f"{name}-features.csv": csv(pd.DataFrame(scene.lines())),
    }
    shown = f"{given.about}, scenario G/K, default preset, first fold"
    drawn = {name: centers(scene, shown)}
    for part in scene.imputed:
        title = f"{shown}: {part.view}, missing in {len(part.truth)} test rows"
        drawn[f"{name}-{part.view}"] = features(scene, part, title)
    return put(found | named(drawn), out)
