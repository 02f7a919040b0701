"""What releases cost: exact composition of Gaussian noise, a tight upper bound with Laplace noise in the mix.

With mu^2 = sum of (sensitivity / std)^2 a transcript of Gaussian releases is exactly as private as one look
at N(0, 1) or N(mu, 1) (Dong, Roth & Su 2022), also when later questions depend on earlier answers. Hence

    delta(eps) = Phi(-eps/mu + mu/2) - e^eps Phi(-eps/mu - mu/2).

One Laplace release with ratio r = sensitivity / scale has, for |eps| <= r, delta(eps) = 1 - e^((eps - r)/2).
As a function of a = e^eps the curve is convex, so the chords between grid points lie above it. The chords
are themselves the curve of a pair of discrete distributions (mass of the second = change of slope at a grid
point, mass of the first = a times that), which therefore dominates the Laplace pair; dominating pairs
compose, also adaptively (Zhu, Dong & Wang 2022; the chords are due to Doroshenko et al. 2022). Composing m
releases is the m-fold convolution of the loss, done by one FFT over its whole range (nothing wraps around).
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import lru_cache
from numbers import Real

import numpy as np
from scipy.special import log_ndtr

from vedute.errors import UserError
from vedute.model.parameters import Array
from vedute.privacy.release import CENTER, Event, Gaussian, Laplace, leaves

STEPS = 128  # grid points per largest ratio: the excess over the true eps is O(1 / STEPS^2)
LARGEST_GRID = 1 << 21


@dataclass(frozen=True)
class Budget:
    """A promise (eps, delta) about everything that ever leaves."""

    epsilon: float
    delta: float

    def __post_init__(self) -> None:
        check_epsilon(self.epsilon)
        check_delta(self.delta)


def check_epsilon(epsilon: float) -> None:
    """Refuse an epsilon that promises nothing or cannot be kept."""
    if not _number(epsilon) or not 0 < epsilon < math.inf:
        raise UserError(f"epsilon must be a positive finite number, not {epsilon!r}; 1 to 10 is usual")


def check_delta(delta: float) -> None:
    """Refuse a delta that is not a small probability."""
    if not _number(delta) or not 0 < delta < 1:
        raise UserError(f"delta must lie strictly between 0 and 1, not {delta!r}; take less than 1 / subjects")


def gaussian_delta(epsilon: Array | float, mu: float) -> Array:
    """delta(eps) of Gaussian DP ``mu``, for any real eps; in logarithms, so that e^eps never overflows."""
    eps = np.asarray(epsilon, dtype=np.float64)
    if mu == 0:
        return np.maximum(-np.expm1(np.minimum(eps, 0.0)), 0.0)
    upper = log_ndtr(mu / 2 - eps / mu)
    lower = eps + log_ndtr(-mu / 2 - eps / mu)
    return np.asarray(np.exp(upper) * -np.expm1(np.minimum(lower - upper, 0.0)), dtype=np.float64)


def gaussian_mu(epsilon: float, delta: float) -> float:
    """The largest Gaussian-DP ``mu`` that keeps (epsilon, delta)."""
    Budget(epsilon, delta)
    # In terms of the noise multiplier 1/mu the promise is kept from some point on, as _smallest expects.
    return 1.0 / _smallest(lambda z: z > 0 and float(gaussian_delta(epsilon, 1.0 / z)) <= delta)


@lru_cache(maxsize=256)  # asked again in every round
def noise_multiplier(epsilon: float, delta: float, releases: int = 1) -> float:
    """Noise std over sensitivity of each of ``releases`` Gaussians that together cost (epsilon, delta)."""
    if releases < 1:
        raise UserError(f"the number of releases must be at least 1, not {releases}")
    return math.sqrt(releases) / gaussian_mu(epsilon, delta)


def zhao_multiplier(epsilon: float, delta: float) -> float:
    """Noise std over sensitivity of the improved Gaussian mechanism (Theorem 3; Zhao et al. 2019)."""
    Budget(epsilon, delta)
    if delta >= 0.5:
        raise UserError(f"the paper's Gaussian mechanism (Theorem 3) needs delta < 0.5, not {delta}")
    c = math.sqrt(math.log(2.0 / (math.sqrt(16.0 * delta + 1.0) - 1.0)))
    return (c + math.sqrt(c * c + epsilon)) / (epsilon * math.sqrt(2.0))


def paper_claim(epsilon: float, delta: float, views: int) -> tuple[float, float]:
    """What the paper's Theorem 4 promises for a whole run: it counts one round."""
    return 3 * views * epsilon, 2 * views * delta


@dataclass(frozen=True)
class LaplaceLosses:
    """Losses and their probabilities, with ``slack`` to be added to any delta for the rounding of the FFT."""

    ratios: tuple[tuple[float, int], ...]
    losses: Array
    probabilities: Array
    slack: float


def laplace_delta(epsilon: Array, ratio: float) -> Array:
    """delta(eps) of one Laplace release, for any real eps."""
    inside = -np.expm1((np.minimum(epsilon, ratio) - ratio) / 2)
    return np.where(epsilon <= -ratio, -np.expm1(epsilon), inside)


