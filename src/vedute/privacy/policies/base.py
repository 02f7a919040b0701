"""What a policy is: all that a run and a federation ever ask of one, and the answers that most policies share.

A policy is a frozen description. What the center knows is its *question* to the policy: the exact second moments of
the rows (subject), the parameters of a round and the prior they began from (center, paper), or named arrays (none).
"""

from __future__ import annotations

import math
import warnings
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import Field, asdict, fields, replace
from functools import reduce
from operator import add
from typing import Any, ClassVar, Protocol, Self

from vedute.errors import BreakdownError, DataWarning, Refused, UserError
from vedute.model.contribution import Contribution
from vedute.model.parameters import Array, GlobalPrior, Layout, Schema
from vedute.model.statistics import Accumulator
from vedute.privacy.accounting import Budget
from vedute.privacy.audit import Progress, Verdict
from vedute.privacy.ledger import Ledger
from vedute.privacy.mechanisms import Noise, SeededNoise, noise_source
from vedute.privacy.release import Gaussian, Release, digest
from vedute.privacy.update import Update, plug_in_step

Budgets = Mapping[str, tuple[float, float]]
Shape = tuple[int, ...]
LARGEST = 1e15  # of any mean or loading in scaled units, and of any sum of their squares over subjects
MOST_SUBJECTS = 1e12
SAME = 1e-6  # relative: samplers round the scale of their noise


class Settings(Protocol):
    """What a policy has to know of the settings of a run."""

    @property
    def scaling(self) -> str | None:
        """How the columns come to common units."""

    @property
    def paper(self) -> bool:
        """Whether the fit follows the paper to the letter."""

    @property
    def rounds(self) -> int:
        """The number of rounds, at most."""


class Policy(ABC):
    """What may be asked of a center, what it releases, how the server takes it, and in which words it is told."""

    name: ClassVar[str]
    relation: ClassVar[str]
    scalings: ClassVar[tuple[str | None, ...]]
    exact: ClassVar[bool] = False  # exact values leave, spreads and case mix among them
    once: ClassVar[bool] = False  # one release of the rows, and everything later is free
    __dataclass_fields__: ClassVar[dict[str, Field[Any]]]  # every policy is a frozen dataclass

    @property
    def budget(self) -> Budget | None:
        """The promise about everything that ever leaves; None where the policy makes none."""
        return None

    def of(self, center: str) -> Self:
        """The policy of one center, with its own budget where it has one."""
        return self

    def agreed(self, asked: Policy, center: str) -> Self:
        """The policy that a center with this one follows if a study asks for another; an error if it refuses."""
        if type(asked) is not type(self):
            raise UserError(f"center {center!r} follows the policy {self.name!r} and refuses {asked.name!r}")
        return self

    def table(self) -> dict[str, Any]:
        """The policy as the table ``[privacy]`` of a study has it."""
        found: dict[str, Any] = {"policy": self.name}
        for part in fields(self):
            value = getattr(self, part.name)
            found[part.name] = dict(value) if isinstance(value, Mapping) else value
        return found

    def check_scaling(self, scaling: str | None) -> None:
        """Refuse a scaling that would let values of patients out beside the policy."""
        if scaling not in self.scalings:
            usable = ", ".join(repr(one) for one in self.scalings)
            raise UserError(f"scaling {scaling!r} would leak past the policy {self.name!r}: use one of {usable}")

    def check(self, settings: Settings, centers: int) -> None:
        """What can be known of a run before it begins: refuse what cannot be, warn of what is of no use."""
        self.check_scaling(settings.scaling)

    def steps(self, sums: tuple[str, ...]) -> tuple[str, ...]:
        """The questions that a center may be asked; ``sums`` are those that the scaling asks for."""
        return "round", "finish"

    def sink(self, held: Schema, ranges: Mapping[str, Array] | None, *, extremes: bool) -> Any:
        """What the rows of a center are folded into as they are read: all that the policy will ever need of them."""
        return Accumulator(held.layout, extremes=extremes)

    def check_subjects(self, subjects: int) -> None:  # noqa: B027 - most have nothing to say
        """Warn where the number of a center's subjects makes the promise weak."""

    @abstractmethod
    def release(self, ledger: Ledger, run: str, question: Any, noise: Noise | None = None) -> Release:
        """What may leave the center: on disk and paid for before it does, and the same whenever it is asked again.

        ``run`` names the rounds of a fit in the ledger; it is not what tells fits apart: their questions do. Without
        ``noise`` it is the policy's own, which is secret unless the policy has a seed.
        """

    def start(self, layout: Layout, flat: GlobalPrior, q: int, seed: int) -> GlobalPrior:
        """The prior of round 1."""
        return flat

    def step(
        self, prior: GlobalPrior, releases: Mapping[str, Release], held: Mapping[str, tuple[str, ...]]
    ) -> GlobalPrior:
        """The master's half of a round, from what the centers released; ``held`` are the views of each."""
        raise TypeError(f"the policy {self.name!r} lets no noised parameters out: its rounds are the ordinary ones")

    @abstractmethod
    def shapes(self, held: Layout, q: int) -> dict[str, Shape]:
        """The arrays that a center with these views releases when it is asked for a round, or for its moments."""

    @abstractmethod
    def check_claims(self, release: Release, held: Layout, rounds: int) -> None:
        """Refuse a release that cannot be one of this policy: the server computes with the noise it claims."""

    def foretold(self, error: BreakdownError, centers: int, round_: int) -> BreakdownError:
        """The breakdown to report: this one, or one that says that it was to be expected."""
        return error

    @abstractmethod
    def leaves(self, scaling: str, rounds: int) -> str:
        """What leaves a hospital in a study of so many rounds, for its data protection officer.

        ``scaling`` says what leaves to agree on common units.
        """

    def audit(self, trials: int, noise: Noise, rounds: int, progress: Progress | None = None) -> Verdict:
        """Measure whole runs on worst-case data; ``rounds`` matters where something leaves in every round."""
        raise UserError(
            "nothing to audit: values leave as they are (policy 'none', or 'paper' with its raw first round; "
            "take first_round = 'public' to audit the others)"
        )


