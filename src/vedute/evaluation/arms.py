"""An arm of an experiment: a method, the scaling of its data and the rows that it may see; and its score on a fold."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

import numpy as np

from vedute.core.params import Array
from vedute.evaluation.folds import Fold
from vedute.evaluation.methods import Centers, Fitted, Method, Views
from vedute.evaluation.metrics import Labels, latent_accuracy, mean_error

Scaling = Literal["per center", "per center, test as one", "shared"]
Sees = Literal["centers", "whole", "alone"]
Scaled = dict[str, dict[str, Array]]


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
        return _measured(arm.method, centers, test, fold, seed)
    each = [_measured(arm.method, {name: views}, test, fold, seed) for name, views in centers.items()]
    told = [one.accuracy for one in each if one.accuracy == one.accuracy]  # a center of one group tells nothing
    return Score(
        float(np.mean([one.train_mae for one in each])),
        float(np.mean([one.test_mae for one in each])),
        float(np.mean(told)) if told else float("nan"),
    )


def scaled(centers: Centers, test: Centers, scaling: Scaling) -> tuple[Scaled, Scaled]:
    """Min-max scaled rows: each table by itself, parts of the test included, as the paper does; or all by train rows.

    "per center, test as one" scales the test rows by themselves too, but all parts by the same values.
    """
    if scaling == "shared":
        ends = _ends(list(centers.values()))
        return _all_minmax(centers, ends), _all_minmax(test, ends)
    own = {name: _minmax(views, _ends([views])) for name, views in centers.items()}
    if scaling == "per center":
        return own, {name: _minmax(views, _ends([views])) for name, views in test.items()}
    return own, _all_minmax(test, _ends(list(test.values())))


def _all_minmax(tables: Centers, ends: Mapping[str, tuple[Array, Array]]) -> Scaled:
    return {name: _minmax(views, ends) for name, views in tables.items()}


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


def _measured(method: Method, centers: Centers, test: Centers, fold: Fold, seed: int) -> Score:
    fitted = method.fit(centers, seed)
    return Score(
        mean_error(fitted, list(centers.values())),
        mean_error(fitted, list(test.values())),
        latent_accuracy(*_placed(fitted, centers, fold.groups), *_placed(fitted, test, fold.test_groups)),
    )


def _placed(fitted: Fitted, tables: Centers, groups: Mapping[str, Labels]) -> tuple[Array, Labels]:
    """Latent means of the rows of all tables, and their groups."""
    known = [{view: rows for view, rows in views.items() if view in fitted.views} for views in tables.values()]
    latent = np.concatenate([fitted.latent(views) for views in known])
    return latent, np.concatenate([groups[name] for name in tables])
