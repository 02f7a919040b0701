"""Training of many federated auto-encoders at once, all models and their centers stacked along one leading axis.

A model of this size keeps no core busy, and a table needs hundreds. Stacked, a step of all of them is a few batched
products. Nothing of one model enters another: all its draws come from its own seed, and Adam works cell by cell.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import torch

from vedute.model.parameters import Array
from vedute.model.seeds import stream
from vedute_reproduction.baselines.autoencoders import Job, Schedule, Shape

Tensors = dict[tuple[int, str], Any]  # (channel, name) -> (models x centers, inputs or 1, outputs)
DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
LEAST_ERROR = 1e-10  # under the logarithm of the squared error


@dataclass(frozen=True)
class _Batch:
    """Rows of all models and centers, padded with zeros to the same number."""

    rows: Any  # (models x centers, rows, columns)
    real: Any  # (models x centers, rows, 1) 1 where a row is no padding
    held: Any  # (models x centers, channels) 1 where a center has the channel

    def taken(self, places: Any) -> _Batch:
        """Some rows of each: (models x centers, batch) places."""
        first = torch.arange(len(places), device=DEVICE)[:, None] * self.rows.shape[1]
        chosen, size = (first + places).flatten(), (*places.shape, -1)
        rows, real = (part.flatten(0, 1).index_select(0, chosen).view(size) for part in (self.rows, self.real))
        return _Batch(rows, real, self.held)


def train(shape: Shape, jobs: Sequence[Job], schedule: Schedule) -> list[dict[tuple[int, str], Array]]:
    """Global weights of each job after all rounds; all jobs have as many centers, steps and rows in a batch."""
    data, n_centers = _padded(shape, jobs), len(jobs[0].centers)
    draws = [stream(job.seed, "autoencoder") for job in jobs]
    start = [_start(shape, draw) for draw in draws]
    common = {key: torch.stack([one[key] for one in start]).to(DEVICE) for key in start[0]}
    lambdas = torch.tensor([job.proximal for job in jobs], device=DEVICE).repeat_interleave(n_centers)[:, None, None]
    weights = _shares(data, n_centers)
    with _one_thread():
        for _ in range(schedule.rounds):
            begun = {key: value.repeat_interleave(n_centers, dim=0) for key, value in common.items()}
            own = _local(shape, begun, _batches(shape, jobs, draws, data, schedule), lambdas, schedule.rate)
            common = {key: _averaged(value, weights[:, key[0]], n_centers) for key, value in own.items()}
    return [{key: value[m].cpu().numpy().astype(float) for key, value in common.items()} for m in range(len(jobs))]


@contextmanager
def _one_thread() -> Iterator[None]:
    """Batches of small matrices gain nothing from more threads, and other folds run on the other cores."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def _start(shape: Shape, draw: np.random.Generator) -> Tensors:
    """Weights uniform on +- 1/sqrt(inputs), biases 0, a learned log variance of the noise where the shape says."""
    q, h = shape.n_components, shape.hidden
    found: Tensors = {}
    for k, d in enumerate(shape.widths):
        layers = {"code": (h or d, 2 * q), "out": (h or q, d)}
        if h:
            layers |= {"encoder": (d, h), "decoder": (q, h)}
        for name, (inputs, outputs) in layers.items():
            drawn = draw.uniform(-1.0, 1.0, (inputs, outputs)) / np.sqrt(inputs)
            found[k, f"{name} weight"] = torch.tensor(drawn, dtype=torch.float32)
            found[k, f"{name} bias"] = torch.zeros(1, outputs)
        if shape.noise_from is not None:
            found[k, "noise"] = torch.full((1, len(shape.channels[k])), shape.noise_from)
    return found


def _batches(
    shape: Shape, jobs: Sequence[Job], draws: Sequence[np.random.Generator], data: _Batch, schedule: Schedule
) -> Iterator[tuple[_Batch, Any]]:
    """The batches of one round, and standard normal draws for them: (channels, models x centers, rows, components)."""
    most = data.rows.shape[1] - 1  # the last row of each is one of padding
    steps, size = schedule.steps(most)
    for _ in range(schedule.epochs):
        order = np.full((len(jobs), len(jobs[0].centers), size * steps), most)
        for own, job, draw in zip(order, jobs, draws, strict=True):
            for mine, rows in zip(own, job.centers, strict=True):
                mine[: len(rows)] = draw.permutation(len(rows))
        # dealt like cards: a center of fewer rows has smaller batches, not fewer
        places = torch.from_numpy(order.reshape(-1, size, steps)).to(DEVICE)
        shapes = (steps, len(shape.channels), len(jobs[0].centers), size, shape.n_components)
        drawn = np.stack([draw.standard_normal(shapes, dtype=np.float32) for draw in draws], axis=2)
        noise = torch.from_numpy(drawn.reshape(*shapes[:2], -1, *shapes[3:])).to(DEVICE)
        for step in range(steps):
            yield data.taken(places[:, :, step]), noise[step]


