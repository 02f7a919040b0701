"""Rivals without neural networks: PCA of pooled rows, PCA of pooled sums, factor analysis, probabilistic PCA."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from vedute.errors import UserError
from vedute.model.parameters import Array, Layout
from vedute.model.prediction import Emission
from vedute_reproduction.methods import WIDE, Centers, Projection, common_layout, side_by_side


@dataclass(frozen=True)
class PCA:
    """Centralised PCA of all rows that are complete."""

    n_components: int

    def fit(self, centers: Centers, seed: int) -> Projection:
        """Principal axes by scikit-learn."""
        from sklearn.decomposition import PCA as Axes

        layout, rows = _complete(centers, self.n_components)
        found = Axes(self.n_components, svd_solver="full").fit(rows)
        return _projection(layout, found.mean_, found.components_.T, np.ones(layout.total), WIDE)


@dataclass(frozen=True)
class PCAOfSums:
    """Exact PCA from what centers can add up: counts, sums and products of each pair of features.

    This is what packages for federated PCA compute. Pairs of features that no center holds together count as
    uncorrelated.
    """

    n_components: int

    def fit(self, centers: Centers, seed: int) -> Projection:
        """Principal axes of the summed covariance."""
        layout = common_layout(centers)
        mean, covariance = summed([side_by_side(views, layout) for views in centers.values()])
        _, axes = np.linalg.eigh(covariance)
        W = axes[:, ::-1][:, : self.n_components]
        return _projection(layout, mean, W, np.ones(layout.total), WIDE)


def summed(tables: Sequence[Array]) -> tuple[Array, Array]:
    """Mean and covariance from sums over tables; a pair of features is centred on the rows that hold both."""
    totals = [_sums(rows) for rows in tables]
    n, first, second = (np.sum(parts, axis=0) for parts in zip(*totals, strict=True))
    counts = np.maximum(n, 1.0)
    covariance = np.where(n > 0, second / counts - first * first.T / counts**2, 0.0)
    return np.diag(first) / np.diag(counts), covariance


@dataclass(frozen=True)
class FactorAnalysis:
    """Factor analysis by scikit-learn on all rows that are complete: a noise of its own for each feature."""

    n_components: int

    def fit(self, centers: Centers, seed: int) -> Projection:
        """Maximum likelihood."""
        from sklearn.decomposition import FactorAnalysis as Factors

        layout, rows = _complete(centers, self.n_components)
        found = Factors(self.n_components, random_state=seed).fit(rows)
        return _projection(layout, found.mean_, found.components_.T, found.noise_variance_, 1.0)


@dataclass(frozen=True)
class PPCA:
    """Probabilistic PCA in closed form (Tipping and Bishop 1999), one noise for all features.

    A center of few rows, left alone, takes as many components as these allow with something left for the noise.
    """

    n_components: int

    def fit(self, centers: Centers, seed: int) -> Projection:
        """Maximum likelihood from the eigenvalues of the covariance (their equations 7 and 8)."""
        layout, rows = _complete(centers, 1)
        q = max(1, min(self.n_components, len(rows) - 2, layout.total - 1))
        values, axes = np.linalg.eigh(np.cov(rows.T, bias=True))
        values, axes = values[::-1], axes[:, ::-1]
        noise = max(float(values[q:].mean()), 1e-12)
        W = axes[:, :q] * np.sqrt(np.maximum(values[:q] - noise, 0.0))
        return _projection(layout, rows.mean(axis=0), W, np.full(layout.total, noise), 1.0)


def _projection(layout: Layout, mu: Array, W: Array, noise: Array, latent: float) -> Projection:
    return Projection(Emission(layout, mu, W, noise, np.zeros(W.shape[1]), latent))


def _complete(centers: Centers, q: int) -> tuple[Layout, Array]:
    layout = common_layout(centers)
    rows = np.concatenate([side_by_side(views, layout) for views in centers.values()])
    rows = rows[~np.isnan(rows).any(axis=1)]
    if len(rows) <= q or layout.total <= q:
        raise UserError(
            f"{len(rows)} complete rows of {layout.total} features are too few for {q} components; take fewer"
        )
    return layout, rows


def _sums(rows: Array) -> tuple[Array, Array, Array]:
    """For each pair (i, j): rows that hold both, the sum of i over them, the sum of products."""
    seen = (~np.isnan(rows)).astype(float)
    filled = np.where(np.isnan(rows), 0.0, rows)
    return seen.T @ seen, filled.T @ seen, filled.T @ filled
