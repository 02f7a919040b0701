"""The four privacy policies, one file each, and how one is chosen: what a study asks for, and what a center accepts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import MISSING, fields, replace
from typing import Any

from vedute.errors import UserError
from vedute.privacy.policies.base import Policy
from vedute.privacy.policies.center import CenterPrivacy, Scales
from vedute.privacy.policies.none import NoPrivacy
from vedute.privacy.policies.paper import PaperPrivacy
from vedute.privacy.policies.subject import SubjectPrivacy

__all__ = [
    "POLICIES", "CenterPrivacy", "NoPrivacy", "PaperPrivacy", "Policy", "Scales", "SubjectPrivacy", "accept",
    "make_policy", "policy_of",
]  # fmt: skip

POLICIES: dict[str, type[Policy]] = {
    kind.name: kind for kind in (NoPrivacy, SubjectPrivacy, CenterPrivacy, PaperPrivacy)
}


def make_policy(table: Mapping[str, Any]) -> Policy:
    """The policy that a ``[privacy]`` table describes: its name under ``policy``, the rest as in Python."""
    options = dict(table)
    name = options.pop("policy", None)
    if name not in POLICIES:
        raise UserError(f"[privacy] policy must be one of {', '.join(POLICIES)}, not {name!r}")
    known = {option.name: option for option in fields(POLICIES[name]) if option.name != "seed"}
    unknown = sorted(set(options) - set(known))
    if unknown:
        raise UserError(f"[privacy] {unknown[0]!r} is not an option of policy {name!r}; known: {sorted(known)}")
    if "scales" in options:
        options["scales"] = Scales(**options["scales"])
    for option in known.values():
        needed = option.default is MISSING and option.default_factory is MISSING
        if needed and option.name not in options:
            raise UserError(f"[privacy] policy {name!r} needs {option.name}, for example {option.name} = 1e-5")
    return POLICIES[name](**options)


def policy_of(privacy: Mapping[str, Any] | None) -> Policy:
    """The policy whose :meth:`Policy.table` is given, with the seed that a study file may not have; None: no policy."""
    if privacy is None:
        return NoPrivacy()
    options = {name: value for name, value in privacy.items() if value is not None}
    seed = options.pop("seed", None)
    if "budgets" in options:
        options["budgets"] = {center: tuple(budget) for center, budget in options["budgets"].items()}
    policy = make_policy(options)
    return policy if seed is None or policy.exact else replace(policy, seed=seed)


def accept(own: Policy, asked: Policy, center: str) -> Policy:
    """The policy a center follows when a study asks for one: its own kind, with no larger eps or delta, or none.

    Policies of different kinds promise different things and are not comparable. The seed of a request is never
    taken: noise that the server can repeat protects nobody.
    """
    return own.of(center).agreed(asked.of(center), center)