def chords(ratio: float, step: float) -> Array:
    """Probabilities of the losses -k step, ..., k step of the dominating pair; k step >= ratio."""
    k = int(np.ceil(ratio / step))
    grid = np.asarray(step * np.arange(-k, k + 1), dtype=np.float64)
    a = np.exp(grid)
    slope = np.diff(laplace_delta(grid, ratio)) / np.diff(a)
    second = np.diff(np.concatenate([[-1.0], slope, [0.0]]))  # outside the grid: 1 - a, and 0
    first = np.clip(a * second, 0.0, None)
    first[-1] += max(0.0, 1.0 - float(first.sum()))  # what rounding lost is put where it hurts most
    return np.asarray(first, dtype=np.float64)


def compose_laplace(ratios: tuple[tuple[float, int], ...]) -> LaplaceLosses:
    """The composed losses of Laplace releases given as (ratio, count).

    A very large ratio is not worth a grid: it is a constant loss, which is its worst value.
    """
    usable = tuple((ratio, count) for ratio, count in ratios if ratio <= 200.0)
    constant = sum(ratio * count for ratio, count in ratios if ratio > 200.0)
    if not usable:
        return LaplaceLosses(ratios, np.array([constant]), np.ones(1), 0.0)
    # The step follows the spread of the sum; small ratios beside large ones need no finer grid.
    step = max(ratio for ratio, _ in usable) / STEPS
    step = max(step, sum(2 * ratio * count for ratio, count in usable) / LARGEST_GRID)
    parts = [(chords(ratio, step), count) for ratio, count in usable]
    half = sum((len(p) // 2) * count for p, count in parts)
    size = 1 << (2 * half + 1).bit_length()
    spectrum = np.ones(size // 2 + 1, dtype=np.complex128)
    for p, count in parts:
        spectrum *= np.fft.rfft(p, size) ** count
    composed = np.clip(np.fft.irfft(spectrum, size)[: 2 * half + 1], 0.0, None)
    total = sum(count for _, count in usable)
    # Error of the transforms in the l1 norm: at most sqrt(size) times that in l2, a few ulp per level.
    slack = 4.0 * float(np.finfo(np.float64).eps) * total * np.log2(size) * float(np.sqrt(size))
    losses = np.asarray(constant + step * np.arange(-half, half + 1), dtype=np.float64)
    return LaplaceLosses(ratios, losses, composed, slack)


@dataclass(frozen=True)
class Cost:
    """A transcript reduced to what its price depends on: one Gaussian ``mu`` and the Laplace losses."""

    mu: float
    laplace: LaplaceLosses

    @property
    def pure(self) -> float:
        """The eps of the Laplace part by plain addition: always a valid bound."""
        return sum(ratio * count for ratio, count in self.laplace.ratios)

    def delta(self, epsilon: float) -> float:
        """An upper bound on delta: the Gaussian part exact, averaged over the Laplace losses."""
        losses, probabilities, slack = self.laplace.losses, self.laplace.probabilities, self.laplace.slack
        mixed = float(probabilities @ gaussian_delta(epsilon - losses, self.mu)) + slack
        added = float(gaussian_delta(epsilon - self.pure, self.mu))
        return min(1.0, mixed, added)

    def epsilon(self, delta: float) -> float:
        """An upper bound on eps at ``delta``."""
        return _smallest(lambda eps: self.delta(eps) <= delta)


def protected(events: Iterable[Event], relation: str, nominal: bool = False) -> bool:
    """True when every release was noised, secretly, for neighbours at least as far apart as ``relation``.

    Tables that differ in one subject also differ in one center, so what hides a center hides its subjects;
    the converse is not true. ``nominal`` counts seeded noise as if it were secret.
    """
    return all(
        isinstance(event, Gaussian | Laplace) and event.relation in (relation, CENTER) and (nominal or not event.seeded)
        for event, _ in leaves(events)
    )


def cost(events: Iterable[Event], relation: str, nominal: bool = False) -> Cost | None:
    """The cost of a transcript under a neighbouring relation; None where it is not ``protected``."""
    events = tuple(events)
    if not protected(events, relation, nominal):
        return None
    mu2, ratios = 0.0, Counter[float]()
    for event, count in leaves(events):
        if isinstance(event, Gaussian):
            mu2 += count * (event.sensitivity / event.std) ** 2
        elif isinstance(event, Laplace):
            # Rounding up the ratio to nine digits is a pessimistic way to see equal ratios as equal.
            ratios[_round_up(event.sensitivity / event.scale)] += count
    return Cost(math.sqrt(mu2), compose_laplace(tuple(sorted(ratios.items()))))


def spent_epsilon(events: Iterable[Event], delta: float, relation: str, nominal: bool = False) -> float:
    """Total eps at ``delta`` of a transcript; infinite where something left unprotected."""
    total = cost(events, relation, nominal)
    return math.inf if total is None else total.epsilon(delta)


def _number(value: object) -> bool:
    return isinstance(value, Real) and not isinstance(value, bool)


def _round_up(ratio: float) -> float:
    digits = 10.0 ** (9 - math.ceil(math.log10(ratio)))
    # The first factor lets 10.000000000000002 count as 10; the second gives back more than it took.
    return math.ceil(ratio * digits * (1.0 - 2.0**-50)) / digits * (1.0 + 2.0**-48)


def _smallest(holds: Callable[[float], bool]) -> float:
    """The smallest x >= 0, rounded up, from which ``holds`` is true: it is false below and true above."""
    if holds(0.0):
        return 0.0
    low, high = 0.0, 1.0
    while not holds(high):
        low, high = high, 2.0 * high
        if high > 1e15:
            return math.inf
    while high - low > 1e-12 * high:
        middle = 0.5 * (low + high)
        if holds(middle):
            high = middle
        else:
            low = middle
    return high
