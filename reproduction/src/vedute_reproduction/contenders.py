"""What is compared: our presets, ours with something undone, and the rivals, as arms under their names."""

from __future__ import annotations

from dataclasses import replace

from vedute_reproduction.arms import Arm, Scaling
from vedute_reproduction.baselines.autoencoders import Autoencoder, Encoders, Schedule
from vedute_reproduction.baselines.linear import PCA, PPCA, FactorAnalysis, PCAOfSums
from vedute_reproduction.baselines.mofa import MOFA, installed
from vedute_reproduction.folds import Dealing, Parting
from vedute_reproduction.methods import ROUNDS, FedMvPPCA
from vedute_reproduction.private import DPFedMvPPCA
from vedute_reproduction.runner import Setting

PAPER = "Fed-mv-PPCA, paper preset"
DEFAULT = "Fed-mv-PPCA, default preset"
PROJECTED, ONE_NOISE, COMPLETE = ", projected", ", one noise", ", complete rows"  # what is undone, after its name
CUT = f", {ROUNDS} rounds"
OWN = ", each center's own parameters"
YARDSTICK, SUMS = "PCA, pooled", "PCA, from sums"
PRIVATE = "DP-Fed-mv-PPCA, paper preset"
VAE, MCVAE = "VAE", "mc-VAE"
UNTUNED, TWO_LAYERS, LONGER = ", untuned", ", two layers", ", four times the rounds"
TESTED: dict[Parting, str] = {
    "one part": ", test rows in one part",
    "G": ", test rows parted by groups",
    "K": ", test rows parted by views",
    "G/K": ", test rows parted by both",
}
# Log variances from which Adam learns the noise of the untuned ones; the first is that of the mc-VAE's public package.
STARTS = (-3.0, -1.5, 0.0)
STARTED = ", noise from "
# variations that tables and words tell of, but no figure
ASIDE = (PROJECTED, ONE_NOISE, COMPLETE, CUT, LONGER, STARTED, *TESTED.values())
ENCODERS: dict[str, Encoders] = {VAE: "joint", MCVAE: "one for each view"}
# Corrections of the default preset, added to the paper's; the default also has one start and one rotation.
CORRECTED: dict[str, tuple[str, ...]] = {
    PAPER: (),
    f"{PAPER}, posterior variances": ("posterior_variances",),
    f"{PAPER}, case mix": ("case_mix",),
    f"{PAPER}, both of these": ("posterior_variances", "case_mix"),
    f"{PAPER}, all corrections": ("posterior_variances", "case_mix", "spread"),
}
SCHEDULE, FULL = Schedule(), 10**6  # a batch that holds any center
SCENARIOS: tuple[tuple[Dealing, int], ...] = (
    ("IID", 1), ("IID", 3), ("IID", 6), ("G", 3), ("G", 6), ("K", 3), ("K", 6), ("G/K", 3), ("G/K", 6),
)  # fmt: skip
SCATTERED: tuple[Dealing, ...] = ("G", "G/K")  # scenarios whose centers do not all have both groups


def settings(q: int, dealing: Dealing, n_centers: int, *, rivals: bool = True, complete: bool = True) -> list[Setting]:
    """Everything that is compared where rows are dealt so; auto-encoders and lone centers need complete rows."""
    found = [Setting(dealing, n_centers, ours(q, dealing, n_centers, private=complete))]
    if complete:  # in the units of the paper preset
        found.append(Setting(dealing, n_centers, (Arm(DEFAULT, FedMvPPCA(q), "per center"),), "scaled likewise"))
    if rivals:
        found.append(Setting(dealing, n_centers, linear(q, alone=complete), "linear"))
        if complete:
            found.append(Setting(dealing, n_centers, neural(q, dealing), "neural", stacked=True))
    return found


def ours(q: int, dealing: Dealing, n_centers: int, *, private: bool = True) -> tuple[Arm, ...]:
    """Our presets. One center means the paper's centralised case: 1 round of 800 iterations, and no privacy."""
    paper = FedMvPPCA(q, "paper", 1, 800) if n_centers == 1 else FedMvPPCA(q, "paper")
    found = [Arm(PAPER, paper, "per center")]
    if dealing.endswith("K"):  # where the test rows have parts
        found.append(Arm(PAPER, paper, "per center, test as one"))
    if private and n_centers != 1:
        found.append(Arm(PRIVATE, DPFedMvPPCA(q), "per center"))
    return (*found, Arm(PAPER, paper, "shared"), Arm(DEFAULT, FedMvPPCA(q), "shared"))


def linear(q: int, *, alone: bool = True) -> tuple[Arm, ...]:
    """Rivals without neural networks; MOFA where its package is there."""
    found = [
        Arm(YARDSTICK, PCA(q), "shared", "whole"),
        Arm(SUMS, PCAOfSums(q), "shared"),
        Arm("factor analysis, pooled", FactorAnalysis(q), "shared", "whole"),
    ]
    if installed():
        found.append(Arm("MOFA, pooled", MOFA(q), "shared"))
    if alone:
        found.append(Arm("PPCA, each center alone", PPCA(q), "shared", "alone"))
    return tuple(found)


def neural(q: int, dealing: Dealing) -> tuple[Arm, ...]:
    """Auto-encoders that can run: only the multi-channel VAE does without a view."""
    names = (VAE, MCVAE) if not dealing.endswith("K") else (MCVAE,)
    found = []
    for name in names:
        found += [
            Arm(name, tuned(q, name), "per center"),
            Arm(name + UNTUNED, untuned(q, name), "per center"),
            Arm(name, tuned(q, name), "shared"),
        ]
    return tuple(found)


def tuned(q: int, name: str) -> Autoencoder:
    """With its noise at the optimum, and several steps in an epoch."""
    return Autoencoder(q, ENCODERS[name], schedule=SCHEDULE)


def untuned(q: int, name: str, start: float = STARTS[0]) -> Autoencoder:
    """With a noise that Adam has to find, and one step in an epoch."""
    return replace(tuned(q, name), noise_from=start, schedule=replace(SCHEDULE, batch=FULL))


def longer(name: str, method: Autoencoder, scaling: Scaling) -> Arm:
    """An auto-encoder with more time to arrive."""
    late = replace(method.schedule, rounds=4 * method.schedule.rounds)
    return Arm(name + LONGER, replace(method, schedule=late), scaling)
