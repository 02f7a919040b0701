"""Real data of four views, ADNI or what stands in for it: the paper's table ADNI_2."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from vedute_reproduction.arms import Arm
from vedute_reproduction.baselines.linear import PCA
from vedute_reproduction.contenders import (
    COMPLETE,
    CUT,
    DEFAULT,
    MCVAE,
    ONE_NOISE,
    OWN,
    PROJECTED,
    SCENARIOS,
    YARDSTICK,
    longer,
    settings,
    tuned,
)
from vedute_reproduction.folds import Dataset, Dealing
from vedute_reproduction.methods import ROUNDS, CompleteRows, FedMvPPCA, OneNoise, OwnParameters, Projected
from vedute_reproduction.runner import Experiment, Setting
from vedute_reproduction.studies import FixedStudy, Given

SITES: tuple[Dealing, int] = ("sites", 0)
KNOWN: tuple[Dealing, int] = ("known sites", 0)


def experiment(given: Given, *, rivals: bool = True) -> Experiment:
    """The experiment of table ADNI_2."""
    data = given.source.draw(0)
    name, q = given.named("adni"), given.n_components
    return study(name, given.about, data, q, rivals=rivals, paper_table="ADNI_2", remarks=given.remarks)


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
