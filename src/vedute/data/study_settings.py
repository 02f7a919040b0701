"""What a study asks for besides its data: the tables [privacy] and [federation]."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any

from vedute.data.problems import Problems, nearest, some
from vedute.data.scaling import SCALINGS

POLICIES = ("none", "subject", "center", "paper")
WITHDRAWN = (
    "sums were encrypted by one key that every center held, so a center and the server together could read all; "
    'write aggregation = "plain", or ask for a policy under [privacy]'
)


@dataclass(frozen=True)
class PrivacySettings:
    """The policy asked for; ``options`` holds further keys, which the policy itself judges."""

    policy: str = "none"
    epsilon: float | None = None
    delta: float | None = None
    options: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class FederationSettings:
    """How the centers work together across machines.

    A run goes on while ``minimum_centers`` answer within ``timeout`` seconds; a machine that says nothing for
    ``heartbeat`` seconds counts as gone. The rest bounds what a center lets itself be asked, whatever the server says:
    at most ``runs`` runs of at most ``rounds`` rounds, under this ``scaling``, from a prior whose standard deviations
    lie between ``smallest_sd`` and ``largest_sd`` (one far outside could be built to draw out a subject).
    """

    minimum_centers: int = 2
    timeout: float = 60.0
    heartbeat: float = 20.0
    rounds: int = 100
    runs: int = 50
    scaling: str | None = "shared-standard"
    smallest_sd: float = 1e-6
    largest_sd: float = 1e3


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
    default = FederationSettings()
    known = [*(setting.name for setting in fields(FederationSettings)), "aggregation"]
    for key in table:
        if key not in known:
            problems.add(f"{where}: unknown key {key!r}{nearest(key, known)}; known are {some(known, len(known))}")
    if table.get("aggregation") == "encrypted":
        problems.add(f'{where} aggregation = "encrypted" is no longer offered: {WITHDRAWN}')
    else:
        choice(table, "aggregation", ("plain",), "plain", problems, where)
    numbers = {
        key: getattr(default, key) if value is None else value
        for key in ("timeout", "heartbeat", "smallest_sd", "largest_sd")
        for value in [_number(table, key, 0.0, math.inf, problems, where)]
    }
    if numbers["smallest_sd"] >= numbers["largest_sd"]:
        problems.add(f"{where} smallest_sd must be below largest_sd; correct one of them")
    scaling = choice(table, "scaling", (*SCALINGS, "none"), str(default.scaling), problems, where)
    return FederationSettings(
        _count(table, "minimum_centers", default.minimum_centers, problems, where),
        rounds=_count(table, "rounds", default.rounds, problems, where),
        runs=_count(table, "runs", default.runs, problems, where),
        scaling=None if scaling == "none" else scaling,
        **numbers,
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


def _count(table: Mapping[str, Any], key: str, default: int, problems: Problems, where: str) -> int:
    """A whole number from 1 on."""
    value = table.get(key, default)
    if not isinstance(value, int) or isinstance(value, bool) or value < 1:
        problems.add(f"{where} {key}: {value!r} is not a whole number from 1 on; correct it")
        return default
    return value


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
