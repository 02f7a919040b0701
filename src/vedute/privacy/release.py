"""What leaves a center: noised values together with the events that tell what happened to the privacy of the data.

An event says *what* was released; what it *costs* is worked out elsewhere (``accounting``). A release without
protection is an event too, never an absence.
"""

from __future__ import annotations

import base64
import hashlib
import json
import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from vedute.errors import UserError
from vedute.model.parameters import Array

Public = str | int | float | bool
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


def event_to_json(event: Event) -> dict[str, Any]:
    """The event as plain JSON values, with its kind by name."""
    if isinstance(event, Composed):
        return {"kind": "Composed", "events": [event_to_json(e) for e in event.events], "count": event.count}
    return {"kind": type(event).__name__, **vars(event)}


def event_from_json(record: Mapping[str, Any]) -> Event:
    """The event that ``event_to_json`` wrote; anything else is refused."""
    fields = dict(record)
    kind = fields.pop("kind", None)
    if kind == "Composed":
        return Composed(tuple(event_from_json(e) for e in fields["events"]), int(fields["count"]))
    kinds: dict[Any, type[Leaf]] = {"Gaussian": Gaussian, "Laplace": Laplace, "NonPrivate": NonPrivate}
    if kind not in kinds:
        raise UserError(f"unknown privacy event {kind!r}: the file was written by another version or edited")
    return kinds[kind](**fields)


@dataclass(frozen=True)
class Release:
    """Values that may leave, the events that paid for them, and facts that were public before.

    Nothing else is ever sent by a center. ``public`` holds only what neighbours share under the relation of
    the policy (the number of subjects, where one is replaced by another) or what the study itself asked.
    """

    values: Mapping[str, Array]
    events: tuple[Event, ...]
    policy: str
    public: Mapping[str, Public] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if not self.events:
            raise ValueError("a release without an event: what leaves unprotected is NonPrivate, not free")
        values = {name: np.array(value, dtype=np.float64) for name, value in self.values.items()}
        for array in values.values():
            array.setflags(write=False)
        object.__setattr__(self, "values", values)
        object.__setattr__(self, "events", tuple(self.events))
        object.__setattr__(self, "public", dict(self.public))

    @property
    def seeded(self) -> bool:
        """True when any of the noise is of the seeded kind, which is NOT PRIVATE."""
        return any(getattr(event, "seeded", False) for event, _ in leaves(self.events))


def to_json(release: Release) -> dict[str, Any]:
    """The release as JSON values; arrays keep every bit."""
    return {
        "policy": release.policy,
        "events": [event_to_json(event) for event in release.events],
        "public": dict(release.public),
        "values": {name: _array_to_json(value) for name, value in release.values.items()},
    }


def from_json(record: Mapping[str, Any]) -> Release:
    """The release that ``to_json`` wrote."""
    return Release(
        values={name: _array_from_json(value) for name, value in record["values"].items()},
        events=tuple(event_from_json(event) for event in record["events"]),
        policy=record["policy"],
        public=record["public"],
    )


def digest(*parts: Any) -> str:
    """A name for a question made of public values (numbers, texts, arrays, mappings of them)."""
    return hashlib.sha256(json.dumps(_plain(parts), sort_keys=True).encode()).hexdigest()


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {str(name): _plain(item) for name, item in value.items()}
    if isinstance(value, tuple | list):
        return [_plain(item) for item in value]
    if isinstance(value, np.ndarray):
        return _array_to_json(np.asarray(value, dtype=np.float64))
    return value if value is None or isinstance(value, str | bool | int) else float(value).hex()


def _array_to_json(array: Array) -> dict[str, Any]:
    data = np.ascontiguousarray(array, dtype="<f8").tobytes()
    return {"shape": list(array.shape), "float64": base64.b64encode(data).decode()}


def _array_from_json(record: Mapping[str, Any]) -> Array:
    data = np.frombuffer(base64.b64decode(record["float64"], validate=True), dtype="<f8")
    return data.reshape(record["shape"]).astype(np.float64)
