"""What happened to the privacy of the data, as values.

An event says *what* was released; what it *costs* is worked out elsewhere (``accounting``). A release without
protection is an event too, never an absence.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from vedute.errors import UserError

SUBJECT = "replace one subject"
CENTER = "replace one center"
RELATIONS = (SUBJECT, CENTER)


def _check(name: str, sensitivity: float, spread: float, relation: str) -> None:
    if relation not in RELATIONS:
        raise ValueError(f"{name}: the neighbouring relation must be one of {RELATIONS}, not {relation!r}")
    if not (math.isfinite(sensitivity) and sensitivity > 0 and math.isfinite(spread) and spread > 0):
        raise ValueError(f"{name}: sensitivity and noise must be positive, not {sensitivity}, {spread}")


@dataclass(frozen=True)
class Gaussian:
    """Gaussian noise of standard deviation ``std`` on a vector that moves by at most ``sensitivity`` (l2).

    ``seeded`` noise can be drawn again by anyone who knows the seed: it protects nobody and counts as such.
    """

    sensitivity: float
    std: float
    relation: str
    seeded: bool = False

    def __post_init__(self) -> None:
        _check("Gaussian", self.sensitivity, self.std, self.relation)


@dataclass(frozen=True)
class Laplace:
    """Laplace noise of the given ``scale`` on a vector that moves by at most ``sensitivity`` (l1)."""

    sensitivity: float
    scale: float
    relation: str
    seeded: bool = False

    def __post_init__(self) -> None:
        _check("Laplace", self.sensitivity, self.scale, self.relation)


@dataclass(frozen=True)
class NonPrivate:
    """A value that left as it was."""

    reason: str


@dataclass(frozen=True)
class Composed:
    """All of these events, ``count`` times over."""

    events: tuple[Event, ...]
    count: int = 1

    def __post_init__(self) -> None:
        if self.count < 0:
            raise ValueError(f"Composed: count must not be negative, not {self.count}")


Leaf = Gaussian | Laplace | NonPrivate
Event = Leaf | Composed


def leaves(events: Iterable[Event], count: int = 1) -> Iterator[tuple[Leaf, int]]:
    """Every simple event with the number of times it happened; the only place that multiplies by a count."""
    for event in events:
        if isinstance(event, Composed):
            yield from leaves(event.events, count * event.count)
        elif count:
            yield event, count


def to_json(event: Event) -> dict[str, Any]:
    """The event as plain JSON values, with its kind by name."""
    if isinstance(event, Composed):
        return {"kind": "Composed", "events": [to_json(e) for e in event.events], "count": event.count}
    return {"kind": type(event).__name__, **vars(event)}


def from_json(record: Mapping[str, Any]) -> Event:
    """The event that ``to_json`` wrote; anything else is refused."""
    fields = dict(record)
    kind = fields.pop("kind", None)
    if kind == "Composed":
        return Composed(tuple(from_json(e) for e in fields["events"]), int(fields["count"]))
    kinds: dict[Any, type[Leaf]] = {"Gaussian": Gaussian, "Laplace": Laplace, "NonPrivate": NonPrivate}
    if kind not in kinds:
        raise UserError(f"unknown privacy event {kind!r}: the file was written by another version or edited")
    return kinds[kind](**fields)
