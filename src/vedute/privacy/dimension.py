"""How many components do noised second moments show? Free: nothing but what was released is looked at.

The likelihood of the model, or a bound on it, cannot say: to it the noise of the release is structure like any other,
and the more components the better (tried: always the largest q). But the noise is known. If C is the noised covariance
and ``C_q = L L' + diag(sigma2 of the view)`` the nearest one of q components, then ``sum w (C - C_q)^2``, with w the
inverse variances of the entries (of the noise and of sampling), is a chi-square, and q is chosen by it plus
ln(number of entries) for each parameter, as in BIC.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from vedute.model.parameters import Array
from vedute.model.schema import Layout
from vedute.model.statistics import Statistics
from vedute.privacy.second_moments import Ranges

STEPS = 20


@dataclass(frozen=True)
class NoisedCovariance:
    """What a center's release shows, in units of the ranges; entries that no subject informs have weight 0."""

    names: tuple[str, ...]
    covariance: Array
    weight: Array

    @classmethod
    def of(cls, statistics: Statistics, ranges: Ranges, std: float) -> NoisedCovariance:
        """From the statistics that were recovered from a release with noise of ``std`` on its diagonal."""
        rows = float(statistics.n[0])
        factor = statistics.factor / ranges.width
        covariance = factor.T @ factor / rows
        spread = np.diag(covariance)
        weight = 1.0 / ((std / rows) ** 2 + 2.0 * np.outer(spread, spread) / rows)
        seen = statistics.mask[0]
        return cls(ranges.layout.names, covariance, np.where(np.outer(seen, seen), weight, 0.0))


def misfit(layout: Layout, parts: Sequence[NoisedCovariance], q: int) -> float:
    """The chi-square of the nearest covariance of q components over all centers, and the price of its parameters."""
    total, weight = np.zeros((layout.total,) * 2), np.zeros((layout.total,) * 2)
    for part in parts:
        columns = np.concatenate([np.arange(layout.total)[layout.slices[name]] for name in part.names])
        total[np.ix_(columns, columns)] += part.weight * part.covariance
        weight[np.ix_(columns, columns)] += part.weight
    covariance = total / np.where(weight > 0, weight, 1.0)
    gap = covariance - nearest(covariance, weight > 0, layout, q)
    parameters = layout.total * q - q * (q - 1) // 2 + len(layout.names)
    entries = (int((weight > 0).sum()) + layout.total) / 2
    return float((weight * gap**2).sum()) + parameters * float(np.log(entries))


def nearest(covariance: Array, known: NDArray[np.bool_], layout: Layout, q: int) -> Array:
    """``L L' + diag(sigma2 of the view)`` near a covariance, by turns; entries nobody informs follow the fit."""
    noise = np.zeros(layout.total)
    low_rank = np.where(known, covariance, 0.0)
    for _ in range(STEPS):
        values, vectors = np.linalg.eigh(np.where(known, covariance, low_rank) - np.diag(noise))
        kept = np.maximum(values[-q:], 0.0)
        low_rank = (vectors[:, -q:] * kept) @ vectors[:, -q:].T
        left = np.diag(covariance) - np.diag(low_rank)
        sums = np.add.reduceat(left, layout.starts) / np.array(layout.sizes)
        noise = np.maximum(sums, 0.0)[layout.view_of]
    return np.asarray(low_rank + np.diag(noise))
