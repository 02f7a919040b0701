"""What a study asks for besides its data: the tables [privacy] and [federation]."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from vedute.data.problems import Problems, nearest

POLICIES = ("none", "subject", "center", "paper")
AGGREGATIONS = ("plain", "encrypted")


@dataclass(frozen=True)
class PrivacySettings:
    """The policy asked for; ``options`` holds further keys, which the policy itself judges."""

    policy: str = "none"
    epsilon: float | None = None
    delta: float | None = None
    options: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class FederationSettings:
    """How the centers work together across machines; ``options`` holds further keys."""

    minimum_centers: int = 2
    aggregation: str = "plain"
    timeout: float = 60.0
    options: Mapping[str, Any] = field(default_factory=dict)


def parse_privacy(table: Mapping[str, Any], problems: Problems, file: str) -> PrivacySettings:
    """The table [privacy]."""
    where = f"{file}: [privacy]"
    options = {key: value for key, value in table.items() if key not in {"policy", "epsilon", "delta"}}
    return PrivacySettings(
        choice(table, "policy", POLICIES, "none", problems, where),
        _number(table, "epsilon", 0.0, math.inf, problems, where),
        _number(table, "delta", 0.0, 1.0, problems, where),
        options,
    )


def parse_federation(table: Mapping[str, Any], problems: Problems, file: str) -> FederationSettings:
    """The table [federation]."""
    where = f"{file}: [federation]"
    known = {"minimum_centers", "aggregation", "timeout"}
    minimum = table.get("minimum_centers", 2)
    if not isinstance(minimum, int) or isinstance(minimum, bool) or minimum < 1:
        problems.add(f"{where} minimum_centers: {minimum!r} is not a whole number from 1 on; correct it")
    timeout = _number(table, "timeout", 0.0, math.inf, problems, where)
    return FederationSettings(
        minimum,
        choice(table, "aggregation", AGGREGATIONS, "plain", problems, where),
        60.0 if timeout is None else timeout,
        {key: value for key, value in table.items() if key not in known},
    )


def choice(
    table: Mapping[str, Any], key: str, allowed: tuple[str, ...], default: str, problems: Problems, where: str
) -> str:
    """One of several words."""
    value = table.get(key, default)
    if value not in allowed:
        hint = nearest(value, allowed) if isinstance(value, str) else ""
        problems.add(f"{where} {key}: {value!r} is not one of {', '.join(allowed)}{hint}")
        return default
    return str(value)


def _number(
    table: Mapping[str, Any], key: str, low: float, high: float, problems: Problems, where: str
) -> float | None:
    """A finite number strictly between ``low`` and ``high``, or None if absent."""
    value = table.get(key)
    if value is None:
        return None
    if not isinstance(value, int | float) or isinstance(value, bool) or not low < value < high:
        limit = f"between {low:g} and {high:g}" if math.isfinite(high) else f"above {low:g}"
        problems.add(f"{where} {key}: {value!r} is not a number {limit}; correct it")
        return None
    return float(value)
