"""Which methods, scenarios and data make up each of the paper's tables."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from vedute.core.streams import stream
from vedute.data.synthetic import make_sd
from vedute.evaluation.arms import Arm
from vedute.evaluation.baselines import PCA, PPCA, FactorAnalysis, PCAOfSums, Projected
from vedute.evaluation.folds import Dataset, Dealing
from vedute.evaluation.methods import FedMvPPCA
from vedute.evaluation.runner import Experiment, Setting

PAPER = "Fed-mv-PPCA, paper preset"
DEFAULT = "Fed-mv-PPCA, default preset"
PROJECTED = "Fed-mv-PPCA, default preset, projected"
YARDSTICK = "PCA, pooled"
SCENARIOS: tuple[tuple[Dealing, int], ...] = (
    ("IID", 1), ("IID", 3), ("IID", 6), ("G", 3), ("G", 6), ("K", 3), ("K", 6), ("G/K", 3), ("G/K", 6),
)  # fmt: skip
SITES: tuple[Dealing, int] = ("sites", 0)


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


def arms(q: int, dealing: Dealing, n_centers: int, *, alone: bool = True) -> tuple[Arm, ...]:
    """All methods for one setting. One center means the paper's centralised case: 1 round of 800 iterations."""
    paper = FedMvPPCA(q, "paper", 1, 800) if n_centers == 1 else FedMvPPCA(q, "paper")
    found = [Arm(PAPER, paper, "per center")]
    if dealing.endswith("K"):  # where the test rows have parts
        found.append(Arm(PAPER, paper, "per center, test as one"))
    found += [
        Arm(PAPER, paper, "shared"),
        Arm(DEFAULT, FedMvPPCA(q), "shared"),
        Arm(YARDSTICK, PCA(q), "shared", "whole"),
        Arm("PCA, from sums", PCAOfSums(q), "shared"),
        Arm("factor analysis, pooled", FactorAnalysis(q), "shared", "whole"),
    ]
    if alone:
        found.append(Arm("PPCA, each center alone", PPCA(q), "shared", "alone"))
    return tuple(found)


def sd(*, rivals: bool = True) -> Experiment:
    """The paper's table SD_2."""
    blocks = tuple(Setting(dealing, n, _chosen(arms(5, dealing, n), rivals)) for dealing, n in SCENARIOS)
    return Experiment("sd", SyntheticStudy(), blocks, "SD_2")


def study(
    name: str,
    data: Dataset,
    q: int,
    *,
    rivals: bool = True,
    paper_table: str | None = None,
    remarks: Sequence[str] = (),
) -> Experiment:
    """A table like ADNI_2 on given rows; also with their true centers, where these are known."""
    dealings = SCENARIOS if len(data.views) > 2 else tuple(s for s in SCENARIOS if not s[0].endswith("K"))
    if data.sites is not None:
        dealings = (*dealings, SITES)
    alone = not any(np.isnan(rows).any() for rows in data.views.values())
    blocks = [Setting(dealing, n, _chosen(arms(q, dealing, n, alone=alone), rivals)) for dealing, n in dealings]
    projected = Arm(
        PROJECTED, Projected(FedMvPPCA(q))
    )  # tells what shrinkage costs, once: where all rows are one center
    blocks[0] = replace(blocks[0], arms=(*blocks[0].arms, projected))
    return Experiment(name, FixedStudy(data), tuple(blocks), paper_table, tuple(remarks))


def _chosen(found: Sequence[Arm], rivals: bool) -> tuple[Arm, ...]:
    return tuple(arm for arm in found if rivals or isinstance(arm.method, FedMvPPCA))
