"""What an auto-encoder looks like and how long it learns."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from vedute.core.params import Array


@dataclass(frozen=True)
class Shape:
    """What is encoded by itself (a channel), and how: ``hidden`` 0 is one linear layer, else two with tanh between.

    ``noise_from``: the log variance of each view from which Adam learns it; without one, the variance is at its optimum
    for the errors of the moment.
    """

    channels: tuple[tuple[int, ...], ...]  # the sizes of the views in each channel
    n_components: int
    hidden: int = 0
    noise_from: float | None = None

    @property
    def widths(self) -> list[int]:
        """Columns of each channel."""
        return [sum(sizes) for sizes in self.channels]


@dataclass(frozen=True)
class Schedule:
    """How long and how fast; each round begins with a fresh Adam at every center.

    All centers have as many steps in an epoch as the largest needs for batches of at most ``batch`` rows.
    """

    rounds: int = 100
    epochs: int = 15
    rate: float = 1e-3
    batch: int = 16

    def steps(self, rows: int) -> tuple[int, int]:
        """Steps of an epoch and rows in each, where the largest center has so many rows."""
        steps = -(-rows // self.batch)
        return steps, -(-rows // steps)


@dataclass(frozen=True)
class Job:
    """One model to train: the rows of each center (NaN throughout in channels that it lacks) and FedProx's lambda."""

    centers: Sequence[Array]
    proximal: float
    seed: int
