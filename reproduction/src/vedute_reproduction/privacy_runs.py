"""What privacy costs: the paper's sweeps over eps and the clip constant, and rounds with and without noise.

The paper's figures: accuracy against eps and against the clip constant; standard deviations of the global parameters by
round (scenario G/K); accuracy and sigma~2 by round (scenario IID). Beside its policy stands ours at the same total.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from functools import lru_cache
from pathlib import Path

import numpy as np
import pandas as pd

from vedute.core.predict import Emission
from vedute.privacy.figures import spreads
from vedute.privacy.paper import ratio
from vedute.privacy.policies import PaperPrivacy, SubjectPrivacy
from vedute_reproduction.arms import Scaled, Scaling, scaled, score
from vedute_reproduction.folds import Dataset, Dealing, Fold, dealt, seed_of
from vedute_reproduction.keeping import Line, Source, Told, each_part, places
from vedute_reproduction.methods import Projection, common_layout, side_by_side
from vedute_reproduction.metrics import mean_error
from vedute_reproduction.private import DELTA, FIRST_ROUNDS, MAIN, Trail, Variant

N_CENTERS = 3
TOTAL_DELTA = 1e-5  # at which totals are told
EPSILONS = (1.0, 2.0, 5.0, 10.0, 20.0, 50.0)
CLIPS = (0.05, 0.1, 0.2, 0.3, 0.5)
TOTALS = (1.0, 3.0)  # that hospitals might sign, beside those that the paper's runs come to
SAME_TOTALS = (0.1, 1.0, 10.0)  # eps of a mechanism, clipped so that the bound moves as in the paper's main experiment
ROUNDS = (*range(1, 21), *range(25, 101, 5))
SCALINGS: tuple[Scaling, ...] = ("per center", "shared")
NONE = "none"
UNBOUNDED = float("nan")  # where exact values leave


@dataclass(frozen=True)
class Case:
    """One point of a figure: the sweep that it belongs to, what the policy is told, and what it comes to."""

    sweep: str
    variant: Variant
    total: float  # true eps of the whole run at TOTAL_DELTA; NaN: there is no bound

    @property
    def about(self) -> Line:
        """What a line says of it."""
        policy = self.variant.policy
        found: Line = {"sweep": self.sweep, "policy": NONE if policy is None else policy.name, "first_round": ""}
        found |= {"epsilon": float("nan"), "clip": float("nan"), "rho": float("nan"), "total": self.total}
        if policy is not None:
            found["epsilon"] = policy.epsilon
        if isinstance(policy, PaperPrivacy):
            rho = ratio(policy.clip, policy.epsilon, policy.delta, N_CENTERS)
            found |= {"first_round": policy.first_round, "clip": policy.clip, "rho": rho}
        return found | {"scaling": self.variant.scaling}


def cases(q: int, views: int, rounds: int = 100) -> list[Case]:
    """All points; in the last sweep everything is measured in the same units, with one scaling for all."""
    plain = Variant(q, rounds=rounds)
    found = [Case("none", plain, UNBOUNDED), Case("none", replace(plain, scaling="shared"), UNBOUNDED)]
    for first in FIRST_ROUNDS:
        wanted = [("eps", eps, 1.0) for eps in EPSILONS] + [("clip", 1.0, clip) for clip in CLIPS]
        for sweep, eps, clip in wanted:
            policy = PaperPrivacy(eps, DELTA, clip, first, allow_divergence=True)
            found.append(Case(sweep, replace(plain, policy=policy), honest(policy, views, rounds)))
    shared = replace(plain, scaling="shared")
    totals = list(TOTALS)
    for eps in SAME_TOTALS:
        clip = ratio(MAIN.clip, MAIN.epsilon, DELTA, N_CENTERS) / ratio(1.0, eps, DELTA, N_CENTERS)
        policy = PaperPrivacy(eps, DELTA, clip, "public")
        totals.append(honest(policy, views, rounds))
        found.append(Case("total", replace(shared, policy=policy), totals[-1]))
    ours = [SubjectPrivacy(total, TOTAL_DELTA) for total in totals]
    return found + [Case("total", replace(shared, policy=policy), policy.epsilon) for policy in ours]


def honest(policy: PaperPrivacy, views: int, rounds: int) -> float:
    """The true total, which is slow to compute and does not depend on the clip constant."""
    return _honest(policy.epsilon, policy.first_round, views, rounds)


@lru_cache
def _honest(epsilon: float, first_round: str, views: int, rounds: int) -> float:
    policy = PaperPrivacy(epsilon, DELTA, first_round="public")
    return UNBOUNDED if first_round == "raw" else policy.honest(views, rounds, TOTAL_DELTA)


@dataclass(frozen=True)
class Sweep:
    """All points of the sweeps on one fold (scenario IID)."""

    name: str
    components: int
    views: int
    rounds: int
    repeat: int
    fold: int

    @property
    def file(self) -> str:
        """Where its result is kept."""
        return f"{self.name}-r{self.repeat:03d}-f{self.fold}.json"

    def compute(self, data: Dataset) -> list[Line]:
        """One line for each point."""
        fold, seed = dealt(data, self.repeat, self.fold, "IID", N_CENTERS), seed_of(self.repeat, self.fold)
        place = {"repeat": self.repeat, "fold": self.fold}
        lines = [_mean_alone(fold, scaling) | place for scaling in SCALINGS]
        found = cases(self.components, self.views, self.rounds)
        return lines + [case.about | place | measured(case, fold, seed) for case in found]


def measured(case: Case, fold: Fold, seed: int) -> Line:
    """One point on one fold."""
    centers, test = scaled(fold.centers, fold.test, case.variant.scaling)
    trail = case.variant.fit(centers, seed)
    noise = trail.end.emission.noise
    about = {"rounds": len(trail.priors), "noise_ratio": float(noise.max() / noise.min())}
    return asdict(score(trail.end, centers, test, fold)) | about


def _mean_alone(fold: Fold, scaling: Scaling) -> Line:
    """What is known without any component: the plain mean of the centers' means."""
    centers, test = scaled(fold.centers, fold.test, scaling)
    layout = common_layout(centers)
    mean = np.mean([side_by_side(views, layout).mean(axis=0) for views in centers.values()], axis=0)
    flat = Projection(Emission(layout, mean, np.zeros((layout.total, 1)), np.ones(layout.total), np.zeros(1), 1.0))
    tables = {"train_mae": centers, "test_mae": test}
    found = {metric: mean_error(flat, tables[metric]) for metric in tables}
    return {"sweep": "mean", "policy": NONE, "scaling": scaling} | found