def _local(shape: Shape, begun: Tensors, batches: Iterable[tuple[_Batch, Any]], lambdas: Any, rate: float) -> Tensors:
    """One round at every center. FedProx (Li et al. 2020) adds lambda / 2 of the squared way from where it began."""
    own = {key: value.clone().requires_grad_() for key, value in begun.items()}
    adam = torch.optim.Adam(list(own.values()), lr=rate, fused=True)
    pulled = bool((lambdas > 0).any())
    for batch, noise in batches:
        adam.zero_grad()
        _loss(shape, own, batch, noise).sum().backward()
        if pulled:
            for key, value in own.items():
                value.grad += lambdas * (value.detach() - begun[key])
        adam.step()
    return {key: value.detach() for key, value in own.items()}


def _loss(shape: Shape, weights: Tensors, batch: _Batch, noise: Any) -> Any:
    """Negative evidence bound of each center, mean over its rows and over the encoders that it has.

    Every channel is drawn from every encoder (Antelmi et al. 2019, equation 6). Noise at its optimum leaves the
    logarithm of the mean squared error of each view: Adam at 1e-3 would need thousands of steps to carry a log variance
    there, and until then components that explain less than the noise are lost.
    """
    channels = batch.rows.split(shape.widths, dim=2)
    share = batch.held / batch.held.sum(1, keepdim=True)  # of each encoder in the mean over those a center has
    each = batch.real / batch.real.sum(1, keepdim=True).clamp(min=1.0)  # of each row in the mean over rows
    latents, found = [], 0.0
    for k, rows in enumerate(channels):
        mean, spread = _encoded(weights, k, rows)
        apart = 0.5 * (mean**2 + torch.exp(spread) - 1.0 - spread)
        found = found + share[:, k] * (apart * each).sum((1, 2))
        latents.append(mean + torch.exp(0.5 * spread) * noise[k])
    drawn = torch.cat(latents, dim=1)  # from all encoders, one below the other
    weight = (share[:, :, None] * each[:, None, :, 0]).flatten(1)[..., None]
    for k, rows in enumerate(channels):
        squared = (_decoded(weights, k, drawn) - rows.repeat(1, len(channels), 1)) ** 2 * weight
        for v, part in enumerate(squared.split(shape.channels[k], dim=2)):
            error, d = part.sum((1, 2)), part.shape[2]
            if shape.noise_from is not None:
                level = weights[k, "noise"][:, 0, v]
                misfit = d * level + error * torch.exp(-level)
            else:
                misfit = d * torch.log(error / d + LEAST_ERROR)
            found = found + 0.5 * batch.held[:, k] * misfit
    return found


def _encoded(weights: Tensors, k: int, rows: Any) -> tuple[Any, Any]:
    """Means and log variances of the latent posterior."""
    hidden = torch.tanh(_layer(weights, k, "encoder", rows)) if (k, "encoder weight") in weights else rows
    mean, spread = _layer(weights, k, "code", hidden).chunk(2, dim=2)
    return mean, spread


def _decoded(weights: Tensors, k: int, latent: Any) -> Any:
    hidden = torch.tanh(_layer(weights, k, "decoder", latent)) if (k, "decoder weight") in weights else latent
    return _layer(weights, k, "out", hidden)


def _layer(weights: Tensors, k: int, name: str, values: Any) -> Any:
    return torch.baddbmm(weights[k, f"{name} bias"], values, weights[k, f"{name} weight"])


def _shares(data: _Batch, n_centers: int) -> Any:
    """(models x centers, channels): each center's part in FedAvg, by its rows, among those that hold the channel."""
    counts = (data.real.sum((1, 2))[:, None] * data.held).unflatten(0, (-1, n_centers))
    return (counts / counts.sum(1, keepdim=True)).flatten(0, 1)


def _averaged(own: Any, share: Any, n_centers: int) -> Any:
    return (share[:, None, None] * own).unflatten(0, (-1, n_centers)).sum(1)


def _padded(shape: Shape, jobs: Sequence[Job]) -> _Batch:
    """All rows, and one more of padding at each center for batches that lack a row."""
    ends = np.cumsum([0, *shape.widths])
    tables = [rows for job in jobs for rows in job.centers]
    size = (len(tables), max(map(len, tables)) + 1)
    rows, real = np.zeros((*size, int(ends[-1])), np.float32), np.zeros((*size, 1), np.float32)
    held = np.ones((len(tables), len(shape.channels)), np.float32)
    for i, own in enumerate(tables):
        rows[i, : len(own)] = np.nan_to_num(own)
        real[i, : len(own)] = 1.0
        held[i] = [not np.isnan(own[:, a:b]).all() for a, b in pairwise(ends)]
    return _Batch(*(torch.from_numpy(part).to(DEVICE) for part in (rows, real, held)))
