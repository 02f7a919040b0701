"""What leaves a center: noised values together with the events that tell what it cost."""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from vedute.model.parameters import Array
from vedute.privacy import events as ev

Public = str | int | float | bool


@dataclass(frozen=True)
class Release:
    """Values that may leave, the events that paid for them, and facts that were public before.

    Nothing else is ever sent by a center. ``public`` holds only what neighbours share under the relation of
    the policy (the number of subjects, where one is replaced by another) or what the study itself asked.
    """

    values: Mapping[str, Array]
    events: tuple[ev.Event, ...]
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
        return any(getattr(event, "seeded", False) for event, _ in ev.leaves(self.events))


def to_json(release: Release) -> dict[str, Any]:
    """The release as JSON values; arrays keep every bit."""
    return {
        "policy": release.policy,
        "events": [ev.to_json(event) for event in release.events],
        "public": dict(release.public),
        "values": {name: _array_to_json(value) for name, value in release.values.items()},
    }


def from_json(record: Mapping[str, Any]) -> Release:
    """The release that ``to_json`` wrote."""
    return Release(
        values={name: _array_from_json(value) for name, value in record["values"].items()},
        events=tuple(ev.from_json(event) for event in record["events"]),
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
