"""A third of the centers lack a view that the others have: who predicts it best?

All methods see the same rows in units of the holders' mean and sd. The mean of the holders and ours move no rows;
neither does regression in each center: every holder fits a ridge from the other views to the hidden one, the
coefficients travel, and the predictions are averaged. Ridge on pooled rows and MOFA see all rows in one place.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import NormalDist

import numpy as np
import pandas as pd

from vedute.core.params import Array
from vedute.core.streams import stream
from vedute.data.scenarios import split
from vedute.estimator import FederatedPPCA
from vedute_reproduction.baselines.mofa import MOFA, installed
from vedute_reproduction.folds import Dataset
from vedute_reproduction.keeping import Line, Source, Told, each_part, places
from vedute_reproduction.methods import Views, end_of, quietly

LEVEL = 0.90
N_CENTERS = 6
FEW = (1, 2, 3)  # components to try besides the number of the tables
UNTOLD = float("nan")
ALPHAS = tuple(np.logspace(-2.0, 5.0, 15))
OURS, MEAN = "Fed-mv-PPCA", "mean of the others"
GLOBAL, HOLDERS, BY_HIDING = f"{OURS}, global parameters", f"{OURS}, holders alone", ", q chosen by hiding"
CHOSEN, CHOSEN_HOLDERS = OURS + BY_HIDING, HOLDERS + BY_HIDING
MOFAS, MOFA_HOLDERS = "MOFA, pooled rows", "MOFA, pooled rows of holders"
Predict = Callable[["Hidden", int, int], tuple[Array, Array | None]]  # values and sds, from components and a seed


@dataclass(frozen=True)
class Hidden:
    """What each method is given, and the truth: views of the lacking centers side by side, in one order."""

    centers: dict[str, dict[str, Array]]  # the lacking ones without the view
    lacking: tuple[str, ...]
    view: str
    truth: Array

    @property
    def holders(self) -> dict[str, dict[str, Array]]:
        """The centers that have the view."""
        return {name: views for name, views in self.centers.items() if self.view in views}


def hide(data: Dataset, view: str, third: int, seed: int) -> Hidden:
    """Deal the rows evenly, take a view from one third of the centers, and measure all in the holders' sd."""
    dealt, _ = split(data.views, data.groups, N_CENTERS, "IID", stream(seed, "missing"))
    size = N_CENTERS // 3
    lacking = tuple(list(dealt)[third * size : (third + 1) * size])
    held = [views for name, views in dealt.items() if name not in lacking]
    units = {}
    for name in data.views:
        rows = np.concatenate([views[name] for views in held])
        sd = rows.std(axis=0)
        units[name] = rows.mean(axis=0), np.where(sd > 0, sd, 1.0)
    scaled = {
        center: {name: (rows - units[name][0]) / units[name][1] for name, rows in views.items()}
        for center, views in dealt.items()
    }
    truth = np.concatenate([scaled[name][view] for name in lacking])
    given = {
        center: {name: rows for name, rows in views.items() if center not in lacking or name != view}
        for center, views in scaled.items()
    }
    return Hidden(given, lacking, view, truth)


def by_ridge(hidden: Hidden) -> Array:
    """A ridge in each holder by itself, penalty chosen there by leave-one-out; the mean of their predictions."""
    return np.asarray(np.mean([_ridge(hidden, [views]) for views in hidden.holders.values()], axis=0))


def by_pooled_ridge(hidden: Hidden) -> Array:
    """One ridge on the rows of all holders."""
    return _ridge(hidden, list(hidden.holders.values()))


def _ridge(hidden: Hidden, tables: list[dict[str, Array]]) -> Array:
    from sklearn.linear_model import RidgeCV

    def others(views: Views) -> Array:
        return np.concatenate([views[name] for name in sorted(views) if name != hidden.view], axis=1)

    x, y = np.concatenate([others(t) for t in tables]), np.concatenate([t[hidden.view] for t in tables])
    asked = np.concatenate([others(hidden.centers[name]) for name in hidden.lacking])
    return np.asarray(RidgeCV(ALPHAS).fit(x, y).predict(asked))


def by_mofa(hidden: Hidden, q: int, seed: int) -> tuple[Array, None]:
    """Factors of all rows, the lacking centers' included."""
    return _by_factors(hidden.centers, hidden, q, seed), None


def by_mofa_of_holders(hidden: Hidden, q: int, seed: int) -> tuple[Array, None]:
    """Factors of the holders' rows, found again in those of the others."""
    return _by_factors(hidden.holders, hidden, q, seed), None


def _by_factors(centers: Mapping[str, Views], hidden: Hidden, q: int, seed: int) -> Array:
    fitted = MOFA(q).fit(centers, seed)
    whole = np.concatenate([fitted.everything(hidden.centers[name]) for name in hidden.lacking])
    return whole[:, fitted.emission.layout.slices[hidden.view]]


def by_ours(hidden: Hidden, q: int, seed: int) -> tuple[Array, Array]:
    """Imputed values and their sd; each lacking center took part with the views that it has."""
    return _imputed(_fitted(hidden.centers, q, seed), hidden, known=True)


