"""What server and centers say to each other, whatever carries it: the server asks, a center answers with a release.

Every question names the run, the study and all settings, so that a center can judge it alone and a center that was
restarted knows where it is. An answer repeats which question it belongs to; the rest of it is a ``Release``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal, get_args

from vedute.model.parameters import Array
from vedute.privacy.release import Release
from vedute.run.settings import Settings

Step = Literal["sums", "squares", "extremes", "moments", "round", "finish"]
STEPS: tuple[Step, ...] = get_args(Step)


@dataclass(frozen=True)
class Question:
    """One question to all centers.

    ``sums``, ``squares`` and ``extremes`` agree on a scaling, ``moments`` asks for the one release of the policy
    ``subject``, ``round`` for a local step under a prior, and ``finish`` tells the last prior.
    """

    step: Step
    run: str  # names the run across restarts
    study: str  # the checksum of the study that all agreed to
    settings: Settings
    round: int = 0
    values: Mapping[str, Array] = field(default_factory=dict)
    among: tuple[str, ...] = ()  # the centers whose answers made the prior that is told


@dataclass(frozen=True)
class Answer:
    """What a center says to a question: which one it was, the views that the center holds, and a release."""

    step: Step
    run: str
    round: int
    views: tuple[str, ...]
    release: Release
