"""Multi-Omics Factor Analysis (Argelaguet et al. 2018) by its own package, on pooled rows."""

from __future__ import annotations

import importlib.util
import io
from contextlib import redirect_stdout
from dataclasses import dataclass
from typing import Any

import numpy as np

from vedute.errors import UserError
from vedute.model.parameters import Array, Layout
from vedute.model.prediction import Emission, patterns
from vedute_reproduction.methods import Centers, Views, common_layout, side_by_side

ITERATIONS = 500
REFITS, MOVED = 3, 0.05  # at most so many; while the means move further than this, in units of their views


@dataclass(frozen=True)
class Factors:
    """Factors of rows as the package itself finds those of the rows that it has seen.

    It knows how unsure each weight is (``variance``), so that factors of rows with few cells are drawn towards 0.
    """

    emission: Emission
    variance: Array  # (d, q) of the weights

    @property
    def views(self) -> tuple[str, ...]:
        """The views that it knows."""
        return self.emission.layout.names

    def latent(self, views: Views) -> Array:
        """Expected factors: where the package's updates of one factor after the other come to rest."""
        fitted = self.emission
        rows = side_by_side(views, fitted.layout)
        masks, pattern = patterns(~np.isnan(rows))
        weighted = fitted.W / fitted.noise[:, None]
        second = fitted.W[:, :, None] * weighted[:, None, :]
        second += (self.variance / fitted.noise[:, None])[:, :, None] * np.eye(fitted.q)  # E[w w'] over the noise
        precision = np.einsum("pd,dij->pij", masks, second) + np.eye(fitted.q)
        pulled = np.where(np.isnan(rows), 0.0, rows - fitted.mu) @ weighted
        return np.asarray(np.linalg.solve(precision[pattern], pulled[:, :, None])[:, :, 0])

    def reconstruct(self, views: Views) -> dict[str, Array]:
        """Expected values of the given views."""
        whole = self.everything(views)
        return {name: whole[:, self.emission.layout.slices[name]] for name in views}

    def everything(self, views: Views) -> Array:
        """Expected values of all views side by side, from those that are given."""
        return np.asarray(self.emission.mu + self.latent(views) @ self.emission.W.T)


@dataclass(frozen=True)
class MOFA:
    """Factor analysis of several views, centralised; missing cells and views are left out of the likelihood.

    Each view is brought to a mean variance of 1 first: at that of min-max scaled rows, the package's priors put all
    weights to 0. Its spike and slab on the weights, made for features of which most have no part, is off: of dense
    data it drops whole components. It takes the means of observed cells for the means, and they are not where those
    who lack a view are of another group: so it fits again about the most likely means for its weights.
    """

    n_components: int

    def fit(self, centers: Centers, seed: int) -> Factors:
        """Variational inference; rows are then placed as the package places its own."""
        layout = common_layout(centers)
        rows = np.concatenate([side_by_side(views, layout) for views in centers.values()])
        mean = np.nanmean(rows, axis=0)
        spread = np.nanvar(rows, axis=0)
        unit = np.empty_like(mean)
        for columns in layout.slices.values():
            unit[columns] = np.sqrt(spread[columns].mean())
        for _ in range(1 + REFITS):
            W, variance, precision = _weights(trained(layout, (rows - mean) / unit, self.n_components, seed))
            noise = unit**2 / precision
            found = Emission(layout, mean, W * unit[:, None], noise, np.zeros(self.n_components), 1.0)
            mean = _most_likely(found, rows)
            if np.abs((mean - found.mu) / unit).max() <= MOVED:
                break
        return Factors(found, variance * unit[:, None] ** 2)


def installed() -> bool:
    """Whether its package is there."""
    return importlib.util.find_spec("mofapy2") is not None


def _most_likely(emission: Emission, rows: Array) -> Array:
    """The means that make the observed cells most likely, all else given; of whole rows those of the columns.

    The log likelihood is quadratic in them, so its top solves one linear system.
    """
    covariance = emission.W @ emission.W.T + np.diag(emission.noise)
    precision, weighted = np.zeros_like(covariance), np.zeros(len(covariance))
    patterns, places = np.unique(~np.isnan(rows), axis=0, return_inverse=True)
    for i, pattern in enumerate(patterns):
        seen, own = np.flatnonzero(pattern), rows[places.ravel() == i]
        inverse = np.linalg.solve(covariance[np.ix_(seen, seen)], np.eye(len(seen)))
        precision[np.ix_(seen, seen)] += len(own) * inverse
        weighted[seen] += inverse @ own[:, seen].sum(axis=0)
    return np.linalg.solve(precision, weighted)


def trained(layout: Layout, rows: Array, q: int, seed: int) -> Any:
    """The package's own nodes after its run; what it says on the way is kept back."""
    try:
        from mofapy2.run.entry_point import entry_point
    except ModuleNotFoundError as error:
        raise UserError(f"MOFA needs {error.name}: pip install mofapy2") from None
    with redirect_stdout(io.StringIO()), np.errstate(divide="ignore", invalid="ignore"):  # 0 log 0 in its bound
        entry = entry_point()
        entry.set_data_options(scale_views=False, scale_groups=False, center_groups=False)
        entry.set_data_matrix(
            [[rows[:, layout.slices[name]]] for name in layout.names],
            likelihoods=["gaussian"] * len(layout.names), views_names=list(layout.names),
        )  # fmt: skip
        entry.set_model_options(factors=q, spikeslab_weights=False)
        entry.set_train_options(iter=ITERATIONS, convergence_mode="fast", dropR2=None, seed=seed, quiet=True)
        entry.build()
        entry.run()
    return entry.model.nodes


def _weights(nodes: Any) -> tuple[Array, Array, Array]:
    """Expected weights, their variances, and precisions of the noise."""
    weights = nodes["W"].getExpectations()
    W, second = (np.concatenate([view[moment] for view in weights]) for moment in ("E", "E2"))
    precision = np.concatenate([tau[0] for tau in nodes["Tau"].getExpectation()])  # the same in each row
    return W, np.maximum(second - W**2, 0.0), precision