def by_global(hidden: Hidden, q: int, seed: int) -> tuple[Array, Array]:
    """The same fit, but rows placed as if their center had not taken part."""
    return _imputed(_fitted(hidden.centers, q, seed), hidden, known=False)


def by_holders(hidden: Hidden, q: int, seed: int) -> tuple[Array, Array]:
    """The same by a model of the holders alone, to which the lacking centers are unknown.

    Rows without the view cannot bend its components: where few components have to serve many views, a fit with such
    rows uses for something else the components that the view has in the holders.
    """
    return _imputed(_fitted(hidden.holders, q, seed), hidden, known=False)


def _fitted(centers: Mapping[str, Views], q: int, seed: int) -> FederatedPPCA:
    rounds, tol = end_of("default")
    with quietly():
        return FederatedPPCA(q, rounds=rounds, scaling=None, tol=tol, random_state=seed).fit(centers)


def _imputed(fitted: FederatedPPCA, hidden: Hidden, *, known: bool) -> tuple[Array, Array]:
    found = [
        fitted.impute(hidden.centers[name], center=name if known else None, return_std=True) for name in hidden.lacking
    ]
    values, sd = (np.concatenate([part[i][hidden.view] for part in found]) for i in (0, 1))
    return values, sd


def chosen(hidden: Hidden, tried: Sequence[int], seed: int, predict: Predict = by_ours) -> int:
    """The number of components that best predicts the view in one holder from whom it is hidden as well.

    That holder can tell the error at home: no row moves.
    """
    test = next(iter(hidden.holders))
    without = {name: rows for name, rows in hidden.centers[test].items() if name != hidden.view}
    inner = Hidden(hidden.centers | {test: without}, (test,), hidden.view, hidden.centers[test][hidden.view])
    errors = {q: float(((inner.truth - predict(inner, q, seed)[0]) ** 2).mean()) for q in tried}
    return min(errors, key=lambda q: errors[q])


@dataclass(frozen=True)
class Task:
    """One view hidden in one third of the centers."""

    name: str
    components: int
    view: str
    repeat: int
    fold: int  # which third

    @property
    def file(self) -> str:
        """Where its result is kept."""
        return f"{self.name}-{self.view}-r{self.repeat:03d}-f{self.fold}.json"

    def compute(self, data: Dataset) -> list[Line]:
        """One line for each method; ours with several numbers of components."""
        hidden, seed = hide(data, self.view, self.fold, self.repeat), self.repeat
        few = [q for q in FEW if q < self.components] + [self.components]
        ours = {q: by_ours(hidden, q, seed) for q in few}
        best, held = chosen(hidden, few, seed), chosen(hidden, few, seed, by_holders)
        found: list[tuple[str, float, Array, Array | None]] = [(OURS, q, *guess) for q, guess in ours.items()]
        found += [
            (CHOSEN, best, *ours[best]),
            (GLOBAL, self.components, *by_global(hidden, self.components, seed)),
            (HOLDERS, self.components, *by_holders(hidden, self.components, seed)),
            (CHOSEN_HOLDERS, held, *by_holders(hidden, held, seed)),
            (MEAN, UNTOLD, np.zeros_like(hidden.truth), None),  # 0 in these units
            ("ridge, each center alone", UNTOLD, by_ridge(hidden), None),
            ("ridge, pooled rows", UNTOLD, by_pooled_ridge(hidden), None),
        ]
        if installed():
            both = (by_mofa, by_mofa_of_holders)
            mofa, mofa_held = (chosen(hidden, few, seed, predict) for predict in both)
            found += [
                (MOFAS, self.components, *by_mofa(hidden, self.components, seed)),
                (MOFAS + BY_HIDING, mofa, *by_mofa(hidden, mofa, seed)),
                (MOFA_HOLDERS + BY_HIDING, mofa_held, *by_mofa_of_holders(hidden, mofa_held, seed)),
            ]
        about = {"view": self.view, "repeat": self.repeat, "fold": self.fold}
        return [about | {"method": name, "q": q} | _judged(hidden.truth, guess, sd) for name, q, guess, sd in found]


def _judged(truth: Array, guess: Array, sd: Array | None) -> Line:
    """Mean error; the share of the squared distance to the holders' mean that is explained; coverage."""
    gaps = np.abs(truth - guess)
    inside = UNTOLD if sd is None else float(np.mean(gaps <= NormalDist().inv_cdf(0.5 + LEVEL / 2) * sd))
    explained = float(1.0 - (gaps**2).sum() / (truth**2).sum())
    return {"mae": float(gaps.mean()), "explained": explained, "coverage": inside}


def run(
    name: str,
    source: Source,
    components: int,
    repeats: int,
    out: Path,
    *,
    jobs: int = 1,
    on_fold: Told | None = None,
) -> pd.DataFrame:
    """All views, each hidden in each third of the centers."""
    views = list(source.draw(0).views)
    tasks = [Task(name, components, view, *place) for place in places(repeats) for view in views]
    return each_part(tasks, source, out, jobs=jobs, on_fold=on_fold)
