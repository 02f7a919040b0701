"""What a hospital that joins a federation agrees to, in words that its data protection officer can judge."""

from __future__ import annotations

from typing import Any

from vedute.data.scaling import scaling_of
from vedute.data.study import Study
from vedute.privacy.policies import Policy, make_policy

NEVER = (
    "Never sent: a patient's row, identifier or group; file names and paths; log files; latent scores of patients. "
    "They stay in your files and in this center's own folder."
)
REFUSED = (
    "Refused, whatever the server says: another study, a weaker policy, more than {runs} runs or more rounds in one, "
    "a second prior or scaling for the same round, code, and priors with standard deviations outside {least:g} to "
    "{most:g}."
)


def own_policy(study: Study) -> Policy:
    """The policy of a center: that of its node file, or what the study asks for."""
    table: dict[str, Any] = {"policy": study.privacy.policy, **study.privacy.options}
    table |= {name: value for name in ("epsilon", "delta") if (value := getattr(study.privacy, name)) is not None}
    return make_policy(table)


def disclosure(study: Study) -> tuple[str, ...]:
    """Paragraphs about a study with the files of one center; an error where its policy and the scaling do not fit."""
    (center,) = study.centers
    policy, settings = own_policy(study).of(center), study.federation
    policy.check_scaling(settings.scaling)
    refused = REFUSED.format(runs=settings.runs, least=settings.smallest_sd, most=settings.largest_sd)
    scaling = scaling_of(settings.scaling)
    told = (policy.leaves(scaling.leaves, settings.rounds), NEVER, refused, scaling.warning)
    return tuple(paragraph for paragraph in told if paragraph)
