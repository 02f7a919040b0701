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
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
from scipy.special import ndtr
from scipy.stats import kstwo

from vedute import FederatedPPCA
from vedute.errors import UserError
from vedute.model.parameters import Array
from vedute_reproduction.canvas import canvas, finished, tidy
from vedute_reproduction.folds import Dataset, Labels, Parting, dealt, seed_of
from vedute_reproduction.keeping import How, Line, each_part
from vedute_reproduction.methods import Centers, end_of, quietly
from vedute_reproduction.prose import about, rows
from vedute_reproduction.reading import Facts, Results
from vedute_reproduction.studies import Given
from vedute_reproduction.writing import csv, named, page, put

if TYPE_CHECKING:
    from matplotlib.axes import Axes


LEVEL = 0.90
PRESETS = ("default", "paper")
PARTED: dict[str, Parting] = {"groups and views": "G/K", "views": "K"}  # of the test rows, by what
N_DRAWS = 4000
_ROW = "\0row"  # a view of row numbers that rides along when rows are dealt, to find the truth of what is taken away
Tables = dict[str, dict[str, Array]]
BY_CENTER = ("#0072b2", "#d55e00", "#009e73")  # Okabe and Ito
BLACK, GREY = "#000000", "#bbbbbb"
TWO_SD = 2.0
LETTERS = 20  # letters over a small panel


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
class Imputing:
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


def run(given: Given, how: How) -> pd.DataFrame:
    """All folds."""
    narrow = [view for view, rows in given.source.draw(0).views.items() if rows.shape[1] < 2]
    if narrow:
        raise UserError(
            f"view {narrow[0]!r} has one feature; the figure of the centers shows two features of each view"
        )
    tasks = [Imputing(given.named("variability"), given.n_components, *place) for place in how.places]
    return each_part(tasks, given.source, how)


def markdown(lines: pd.DataFrame) -> str:
    """Means over folds for each preset, way to part the test rows, and view that was taken away."""
    columns = ["mae", "mae_mean", "coverage", "distance", "distance_global", "distance_chance"]
    head = ["preset", "test rows parted by", "missing view", "MAE, imputed", "MAE, the mean", "90 % intervals cover",
            "distance, imputed", "distance, global", "distance by chance"]  # fmt: skip
    body = []
    means = lines.groupby(["preset", "parted_by", "view"], sort=False)[columns].mean().reset_index()
    for row in means.to_dict("records"):
        cells = [row["preset"], row["parted_by"], row["view"], f"{row['mae']:.3f}", f"{row['mae_mean']:.3f}"]
        cells += [f"{row['coverage']:.1%}", *(f"{row[column]:.3f}" for column in columns[3:])]
        body.append([str(cell) for cell in cells])
    return rows(head, body)


def centers(scene: Scene, title: str) -> dict[str, bytes]:
    """Posterior samples of x by center; and for each view the first two features, observed and predicted."""
    views = list(scene.first_two)
    columns = 2 if len(views) == 3 else 3
    rows = int(np.ceil((1 + len(views)) / columns))
    with canvas(3.6 * rows + 0.5) as drawn:
        panels = drawn.subplots(rows, columns, squeeze=False)
        for axes in panels.flat[1 + len(views) :]:
            axes.set_visible(False)
        _latent(panels.flat[0], scene)
        for axes, view in zip(panels.flat[1:], views, strict=False):
            _original(axes, scene, view)
        handles, labels = panels.flat[1].get_legend_handles_labels()
        more, names = panels.flat[0].get_legend_handles_labels()
        return finished(drawn, title, (more + handles, names + labels), 3)


def _latent(axes: Axes, scene: Scene) -> None:
    rng = np.random.default_rng(0)
    kinds = sorted({str(group) for groups in scene.groups.values() for group in groups})
    for colour, (center, views) in zip(BY_CENTER, scene.centers.items(), strict=True):
        mean, cov = scene.model.transform(views, center=center, return_cov=True)
        samples = np.stack([rng.multivariate_normal(m, c) for m, c in zip(np.asarray(mean), cov, strict=True)])
        for kind, marker in zip(kinds, ("o", "^"), strict=True):
            own = np.array([str(group) == kind for group in scene.groups[center]])
            label = f"{center}, group {kind}" if own.any() else None
            axes.plot(*samples[own, :2].T, marker, color=colour, markersize=3.5, alpha=0.7, label=label)
    axes.set_title("latent space: posterior samples")
    axes.set_xlabel("component 1 (prior sd)")
    axes.set_ylabel("component 2 (prior sd)")
    tidy(axes)


