"""Variational auto-encoders: one encoder for all views (VAE), or one for each (multi-channel VAE)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

import numpy as np

from vedute.errors import UserError
from vedute.model.parameters import Array, Layout
from vedute_reproduction.methods import Centers, Views, common_layout, side_by_side

Encoders = Literal["joint", "one for each view"]
MIDDLE = 0.5  # of min-max scaled units: inputs about 0 learn faster


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


@dataclass(frozen=True)
class Autoencoder:
    """A VAE (Kingma and Welling 2014) or multi-channel VAE (Antelmi et al. 2019), federated by FedAvg or FedProx.

    Gaussian likelihood with a noise of its own for each view. The multi-channel VAE draws every view from every
    encoder; a center that lacks a view does without its encoder and decoder.
    """

    n_components: int
    encoders: Encoders = "joint"
    hidden: int = 0  # 0: linear
    proximal: float = 0.0  # lambda of FedProx; 0 is FedAvg
    noise_from: float | None = None  # log variance from which Adam learns the noise; else it is at its optimum
    schedule: Schedule = field(default_factory=Schedule)

    def fit(self, centers: Centers, seed: int) -> Encoded:
        """Train by itself."""
        return fit_together([(self, centers, seed)])[0]

    def shape(self, layout: Layout) -> Shape:
        """Its channels, given the views."""
        channels = (layout.sizes,) if self.encoders == "joint" else tuple((d,) for d in layout.sizes)
        return Shape(channels, self.n_components, self.hidden, self.noise_from)


@dataclass(frozen=True)
class Encoded:
    """A fitted auto-encoder: latent means are those of the encoder, or the mean over the encoders of observed views."""

    layout: Layout
    shape: Shape
    weights: Mapping[tuple[int, str], Array]

    @property
    def views(self) -> tuple[str, ...]:
        """The views that it knows."""
        return self.layout.names

    def latent(self, views: Views) -> Array:
        """Means of the latent posterior."""
        rows = side_by_side(views, self.layout) - MIDDLE
        found = []
        for k, channel in enumerate(np.split(rows, np.cumsum(self.shape.widths)[:-1], axis=1)):
            if not np.isnan(channel).all():
                code = self._layer(k, "code", self._hidden(k, "encoder", channel))
                found.append(code[:, : self.shape.n_components])  # the other half are log variances
        means = np.mean(found, axis=0) if found else np.array([np.nan])
        if np.isnan(means).any():
            raise UserError("an auto-encoder needs every cell of its views; take complete rows")
        return np.asarray(means)

    def reconstruct(self, views: Views) -> dict[str, Array]:
        """The given views, decoded from the latent means."""
        latent = self.latent(views)
        drawn = [self._layer(k, "out", self._hidden(k, "decoder", latent)) for k in range(len(self.shape.channels))]
        whole = np.concatenate(drawn, axis=1) + MIDDLE
        return {name: whole[:, self.layout.slices[name]] for name in views}

    def _hidden(self, k: int, name: str, values: Array) -> Array:
        return np.tanh(self._layer(k, name, values)) if self.shape.hidden else values

    def _layer(self, k: int, name: str, values: Array) -> Array:
        return values @ self.weights[k, f"{name} weight"] + self.weights[k, f"{name} bias"]


def device() -> str:
    """What they are trained on."""
    from vedute_reproduction.baselines.stacked import DEVICE

    return DEVICE


def fit_together(wanted: Sequence[tuple[Autoencoder, Centers, int]]) -> list[Encoded]:
    """Fits of several methods, centers and seeds: those of one shape and as many steps are trained as one stack."""
    stacks: dict[object, list[int]] = {}
    for i, (method, centers, _) in enumerate(wanted):
        most = max(len(next(iter(views.values()))) for views in centers.values())
        key = (replace(method, proximal=0.0), common_layout(centers), len(centers), method.schedule.steps(most))
        stacks.setdefault(key, []).append(i)
    found: dict[int, Encoded] = {}
    for members in stacks.values():
        found |= zip(members, _stack([wanted[i] for i in members]), strict=True)
    return [found[i] for i in range(len(wanted))]


def _stack(wanted: Sequence[tuple[Autoencoder, Centers, int]]) -> list[Encoded]:
    first, centers, _ = wanted[0]
    layout = common_layout(centers)
    shape = first.shape(layout)
    jobs = [
        Job([side_by_side(views, layout) - MIDDLE for views in own.values()], method.proximal, seed)
        for method, own, seed in wanted
    ]
    _check(layout, shape, jobs)
    try:
        from vedute_reproduction.baselines.stacked import train
    except ModuleNotFoundError as error:
        raise UserError(f"auto-encoders need {error.name}: pip install torch") from None
    found = train(shape, jobs, first.schedule)
    if not all(np.isfinite(weight).all() for weights in found for weight in weights.values()):
        raise UserError(f"an auto-encoder diverged at learning rate {first.schedule.rate:g}; take a smaller one")
    return [Encoded(layout, shape, weights) for weights in found]


def _check(layout: Layout, shape: Shape, jobs: Sequence[Job]) -> None:
    """Each center must have each channel whole or not at all."""
    for job in jobs:
        for rows in job.centers:
            for channel in np.split(np.isnan(rows), np.cumsum(shape.widths)[:-1], axis=1):
                if channel.any() and (not channel.all() or len(shape.channels) == 1):
                    raise UserError(
                        f"an auto-encoder of {', '.join(layout.names)} needs every cell of a view that a center has, "
                        "and a VAE every view; take complete rows"
                    )
