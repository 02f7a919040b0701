"""An arm of an experiment: a method, the scaling of its data and the rows that it may see; and its score on a fold."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

import numpy as np

from vedute.core.params import Array
from vedute.evaluation.folds import Fold
from vedute.evaluation.methods import Centers, Method, Views
from vedute.evaluation.metrics import Labels, latent_accuracy, mean_absolute_error, train_error

Scaling = Literal["per center", "shared"]
Sees = Literal["centers", "whole", "alone"]


@dataclass(frozen=True)
class Arm:
    """``sees``: the centers as they were dealt; the whole train rows with all views; or each center alone."""

    name: str
    method: Method
    scaling: Scaling = "shared"
    sees: Sees = "centers"


@dataclass(frozen=True)
class Score:
    """One arm on one fold, errors in min-max scaled units."""

    train_mae: float
    test_mae: float
    accuracy: float


def score(arm: Arm, fold: Fold, seed: int) -> Score:
    """Fit the arm's method and measure it; a method for each center alone scores the mean over the centers."""
    dealt = fold.whole if arm.sees == "whole" else fold.centers
    centers, test = scaled(dealt, fold.test, arm.scaling)
    if arm.sees != "alone":
        return _measured(arm.method, centers, fold.groups, test, fold.test_groups, seed)
    each = [
        _measured(arm.method, {name: views}, fold.groups, test, fold.test_groups, seed)
        for name, views in centers.items()
    ]
    told = [one.accuracy for one in each if one.accuracy == one.accuracy]  # a center of one group tells nothing
    return Score(
        float(np.mean([one.train_mae for one in each])),
        float(np.mean([one.test_mae for one in each])),
        float(np.mean(told)) if told else float("nan"),
    )


def scaled(centers: Centers, test: Views, scaling: Scaling) -> tuple[dict[str, dict[str, Array]], dict[str, Array]]:
    """Min-max scaled rows: each table by itself, test included, as the paper does; or all by the train rows."""
    if scaling == "per center":
        return {name: _minmax(views, _ends([views])) for name, views in centers.items()}, _minmax(test, _ends([test]))
    ends = _ends(list(centers.values()))
    return {name: _minmax(views, ends) for name, views in centers.items()}, _minmax(test, ends)


def _ends(tables: list[Views]) -> dict[str, tuple[Array, Array]]:
    found = {}
    for name in {name for views in tables for name in views}:
        rows = np.concatenate([views[name] for views in tables if name in views])
        found[name] = (np.fmin.reduce(rows, axis=0), np.fmax.reduce(rows, axis=0))
    return found


def _minmax(views: Views, ends: Mapping[str, tuple[Array, Array]]) -> dict[str, Array]:
    found: dict[str, Array] = {}
    for name, rows in views.items():
        if name in ends:
            low, high = ends[name]
            found[name] = (rows - low) / np.where(high > low, high - low, 1.0)
    return found


def _measured(
    method: Method, centers: Centers, groups: Mapping[str, Labels], test: Views, test_groups: Labels, seed: int
) -> Score:
    fitted = method.fit(centers, seed)
    names = list(centers)
    train = np.concatenate([fitted.latent(centers[name]) for name in names])
    known = {name: rows for name, rows in test.items() if name in fitted.views}
    return Score(
        train_error(fitted, list(centers.values())),
        mean_absolute_error(fitted, test),
        latent_accuracy(
            train, np.concatenate([groups[name] for name in names]), fitted.latent(known), test_groups
        ),
    )  # fmt: skip
