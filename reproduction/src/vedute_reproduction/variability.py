"""Centers in the latent space, and views that a part of the test rows lacks, imputed (the paper's scenario G/K).

Groups and views differ between the three centers. The parts of the test rows are dealt likewise, or by views alone,
with both groups in each. The figures show the first fold, dealt likewise; the table tells of all of them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from statistics import NormalDist

import numpy as np
import pandas as pd
from scipy.special import ndtr
from scipy.stats import kstwo

from vedute.core.params import Array
from vedute.errors import UserError
from vedute.estimator import FederatedPPCA
from vedute_reproduction.folds import Dataset, Parting, dealt, seed_of
from vedute_reproduction.keeping import Line, Source, Told, each_part, places
from vedute_reproduction.methods import Centers, end_of, quietly
from vedute_reproduction.metrics import Labels

LEVEL = 0.90
PRESETS = ("default", "paper")
PARTED: dict[str, Parting] = {"groups and views": "G/K", "views": "K"}  # of the test rows, by what
N_DRAWS = 4000
_ROW = "\0row"  # a view of row numbers that rides along when rows are dealt, to find the truth of what is taken away

Tables = dict[str, dict[str, Array]]


@dataclass(frozen=True)
class Imputed:
    """A view that one part of the test rows lacks: (n, d) truth, imputed values with their sd, the holders' mean."""

    view: str
    truth: Array
    mean: Array
    sd: Array
    holders: Array  # (d,) the mean of the train rows that have the view
    names: Sequence[str]  # of its features

    def features(self, drawn: Array) -> Iterator[Line]:
        """How each feature came out; ``drawn`` are rows of the global distribution. Errors in sd of the truth."""
        z = NormalDist().inv_cdf(0.5 + LEVEL / 2)
        for j in range(self.truth.shape[1]):
            truth, mean, sd = self.truth[:, j], self.mean[:, j], self.sd[:, j]
            at, unit = np.sort(truth), float(truth.std()) or float("nan")  # what does not vary has no unit
            whole = np.sort(drawn[:, j])
            yield {
                "view": self.view,
                "feature": self.names[j],
                "mae": float(np.abs(truth - mean).mean()) / unit,
                "mae_mean": float(np.abs(truth - self.holders[j]).mean()) / unit,
                "coverage": float(np.mean(np.abs(truth - mean) <= z * sd)),
                "distance": _distance(ndtr((at[:, None] - mean) / sd).mean(axis=1)),
                "distance_global": _distance(np.searchsorted(whole, at) / len(whole)),
                "distance_chance": _by_chance(len(truth)),
            }


def _distance(cdf: Array) -> float:
    """Kolmogorov's, from the values of a distribution function at sorted observations."""
    n = len(cdf)
    return float(max(np.max(np.arange(1, n + 1) / n - cdf), np.max(cdf - np.arange(n) / n)))


@cache
def _by_chance(n: int) -> float:
    """The distance to be expected of so many rows of the very distribution that is predicted."""
    return float(kstwo.mean(n))


@dataclass(frozen=True)
class Scene:
    """One fitted fold, and the views that parts of its test rows lack, by what these were parted."""

    model: FederatedPPCA
    centers: Tables
    groups: Mapping[str, Labels]
    parted: Mapping[str, tuple[Imputed, ...]]
    first_two: Mapping[str, Sequence[str]]  # features of each view, which are drawn

    def drawn(self) -> dict[str, Array]:
        """Rows of the global distribution."""
        return {name: np.asarray(rows) for name, rows in self.model.sample(N_DRAWS, random_state=0).items()}

    @property
    def imputed(self) -> tuple[Imputed, ...]:
        """Those of test rows dealt as the centers are."""
        return self.parted["groups and views"]

    def lines(self) -> list[Line]:
        """All features of all views that were taken away."""
        drawn = self.drawn()
        return [
            {"parted_by": by} | line
            for by, parts in self.parted.items()
            for part in parts
            for line in part.features(drawn[part.view])
        ]


def fit(data: Dataset, q: int, preset: str, repeat: int, fold: int) -> Scene:
    """Fit one fold of scenario G/K, and impute what its test rows lack."""
    numbered = replace(data, views={**data.views, _ROW: np.arange(len(data), dtype=float)[:, None]})
    folds = {by: dealt(numbered, repeat, fold, "G/K", 3, parting) for by, parting in PARTED.items()}
    train = folds["groups and views"]  # the same in all of them
    centers, seed, (rounds, tol) = _unnumbered(train.centers)[0], seed_of(repeat, fold), end_of(preset)
    model = FederatedPPCA(q, rounds=rounds, preset=preset, scaling="shared-minmax", tol=tol, random_state=seed)
    with quietly():
        model.fit(centers)
    parted = {by: _imputed(model, centers, found.test, data) for by, found in folds.items()}
    first_two = {view: data.features(view)[:2] for view in data.views}
    return Scene(model, centers, train.groups, parted, first_two)


def _imputed(model: FederatedPPCA, centers: Tables, test: Centers, data: Dataset) -> tuple[Imputed, ...]:
    """The views that parts of the test rows lack, in the order of the study."""
    found = []
    tables, places = _unnumbered(test)
    for part, views in tables.items():
        for view in set(data.views) - set(views):
            mean, sd = model.impute(views, return_std=True)
            known = np.concatenate([table[view] for table in centers.values() if view in table]).mean(axis=0)
            truth = data.views[view][places[part]]
            found.append(Imputed(view, truth, mean[view], sd[view], known, data.features(view)))
    return tuple(sorted(found, key=lambda one: list(data.views).index(one.view)))


def _unnumbered(tables: Mapping[str, Mapping[str, Array]]) -> tuple[Tables, dict[str, Array]]:
    """Tables without the row numbers, and these."""
    bare = {name: {view: rows for view, rows in views.items() if view != _ROW} for name, views in tables.items()}
    return bare, {name: views[_ROW][:, 0].astype(int) for name, views in tables.items()}


@dataclass(frozen=True)
class Task:
    """One fold with both presets."""

    name: str
    components: int
    repeat: int
    fold: int

    @property
    def file(self) -> str:
        """Where its result is kept."""
        return f"{self.name}-r{self.repeat:03d}-f{self.fold}.json"

    def compute(self, data: Dataset) -> list[Line]:
        """One line for each preset, view and way to part the test rows: means over the features of the view."""
        found = []
        for preset in PRESETS:
            scene = fit(data, self.components, preset, self.repeat, self.fold)
            lines = pd.DataFrame(scene.lines()).drop(columns="feature")
            features = lines.groupby(["parted_by", "view"], sort=False).mean().reset_index()
            about = {"preset": preset, "repeat": self.repeat, "fold": self.fold}
            found += [{**about, **line} for line in features.to_dict("records")]
        return [{str(key): value for key, value in line.items()} for line in found]


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
    """All folds."""
    narrow = [view for view, rows in source.draw(0).views.items() if rows.shape[1] < 2]
    if narrow:
        raise UserError(
            f"view {narrow[0]!r} has one feature; the figure of the centers shows two features of each view"
        )
    tasks = [Task(name, components, *place) for place in places(repeats)]
    return each_part(tasks, source, out, jobs=jobs, on_fold=on_fold)
