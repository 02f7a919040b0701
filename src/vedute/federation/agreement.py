"""What will leave a hospital that joins a federation, in words that its data protection officer can judge."""

from __future__ import annotations

from typing import Any

from vedute.data.study import Study
from vedute.privacy.policies import AnyPolicy, CenterPrivacy, NoPrivacy, PaperPrivacy, SubjectPrivacy
from vedute.privacy.requests import check_scaling, make_policy

NEVER = (
    "Never sent: a patient's row, identifier or group; file names and paths; log files; latent scores of patients. "
    "They stay in your files and in this center's own folder."
)
MINMAX = (
    "WARNING: the scaling 'shared-minmax' sends the lowest and the highest value of every column. Each of them is the "
    "value of a real patient, and others may recognise it. Ask the coordinator for 'shared-standard' or 'declared'."
)


def own_policy(study: Study) -> AnyPolicy:
    """The policy of a center: that of its node file, or what the study asks for."""
    table: dict[str, Any] = {"policy": study.privacy.policy, **study.privacy.options}
    table |= {name: value for name in ("epsilon", "delta") if (value := getattr(study.privacy, name)) is not None}
    return make_policy(table)


def disclosure(study: Study) -> tuple[str, ...]:
    """Paragraphs about a study with the files of one center; an error where its policy and the scaling do not fit."""
    (center,) = study.centers
    policy, settings = own_policy(study).of(center), study.federation
    check_scaling(policy, settings.scaling)
    told = [_leaves(policy, study), NEVER]
    told.append(
        f"Refused, whatever the server says: another study, a weaker policy, more than {settings.runs} runs or more "
        "rounds in one, a second prior or scaling for the same round, code, and priors with "
        f"standard deviations outside {settings.smallest_sd:g} to {settings.largest_sd:g}."
    )
    if settings.scaling == "shared-minmax":
        told.append(MINMAX)
    return tuple(told)


def _leaves(policy: AnyPolicy, study: Study) -> str:
    """The one paragraph that matters."""
    settings = study.federation
    rounds = f"at most {settings.rounds} rounds" if settings.rounds > 1 else "one round"
    if isinstance(policy, NoPrivacy):
        return (
            f"What leaves this hospital, under the policy 'none' (exact values): {_scaling(settings.scaling)}in each "
            f"of {rounds}, this center's means, loadings and noise variances (averages over its patients, one set for "
            f"each view), their uncertainties, and the number of patients; at the end, this center's own parameters. "
            "No noise is added: there is no guarantee about single patients."
        )
    if isinstance(policy, SubjectPrivacy):
        return (
            "What leaves this hospital, under the policy 'subject': one matrix, once: counts, sums and products of the "
            "columns over all patients, clipped and with noise. Whatever anybody computes from it, now or later, "
            f"the guarantee for each single patient is eps = {policy.epsilon:g}, delta = {policy.delta:g}, if that "
            "patient is replaced by another."
        )
    if isinstance(policy, CenterPrivacy):
        return (
            f"What leaves this hospital, under the policy 'center': in each of {rounds}, one clipped vector of "
            "parameter changes with noise. The guarantee for the hospital as a whole, over all rounds, is "
            f"eps = {policy.epsilon:g}, delta = {policy.delta:g}, if all its data are replaced by others."
        )
    return _paper(policy, rounds)


def _paper(policy: PaperPrivacy, rounds: str) -> str:
    first = (
        "The first round sends them WITHOUT noise, as published: no guarantee holds."
        if policy.first_round == "raw"
        else "The first round has noise as well."
    )
    return (
        f"What leaves this hospital, under the policy 'paper' (for reproduction only): in each of {rounds}, this "
        f"center's parameters with noise of eps = {policy.epsilon:g}, delta = {policy.delta:g} for each mechanism, "
        f"of which there are three for each view and round; no total is promised. {first}"
    )


def _scaling(scaling: str | None) -> str:
    if scaling in ("shared-standard", "shared-view"):
        return "once, for each column, the number of values, their sum and the sum of their squared deviations; "
    if scaling == "shared-minmax":
        return "once, for each column, its lowest and its highest value; "
    return ""
