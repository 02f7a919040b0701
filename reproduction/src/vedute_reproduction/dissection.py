"""Our model with one thing undone at a time, to see what it costs in the error of reconstruction.

PCA has one noise for all features, learns from complete rows, and places a row by projection. Undo all three here and
PCA is what remains, exactly; each of them alone tells its share of the distance.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from vedute_reproduction.methods import WIDE, Centers, Linear, Projection, common_layout, side_by_side


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
