"""Subject-level privacy: one noised matrix of second moments, from which everything else is computed for free.

The server recovers statistics from the matrix; nothing there touches data, so nothing there costs privacy. With N
subjects (public), Z the block of features, J_k the column of view k's indicator and n_kl the entries of the indicator
block over w^2:

    mean of a feature of view k      Z J_k / (w n_k)
    moment of features of k and l    Z Z / n_kl

that is, each mean over the subjects who have the view and each moment over those who have both. Where all the
n_kl agree with N within the noise, every subject is taken to have every view, and the K noised copies of each
mean are averaged.

How many components do noised second moments show? The likelihood of the model, or a bound on it, cannot say: to it the
noise of the release is structure like any other, and the more components the better (tried: always the largest q). But
the noise is known. If C is the noised covariance and ``C_q = L L' + diag(sigma2 of the view)`` the nearest one of q
components, then ``sum w (C - C_q)^2``, with w the inverse variances of the entries (of the noise and of sampling), is a
chi-square, and q is chosen by it plus ln(number of entries) for each parameter, as in BIC.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from vedute.errors import DataWarning, UserError
from vedute.model.parameters import Array, Layout, Schema
from vedute.model.statistics import Statistics
from vedute.privacy.accounting import gaussian_mu, noise_multiplier
from vedute.privacy.audit import Claim, Mechanism, Progress, Verdict, judged
from vedute.privacy.mechanisms import Noise, add_gaussian_symmetric
from vedute.privacy.policies.base import (
    LARGEST,
    MOST_SUBJECTS,
    Budgets,
    NoisyPolicy,
    Shape,
    check_budgets,
    check_positive,
    require,
    require_gaussian,
    seed_of,
    warn,
)
from vedute.privacy.release import SUBJECT, Release, digest
from vedute.privacy.second_moments import UNIT, Ranges, SecondMoments, checked_ranges, make_bound

SURE = 4.0  # standard deviations of noise beyond which a count is believed to differ
FLOOR = 1e-6  # least variance in any direction, in squared ranges: public
STEPS = 20  # turns of the search for the nearest covariance
HIDDEN = "cannot be told from noise at this budget (too few subjects for so many features)"
LEAVES = (
    "What leaves this hospital, under the policy 'subject': one matrix, once: counts, sums and products of the "
    "columns over all patients, clipped and with noise. Whatever anybody computes from it, now or later, the "
    "guarantee for each single patient is eps = {epsilon:g}, delta = {delta:g}, if that patient is replaced by another."
)


@dataclass(frozen=True)
class SubjectPrivacy(NoisyPolicy):
    """One noised release of the second moments hides each subject; all that follows is free.

    ``epsilon`` and ``delta`` bound everything that ever leaves, if one subject is replaced by another. ``bound``
    is B, the longest a subject may be in units of the declared ranges (default: 1/4 of the root of the number of
    features). ``budgets`` gives single centers their own (epsilon, delta). A ``seed`` makes noise repeatable and
    thereby NOT PRIVATE: for tests only.
    """

    epsilon: float
    delta: float
    bound: float | None = None
    budgets: Budgets = field(default_factory=dict)
    seed: int | None = None

    name: ClassVar[str] = "subject"
    relation: ClassVar[str] = SUBJECT
    once: ClassVar[bool] = True
    scalings: ClassVar[tuple[str | None, ...]] = ("shared-standard", "shared-view", "declared", None)

    def __post_init__(self) -> None:
        check_budgets(self.epsilon, self.delta, self.budgets)
        if self.bound is not None:
            check_positive("bound", self.bound)

    def steps(self, sums: tuple[str, ...]) -> tuple[str, ...]:
        """The moments alone: rounds are the server's."""
        return "moments", "finish"

    def sink(self, held: Schema, ranges: Mapping[str, Array] | None, *, extremes: bool) -> SecondMoments:
        """Second moments of clipped rows, in units of the declared ranges."""
        public = checked_ranges(held.layout, held.columns, ranges or {})
        return SecondMoments(public, make_bound(held.layout, self.bound))

    def check_subjects(self, subjects: int) -> None:
        """Warn where delta is so large that the promise is weak."""
        if self.delta > 1.0 / max(subjects, 1):
            warn(
                f"delta = {self.delta:g} is above 1/{subjects}: it would allow to publish one subject's row; "
                f"take {0.1 / max(subjects, 1):.0e}"
            )

    def entry(self, run: str, question: SecondMoments, noise: Noise) -> tuple[str, str]:
        """One for all runs: every later run on these data gets the same release."""
        ranges, bound = question.ranges, question.bound
        public = (ranges.layout.names, ranges.layout.sizes, ranges.low, ranges.high, bound.length, bound.weight)
        return "second moments", digest(self.name, self.epsilon, self.delta, public, seed_of(noise))

    def noised(self, question: SecondMoments, noise: Noise) -> Release:
        """The noised matrix of second moments: the only look at the data that is needed."""
        bound, multiplier = question.bound, noise_multiplier(self.epsilon, self.delta)
        noised, event = add_gaussian_symmetric(question.matrix(), bound.sensitivity, multiplier, SUBJECT, noise)
        public = {"subjects": question.rows, "length": bound.length, "weight": bound.weight, "std": event.std}
        return Release({"moments": noised}, (event,), self.name, public)

    def shapes(self, held: Layout, q: int) -> dict[str, Shape]:
        """The matrix."""
        size = held.total + len(held.names)
        return {"moments": (size, size)}

    def check_claims(self, release: Release, held: Layout, rounds: int) -> None:
        """Refuse a matrix that was measured or noised otherwise, or that no moments have."""
        bound, public, matrix = make_bound(held, self.bound), release.public, release.values["moments"]
        told, subjects = (public.get("length"), public.get("weight")), public.get("subjects")
        require(told == (bound.length, bound.weight), "its subjects were measured by another bound than the study's")
        whole = isinstance(subjects, int) and not isinstance(subjects, bool) and 2 <= subjects <= MOST_SUBJECTS
        require(whole, "its subjects are no count")
        require_gaussian(release, bound.sensitivity * noise_multiplier(self.epsilon, self.delta))
        require(np.array_equal(matrix, matrix.T) and np.abs(matrix).max() <= LARGEST, "its matrix is none of moments")

    def leaves(self, scaling: str, rounds: int) -> str:
        """One matrix, once."""
        return LEAVES.format(epsilon=self.epsilon, delta=self.delta)

    def audit(self, trials: int, noise: Noise, rounds: int, progress: Progress | None = None) -> Verdict:
        """Two neighbours who are as far apart as the bound lets them be."""
        claim = Claim(self.epsilon, self.delta, gaussian_mu(self.epsilon, self.delta))
        return judged(worst_neighbours(self, noise), trials, {"the policy": claim}, progress=progress)


