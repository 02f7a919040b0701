"""Real data of four views, ADNI or what stands in for it: the paper's table ADNI_2."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd

from vedute_reproduction.arms import Arm
from vedute_reproduction.baselines.linear import PCA
from vedute_reproduction.comparison import printed, summary
from vedute_reproduction.contenders import (
    COMPLETE,
    CUT,
    DEFAULT,
    MCVAE,
    ONE_NOISE,
    OWN,
    PAPER,
    PROJECTED,
    SCENARIOS,
    SUMS,
    YARDSTICK,
    longer,
    settings,
    tuned,
)
from vedute_reproduction.folds import Dataset, Dealing
from vedute_reproduction.methods import ROUNDS, CompleteRows, FedMvPPCA, OneNoise, OwnParameters, Projected
from vedute_reproduction.prose import rows
from vedute_reproduction.reading import Facts, Results, against, at_sites, by_scaling, means, ratios, value
from vedute_reproduction.runner import Experiment, Setting
from vedute_reproduction.studies import FixedStudy, Given

POINTS = 3.0  # of accuracy below PCA that are to be named
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


def facts(results: Results) -> Facts:
    """How far ours is from PCA on the stand-in, where, and why."""
    lines = results["adni-cnp"]
    ratio, right, table = ratios(lines, YARDSTICK), means(lines, "accuracy"), summary(lines, "ADNI_2")
    points = right.sub(right[YARDSTICK], axis=0) * 100
    beside = against(lines, DEFAULT, SUMS).drop("known sites", level="scenario", errors="ignore")
    plain = [name for name in ratio if name == DEFAULT + OWN or not str(name).startswith(f"{DEFAULT},")]
    gain = points[DEFAULT].drop("known sites")
    return {
        "lines": lines,
        "ours": ratio[DEFAULT].drop("known sites"),
        "sites": at_sites(ratio[DEFAULT]),
        "gain": gain,
        "gain_sites": at_sites(gain),
        "limit": POINTS,
        "far": gain[gain < -POINTS],
        "cut": (at_sites(ratio[DEFAULT + CUT]), at_sites(points[DEFAULT + CUT])),
        "unsure": _unsure(lines),
        "even": beside.drop(["K", "G/K"], level="scenario"),
        "lacking": beside.loc[["K", "G/K"]],
        "gained": gained(lines),
        "known": {
            name: (at_sites(ratio[arm], "known sites"), at_sites(points[arm], "known sites"))
            for name, arm in (("own", DEFAULT + OWN), ("global", DEFAULT))
        },
        "unlike": ratio[DEFAULT + ONE_NOISE].dropna(),
        "merged": points[DEFAULT + ONE_NOISE].dropna(),
        "projected": value(ratio, "IID", 1, DEFAULT + ONE_NOISE + PROJECTED),
        "falls": _falls(lines),
        "accuracies": by_scaling(table, "accuracy", ".3f", "the paper, on ADNI"),
        "errors": by_scaling(table, "test_mae", ".4f", "the paper, on ADNI"),
        "ratio": ratio[plain],
        "right": right[[DEFAULT, YARDSTICK, *(name for name in plain if name != DEFAULT)]],
    }


def gained(lines: pd.DataFrame) -> Facts:
    """What the default preset changes against the paper's, in the same units."""
    found = against(lines, DEFAULT, PAPER)
    return {"error": found["error"] - 1.0, "points": found["points"]}


def _falls(lines: pd.DataFrame) -> str:
    """Accuracy in G, K and G/K less that in IID: the paper's, the paper preset by scaling, and pooled PCA."""
    shared, own = (means(lines, "accuracy", scaling) for scaling in ("shared", "per center"))
    asked = ((printed("ADNI_2", "accuracy"), "Fed-mv-PPCA"), (own, PAPER), (shared, PAPER), (shared, YARDSTICK))
    body = []
    for scenario in ("G", "K", "G/K"):
        for n in (3, 6):
            gaps = [value(table, scenario, n, method) - value(table, "IID", n, method) for table, method in asked]
            body.append([scenario, str(n), *(f"{gap * 100:+.1f}" for gap in gaps)])
    head = ["the paper, on ADNI", "each part by itself", "one scaling for all", "PCA, pooled, one scaling for all"]
    return rows(["scenario", "centers", *head], body)


def _unsure(lines: pd.DataFrame) -> float:
    """Largest standard error, over repetitions, of our accuracy less that of PCA; NaN of one repetition."""
    own = lines[(lines["scaling"] == "shared") & (lines["scenario"] != "known sites")]
    by = own.groupby(["scenario", "centers", "repeat", "method"])["accuracy"].mean().unstack("method")
    return float((by[DEFAULT] - by[YARDSTICK]).groupby(["scenario", "centers"]).sem().max())
