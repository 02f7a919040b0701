"""The demonstration: two studies, each dealt to three centers and fitted without pooling, a figure and reports."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from vedute import datasets, scenarios
from vedute.estimator import FederatedPPCA
from vedute.model.parameters import Array
from vedute.report.charts import COLOURS, INK
from vedute.report.page import render
from vedute.report.reading import Folder, LatentMeans, from_estimator, read_seen
from vedute.run.latent import Tally

SEED = 0
MARKERS = ("o", "s", "^")  # of the centers
UNEQUAL = (0.55, 0.3, 0.15)  # shares of the subjects that the centers of the real study have


@dataclass(frozen=True)
class PlacedCenter:
    """What one center brings to the demonstration."""

    views: Mapping[str, Any]
    groups: NDArray[Any]
    latent: Array
    cov: Array


@dataclass(frozen=True)
class Demonstrated:
    """One study, fitted and measured."""

    title: str
    estimator: FederatedPPCA
    centers: Mapping[str, PlacedCenter]
    test_latent: Array
    test_groups: NDArray[Any]
    train_error: Mapping[str, float]  # mean absolute error of each view, in scaled units
    test_error: Mapping[str, float]
    train_accuracy: float  # of the group told from the latent space
    test_accuracy: float

    def deviations(self) -> pd.DataFrame:
        """How far each center's measurements lie from the typical ones (rows: views; columns: centers)."""
        table = self.estimator.center_deviation()
        rms = np.sqrt((table["mean"] ** 2 + table["loadings"] ** 2) / 2)
        return pd.DataFrame(rms.unstack("center"))

    def case_mix(self) -> pd.Series[Any]:
        """How far each center's patients lie from the typical ones."""
        return self.estimator.center_deviation()["case_mix"].groupby("center").first()


def synthetic() -> Demonstrated:
    """SD over three centers that see different groups (G) and lack different views (K)."""
    arrays, numbers = datasets.make_sd(random_state=SEED)
    views = {name: pd.DataFrame(rows).add_prefix(f"{name}_") for name, rows in arrays.items()}
    groups = np.where(numbers == 1, "shifted", "reference")
    train, test = _two_thirds(groups)
    kept = {name: table.iloc[train] for name, table in views.items()}
    centers, rows = scenarios.split(kept, groups[train], 3, "G/K", random_state=SEED)
    mine = {name: groups[train][index] for name, index in rows.items()}
    return fit("synthetic, groups and views missing by center", 5, centers, mine, views, groups, test)


def breast_cancer() -> Demonstrated:
    """Three views of cell nuclei over three centers of very different sizes."""
    views, groups = datasets.load_breast_cancer_views()
    train, test = _two_thirds(groups)
    cuts = np.cumsum([round(share * len(train)) for share in UNEQUAL[:-1]])
    parts = dict(zip(("large", "middle", "small"), np.split(train, cuts), strict=True))
    centers = {name: {view: table.iloc[index] for view, table in views.items()} for name, index in parts.items()}
    return fit("breast cancer, centers of unequal size", 4, centers, {n: groups[i] for n, i in parts.items()}, views,
               groups, test)  # fmt: skip


def fit(
    title: str,
    q: int,
    centers: Mapping[str, Mapping[str, Any]],
    groups: Mapping[str, NDArray[Any]],
    views: Mapping[str, pd.DataFrame],
    all_groups: NDArray[Any],
    test: NDArray[np.intp],
) -> Demonstrated:
    """Fit the centers' part of a study, and try the model on subjects of a center that nobody has seen."""
    from sklearn.discriminant_analysis import LinearDiscriminantAnalysis

    estimator = FederatedPPCA(q, tol=1e-4, random_state=SEED).fit(centers)
    placed = {}
    for name, own in centers.items():
        latent, cov = estimator.transform(own, center=name, return_cov=True)
        placed[name] = PlacedCenter(own, groups[name], np.asarray(latent), cov)
    unseen = {view: table.iloc[test] for view, table in views.items()}
    test_latent = np.asarray(estimator.transform(unseen))
    x, y = np.concatenate([c.latent for c in placed.values()]), np.concatenate([c.groups for c in placed.values()])
    told = LinearDiscriminantAnalysis().fit(x, y)
    return Demonstrated(
        title,
        estimator,
        placed,
        test_latent,
        all_groups[test],
        _errors(estimator, [(own, name) for name, own in centers.items()]),
        _errors(estimator, [(unseen, None)]),
        float(told.score(x, y)),
        float(told.score(test_latent, all_groups[test])),
    )


