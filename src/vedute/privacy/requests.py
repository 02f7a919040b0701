"""Requests: from a study file to a policy, which ones a center accepts, and what to warn about."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import fields, replace
from typing import Any

from vedute.errors import DataWarning, UserError
from vedute.privacy.accounting import noise_multiplier
from vedute.privacy.policies import (
    POLICIES,
    AnyPolicy,
    CenterPrivacy,
    NoPrivacy,
    PaperPrivacy,
    SubjectPrivacy,
)
from vedute.privacy.policies import center as center_level
from vedute.privacy.policies.center import Scales


def make_policy(table: Mapping[str, Any]) -> AnyPolicy:
    """The policy that a ``[privacy]`` table describes: its name under ``policy``, the rest as in Python."""
    options = dict(table)
    name = options.pop("policy", None)
    if name not in POLICIES:
        raise UserError(f"[privacy] policy must be one of {', '.join(POLICIES)}, not {name!r}")
    kind = POLICIES[name]
    known = {option.name for option in fields(kind)} - {"seed"}
    unknown = sorted(set(options) - known)
    if unknown:
        raise UserError(f"[privacy] {unknown[0]!r} is not an option of policy {name!r}; known: {sorted(known)}")
    if "scales" in options:
        options["scales"] = Scales(**options["scales"])
    for required in ("epsilon", "delta"):
        if required in known and required not in options and kind is not PaperPrivacy:
            raise UserError(f"[privacy] policy {name!r} needs {required}, for example {required} = 1e-5")
    return kind(**options)


def accept(own: AnyPolicy | None, asked: AnyPolicy, center: str) -> AnyPolicy:
    """The policy a center follows when a study asks for one: its own kind, with no larger eps or delta, or none.

    Policies of different kinds promise different things and are not comparable. The seed of a request is never
    taken: noise that the server can repeat protects nobody.
    """
    if own is None:
        return asked if isinstance(asked, NoPrivacy) else replace(asked, seed=None)
    mine, theirs = own.of(center), asked.of(center)
    if isinstance(mine, NoPrivacy) and isinstance(theirs, NoPrivacy):
        return mine
    if type(mine) is not type(theirs) or isinstance(mine, NoPrivacy) or isinstance(theirs, NoPrivacy):
        raise UserError(f"center {center!r} follows the policy {mine.name!r} and refuses {theirs.name!r}")
    if theirs.epsilon > mine.epsilon or theirs.delta > mine.delta:
        raise UserError(
            f"center {center!r} allows at most eps = {mine.epsilon:g}, delta = {mine.delta:g} and refuses "
            f"eps = {theirs.epsilon:g}, delta = {theirs.delta:g}: lower them in the study's [privacy]"
        )
    if isinstance(theirs, PaperPrivacy) and theirs.first_round != getattr(mine, "first_round", None):
        raise UserError(f"center {center!r} refuses first_round = {theirs.first_round!r}: it has its own")
    accepted = replace(mine, epsilon=theirs.epsilon, delta=theirs.delta)
    if isinstance(accepted, CenterPrivacy) and isinstance(theirs, CenterPrivacy):
        return replace(accepted, scales=theirs.scales)  # public units, which the master must share; no privacy in them
    return accepted


def model_budget(policy: SubjectPrivacy | CenterPrivacy | PaperPrivacy, centers: list[str]) -> tuple[float, float]:
    """The budget of the model over centers with budgets of their own: the largest (the paper's corollary)."""
    own = [policy.of(center) for center in centers]
    return max(p.epsilon for p in own), max(p.delta for p in own)


def check_scaling(policy: AnyPolicy, scaling: str | None) -> None:
    """Refuse a scaling that would let values of patients out beside the policy."""
    if scaling not in policy.scalings:
        usable = ", ".join(repr(one) for one in policy.scalings)
        raise UserError(f"scaling {scaling!r} would leak past the policy {policy.name!r}: use one of {usable}")


def warn_about(policy: AnyPolicy, subjects: int, centers: int, rounds: int) -> None:
    """Warn where the numbers of a run make a promise weak or useless."""
    if isinstance(policy, SubjectPrivacy) and policy.delta > 1.0 / max(subjects, 1):
        _warn(
            f"delta = {policy.delta:g} is above 1/{subjects}: it would allow to publish one subject's row; "
            f"take {0.1 / max(subjects, 1):.0e}"
        )
    if isinstance(policy, CenterPrivacy):
        if policy.delta > 1.0 / centers:
            _warn(
                f"delta = {policy.delta:g} is above 1/{centers}: it would allow to publish the data of one center; "
                f"take {0.1 / centers:.0e}"
            )
        z = noise_multiplier(policy.epsilon, policy.delta, rounds)
        message = center_level.warning_below_100(centers, policy.epsilon, z)
        if message is not None:
            _warn(message)


def _warn(message: str) -> None:
    warnings.warn(message, DataWarning, stacklevel=3)