class NoisyPolicy(Policy):
    """A policy with an (epsilon, delta): what leaves is noised, under a question named by all that is public of it."""

    epsilon: float
    delta: float
    budgets: Budgets
    seed: int | None

    @property
    def budget(self) -> Budget | None:
        """The user's own promise."""
        return Budget(self.epsilon, self.delta)

    def of(self, center: str) -> Self:
        """The policy with that center's own budget."""
        epsilon, delta = self.budgets.get(center, (self.epsilon, self.delta))
        return replace(self, epsilon=epsilon, delta=delta)

    def agreed(self, asked: Policy, center: str) -> Self:
        """Its own with the budget asked for, which may be no larger. The seed of a request is never taken."""
        mine = super().agreed(asked, center)
        assert isinstance(asked, NoisyPolicy)
        if asked.epsilon > mine.epsilon or asked.delta > mine.delta:
            raise UserError(
                f"center {center!r} allows at most eps = {mine.epsilon:g}, delta = {mine.delta:g} and refuses "
                f"eps = {asked.epsilon:g}, delta = {asked.delta:g}: lower them in the study's [privacy]"
            )
        return replace(mine, epsilon=asked.epsilon, delta=asked.delta, budgets={})

    @abstractmethod
    def noised(self, question: Any, noise: Noise) -> Release:
        """What may leave, before it is written down."""

    @abstractmethod
    def entry(self, run: str, question: Any, noise: Noise) -> tuple[str, str]:
        """The name of the release in the ledger, and of the question: the same question has the same answer."""

    def release(self, ledger: Ledger, run: str, question: Any, noise: Noise | None = None) -> Release:
        """What is noised, from the ledger if the same was asked before."""
        source = noise_source(self.seed, ledger.center) if noise is None else noise
        key, asked = self.entry(run, question, source)
        return ledger.release(key, asked, lambda: self.noised(question, source), self.budget, self.relation)


class RoundPolicy(NoisyPolicy):
    """A policy under which the noised parameters of a center leave in every round."""

    def entry(self, run: str, question: Update, noise: Noise) -> tuple[str, str]:
        """A round of a run; the question is the policy and the prior."""
        settings = {name: value for name, value in asdict(self).items() if name not in ("seed", "budgets")}
        prior = {name: tuple(vars(view).values()) for name, view in question.prior.views.items()}
        asked = digest(self.name, settings, question.rounds, prior, tuple(question.params.views), seed_of(noise))
        return f"{run}, round {question.round}", asked

    @abstractmethod
    def share(
        self, release: Release, prior: GlobalPrior, held: tuple[str, ...], centers: Mapping[str, int]
    ) -> Contribution:
        """What the master adds for one center; ``centers`` holds the number of those with each view."""

    def step(
        self, prior: GlobalPrior, releases: Mapping[str, Release], held: Mapping[str, tuple[str, ...]]
    ) -> GlobalPrior:
        """The master's plug-in step of Algorithm 2."""
        names = sorted(releases)
        holders = {view: sum(view in held[name] for name in names) for view in prior.views}
        shares = [self.share(releases[name], prior, held[name], holders) for name in names]
        return plug_in_step(prior, reduce(add, shares))


def seed_of(noise: Noise) -> int | None:
    """The seed of noise that has one: another seed is another question."""
    return noise.seed if isinstance(noise, SeededNoise) else None


def check_budgets(epsilon: float, delta: float, budgets: Budgets) -> None:
    """Refuse a budget that promises nothing, the policy's own or that of a center."""
    Budget(epsilon, delta)
    for center, (own_epsilon, own_delta) in budgets.items():
        try:
            Budget(own_epsilon, own_delta)
        except UserError as error:
            raise UserError(f"budget of center {center!r}: {error}") from error


def check_positive(name: str, value: float) -> None:
    """Refuse an option that is no positive number."""
    if not (math.isfinite(value) and value > 0):
        raise UserError(f"{name} must be a positive finite number, not {value}")


def warn(message: str) -> None:
    """Warn whoever began the run."""
    warnings.warn(message, DataWarning, stacklevel=3)


def require(true: object, what: str) -> None:
    """Refuse what a center claims."""
    if not true:
        raise Refused(what)


def require_gaussian(release: Release, std: float) -> None:
    """Refuse a release whose noise is not one Gaussian of that standard deviation."""
    events, told = release.events, release.public.get("std")
    claimed = [event.std for event in events if len(events) == 1 and isinstance(event, Gaussian)]
    claimed += [float(told)] if isinstance(told, float) else []
    require(len(claimed) == 2, "it does not tell its noise")
    require(all(math.isclose(one, std, rel_tol=SAME) for one in claimed), "its noise is not that of the policy")


def at_most(rounds: int) -> str:
    """How many rounds, in words."""
    return f"at most {rounds} rounds" if rounds > 1 else "one round"