def _errors(estimator: FederatedPPCA, tables: list[tuple[Mapping[str, Any], str | None]]) -> dict[str, float]:
    """Mean absolute error of each view's reconstruction in scaled units, over all rows of all tables."""
    gaps: dict[str, list[Array]] = {}
    for views, center in tables:
        seen = estimator.reconstruct(views, center=center)
        for view, rows in views.items():
            gap = np.abs(np.asarray(rows) - np.asarray(seen[view]))
            gaps.setdefault(view, []).append(gap / estimator.model_.scaler(views, center).scale[view])
    return {view: float(np.concatenate(parts).mean()) for view, parts in gaps.items()}


def _two_thirds(groups: NDArray[Any]) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Rows to fit and rows to test, with the same share of each group."""
    from sklearn.model_selection import train_test_split

    rows = np.arange(len(groups))
    train, test = train_test_split(rows, test_size=1 / 3, random_state=SEED, stratify=groups)
    return train, test


def draw(outcomes: Sequence[Demonstrated], path: Path) -> None:
    """One panel for each study; colour tells the group, the marker the center, an ellipse one posterior sd."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(6.2 * len(outcomes), 6.0), dpi=150, layout="constrained")
    FigureCanvasAgg(figure)
    for axes, outcome in zip(np.atleast_1d(figure.subplots(1, len(outcomes))), outcomes, strict=True):
        _panel(axes, outcome)
    figure.suptitle("One latent space from three centers that never showed their rows", color=INK, fontsize=13)
    figure.savefig(path, format="png")


def _panel(axes: Any, outcome: Demonstrated) -> None:
    groups = sorted(set(outcome.test_groups))
    colour = dict(zip(groups, COLOURS, strict=False))
    for (name, center), marker in zip(outcome.centers.items(), MARKERS, strict=False):
        shades = [colour[group] for group in center.groups]
        _ellipses(axes, center.latent, center.cov, shades)
        axes.scatter(*center.latent[:, :2].T, c=shades, marker=marker, s=20, alpha=0.8, lw=0.4, edgecolors="white")
        axes.scatter([], [], c="#888888", marker=marker, s=28, label=f"{name} ({len(center.latent)})")
    shades = [colour[group] for group in outcome.test_groups]
    axes.scatter(*outcome.test_latent[:, :2].T, c=shades, marker="+", s=22, lw=0.7, alpha=0.7)
    axes.scatter([], [], c="#888888", marker="+", s=28, lw=0.9, label=f"unseen ({len(shades)})")
    for group in groups:
        axes.scatter([], [], c=colour[group], marker="o", s=45, label=str(group))
    axes.set_title(
        f"{outcome.title}\nLDA on unseen subjects: {outcome.test_accuracy:.0%}", fontsize=10.5, color=INK, loc="left"
    )
    axes.set_xlabel("component 1", color=INK)
    axes.set_ylabel("component 2", color=INK)
    axes.set_aspect("equal", adjustable="datalim")
    axes.spines[["top", "right"]].set_visible(False)
    axes.spines[["left", "bottom"]].set_color("#bbbbbb")
    axes.tick_params(colors="#777777", labelsize=8)
    axes.grid(color="#eeeeee", lw=0.8)
    axes.set_axisbelow(True)
    axes.legend(frameon=False, fontsize=8.5, loc="best", labelcolor=INK, ncols=2)


def _ellipses(axes: Any, x: Array, cov: Array, shades: list[str]) -> None:
    from matplotlib.collections import EllipseCollection

    values, vectors = np.linalg.eigh(cov[:, :2, :2])
    axis = 2.0 * np.sqrt(values)
    angle = np.degrees(np.arctan2(vectors[:, 1, 1], vectors[:, 0, 1]))
    ellipses = EllipseCollection(
        axis[:, 1], axis[:, 0], angle, units="xy", offsets=x[:, :2], offset_transform=axes.transData,
        facecolors=shades, edgecolors="none", alpha=0.12,
    )  # fmt: skip
    axes.add_collection(ellipses)


def report(outcome: Demonstrated) -> str:
    """The page of one study."""
    return render(as_folder(outcome))


def as_folder(outcome: Demonstrated) -> Folder:
    """A study as if it had been fitted where all rows are."""
    return replace(
        from_estimator(outcome.estimator, outcome.title),
        counts={name: len(center.latent) for name, center in outcome.centers.items()},
        seen={name: read_seen(_tally(center).told()) for name, center in outcome.centers.items()},
        subjects={name: _subjects(center) for name, center in outcome.centers.items()},
    )


def file_name(outcome: Demonstrated) -> str:
    """``report-`` and how the title begins."""
    return f"report-{outcome.title.split(',')[0].replace(' ', '-')}.html"


def _tally(center: PlacedCenter) -> Tally:
    tally = Tally()
    tally.add({name: np.asarray(rows, dtype=float) for name, rows in center.views.items()})
    return tally


def _subjects(center: PlacedCenter) -> LatentMeans:
    return LatentMeans(tuple(map(str, range(len(center.latent)))), tuple(map(str, center.groups)), center.latent)
