"""The privacy loss of composed Laplace releases, as a discrete distribution that is never too kind.

One Laplace release with ratio r = sensitivity / scale has, for |eps| <= r, delta(eps) = 1 - e^((eps - r)/2).
As a function of a = e^eps the curve is convex, so the chords between grid points lie above it. The chords
are themselves the curve of a pair of discrete distributions (mass of the second = change of slope at a grid
point, mass of the first = a times that), which therefore dominates the Laplace pair; dominating pairs
compose, also adaptively (Zhu, Dong & Wang 2022; the chords are due to Doroshenko et al. 2022). Composing m
releases is the m-fold convolution of the loss, done by one FFT over its whole range (nothing wraps around).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from vedute.model.parameters import Array

STEPS = 128  # grid points per largest ratio: the excess over the true eps is O(1 / STEPS^2)
LARGEST_GRID = 1 << 21


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
