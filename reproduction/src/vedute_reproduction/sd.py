"""Synthetic data in all scenarios: the paper's table SD_2."""

from __future__ import annotations

import numpy as np

from vedute_reproduction.arms import Arm
from vedute_reproduction.contenders import (
    ENCODERS,
    MCVAE,
    PAPER,
    SCATTERED,
    SCENARIOS,
    STARTED,
    STARTS,
    TESTED,
    UNTUNED,
    longer,
    settings,
    tuned,
    untuned,
)
from vedute_reproduction.methods import FedMvPPCA
from vedute_reproduction.runner import Experiment, Setting
from vedute_reproduction.studies import SyntheticStudy


def experiment(*, rivals: bool = True) -> Experiment:
    """The paper's table SD_2."""
    blocks = [block for dealing, n in SCENARIOS for block in settings(5, dealing, n, rivals=rivals)]
    blocks += [Setting(dealing, n, parted(5), "parted") for dealing in SCATTERED for n in (3, 6)]
    if rivals:  # where most centers have the fewest steps
        blocks.append(Setting("IID", 6, (longer(MCVAE, tuned(5, MCVAE), "shared"),), "longer", stacked=True))
        slow = tuple(longer(name + UNTUNED, untuned(5, name), "per center") for name in ENCODERS)
        blocks.append(Setting("IID", 3, slow, "longer", stacked=True))
        even = [place for place in SCENARIOS if place[0] == "IID"]
        blocks += [Setting(*place, started(5), "started", stacked=True) for place in even]
    return Experiment("sd", "SD", SyntheticStudy(), tuple(blocks), "SD_2")


def parted(q: int) -> tuple[Arm, ...]:
    """The paper preset, its test rows dealt in each way: what of it lowers the accuracy?"""
    method = FedMvPPCA(q, "paper")
    return tuple(Arm(PAPER + name, method, "per center", parting=parting) for parting, name in TESTED.items())


def started(q: int) -> tuple[Arm, ...]:
    """The untuned ones with noise that begins elsewhere: how much of their error is that of a start?"""
    return tuple(
        Arm(f"{name}{UNTUNED}{STARTED}{np.exp(start):.2g}", untuned(q, name, start), "per center")
        for name in ENCODERS
        for start in STARTS[1:]
    )
