"""What each correction of the default preset buys, on synthetic data."""

from __future__ import annotations

from vedute_reproduction.arms import Arm, Scaling
from vedute_reproduction.baselines.linear import PCA
from vedute_reproduction.contenders import DEFAULT, PAPER, SCENARIOS, YARDSTICK
from vedute_reproduction.methods import FedMvPPCA
from vedute_reproduction.runner import Experiment, Setting
from vedute_reproduction.studies import SyntheticStudy

# Corrections of the default preset, added to the paper's; the default also has one start and one rotation.
CORRECTED: dict[str, tuple[str, ...]] = {
    PAPER: (),
    f"{PAPER}, posterior variances": ("posterior_variances",),
    f"{PAPER}, case mix": ("case_mix",),
    f"{PAPER}, both of these": ("posterior_variances", "case_mix"),
    f"{PAPER}, all corrections": ("posterior_variances", "case_mix", "spread"),
}
SCALINGS: tuple[Scaling, ...] = ("per center", "shared")


def experiment() -> Experiment:
    """SD: what each correction buys."""
    methods = {name: FedMvPPCA(5, "paper", corrections=added) for name, added in CORRECTED.items()}
    methods[DEFAULT] = FedMvPPCA(5)
    arms = [Arm(name, method, scaling) for scaling in SCALINGS for name, method in methods.items()]
    arms.append(Arm(YARDSTICK, PCA(5), "shared", "whole"))
    blocks = [Setting(dealing, n, tuple(arms)) for dealing, n in SCENARIOS if n > 1]
    return Experiment("corrections", "SD", SyntheticStudy(), tuple(blocks))
