"""Our model with and without a privacy policy, on scaled rows: its global prior after every round."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Literal

import numpy as np

from vedute import PaperPrivacy, SubjectPrivacy
from vedute.data.rows import open_rows
from vedute.errors import BreakdownError
from vedute.model.parameters import GlobalPrior, Layout
from vedute.model.prediction import global_emission
from vedute.run.exchange import Ledgers, make_job, read_inspected
from vedute.run.protocol import Progress
from vedute.run.server import fit_participants
from vedute.run.settings import Settings
from vedute_reproduction.arms import Scaling
from vedute_reproduction.methods import ROUNDS, Centers, Projection, end_of, quietly

FIRST_ROUNDS: tuple[Literal["raw", "public"], ...] = ("raw", "public")
DELTA = 0.01  # of each mechanism of the paper
MAIN = PaperPrivacy(10.0, DELTA, clip=1.0)  # what each is told in its tables; round 1 is raw


@dataclass
class Trail:
    """The priors of all rounds, the first one first, and what the model of the last of them knows.

    A run under the paper's policy may diverge until nothing can be computed any more; its trail then ends there.
    """

    layout: Layout
    priors: list[GlobalPrior] = field(default_factory=list)
    final: Projection | None = None

    def after(self, round_: int) -> Projection:
        """The model as it was after a round, or at the end of a trail that is shorter."""
        return Projection(global_emission(self.priors[min(round_, len(self.priors)) - 1], self.layout))

    @property
    def end(self) -> Projection:
        """What the run gave in the end."""
        return self.final or self.after(len(self.priors))

    def add(self, progress: Progress) -> None:
        """Take in one more round."""
        self.priors.append(progress.prior)


@dataclass(frozen=True)
class Variant:
    """One way to fit: the paper's algorithm, or (policy ``subject``, or no policy and one scaling) our default preset.

    Noise is seeded, so that results can be found again: NOT PRIVATE, of course, but of the same size.
    """

    n_components: int
    scaling: Scaling = "per center"
    policy: PaperPrivacy | SubjectPrivacy | None = None
    rounds: int = ROUNDS  # of the paper's algorithm

    @property
    def preset(self) -> str:
        """The paper's own, where its algorithm is run."""
        ours = isinstance(self.policy, SubjectPrivacy) or (self.policy is None and self.scaling == "shared")
        return "default" if ours else "paper"

    def settings(self, seed: int) -> Settings:
        """Rows are scaled already: the smallest and largest values, or the declared ranges, are 0 and 1."""
        preset, policy = self.preset, self.policy
        rounds, tol = (self.rounds, None) if preset == "paper" else end_of(preset)
        if policy is not None:
            scaling, policy = "declared" if self.scaling == "shared" else "center-minmax", replace(policy, seed=seed)
        else:
            scaling = "shared-minmax"
        return Settings(
            self.n_components, rounds, preset=preset, scaling=scaling, tol=tol, seed=seed,
            privacy=None if policy is None else policy.table(),
        )  # fmt: skip

    def fit(self, centers: Centers, seed: int) -> Trail:
        """Fit, and keep the prior of every round."""
        sizes = {name: np.shape(table)[1] for views in centers.values() for name, table in views.items()}
        rows = open_rows(centers, ranges={name: [(0.0, 1.0)] * size for name, size in sizes.items()})
        job, found = make_job(rows, self.settings(seed)), Trail(rows.schema.layout)
        with quietly():
            participants = read_inspected(rows, job, None if self.policy is None else Ledgers())
            try:
                model = fit_participants(job, participants, on_round=found.add).model
            except BreakdownError:
                if self.policy is None or not found.priors:
                    raise
                return found
        found.final = Projection(model.emission(None))
        return found


@dataclass(frozen=True)
class DPFedMvPPCA:
    """The paper's private algorithm, with the budget that its tables have."""

    n_components: int

    def fit(self, centers: Centers, seed: int) -> Projection:
        """Fit all rounds."""
        return Variant(self.n_components, policy=MAIN).fit(centers, seed).end
