"""Clipping and noise.

Noise comes from OpenDP's samplers, which draw from a discrete distribution on a grid with randomness of the
operating system: `x + rng.normal()` in floating point betrays x in its last bits (Mironov 2012). The grid is
2^-40 of the noise or finer, so that it stays fine when the noise shrinks over the rounds; what rounding to
the grid adds to the sensitivity is counted in the event.
"""

from __future__ import annotations

import hashlib
import importlib
import math
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from vedute.errors import BreakdownError, UserError
from vedute.model.parameters import Array
from vedute.privacy.release import Gaussian, Laplace

GRID_BITS = 40
ROOM = 2.0**-30  # noise is enlarged by this share, to pay for the rounding of values to the grid


class Noise(Protocol):
    """A source of noise; ``at(key)`` is the source for one release: a resumed run need not replay others."""

    @property
    def seeded(self) -> bool:
        """True when the noise can be drawn again, and hence protects nobody."""

    def at(self, key: str) -> Noise:
        """The source for the release of that name."""

    def gaussian(self, values: Array, std: float, grid: int) -> Array:
        """The values plus Gaussian noise, on multiples of 2^grid."""

    def laplace(self, values: Array, scale: float, grid: int) -> Array:
        """The values plus Laplace noise, on multiples of 2^grid."""


@dataclass(frozen=True)
class SecretNoise:
    """OpenDP's samplers on randomness of the operating system: the only noise that protects."""

    seeded = False

    def __post_init__(self) -> None:
        _opendp()

    def at(self, key: str) -> SecretNoise:
        """Secret noise is fresh for every release whatever its name."""
        return self

    def gaussian(self, values: Array, std: float, grid: int) -> Array:
        """Discrete Gaussian noise of standard deviation ``std``."""
        dp = _opendp()
        space = _vectors(dp, values.size), dp.l2_distance(T=float)
        return _sampled(dp.m.make_gaussian(*space, scale=std, k=grid), values)

    def laplace(self, values: Array, scale: float, grid: int) -> Array:
        """Discrete Laplace noise of the given scale."""
        dp = _opendp()
        space = _vectors(dp, values.size), dp.l1_distance(T=float)
        return _sampled(dp.m.make_laplace(*space, scale=scale, k=grid), values)


@dataclass(frozen=True)
class SeededNoise:
    """NOT PRIVATE: noise for tests and demonstrations that anyone who knows the seed can subtract again.

    The stream depends on seed, center and release, so no two releases share noise.
    """

    seed: int
    center: str
    key: str = ""
    seeded = True

    def at(self, key: str) -> SeededNoise:
        """The source for the release of that name."""
        return SeededNoise(self.seed, self.center, f"{self.key}/{key}")

    def gaussian(self, values: Array, std: float, grid: int) -> Array:
        """Gaussian noise of standard deviation ``std``, rounded to the grid as the secret noise is."""
        return _on_grid(values + std * self._rng("gaussian").standard_normal(values.shape), grid)

    def laplace(self, values: Array, scale: float, grid: int) -> Array:
        """Laplace noise of the given scale, rounded to the grid as the secret noise is."""
        return _on_grid(values + scale * self._rng("laplace").laplace(size=values.shape), grid)

    def _rng(self, kind: str) -> np.random.Generator:
        name = "\0".join([str(self.seed), self.center, self.key, kind]).encode()
        # Each byte a word of the seed; as an array, because NumPy takes a list apart word by word.
        return np.random.default_rng(np.frombuffer(hashlib.sha256(name).digest(), np.uint8).astype(np.uint32))


def noise_source(seed: int | None, center: str) -> Noise:
    """Secret noise, or, where a seed is given, the seeded kind that is NOT PRIVATE."""
    return SecretNoise() if seed is None else SeededNoise(seed, center)


def norm(values: Array) -> float:
    """The l2 norm of all entries (for a matrix: Frobenius), rounded up so that it is never too small.

    Not finite where any entry is not.
    """
    largest = float(np.max(np.abs(values), initial=0.0))
    if largest == 0.0 or not math.isfinite(largest):
        return largest
    squares = (np.ravel(values) / largest) ** 2  # scaled, so that nothing overflows or vanishes
    return largest * math.sqrt(math.fsum(squares.tolist())) * (1.0 + 2.0**-48)


