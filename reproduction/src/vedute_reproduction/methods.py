"""One interface for all methods, and ours behind it: whole, and with one thing after the other undone.

All data are scaled beforehand: no method scales again. PCA has one noise for all features, learns from complete rows,
and places a row by projection. Undo all three in ours and PCA is what remains, exactly; each of them alone tells its
share of the distance.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any, Protocol

import numpy as np

from vedute import FederatedPPCA
from vedute.data.scaling import Ranges
from vedute.errors import ConvergenceWarning, DataWarning
from vedute.model.parameters import Array, Layout
from vedute.model.prediction import Emission, posterior, predicted
from vedute.run.fitted_model import Model

Views = Mapping[str, Array]
Centers = Mapping[str, Views]
ROUNDS = 100  # of the paper
LONGEST = 500  # rounds of the default preset, which ends when it has converged
WIDE = 1e8  # variance of x so large that the posterior mean is the orthogonal projection of PCA


class Fitted(Protocol):
    """What a method has learnt: it places rows in its latent space and draws them again from there."""

    @property
    def views(self) -> tuple[str, ...]:
        """The views that it knows."""

    def latent(self, views: Views) -> Array:
        """(n, q) latent means of rows; NaN is a missing cell, a view may be absent."""

    def reconstruct(self, views: Views) -> dict[str, Array]:
        """The given views as the method sees them."""


class Method(Protocol):
    """Something that can be fitted to the rows of several centers."""

    def fit(self, centers: Centers, seed: int) -> Fitted:
        """Fit to scaled rows; the seed decides all that is random."""


@dataclass(frozen=True)
class Projection:
    """Every linear Gaussian method, fitted: the posterior mean of x given the observed cells, and back again."""

    emission: Emission

    @property
    def views(self) -> tuple[str, ...]:
        """The views that it knows."""
        return self.emission.layout.names

    def latent(self, views: Views) -> Array:
        """Posterior means."""
        return posterior(self.emission, side_by_side(views, self.emission.layout)).mean

    def reconstruct(self, views: Views) -> dict[str, Array]:
        """Expected values of the given views."""
        layout = self.emission.layout
        values = predicted(self.emission, posterior(self.emission, side_by_side(views, layout)))
        return {name: values[:, layout.slices[name]] for name in views}


@dataclass(frozen=True)
class ByCenter(Projection):
    """The same for rows whose center is known: by its own parameters, or the global ones if it was not in the fit."""

    centers: Mapping[str, Emission]

    def of(self, center: str) -> Projection:
        """What places the rows of a center."""
        return Projection(self.centers.get(center, self.emission))


class Linear(Protocol):
    """A method whose fit is a linear Gaussian model."""

    def fit(self, centers: Centers, seed: int) -> Projection:
        """Fit to scaled rows; the seed decides all that is random."""


@dataclass(frozen=True)
class FedMvPPCA:
    """Our model, judged as the paper judges it: by its global parameters."""

    n_components: int
    preset: str = "default"
    rounds: int | None = None  # as the preset has them
    first_iterations: int = 30
    corrections: tuple[str, ...] = ()  # of the default preset, that the paper preset is to have as well

    def fit(self, centers: Centers, seed: int) -> Projection:
        """Fit until the preset's end."""
        return Projection(self.model(centers, seed).emission(None))

    def model(self, centers: Centers, seed: int) -> Model:
        """Everything that was learnt."""
        rounds, tol = end_of(self.preset)
        estimator: Any = FederatedPPCA(
            self.n_components, preset=self.preset, rounds=self.rounds or rounds, tol=tol,
            first_iterations=self.first_iterations, scaling="declared", random_state=seed,
        )  # fmt: skip
        return _fitted(estimator.set_params(**dict.fromkeys(self.corrections, True)), centers, unit_ranges(centers))


def end_of(preset: str) -> tuple[int, float | None]:
    """Rounds at most, and the change that ends a fit before: the paper's number, or as many as convergence takes.

    Where fits are cut off, the last bits of the arithmetic decide what comes out.
    """
    return (ROUNDS, None) if preset == "paper" else (LONGEST, 1e-4)


@dataclass(frozen=True)
class OwnParameters:
    """Our model, judged by the parameters of the centers, of which each places its own rows."""

    method: FedMvPPCA

    def fit(self, centers: Centers, seed: int) -> ByCenter:
        """Fit, and keep the parameters of every center."""
        model = self.method.model(centers, seed)
        return ByCenter(model.emission(None), {name: model.emission(name) for name in centers})


def _fitted(estimator: Any, centers: Centers, ranges: Ranges | None = None) -> Model:
    with quietly():
        found: Model = estimator.fit(centers, ranges=ranges).model_
    return found


@contextmanager
def quietly() -> Iterator[None]:
    """Without the warnings that a fit has for its user: rounds, rows and delta are those of the protocol."""
    with warnings.catch_warnings():
        for expected in (ConvergenceWarning, DataWarning):
            warnings.simplefilter("ignore", expected)
        yield


def unit_ranges(centers: Centers) -> Ranges:
    """Ranges from 0 to 1: tells a fit that its rows are scaled already.

    Without a scaling it would leave out the weak prior of the noise in round 1, which is made for scaled rows.
    """
    layout = common_layout(centers)
    return {name: np.tile([0.0, 1.0], (d, 1)) for name, d in zip(layout.names, layout.sizes, strict=True)}


def common_layout(centers: Centers) -> Layout:
    """The views of all centers, in sorted order."""
    sizes = {name: rows.shape[1] for views in centers.values() for name, rows in views.items()}
    return Layout(tuple(sorted(sizes)), tuple(sizes[name] for name in sorted(sizes)))


def side_by_side(views: Views, layout: Layout) -> Array:
    """All views of a layout as one table, NaN where one is not given."""
    n = len(next(iter(views.values())))
    parts = [
        views[name] if name in views else np.full((n, size), np.nan)
        for name, size in zip(layout.names, layout.sizes, strict=True)
    ]
    return np.concatenate(parts, axis=1)


@dataclass(frozen=True)
class Projected:
    """The same loadings, but rows projected onto them as PCA does.

    A posterior mean shrinks towards 0 where noise is large. That is the better guess of x and the worse reconstruction.
    """

    method: Linear

    def fit(self, centers: Centers, seed: int) -> Projection:
        """Fit, and forget what the fit says about noise and the spread of x."""
        found = self.method.fit(centers, seed).emission
        return Projection(replace(found, noise=np.ones_like(found.noise), latent=WIDE))


@dataclass(frozen=True)
class OneNoise:
    """The same model told that all features are one view, so that no view counts for more because it is less noisy."""

    method: Linear

    def fit(self, centers: Centers, seed: int) -> Projection:
        """Fit to all views side by side, and name them again."""
        layout = common_layout(centers)
        merged = {name: {"all": side_by_side(views, layout)} for name, views in centers.items()}
        return Projection(replace(self.method.fit(merged, seed).emission, layout=layout))


@dataclass(frozen=True)
class CompleteRows:
    """The same model without the rows that lack a cell."""

    method: Linear

    def fit(self, centers: Centers, seed: int) -> Projection:
        """Fit to what is left of each center."""
        layout = common_layout(centers)
        kept = {}
        for name, views in centers.items():
            rows = side_by_side(views, layout)
            rows = rows[~np.isnan(rows).any(axis=1)]
            kept[name] = {view: rows[:, columns] for view, columns in layout.slices.items()}
        return self.method.fit(kept, seed)
