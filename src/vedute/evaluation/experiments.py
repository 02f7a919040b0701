"""Which methods, scenarios and data make up each of the paper's tables."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from vedute.core.streams import stream
from vedute.data.synthetic import make_sd
from vedute.evaluation.arms import Arm
from vedute.evaluation.baselines import PCA, PPCA, FactorAnalysis, PCAOfSums
from vedute.evaluation.folds import Dataset, Dealing
from vedute.evaluation.methods import FedMvPPCA
from vedute.evaluation.runner import Experiment, Setting, Source

PAPER = "Fed-mv-PPCA, paper preset"
DEFAULT = "Fed-mv-PPCA, default preset"
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


def arms(q: int, n_centers: int) -> tuple[Arm, ...]:
    """All methods for one setting. One center means the paper's centralised case: 1 round of 800 iterations."""
    paper = FedMvPPCA(q, "paper", 1, 800) if n_centers == 1 else FedMvPPCA(q, "paper")
    return (
        Arm(PAPER, paper, "per center"),
        Arm(PAPER, paper, "shared"),
        Arm(DEFAULT, FedMvPPCA(q), "shared"),
        Arm(YARDSTICK, PCA(q), "shared", "whole"),
        Arm("PCA, from sums", PCAOfSums(q), "shared"),
        Arm("factor analysis, pooled", FactorAnalysis(q), "shared", "whole"),
        Arm("PPCA, each center alone", PPCA(q), "shared", "alone"),
    )


def ours(found: Sequence[Arm]) -> tuple[Arm, ...]:
    """Only the arms of our own model."""
    return tuple(arm for arm in found if isinstance(arm.method, FedMvPPCA))


def sd(*, rivals: bool = True) -> Experiment:
    """The paper's table SD_2."""
    return _experiment("sd", SyntheticStudy(), 5, SCENARIOS, "SD_2", rivals, ())


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
    return _experiment(name, FixedStudy(data), q, dealings, paper_table, rivals, remarks)


def _experiment(
    name: str,
    source: Source,
    q: int,
    dealings: Sequence[tuple[Dealing, int]],
    paper_table: str | None,
    rivals: bool,
    remarks: Sequence[str],
) -> Experiment:
    settings = []
    for dealing, n in dealings:
        chosen = arms(q, n) if rivals else ours(arms(q, n))
        settings.append(Setting(dealing, n, chosen))
    return Experiment(name, source, tuple(settings), paper_table, tuple(remarks))