def clip(values: Array, bound: float) -> Array:
    """The values, shrunk toward zero where needed, so that their norm is truly at most ``bound``."""
    size = norm(values)
    if not math.isfinite(size):
        raise BreakdownError("values to clip must be finite; the run has diverged")
    while size > bound:  # rounding may leave the norm a hair above the bound: shrink until it is not
        values = values * (bound / size * (1.0 - 2.0**-50))
        size = norm(values)
    return values


def add_gaussian(
    values: Array, sensitivity: float, multiplier: float, relation: str, noise: Noise
) -> tuple[Array, Gaussian]:
    """Values plus Gaussian noise of ``multiplier * sensitivity``, with the event that says so.

    ``sensitivity`` bounds how far neighbours move the values in the l2 (Frobenius) norm.
    """
    std = multiplier * sensitivity * (1.0 + ROOM)
    grid = _grid(min(std, sensitivity), values.size)
    noised = noise.gaussian(_finite(values), std, grid)
    rounding = math.sqrt(values.size) * 2.0**grid
    return noised, Gaussian(sensitivity + rounding, std, relation, noise.seeded)


def add_gaussian_symmetric(
    matrix: Array, sensitivity: float, multiplier: float, relation: str, noise: Noise
) -> tuple[Array, Gaussian]:
    """A symmetric matrix plus symmetric noise: std on the diagonal, std / sqrt 2 off it.

    In the Frobenius norm an entry off the diagonal counts twice, so this noise is the same in every direction
    of the space of symmetric matrices, and the Gaussian mechanism applies with the Frobenius sensitivity.
    """
    std = multiplier * sensitivity * (1.0 + ROOM)
    upper = np.triu_indices(len(matrix), 1)
    grid = _grid(min(std, sensitivity) / math.sqrt(2.0), 2 * matrix.size)
    noised = np.diag(noise.at("diagonal").gaussian(_finite(np.diag(matrix)), std, grid))
    if len(matrix) > 1:
        noised[upper] = noise.at("upper").gaussian(_finite(matrix[upper]), std / math.sqrt(2.0), grid)
        noised.T[upper] = noised[upper]
    rounding = math.sqrt(matrix.size) * 2.0**grid
    return noised, Gaussian(sensitivity + rounding, std, relation, noise.seeded)


def add_laplace(
    values: Array, sensitivity: float, epsilon: float, relation: str, noise: Noise
) -> tuple[Array, Laplace]:
    """Values plus Laplace noise of scale ``sensitivity / epsilon`` (Theorem 1), with the event that says so.

    ``sensitivity`` bounds how far neighbours move the values in the l1 norm.
    """
    scale = sensitivity / epsilon * (1.0 + ROOM)
    grid = _grid(min(scale, sensitivity), values.size**2)
    noised = noise.laplace(_finite(values), scale, grid)
    return noised, Laplace(sensitivity + values.size * 2.0**grid, scale, relation, noise.seeded)


def _grid(scale: float, size: int) -> int:
    """The exponent of a grid so fine that rounding ``size`` values to it moves them by 2^-40 of ``scale``."""
    return math.floor(math.log2(scale)) - GRID_BITS - math.ceil(math.log2(size) / 2)


def _finite(values: Array) -> Array:
    """The same values; OpenDP would answer NaN with unprotected noise about zero, so refuse it here."""
    if not np.all(np.isfinite(values)):
        raise ValueError("values to be noised must be finite")
    return np.asarray(values, dtype=np.float64)


def _on_grid(values: Array, grid: int) -> Array:
    return np.ldexp(np.rint(np.ldexp(values, -grid)), grid)


def _vectors(dp: Any, size: int) -> Any:
    return dp.vector_domain(dp.atom_domain(T=float, nan=False), size=size)


def _sampled(measurement: Any, values: Array) -> Array:
    drawn = np.array(measurement(np.ravel(values).tolist()), dtype=np.float64)
    return drawn.reshape(values.shape)


def _opendp() -> Any:
    """OpenDP with its samplers switched on, or a message that says how to install it."""
    try:
        dp = importlib.import_module("opendp.prelude")
    except ImportError as error:
        raise UserError("private noise needs OpenDP, which is not installed: pip install 'vedute[privacy]'") from error
    dp.enable_features("contrib")
    return dp