def _original(axes: Axes, scene: Scene, view: str) -> None:
    for colour, (center, views) in zip(BY_CENTER, scene.centers.items(), strict=True):
        held = view in views
        if held:
            axes.plot(*views[view][:, :2].T, ".", color=colour, markersize=3, alpha=0.5)  # observed
        predicted = np.asarray(scene.model.sample(2000, random_state=0, center=center)[view])
        axes.plot(*_ellipse(predicted[:, :2]), color=colour, linestyle="-" if held else "--", linewidth=1.6)
    axes.plot(*_ellipse(scene.drawn()[view][:, :2]), color=BLACK, linewidth=1.2, label="global, predicted, 2 sd")
    for style, label in (("-", "center, predicted, 2 sd"), ("--", "the same, where the center lacks the view")):
        axes.plot([], [], style, color="0.4", label=label)
    axes.plot([], [], ".", color="0.4", markersize=3, label="observed")
    axes.set_title(f"{view}, its first two features", parse_math=False)
    first, second = scene.first_two[view]
    axes.set_xlabel(f"{first} (own units)", parse_math=False)
    axes.set_ylabel(f"{second} (own units)", parse_math=False)
    tidy(axes)


def _ellipse(points: Array) -> Array:
    """(2, n) curve of two standard deviations about the mean."""
    angle = np.linspace(0.0, 2.0 * np.pi, 100)
    root = np.linalg.cholesky(np.cov(points.T))
    circle = np.stack([np.cos(angle), np.sin(angle)])
    return np.asarray(points.mean(axis=0)[:, None] + TWO_SD * root @ circle)


def features(scene: Scene, part: Imputed, title: str) -> dict[str, bytes]:
    """Every feature of a missing view: the truth as histogram, the imputed and the global distribution as curves."""
    from matplotlib.ticker import MaxNLocator
    from scipy.stats import gaussian_kde

    d = part.truth.shape[1]
    columns = 4 if d <= 12 else 7
    rows = int(np.ceil(d / columns))
    whole = scene.drawn()[part.view]
    with canvas((1.9 if columns == 4 else 1.25) * rows + 0.9) as drawn:
        panels = drawn.subplots(rows, columns, squeeze=False)
        for axes in panels.flat[d:]:
            axes.set_visible(False)
        for j, axes in enumerate(panels.flat[:d]):
            truth, mean, sd = part.truth[:, j], part.mean[:, j], part.sd[:, j]
            low, high = np.percentile(whole[:, j], [0.5, 99.5])
            x = np.linspace(min(low, truth.min()), max(high, truth.max()), 200)
            density = np.exp(-0.5 * ((x[:, None] - mean) / sd) ** 2) / (sd * np.sqrt(2.0 * np.pi))
            axes.hist(truth, bins=12, density=True, color=GREY, label="truth in the test rows")
            axes.plot(x, density.mean(axis=1), color=BY_CENTER[0], linewidth=1.4, label="imputed from the other views")
            axes.plot(x, gaussian_kde(whole[:, j])(x), color=BY_CENTER[1], linewidth=1.0, linestyle="--",
                      label="global distribution")  # fmt: skip
            axes.set_title(_short(part.names[j]), fontsize=7.0, pad=2, parse_math=False)
            axes.set_yticks([])
            axes.tick_params(labelsize=6.5)
            axes.xaxis.set_major_locator(MaxNLocator(3))
            axes.xaxis.set_major_formatter("{x:.6g}")
            axes.spines[["top", "right", "left"]].set_visible(False)
        drawn.supylabel("density (over values in the feature's own units)", fontsize=9)
        return finished(drawn, title, panels.flat[0].get_legend_handles_labels(), 3)


def _short(name: str) -> str:
    """The end of a long name: that is where names of one view differ."""
    return name if len(name) <= LETTERS else f"…{name[1 - LETTERS :]}"


def write(lines: pd.DataFrame, scene: Scene, out: Path, given: Given) -> list[Path]:
    """Table, tidy lines, the features of the drawn fold, and the figures."""
    name, times = given.named("variability"), f"{lines['repeat'].nunique()} x 3-fold"
    said = [f"Data: {given.about}.", *given.remarks, about("variability")]
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


def facts(results: Results) -> list[Facts]:
    """What is imputed, and how well the global distribution describes it, on both data sets."""
    return [_facts(name, results[name], results[f"{name}-features"]) for name in ("variability", "variability-cnp")]


def _facts(name: str, lines: pd.DataFrame, features: pd.DataFrame) -> Facts:
    own = lines[lines["preset"] == "default"].groupby(["parted_by", "view"], sort=False).mean(numeric_only=True)
    by = lines.groupby(["preset", "parted_by", "view"])[["mae", "coverage"]].mean()
    even = features[features["parted_by"] == "views"]
    return {
        "name": name,
        "lines": lines,
        "both": own.loc["groups and views"],
        "even": own.loc["views"],
        "worse": (own["mae"] > own["mae_mean"]).any(),
        "paper": by.loc["paper"],
        "over": by.loc["paper"]["mae"] / by.loc["default"]["mae"],
        "features": {view: part["coverage"] for view, part in even.groupby("view", sort=False)},
        "table": markdown(lines),
    }