@dataclass(frozen=True)
class Walk:
    """Round by round on one fold: without privacy, and with the policy of the paper's main experiment."""

    name: str
    components: int
    dealing: Dealing
    rounds: int
    repeat: int
    fold: int

    @property
    def file(self) -> str:
        """Where its result is kept."""
        return f"{self.name}-rounds-{self.dealing.replace('/', '')}-r{self.repeat:03d}-f{self.fold}.json"

    def compute(self, data: Dataset) -> list[Line]:
        """One line for each round, quantity and view."""
        fold = dealt(data, self.repeat, self.fold, self.dealing, N_CENTERS)
        seed = seed_of(self.repeat, self.fold)
        centers, test = scaled(fold.centers, fold.test, "per center")
        plain = Variant(self.components, rounds=self.rounds)
        variants = {NONE: plain} | {
            first: replace(plain, policy=replace(MAIN, first_round=first)) for first in FIRST_ROUNDS
        }
        lines = []
        for name, variant in variants.items():
            trail = variant.fit(centers, seed)
            about = {"scenario": self.dealing, "run": name, "repeat": self.repeat, "fold": self.fold}
            lines += [about | line for line in _told(trail)]
            if self.dealing == "IID":
                lines += [about | line for line in _scored(trail, centers, test, fold)]
        return lines


def _told(trail: Trail) -> Iterator[Line]:
    """The sd between centers of each parameter, and sigma~2, of every view."""
    for view in trail.layout.names:
        found = spreads(trail.priors, view) | {"noise variance": [p.views[view].sigma2 for p in trail.priors]}
        for quantity, values in found.items():
            unknown = len(trail.priors) - len(values)  # rounds that had no spread yet
            for r in ROUNDS:
                if unknown < r <= len(trail.priors):
                    yield {"round": r, "view": view, "quantity": quantity, "value": values[r - 1 - unknown]}


def _scored(trail: Trail, centers: Scaled, test: Scaled, fold: Fold) -> Iterator[Line]:
    for r in ROUNDS:
        if r <= len(trail.priors):
            found = score(trail.after(r), centers, test, fold)
            for quantity, value in (("accuracy", found.accuracy), ("test_mae", found.test_mae)):
                yield {"round": r, "view": "", "quantity": quantity, "value": value}


def run(
    name: str,
    source: Source,
    components: int,
    repeats: int,
    out: Path,
    *,
    rounds: int = 100,
    jobs: int = 1,
    on_fold: Told | None = None,
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """The lines of all points, and those of all rounds."""
    views = len(source.draw(0).views)
    sweeps = [Sweep(name, components, views, rounds, *place) for place in places(repeats)]
    dealings: tuple[Dealing, ...] = ("IID", "G/K")
    walks = [Walk(name, components, dealing, rounds, *place) for dealing in dealings for place in places(repeats)]
    points = each_part(sweeps, source, out, jobs=jobs, on_fold=on_fold)
    return points, each_part(walks, source, out, jobs=jobs, on_fold=on_fold)
