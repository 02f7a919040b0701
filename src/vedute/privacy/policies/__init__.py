"""The four privacy policies: what a center lets out, by whom it is bounded, and which requests it accepts.

A policy is a frozen description. ``release(question, noise)`` turns what the center knows into the only thing
that may leave it; what the question is depends on the policy: the exact second moments of the rows (subject), or
the parameters of a round and the prior they began from (center, paper), or named arrays (none).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from typing import ClassVar, Literal, Protocol, Self, TypeVar

from vedute.errors import UserError
from vedute.model.parameters import Array
from vedute.privacy import second_moments
from vedute.privacy.accounting import Budget, noise_multiplier, paper_claim, spent_epsilon, zhao_multiplier
from vedute.privacy.events import CENTER, SUBJECT, NonPrivate
from vedute.privacy.mechanisms import Noise
from vedute.privacy.policies import center as center_level
from vedute.privacy.policies import paper
from vedute.privacy.policies.center import Scales
from vedute.privacy.release import Release
from vedute.privacy.update import Update

Budgets = Mapping[str, tuple[float, float]]
Question = TypeVar("Question", contravariant=True)


class Policy(Protocol[Question]):
    """What all policies share."""

    name: ClassVar[str]
    relation: ClassVar[str]
    scalings: ClassVar[tuple[str | None, ...]]

    @property
    def budget(self) -> Budget | None:
        """The promise about everything that ever leaves; None where the policy makes none."""

    def release(self, question: Question, noise: Noise) -> Release:
        """What may leave the center."""

    def of(self, center: str) -> Self:
        """The policy of one center, with its own budget where it has one."""


@dataclass(frozen=True)
class NoPrivacy:
    """Exact values; the ledger says that eps is infinite."""

    name: ClassVar[str] = "none"
    relation: ClassVar[str] = SUBJECT
    scalings: ClassVar[tuple[str | None, ...]] = (
        "shared-standard", "shared-view", "shared-minmax", "center-minmax", "declared", None,
    )  # fmt: skip
    budget: ClassVar[Budget | None] = None

    def release(self, question: Mapping[str, Array], noise: Noise | None = None) -> Release:
        """The values as they are, with an event that says so."""
        return Release(question, (NonPrivate("policy none: exact values"),), self.name)

    def of(self, center: str) -> Self:
        """The same for every center."""
        return self


@dataclass(frozen=True)
class SubjectPrivacy:
    """One noised release of the second moments hides each subject; all that follows is free.

    ``epsilon`` and ``delta`` bound everything that ever leaves, if one subject is replaced by another. ``bound``
    is B, the longest a subject may be in units of the declared ranges (default: 1/4 of the root of the number of
    features). ``budgets`` gives single centers their own (epsilon, delta). A ``seed`` makes noise repeatable and
    thereby NOT PRIVATE: for tests only.
    """

    epsilon: float
    delta: float
    bound: float | None = None
    budgets: Budgets = field(default_factory=dict)
    seed: int | None = None

    name: ClassVar[str] = "subject"
    relation: ClassVar[str] = SUBJECT
    scalings: ClassVar[tuple[str | None, ...]] = ("shared-standard", "shared-view", "declared", None)

    def __post_init__(self) -> None:
        _check_budgets(self.epsilon, self.delta, self.budgets)
        if self.bound is not None:
            _check_positive("bound", self.bound)

    @property
    def budget(self) -> Budget:
        """The user's own promise."""
        return Budget(self.epsilon, self.delta)

    def release(self, question: second_moments.SecondMoments, noise: Noise) -> Release:
        """The noised matrix of second moments."""
        return second_moments.subject_release(question, noise_multiplier(self.epsilon, self.delta), noise)

    def of(self, center: str) -> Self:
        """The policy with that center's own budget."""
        epsilon, delta = self.budgets.get(center, (self.epsilon, self.delta))
        return replace(self, epsilon=epsilon, delta=delta)


