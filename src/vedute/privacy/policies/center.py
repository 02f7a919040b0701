"""Center-level privacy: all parameters of a round as one vector, clipped as a whole, one Gaussian a round.

The vector holds the differences of mu and W from the prior and of ln sigma2, and nothing else: spreads, case mix
and counts are data too. Each block is divided by its public scale and the root of its size, all by the root of
the number of blocks; a vector of length 1 is thus one whose entries differ by about their scale.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from vedute.errors import UserError
from vedute.model.contribution import Contribution
from vedute.model.parameters import Array, GlobalPrior
from vedute.privacy.events import CENTER
from vedute.privacy.mechanisms import Noise, add_gaussian, clip
from vedute.privacy.release import Release
from vedute.privacy.update import NoiseVariance, Update, contribution, view_contribution


@dataclass(frozen=True)
class Scales:
    """By how much parameters may reasonably differ from the prior, in units of the scaled data: public."""

    mu: float = 0.1
    W: float = 0.1
    log_sigma2: float = 1.0


@dataclass(frozen=True)
class Block:
    """Where one parameter of one view stands in the vector, and the factor that leads back to its units."""

    view: str
    what: str
    part: slice
    shape: tuple[int, ...]
    factor: float


def blocks(prior: GlobalPrior, names: tuple[str, ...], scales: Scales) -> Iterator[Block]:
    """The blocks of the views that a center holds, in the order of ``names``."""
    start = 0
    for name in names:
        d, q = prior.views[name].W.shape
        shapes = {"mu": (d,), "W": (d, q), "log_sigma2": ()}
        for what, shape in shapes.items():
            size = math.prod(shape)
            factor = float(getattr(scales, what)) * math.sqrt(size * 3 * len(names))
            yield Block(name, what, slice(start, start + size), shape, factor)
            start += size


def encode(update: Update, names: tuple[str, ...], scales: Scales) -> Array:
    """The vector of a center's update."""
    for name in names:
        if update.prior.views[name].alpha <= 0:
            raise UserError(f"view {name!r}: the prior of round {update.round} is flat: start from a public prior")
    parts = []
    for block in blocks(update.prior, names, scales):
        params, prior = update.params.views[block.view], update.prior.views[block.view]
        changes = {
            "mu": params.mu - prior.mu,
            "W": params.W - prior.W,
            "log_sigma2": np.array(math.log(params.sigma2 / prior.sigma2)),
        }
        parts.append(np.ravel(changes[block.what]) / block.factor)
    return np.concatenate(parts)


def center_release(
    update: Update, names: tuple[str, ...], bound: float, scales: Scales, multiplier: float, noise: Noise
) -> Release:
    """The clipped and noised vector of one round; two centers' vectors differ by at most twice the bound."""
    vector = clip(encode(update, names, scales), bound)
    noise = noise.at(f"round {update.round}")
    noised, event = add_gaussian(vector, 2.0 * bound, multiplier, CENTER, noise)
    return Release({"update": noised}, (event,), "center", {"round": update.round, "std": event.std})


def center_contribution(
    release: Release, prior: GlobalPrior, names: tuple[str, ...], scales: Scales, centers: Mapping[str, int]
) -> Contribution:
    """What the master adds: the noised parameters, with the known variance of the noise taken off the squares."""
    vector, std = np.asarray(release.values["update"]), float(release.public["std"])
    found: dict[str, dict[str, Array]] = {name: {} for name in names}
    variance: dict[str, dict[str, float]] = {name: {} for name in names}
    for block in blocks(prior, names, scales):
        found[block.view][block.what] = vector[block.part].reshape(block.shape) * block.factor
        variance[block.view][block.what] = (std * block.factor) ** 2
    views = {
        name: view_contribution(
            prior.views[name].mu + found[name]["mu"],
            prior.views[name].W + found[name]["W"],
            math.log(prior.views[name].sigma2) + float(found[name]["log_sigma2"]),
            prior.views[name],
            NoiseVariance(**variance[name]),
            centers[name],
        )
        for name in names
    }
    return contribution(views, prior.q)


def warning_below_100(centers: int, epsilon: float, multiplier: float) -> str | None:
    """Why a handful of centers cannot be told apart from noise, with the figure; None from 100 centers on."""
    if centers >= 100:
        return None
    # The mean of C clipped vectors has length at most the bound; its noise has 2 * bound * z / sqrt(C) per entry.
    noise = 2.0 * multiplier / math.sqrt(centers)
    return (
        f"center-level privacy with {centers} centers: at eps = {epsilon:g} the noise on every single entry of a "
        f"round's mean update is {noise:.3g} times the longest update that is let through. It hides each center, "
        "and the signal with it; 100 centers or more are needed, or subject-level privacy (policy 'subject')"
    )
