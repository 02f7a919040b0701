"""The demonstration: a synthetic and a real study, each dealt to three centers, fitted together without pooling."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from vedute import datasets, scenarios
from vedute.estimator import FederatedPPCA
from vedute.model.parameters import Array

SEED = 0
UNEQUAL = (0.55, 0.3, 0.15)  # shares of the subjects that the centers of the real study have


@dataclass(frozen=True)
class Center:
    """What one center brings to the demonstration."""

    views: Mapping[str, Any]
    groups: NDArray[Any]
    latent: Array
    cov: Array


@dataclass(frozen=True)
class Outcome:
    """One study, fitted and measured."""

    title: str
    estimator: FederatedPPCA
    centers: Mapping[str, Center]
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


def synthetic() -> Outcome:
    """SD over three centers that see different groups (G) and lack different views (K)."""
    arrays, numbers = datasets.make_sd(random_state=SEED)
    views = {name: pd.DataFrame(rows).add_prefix(f"{name}_") for name, rows in arrays.items()}
    groups = np.where(numbers == 1, "shifted", "reference")
    train, test = _two_thirds(groups)
    kept = {name: table.iloc[train] for name, table in views.items()}
    centers, rows = scenarios.split(kept, groups[train], 3, "G/K", random_state=SEED)
    mine = {name: groups[train][index] for name, index in rows.items()}
    return fit("synthetic, groups and views missing by center", 5, centers, mine, views, groups, test)


def breast_cancer() -> Outcome:
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
) -> Outcome:
    """Fit the centers' part of a study, and try the model on subjects of a center that nobody has seen."""
    from sklearn.discriminant_analysis import LinearDiscriminantAnalysis

    estimator = FederatedPPCA(q, tol=1e-4, random_state=SEED).fit(centers)
    placed = {}
    for name, own in centers.items():
        latent, cov = estimator.transform(own, center=name, return_cov=True)
        placed[name] = Center(own, groups[name], np.asarray(latent), cov)
    unseen = {view: table.iloc[test] for view, table in views.items()}
    test_latent = np.asarray(estimator.transform(unseen))
    x, y = np.concatenate([c.latent for c in placed.values()]), np.concatenate([c.groups for c in placed.values()])
    told = LinearDiscriminantAnalysis().fit(x, y)
    return Outcome(
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