def worst_neighbours(policy: SubjectPrivacy, noise: Noise, rows: int = 20) -> Mechanism:
    """One center whose first subject is one of two whose vectors u stand at right angles, both as long as allowed.

    The score is the logarithm of the likelihood ratio, the best there is (Neyman & Pearson).
    """
    layout = Layout(("A",), (2,))
    ranges = Ranges(layout, -np.ones(2), np.ones(2))
    bound = make_bound(layout, policy.bound)
    length = bound.length / UNIT
    angle = math.acos(-0.25)  # then u'v = 0, the worst case of the proof
    pair = 2.0 * length * np.array([[1.0, 0.0], [math.cos(angle), math.sin(angle)]])
    others = np.random.default_rng(0).uniform(-0.3, 0.3, (rows - 1, 2))
    exact = []
    for first in pair:
        moments = SecondMoments(ranges, bound)
        moments.add({"A": np.vstack([first, others])})
        exact.append(moments)
    direction = exact[1].matrix() - exact[0].matrix()

    def run(which: int) -> Array:
        release = policy.noised(exact[which], noise)
        return np.array([np.sum((release.values["moments"] - exact[0].matrix()) * direction)])

    return run


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


@dataclass(frozen=True)
class Recovered:
    """What the server has of a center after its one release: statistics, their declared ends, and a covariance."""

    statistics: Statistics
    low: Array
    high: Array
    covariance: NoisedCovariance


def recovered(releases: Mapping[str, Release], public: Mapping[str, Ranges], layout: Layout) -> dict[str, Recovered]:
    """What is recovered of every center that its noise does not hide; an error where it hides a whole view."""
    found = {}
    for center, release in releases.items():
        statistics = to_statistics(release, public[center])
        if statistics.mask.any():
            found[center] = _recovered(statistics, public[center], float(release.public["std"]))
        else:
            warnings.warn(f"center {center!r} {HIDDEN}; it takes no part", DataWarning, stacklevel=4)
    seen = {view for part in found.values() for view in part.statistics.layout.names}
    if hidden := [view for view in layout.names if view not in seen]:
        raise UserError(f"view {hidden[0]!r} {HIDDEN}; raise epsilon, or leave the view out of the study")
    return found


def _recovered(statistics: Statistics, ranges: Ranges, std: float) -> Recovered:
    held = statistics.held()
    parts = [ranges.layout.slices[name] for name in held.layout.names]
    low, high = (np.concatenate([ends[part] for part in parts]) for ends in (ranges.low, ranges.high))
    return Recovered(held, low, high, NoisedCovariance.of(statistics, ranges, std))


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
