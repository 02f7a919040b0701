"""What a center claims of its noise, against what its policy implies: the server computes with it, so it must be so."""

from __future__ import annotations

import math

import numpy as np

from vedute.errors import Refused
from vedute.federation.plausible import LARGEST, MOST_SUBJECTS
from vedute.federation.protocol import Answer
from vedute.model.schema import Layout
from vedute.privacy.accounting import noise_multiplier
from vedute.privacy.events import Gaussian, NonPrivate
from vedute.privacy.policies import AnyPolicy, CenterPrivacy, NoPrivacy, PaperPrivacy, SubjectPrivacy
from vedute.privacy.second_moments import make_bound

SAME = 1e-6  # relative: samplers round the scale of their noise
FARTHEST = 40.0  # standard deviations: noise never lies beyond


def check_claims(policy: AnyPolicy, rounds: int, answer: Answer, layout: Layout) -> None:
    """Refuse an answer whose noise is not that of ``policy``, the one of this center."""
    held, release = layout.restrict(answer.views), answer.release
    public, values = release.public, release.values
    if isinstance(policy, NoPrivacy):
        _require(all(isinstance(event, NonPrivate) for event in release.events), "exact values that claim noise")
    elif isinstance(policy, SubjectPrivacy):
        bound, subjects = make_bound(held, policy.bound), public.get("subjects")
        told = public.get("length"), public.get("weight")
        _require(told == (bound.length, bound.weight), "its subjects were measured by another bound than the study's")
        whole = isinstance(subjects, int) and not isinstance(subjects, bool) and 2 <= subjects <= MOST_SUBJECTS
        _require(whole, "its subjects are no count")
        _gaussian(answer, bound.sensitivity * noise_multiplier(policy.epsilon, policy.delta))
        matrix = values["moments"]
        _require(np.array_equal(matrix, matrix.T) and np.abs(matrix).max() <= LARGEST, "its matrix is none of moments")
    elif isinstance(policy, CenterPrivacy):
        std = 2.0 * policy.clip * noise_multiplier(policy.epsilon, policy.delta, rounds)
        _gaussian(answer, std)
        _require(np.abs(values["update"]).max() <= policy.clip + FARTHEST * std, "its update is longer than its noise")
    elif isinstance(policy, PaperPrivacy):
        largest = max(float(np.abs(value).max()) for value in values.values())
        positive = all(float(value) > 0.0 for name, value in values.items() if name.startswith("sigma2."))
        _require(largest <= LARGEST and positive, "its parameters are none")


def _gaussian(answer: Answer, std: float) -> None:
    events, told = answer.release.events, answer.release.public.get("std")
    single = len(events) == 1 and isinstance(events[0], Gaussian)
    claimed = [events[0].std] if single and isinstance(events[0], Gaussian) else []
    claimed += [float(told)] if isinstance(told, float) else []
    _require(len(claimed) == 2, "it does not tell its noise")
    _require(all(math.isclose(one, std, rel_tol=SAME) for one in claimed), "its noise is not that of the policy")


def _require(true: object, what: str) -> None:
    if not true:
        raise Refused(what)
