"""Which methods, scenarios and data make up each of the paper's tables."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from vedute.core.streams import stream
from vedute.data.synthetic import make_sd
from vedute_reproduction.arms import Arm, Scaling
from vedute_reproduction.baselines import MOFA, PCA, PPCA, Autoencoder, Encoders, FactorAnalysis, PCAOfSums, mofa
from vedute_reproduction.baselines.shapes import Schedule
from vedute_reproduction.dissection import CompleteRows, OneNoise, Projected
from vedute_reproduction.folds import Dataset, Dealing, Parting
from vedute_reproduction.keeping import Source
from vedute_reproduction.methods import ROUNDS, FedMvPPCA, OwnParameters
from vedute_reproduction.private import DPFedMvPPCA
from vedute_reproduction.runner import Experiment, Setting

PAPER = "Fed-mv-PPCA, paper preset"
DEFAULT = "Fed-mv-PPCA, default preset"
PROJECTED, ONE_NOISE, COMPLETE = ", projected", ", one noise", ", complete rows"  # what is undone, after its name
CUT = f", {ROUNDS} rounds"
OWN = ", each center's own parameters"
# Corrections of the default preset, added to the paper's; the default also has one start and one rotation.
CORRECTED: dict[str, tuple[str, ...]] = {
    PAPER: (),
    f"{PAPER}, posterior variances": ("posterior_variances",),
    f"{PAPER}, case mix": ("case_mix",),
    f"{PAPER}, both of these": ("posterior_variances", "case_mix"),
    f"{PAPER}, all corrections": ("posterior_variances", "case_mix", "spread"),
}
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
HIDDEN, FULL = 32, 10**6  # units of a hidden layer; a batch that holds any center
SCHEDULE = Schedule()
LAMBDAS = (0.0, 0.01, 0.05, 0.1, 0.2, 0.3, 0.4, 0.5)
SWEPT: tuple[Scaling, ...] = ("per center", "shared")
SWEPT_CENTERS = (3, 6)
SCENARIOS: tuple[tuple[Dealing, int], ...] = (
    ("IID", 1), ("IID", 3), ("IID", 6), ("G", 3), ("G", 6), ("K", 3), ("K", 6), ("G/K", 3), ("G/K", 6),
)  # fmt: skip
SCATTERED: tuple[Dealing, ...] = ("G", "G/K")  # scenarios whose centers do not all have both groups
SITES: tuple[Dealing, int] = ("sites", 0)
KNOWN: tuple[Dealing, int] = ("known sites", 0)


@dataclass(frozen=True)
class SyntheticStudy:
    """SD, drawn anew in each repetition: the paper's own draw is not known, so the mean over draws stands for it."""

    def draw(self, repeat: int) -> Dataset:
        """One draw."""
        views, groups = make_sd(random_state=stream(repeat, "sd"))
        return Dataset(views, groups)


@dataclass(frozen=True)
class FixedStudy:
    """A study whose rows are given; only the folds differ between repetitions."""

    data: Dataset

    def draw(self, repeat: int) -> Dataset:
        """The rows."""
        return self.data


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
    if mofa.installed():
        found.append(Arm("MOFA, pooled", MOFA(q), "shared"))
    if alone:
        found.append(Arm("PPCA, each center alone", PPCA(q), "shared", "alone"))
    return tuple(found)


def dissected(q: int, *, complete: bool) -> tuple[Arm, ...]:
    """Ours with one thing after the other undone, down to what PCA does."""
    ours, one = FedMvPPCA(q), OneNoise(FedMvPPCA(q))
    found = [
        Arm(DEFAULT + PROJECTED, Projected(ours)),
        Arm(DEFAULT + ONE_NOISE, one),
        Arm(DEFAULT + ONE_NOISE + PROJECTED, Projected(one)),
    ]
    if not complete:
        found += [
            Arm(DEFAULT + ONE_NOISE + COMPLETE, CompleteRows(one)),
            Arm(DEFAULT + ONE_NOISE + COMPLETE + PROJECTED, Projected(CompleteRows(one))),
        ]
    return tuple(found)


def known(q: int) -> tuple[Arm, ...]:
    """Ours by the parameters of each center and by the global ones, where the centers of test rows are known."""
    ours = FedMvPPCA(q)
    return Arm(DEFAULT + OWN, OwnParameters(ours)), Arm(DEFAULT, ours), Arm(YARDSTICK, PCA(q), "shared", "whole")


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