@dataclass(frozen=True)
class CenterPrivacy:
    """One clipped and noised vector a round hides each center as a whole.

    ``epsilon`` and ``delta`` bound all rounds together, if the data of one center are replaced by any others.
    ``clip`` bounds the length of an update, where 1 means that entries differ from the prior by about ``scales``.
    """

    epsilon: float
    delta: float
    clip: float = 1.0
    scales: Scales = field(default_factory=Scales)
    budgets: Budgets = field(default_factory=dict)
    seed: int | None = None

    name: ClassVar[str] = "center"
    relation: ClassVar[str] = CENTER
    scalings: ClassVar[tuple[str | None, ...]] = ("declared", None)

    def __post_init__(self) -> None:
        _check_budgets(self.epsilon, self.delta, self.budgets)
        _check_positive("clip", self.clip)
        for scale in fields(self.scales):
            _check_positive(f"scales.{scale.name}", getattr(self.scales, scale.name))

    @property
    def budget(self) -> Budget:
        """The user's own promise."""
        return Budget(self.epsilon, self.delta)

    def release(self, question: Update, noise: Noise) -> Release:
        """The noised update of one round out of ``question.rounds``."""
        z = noise_multiplier(self.epsilon, self.delta, question.rounds)
        names = tuple(question.params.views)
        return center_level.center_release(question, names, self.clip, self.scales, z, noise)

    def of(self, center: str) -> Self:
        """The policy with that center's own budget."""
        epsilon, delta = self.budgets.get(center, (self.epsilon, self.delta))
        return replace(self, epsilon=epsilon, delta=delta)


@dataclass(frozen=True)
class PaperPrivacy:
    """Algorithm 2 of the paper, for reproduction: ``epsilon`` and ``delta`` are those of one mechanism.

    A run of R rounds has 3 K R of them, so no total is promised: ``honest`` tells what it comes to, beside the
    paper's ``claim``. ``first_round`` is "raw" as published (no privacy at all) or "public" (from a prior that
    owes nothing to data). ``clip`` is the constant in g = const * sd.
    """

    epsilon: float = 10.0
    delta: float = 0.01
    clip: float = 1.0
    first_round: Literal["raw", "public"] = "raw"
    allow_divergence: bool = False
    budgets: Budgets = field(default_factory=dict)
    seed: int | None = None

    name: ClassVar[str] = "paper"
    relation: ClassVar[str] = CENTER
    scalings: ClassVar[tuple[str | None, ...]] = ("center-minmax", "declared", None)
    budget: ClassVar[Budget | None] = None

    def __post_init__(self) -> None:
        _check_budgets(self.epsilon, self.delta, self.budgets)
        for epsilon, delta in [(self.epsilon, self.delta), *self.budgets.values()]:
            zhao_multiplier(epsilon, delta)
        _check_positive("clip", self.clip)
        if self.first_round not in ("raw", "public"):
            raise UserError(f"first_round must be 'raw' (as published) or 'public', not {self.first_round!r}")

    def release(self, question: Update, noise: Noise) -> Release:
        """The noised parameters of one round, or the raw ones of the first."""
        if question.round == 1 and self.first_round == "raw":
            return paper.raw_release(question)
        return paper.paper_release(question, self.epsilon, self.delta, self.clip, noise)

    def of(self, center: str) -> Self:
        """The policy with that center's own budget."""
        epsilon, delta = self.budgets.get(center, (self.epsilon, self.delta))
        return replace(self, epsilon=epsilon, delta=delta)

    def check_rho(self, centers: int) -> float:
        """rho, before the run; an error where it is 1 or more and divergence is not allowed."""
        return paper.refuse_divergence(self.clip, self.epsilon, self.delta, centers, self.allow_divergence)

    def claim(self, views: int) -> tuple[float, float]:
        """The paper's own total (Theorem 4)."""
        return paper_claim(self.epsilon, self.delta, views)

    def honest(self, views: int, rounds: int, delta: float = 1e-5) -> float:
        """The eps that the whole run really comes to, at ``delta``."""
        if self.first_round == "raw":
            return math.inf
        return spent_epsilon(paper.paper_events(self.epsilon, self.delta, views, rounds), delta, CENTER)


AnyPolicy = NoPrivacy | SubjectPrivacy | CenterPrivacy | PaperPrivacy
POLICIES: dict[str, type[AnyPolicy]] = {
    kind.name: kind for kind in (NoPrivacy, SubjectPrivacy, CenterPrivacy, PaperPrivacy)
}


def _check_budgets(epsilon: float, delta: float, budgets: Budgets) -> None:
    Budget(epsilon, delta)
    for center, (own_epsilon, own_delta) in budgets.items():
        try:
            Budget(own_epsilon, own_delta)
        except UserError as error:
            raise UserError(f"budget of center {center!r}: {error}") from error


def _check_positive(name: str, value: float) -> None:
    if not (math.isfinite(value) and value > 0):
        raise UserError(f"{name} must be a positive finite number, not {value}")
