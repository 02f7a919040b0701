"""What the experiments on variability and on missing views leave in their folders."""

from __future__ import annotations

from pathlib import Path

import pandas as pd

from vedute.data.files import write_whole
from vedute.evaluation import missing, variability
from vedute.evaluation.figures.missing import figure
from vedute.evaluation.figures.variability import centers, features
from vedute.evaluation.results import csv
from vedute.evaluation.variability import Scene

ABOUT_VARIABILITY = (
    "Scenario G/K, 3 centers, one scaling for all. Of the three parts of the test rows one lacks the second view and "
    "one the third; both are imputed from the other views. The parts are dealt as the train rows are, by groups and "
    "views, or by views alone; the figures show the former. Errors in standard deviations of the truth, mean over "
    "features. The mean is that of the train rows which have the view; where a part of the test rows holds one group "
    "only, it can lie further than a standard deviation from them. Distances are Kolmogorov's, between the truth and "
    "the predicted distribution: that imputed for these subjects, and the global one, which knows nothing of them; "
    "'by chance' is what is expected of as many rows of the very distribution that is predicted."
)
ABOUT_MISSING = (
    "Rows dealt evenly to 6 centers; each view in turn is hidden in each third of them. Explained is the share of the "
    "squared distance to the mean of the others; ± is one sd over thirds and repetitions. Ridge in each center alone: "
    "every center that has the view fits its own, penalty chosen there, and the predictions are averaged. 'q chosen by "
    "hiding': the number of components that best predicts the view in one more center from which it is hidden, of 1, "
    "2, 3 and that of the tables; the column q has the mean of those chosen. 'Global parameters': the rows are placed "
    "by these, and by the parameters of their center otherwise. 'Holders alone': the centers that lack the view take "
    "no part in the fit, and are told what it says; of MOFA the same is called 'rows of holders'. Pooled rows: one "
    "place sees all rows."
)


def write_variability(name: str, lines: pd.DataFrame, scene: Scene, out: Path, about: str) -> list[Path]:
    """Table, tidy lines, the features of the drawn fold, and the figures."""
    times = f"{lines['repeat'].nunique()} x 3-fold"
    found = {
        f"{name}.md": _page(f"{name}: {times}", about, ABOUT_VARIABILITY, variability.markdown(lines)),
        f"{name}.csv": csv(lines).encode(),
        f"{name}-features.csv": csv(pd.DataFrame(scene.lines())).encode(),
    }
    shown = f"{about}, scenario G/K, default preset, first fold"
    drawn = {name: centers(scene, shown)}
    for part in scene.imputed:
        title = f"{shown}: {part.view}, missing in {len(part.truth)} test rows"
        drawn[f"{name}-{part.view}"] = features(scene, part, title)
    return _written(found | _named(drawn), out)


def write_missing(name: str, lines: pd.DataFrame, out: Path, about: str) -> list[Path]:
    """Table, tidy lines and figure."""
    table, times = missing.summary(lines), f"{lines['repeat'].nunique()} x 3 thirds"
    found = {
        f"{name}.md": _page(f"{name}: {times}", about, ABOUT_MISSING, missing.markdown(table)),
        f"{name}.csv": csv(lines).encode(),
    }
    title = f"{about}: a view hidden in a third of 6 centers, {times}\nbars: one sd over both, cut off at ±100%"
    drawn = {name: figure(table, title)}
    return _written(found | _named(drawn), out)


def _page(title: str, about: str, protocol: str, table: str) -> bytes:
    return f"# {title}\n\nData: {about}.\n\n{protocol}\n\n{table}".encode()


def _named(drawn: dict[str, dict[str, bytes]]) -> dict[str, bytes]:
    return {f"{name}.{kind}": data for name, kinds in drawn.items() for kind, data in kinds.items()}


def _written(found: dict[str, bytes], out: Path) -> list[Path]:
    for file, data in found.items():
        write_whole(out / file, data)
    return [out / file for file in found]
