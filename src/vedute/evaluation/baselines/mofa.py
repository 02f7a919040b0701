"""Multi-Omics Factor Analysis (Argelaguet et al. 2018) by its own package, on pooled rows."""

from __future__ import annotations

import io
from contextlib import redirect_stdout
from dataclasses import dataclass

import numpy as np

from vedute.core.layout import Layout
from vedute.core.params import Array
from vedute.core.predict import Emission
from vedute.errors import UserError
from vedute.evaluation.methods import Centers, Projection, common_layout, side_by_side

ITERATIONS = 500
REFITS, MOVED = 3, 0.05  # at most so many; while the means move further than this, in units of their views


@dataclass(frozen=True)
class MOFA:
    """Factor analysis of several views, centralised; missing cells and views are left out of the likelihood.

    Each view is brought to a mean variance of 1 first: at that of min-max scaled rows, the package's priors put all
    weights to 0. Its spike and slab on the weights, made for features of which most have no part, is off: of dense
    data it drops whole components. It takes the means of observed cells for the means, and they are not where those
    who lack a view are of another group: so it fits again about the most likely means for its weights.
    """

    n_components: int

    def fit(self, centers: Centers, seed: int) -> Projection:
        """Variational inference; rows are then placed by the expected weights and precisions."""
        layout = common_layout(centers)
        rows = np.concatenate([side_by_side(views, layout) for views in centers.values()])
        mean = np.nanmean(rows, axis=0)
        variance = np.nanvar(rows, axis=0)
        unit = np.empty_like(mean)
        for columns in layout.slices.values():
            unit[columns] = np.sqrt(variance[columns].mean())
        for _ in range(1 + REFITS):
            W, precision = _trained(layout, (rows - mean) / unit, self.n_components, seed)
            noise = unit**2 / precision
            found = Emission(layout, mean, W * unit[:, None], noise, np.zeros(self.n_components), 1.0)
            mean = _most_likely(found, rows)
            if np.abs((mean - found.mu) / unit).max() <= MOVED:
                break
        return Projection(found)


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


def _trained(layout: Layout, rows: Array, q: int, seed: int) -> tuple[Array, Array]:
    """Expected weights, and precisions of the noise; what the package says on the way is kept back."""
    try:
        from mofapy2.run.entry_point import entry_point
    except ModuleNotFoundError as error:
        raise UserError(f"MOFA needs {error.name}: pip install 'vedute[peers]'") from None
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
    nodes = entry.model.nodes
    precision = [tau[0] for tau in nodes["Tau"].getExpectation()]  # the same in each row
    return np.concatenate(nodes["W"].getExpectation()), np.concatenate(precision)
