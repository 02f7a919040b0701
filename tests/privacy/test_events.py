"""Events are honest values: they count, travel as JSON and refuse nonsense."""

import json
import math

import pytest

from vedute.errors import UserError
from vedute.privacy.release import (
    CENTER,
    SUBJECT,
    Composed,
    Gaussian,
    Laplace,
    NonPrivate,
    event_from_json,
    event_to_json,
    leaves,
)

SAMPLES = [
    Gaussian(1.0, 2.0, SUBJECT),
    Laplace(0.1, 1e-30, CENTER, seeded=True),
    NonPrivate("as published"),
    Composed((Gaussian(1.0, 2.0, CENTER), Composed((NonPrivate("x"),), 2)), 3),
]


@pytest.mark.parametrize("event", SAMPLES)
def test_json_there_and_back(event: object) -> None:
    assert event_from_json(json.loads(json.dumps(event_to_json(event)))) == event


def test_counts_multiply() -> None:
    gaussian, raw = Gaussian(1.0, 2.0, CENTER), NonPrivate("x")
    assert list(leaves([SAMPLES[3], raw])) == [(gaussian, 3), (raw, 6), (raw, 1)]
    assert list(leaves([Composed((raw,), 0)])) == []


@pytest.mark.parametrize("bad", [(0.0, 1.0), (1.0, 0.0), (math.nan, 1.0), (1.0, math.inf), (-1.0, 1.0)])
def test_nonsense_is_refused(bad: tuple[float, float]) -> None:
    with pytest.raises(ValueError, match="positive"):
        Gaussian(*bad, SUBJECT)
    with pytest.raises(ValueError, match="positive"):
        Laplace(*bad, SUBJECT)


def test_unknown_relations_and_kinds_are_refused() -> None:
    with pytest.raises(ValueError, match="relation"):
        Gaussian(1.0, 1.0, "add one")
    with pytest.raises(ValueError, match="count"):
        Composed((), -1)
    with pytest.raises(UserError, match="unknown privacy event"):
        event_from_json({"kind": "Magic"})
