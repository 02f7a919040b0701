"""From the noised second moments of a center to the statistics that EM runs on.

Nothing here touches data, so nothing here costs privacy. With N subjects (public), Z the block of features,
J_k the column of view k's indicator and n_kl the entries of the indicator block over w^2:

    mean of a feature of view k      Z J_k / (w n_k)
    moment of features of k and l    Z Z / n_kl

that is, each mean over the subjects who have the view and each moment over those who have both. Where all the
n_kl agree with N within the noise, every subject is taken to have every view, and the K noised copies of each
mean are averaged.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from vedute.model.parameters import Array
from vedute.model.statistics import Statistics
from vedute.privacy.release import Release
from vedute.privacy.second_moments import UNIT, Ranges

SURE = 4.0  # standard deviations of noise beyond which a count is believed to differ
FLOOR = 1e-6  # least variance in any direction, in squared ranges: public


@dataclass(frozen=True)
class Counts:
    """How many subjects have each view, and each pair of views, as far as the noise lets it be seen."""

    single: Array
    pairs: Array
    seen: NDArray[np.bool_]  # views that some subjects surely have
    together: NDArray[np.bool_]  # pairs of views that some subjects surely have both of
    complete: bool


def to_statistics(release: Release, ranges: Ranges) -> Statistics:
    """One pattern of complete rows, in the original units, with the mean and covariance that the release tells."""
    n, weight = float(release.public["subjects"]), float(release.public["weight"]) / UNIT
    moments, std = np.asarray(release.values["moments"]), float(release.public["std"])
    layout, d = ranges.layout, ranges.layout.total
    counts = find_counts(moments[d:, d:] / weight**2, n, std / weight**2)
    view = layout.view_of
    if counts.complete:
        mean = moments[:d, d:].mean(axis=1) / (weight * n)
    else:
        mean = moments[np.arange(d), d + view] / (weight * counts.single[view])
    mean = np.clip(mean, -0.5, 0.5)
    pairs = np.ix_(view, view)
    covariance = moments[:d, :d] / counts.pairs[pairs] - np.outer(mean, mean)
    covariance = np.where(counts.together[pairs], covariance, 0.0)
    mask = counts.seen[view]
    factor = np.zeros((int(mask.sum()), d))
    # n times d counts the observed cells, as in the divisor of sigma2.
    rows = float(counts.single[view][mask].mean()) if mask.any() else 0.0
    factor[:, mask] = math.sqrt(rows) * covariance_factor(covariance[np.ix_(mask, mask)])
    original = np.where(mask, ranges.middle + ranges.width * mean, 0.0)
    owner = np.zeros(len(factor), dtype=np.intp)
    return Statistics(layout, mask[None], np.array([rows]), original[None], factor * ranges.width, owner)


def find_counts(noised: Array, n: float, std: float) -> Counts:
    """Counts within their logical limits; ``std`` is the noise of a diagonal entry, sqrt 2 times that of others."""
    spread = np.where(np.eye(len(noised), dtype=bool), std, std / math.sqrt(2.0))
    if np.all(np.abs(noised - n) <= SURE * spread):
        everyone, all_seen = np.full(noised.shape, n), np.ones(noised.shape, dtype=bool)
        return Counts(np.diag(everyone), everyone, np.diag(all_seen), all_seen, complete=True)
    together = noised > SURE * spread
    seen = np.diag(together)
    together = together & np.outer(seen, seen)
    single = np.clip(np.diag(noised), 1.0, n)
    pairs = np.clip(noised, 1.0, np.minimum.outer(single, single))
    return Counts(single, pairs, seen, together, complete=False)


def covariance_factor(covariance: Array) -> Array:
    """F with F'F the nearest covariance of the same trace: noise spreads eigenvalues, their sum stays right."""
    values, vectors = np.linalg.eigh(covariance)
    return np.asarray(np.sqrt(nearest_spectrum(values))[:, None] * vectors.T)


def nearest_spectrum(values: Array) -> Array:
    """The nearest eigenvalues above the floor with the same sum (or all at the floor where the sum is too small)."""
    excess = values - FLOOR
    total = excess.sum()
    if total <= 0.0:
        return np.full(len(values), FLOOR)
    descending = np.sort(excess)[::-1]
    shift = (np.cumsum(descending) - total) / np.arange(1, len(values) + 1)
    last = np.flatnonzero(descending > shift)[-1]
    return np.asarray(np.maximum(excess - shift[last], 0.0) + FLOOR)
