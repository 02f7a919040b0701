"""The gate of a center: a policy, a ledger and a source of noise; what passes it is on disk and paid for.

A question is named by everything public that shaped it, so that the same question, asked again after a crash or
by a second run, gets the same answer from the ledger, and any other question is paid for.
"""

from __future__ import annotations

from dataclasses import asdict

from vedute.model.parameters import GlobalPrior
from vedute.privacy.events import NonPrivate
from vedute.privacy.ledger import Ledger
from vedute.privacy.mechanisms import Noise, SeededNoise
from vedute.privacy.policies import CenterPrivacy, NoPrivacy, PaperPrivacy, SubjectPrivacy
from vedute.privacy.release import Release, digest
from vedute.privacy.second_moments import SecondMoments
from vedute.privacy.update import Update


def release_rows(policy: SubjectPrivacy, ledger: Ledger, moments: SecondMoments, noise: Noise) -> Release:
    """The one release of the policy ``subject``; every later run on these data gets it again."""
    ranges, bound = moments.ranges, moments.bound
    public = (ranges.layout.names, ranges.layout.sizes, ranges.low, ranges.high, bound.length, bound.weight)
    question = digest("subject", policy.epsilon, policy.delta, public, _seed(noise))
    return ledger.release(
        "second moments", question, lambda: policy.release(moments, noise), policy.budget, policy.relation
    )


def release_round(
    policy: CenterPrivacy | PaperPrivacy, ledger: Ledger, run: str, update: Update, noise: Noise
) -> Release:
    """The release of one round of the policies ``center`` and ``paper``; ``run`` names the run across restarts."""
    settings = {name: value for name, value in asdict(policy).items() if name not in ("seed", "budgets")}
    question = digest(
        policy.name, settings, update.rounds, _prior(update.prior), tuple(update.params.views), _seed(noise)
    )
    return ledger.release(
        f"{run}, round {update.round}",
        question,
        lambda: policy.release(update, noise),
        policy.budget,
        policy.relation,
    )


def open_gate(policy: NoPrivacy, ledger: Ledger, run: str) -> None:
    """Write down, once per run, that exact values leave under the policy ``none``."""
    reason = NonPrivate("policy none: exact values in every round")
    ledger.release(run, "", lambda: Release({}, (reason,), policy.name), None, policy.relation)


def _prior(prior: GlobalPrior) -> dict[str, object]:
    return {name: tuple(vars(view).values()) for name, view in prior.views.items()}


def _seed(noise: Noise) -> int | None:
    return noise.seed if isinstance(noise, SeededNoise) else None
