"""What the server of a run and its centers say to each other, wherever they are.

The server asks and a center answers; an :class:`Exchange` carries both. It is the only thing that differs between a fit
in memory, in a run folder, and across machines.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Literal, Protocol, get_args

from vedute.data.scaling import Extremes, Ranges, Scaler, Sums
from vedute.model.contribution import Contribution
from vedute.model.master import Memory
from vedute.model.parameters import Array, CenterParams, GlobalPrior, Schema, Spreads
from vedute.privacy.release import Release
from vedute.run.settings import Settings

Step = Literal["sums", "squares", "extremes", "moments", "round", "finish"]
STEPS: tuple[Step, ...] = get_args(Step)


@dataclass(frozen=True)
class Job:
    """What is to be fitted, and how; public. A ``prior`` is the user's own start for some views."""

    schema: Schema
    settings: Settings
    ranges: Ranges | None = None
    prior: GlobalPrior | None = None


@dataclass(frozen=True)
class Question:
    """One question to all centers.

    ``sums``, ``squares`` and ``extremes`` agree on a scaling, ``moments`` asks for the one release of a policy that has
    but one, ``round`` for a local step under a prior, and ``finish`` tells the last prior. ``among`` are the centers
    whose answers made the prior; one that is not among them begins at the prior.
    """

    step: Step
    round: int = 0
    mean: Array | None = None
    prior: GlobalPrior | None = None
    basis: Array | None = None  # change of latent basis that the prior was written in since the last round
    scaler: Scaler | None = None
    among: tuple[str, ...] = ()


Content = Sums | Array | Extremes | Contribution | Release | CenterParams


@dataclass(frozen=True)
class Answer:
    """What a center says: the views that it holds, and what its policy lets out."""

    views: tuple[str, ...]
    content: Content


Answers = dict[str, Answer]


@dataclass(frozen=True)
class Record:
    """What is known of one round: how far the prior moved and spread, how long it took, how much travelled."""

    round: int
    change: float
    seconds: float
    bytes_up: int
    bytes_down: int
    centers: tuple[str, ...]
    spreads: Mapping[str, Spreads] = field(default_factory=dict)  # of each view, in the prior that the round made


@dataclass(frozen=True)
class Progress:
    """Where the rounds stand; all that is needed to go on after an interruption, but for the centers' states."""

    prior: GlobalPrior
    history: tuple[Record, ...] = ()
    converged: bool = False
    memory: Memory = Memory()  # noqa: RUF009 - frozen
    basis: Array | None = None


class Exchange(Protocol):
    """Carries questions to centers and brings their answers."""

    @property
    def travelled(self) -> tuple[int, int]:
        """Bytes up and down of the last question."""

    def ask(self, question: Question) -> Answers:
        """The answers of all centers that take part, by name."""

    def settle(self, step: Callable[[Answers], Progress], answers: Answers) -> Progress:
        """The next prior; without the answers, if need be, that lead to one which no center would take."""

    def inspect(self, total: Sums, squares: Array) -> None:
        """Refuse columns of which the sums over all centers tell nothing."""

    def scalers(self, common: Scaler | None, among: tuple[str, ...]) -> Mapping[str, Scaler]:
        """The scaler of each center that is known here."""