def started(q: int) -> tuple[Arm, ...]:
    """The untuned ones with noise that begins elsewhere: how much of their error is that of a start?"""
    return tuple(
        Arm(f"{name}{UNTUNED}{STARTED}{np.exp(start):.2g}", untuned(q, name, start), "per center")
        for name in ENCODERS
        for start in STARTS[1:]
    )


def longer(name: str, method: Autoencoder, scaling: Scaling) -> Arm:
    """An auto-encoder with more time to arrive."""
    late = replace(method.schedule, rounds=4 * method.schedule.rounds)
    return Arm(name + LONGER, replace(method, schedule=late), scaling)


def sd(*, rivals: bool = True) -> Experiment:
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


def corrections() -> Experiment:
    """SD: what each correction buys."""
    methods = {name: FedMvPPCA(5, "paper", corrections=added) for name, added in CORRECTED.items()}
    methods[DEFAULT] = FedMvPPCA(5)
    arms = [Arm(name, method, scaling) for scaling in SWEPT for name, method in methods.items()]
    arms.append(Arm(YARDSTICK, PCA(5), "shared", "whole"))
    blocks = [Setting(dealing, n, tuple(arms)) for dealing, n in SCENARIOS if n > 1]
    return Experiment("corrections", "SD", SyntheticStudy(), tuple(blocks))


def study(
    name: str,
    about: str,
    data: Dataset,
    q: int,
    *,
    rivals: bool = True,
    paper_table: str | None = None,
    remarks: Sequence[str] = (),
) -> Experiment:
    """A table like ADNI_2 on given rows; also with their true centers, where these are known."""
    whole = tuple(s for s in SCENARIOS if not s[0].endswith("K"))  # nobody lacks a view
    dealings = SCENARIOS if len(data.views) > 2 else whole
    if data.sites is not None:
        dealings = (*dealings, SITES)
    complete = not any(np.isnan(rows).any() for rows in data.views.values())
    blocks = [b for dealing, n in dealings for b in settings(q, dealing, n, rivals=rivals, complete=complete)]
    if data.sites is not None:
        blocks.append(Setting(*KNOWN, known(q)))
    blocks.append(Setting(*SCENARIOS[0], dissected(q, complete=complete), "dissected"))  # all rows are one center
    one = Arm(DEFAULT + ONE_NOISE, OneNoise(FedMvPPCA(q)))
    blocks += [Setting(dealing, n, (one,), "dissected") for dealing, n in whole if n > 1]
    if data.sites is not None:
        cut, projected = FedMvPPCA(q, rounds=ROUNDS), Projected(FedMvPPCA(q))
        more = one, Arm(DEFAULT + CUT, cut), Arm(DEFAULT + PROJECTED, projected)
        blocks.append(Setting(*SITES, more, "dissected"))
    if rivals and complete:
        late = longer(MCVAE, tuned(q, MCVAE), "shared")
        blocks.append(Setting("IID", 3, (late,), "longer", stacked=True))
    return Experiment(name, about, FixedStudy(data), tuple(blocks), paper_table, tuple(remarks))


def fedprox(
    name: str, about: str, source: Source, q: int, paper_table: str | None = None, remarks: Sequence[str] = ()
) -> Experiment:
    """The paper's table ADNI_fedprox: auto-encoders in scenario G, pulled to the common weights ever harder."""
    blocks = []
    for n in SWEPT_CENTERS:
        arms = [Arm(PAPER, FedMvPPCA(q, "paper"), scaling) for scaling in SWEPT]
        blocks.append(Setting("G", n, (*arms, Arm(DEFAULT, FedMvPPCA(q), "shared"))))
        for encoder in (VAE, MCVAE):
            plain = tuned(q, encoder)
            swept = [
                Arm(f"{encoder}, lambda {value:g}", replace(plain, proximal=value), scaling)
                for scaling in SWEPT
                for value in LAMBDAS
            ]
            deep = [Arm(encoder + TWO_LAYERS, replace(plain, hidden=HIDDEN), scaling) for scaling in SWEPT]
            blocks.append(Setting("G", n, (*swept, *deep), encoder, stacked=True))
    return Experiment(name, f"{about}, scenario G", source, tuple(blocks), paper_table, tuple(remarks))
