"""An arm of an experiment: a method, the scaling of its data and the rows that it may see; and its score on a fold.

The paper measures the error of reconstruction, and how well groups are told apart in the latent space.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from vedute.model.parameters import Array
from vedute_reproduction.baselines.autoencoders import Autoencoder, fit_together
from vedute_reproduction.folds import Fold, Labels, Parting
from vedute_reproduction.methods import ByCenter, Centers, Fitted, Method, Views

Scaling = Literal["per center", "per center, test as one", "shared"]
SCALINGS: tuple[Scaling, ...] = ("per center", "shared")
Sees = Literal["centers", "whole", "alone"]
Scaled = dict[str, dict[str, Array]]
Wanted = tuple[Method, Centers, int]  # a fit to do, with its seed
Dealt = Mapping[Parting | None, Fold]  # the same train rows beside test rows that were parted in several ways


@dataclass(frozen=True)
class Arm:
    """``sees``: the centers as they were dealt; the whole train rows with all views; or each center alone."""

    name: str
    method: Method
    scaling: Scaling = "shared"
    sees: Sees = "centers"
    parting: Parting | None = None  # of the test rows, if not as the dealing of the train rows asks

    def __post_init__(self) -> None:
        if self.sees == "whole" and self.scaling != "shared":
            raise ValueError("rows as if no view were missing are scaled by what the centers hold: scaling='shared'")


@dataclass(frozen=True)
class Score:
    """One arm on one fold, errors in min-max scaled units."""

    train_mae: float
    test_mae: float
    accuracy: float


def scores_of_folds(arms: Sequence[Arm], folds: Sequence[tuple[Dealt, int]]) -> list[list[Score]]:
    """The score of each arm on each fold with its seed; methods that can be stacked train on all folds at once.

    Arms that differ only in the parting or the scaling of the test rows share their fits.
    """
    wanted: dict[object, list[Wanted]] = {}
    for i, (dealt, seed) in enumerate(folds):
        for arm in arms:
            if _key(i, arm) not in wanted:
                wanted[_key(i, arm)] = [(arm.method, table, seed) for table in _seen(arm, dealt[arm.parting])[0]]
    fits = iter(_fits([one for several in wanted.values() for one in several]))
    fitted = {key: [next(fits) for _ in several] for key, several in wanted.items()}
    found = []
    for i, (dealt, _) in enumerate(folds):
        found.append([_mean_score(arm, fitted[_key(i, arm)], dealt[arm.parting]) for arm in arms])
    return found


def _key(fold: int, arm: Arm) -> object:
    return fold, arm.method, arm.sees, arm.scaling == "shared"


def _seen(arm: Arm, fold: Fold) -> tuple[list[Scaled], Scaled]:
    """The train rows that each fit of an arm sees, and the test rows, scaled."""
    centers, test = scaled(fold.centers, fold.test, arm.scaling)
    if arm.sees == "whole":  # in the units of all other arms: those of the rows that the centers hold
        centers = _all_minmax(fold.whole, ends_of(list(fold.centers.values())))
    return [{name: views} for name, views in centers.items()] if arm.sees == "alone" else [centers], test


def _fits(wanted: Sequence[Wanted]) -> list[Fitted]:
    places = [i for i, (method, _, _) in enumerate(wanted) if isinstance(method, Autoencoder)]
    stacked = [(method, centers, seed) for method, centers, seed in wanted if isinstance(method, Autoencoder)]
    found: dict[int, Fitted] = dict(zip(places, fit_together(stacked), strict=True))
    for i, (method, centers, seed) in enumerate(wanted):
        if i not in found:
            found[i] = method.fit(centers, seed)
    return [found[i] for i in range(len(wanted))]


def _mean_score(arm: Arm, fits: Sequence[Fitted], fold: Fold) -> Score:
    tables, test = _seen(arm, fold)
    return _mean([score(fitted, table, test, fold) for fitted, table in zip(fits, tables, strict=True)])


def _mean(each: Sequence[Score]) -> Score:
    """The mean over fits: one, or that of each center alone, of which those of one group tell no accuracy."""
    told = [one.accuracy for one in each if one.accuracy == one.accuracy]
    return Score(
        float(np.mean([one.train_mae for one in each])),
        float(np.mean([one.test_mae for one in each])),
        float(np.mean(told)) if told else float("nan"),
    )


def scaled(centers: Centers, test: Centers, scaling: Scaling) -> tuple[Scaled, Scaled]:
    """Min-max scaled rows: each table by itself, parts of the test included, or all by train rows.

    "per center, test as one" scales the test rows by themselves too, but all parts by the same values.
    """
    if scaling == "shared":
        ends = ends_of(list(centers.values()))
        return _all_minmax(centers, ends), _all_minmax(test, ends)
    own = {name: _minmax(views, ends_of([views])) for name, views in centers.items()}
    if scaling == "per center":
        return own, {name: _minmax(views, ends_of([views])) for name, views in test.items()}
    return own, _all_minmax(test, ends_of(list(test.values())))


def _all_minmax(tables: Centers, ends: Mapping[str, tuple[Array, Array]]) -> Scaled:
    return {name: _minmax(views, ends) for name, views in tables.items()}


def ends_of(tables: list[Views]) -> dict[str, tuple[Array, Array]]:
    """Smallest and largest value of each feature over some tables."""
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


def score(fitted: Fitted, centers: Centers, test: Centers, fold: Fold) -> Score:
    """What a fitted method scores on the scaled rows of a fold."""
    return Score(
        mean_error(fitted, centers),
        mean_error(fitted, test),
        latent_accuracy(*_placed(fitted, centers, fold.groups), *_placed(fitted, test, fold.test_groups)),
    )


def _placed(fitted: Fitted, tables: Centers, groups: Mapping[str, Labels]) -> tuple[Array, Labels]:
    """Latent means of the rows of all tables, and their groups."""
    latent = np.concatenate(
        [
            at(fitted, name).latent({view: rows for view, rows in views.items() if view in fitted.views})
            for name, views in tables.items()
        ]
    )
    return latent, np.concatenate([groups[name] for name in tables])


def mean_absolute_error(fitted: Fitted, views: Views) -> float:
    """Mean distance of observed entries to their reconstruction, over all views together, in the units given.

    A reconstruction that is no number makes it NaN: what a method cannot tell must not count as a missing cell.
    """
    known = {name: rows for name, rows in views.items() if name in fitted.views}
    seen = fitted.reconstruct(known)
    gaps = np.concatenate([np.abs(rows - seen[name])[~np.isnan(rows)] for name, rows in known.items()])
    return float(gaps.mean())


def mean_error(fitted: Fitted, tables: Centers) -> float:
    """The unweighted mean over centers, or over parts of the test rows, as the paper has it."""
    return float(np.mean([mean_absolute_error(at(fitted, name), views) for name, views in tables.items()]))


def at(fitted: Fitted, center: str) -> Fitted:
    """What is to place the rows of a center."""
    return fitted.of(center) if isinstance(fitted, ByCenter) else fitted


def latent_accuracy(train: Array, train_groups: Labels, test: Array, test_groups: Labels) -> float:
    """Share of test subjects whose group linear discriminant analysis tells from the latent means.

    The discriminant is fitted on train latent means. NaN where these are of one group, all alike, or no numbers: a run
    that diverged must not end the experiment.
    """
    from sklearn.discriminant_analysis import LinearDiscriminantAnalysis

    told = np.isfinite(train).all() and np.isfinite(test).all() and np.ptp(train, axis=0).any()
    if len(np.unique(train_groups)) < 2 or not told:
        return float("nan")
    return float(LinearDiscriminantAnalysis().fit(train, train_groups).score(test, test_groups))
