"""Requests and options: what is accepted, what is refused, and how the message helps."""

import math
import re
import warnings

import pytest

from vedute.errors import DataWarning, UserError
from vedute.privacy import requests as req
from vedute.privacy.policies import CenterPrivacy, NoPrivacy, PaperPrivacy, SubjectPrivacy

KINDS = [SubjectPrivacy, CenterPrivacy, PaperPrivacy]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("epsilon", [0, -1.0, math.inf, math.nan])
def test_bad_epsilon(kind: type, epsilon: float) -> None:
    with pytest.raises(UserError, match="epsilon must be a positive finite number"):
        kind(epsilon, 1e-5)
    with pytest.raises(UserError, match="budget of center 'nice'"):
        kind(1.0, 1e-5, budgets={"nice": (epsilon, 1e-5)})


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("delta", [0, 1.0, -0.1, math.nan])
def test_bad_delta(kind: type, delta: float) -> None:
    with pytest.raises(UserError, match="delta must lie strictly between 0 and 1"):
        kind(1.0, delta)


def test_other_bad_options() -> None:
    with pytest.raises(UserError, match="bound must be"):
        SubjectPrivacy(1.0, 1e-5, bound=0.0)
    with pytest.raises(UserError, match="clip must be"):
        CenterPrivacy(1.0, 1e-5, clip=-1.0)
    with pytest.raises(UserError, match="clip must be"):
        PaperPrivacy(clip=math.inf)
    with pytest.raises(UserError, match="first_round"):
        PaperPrivacy(first_round="secret")  # type: ignore[arg-type]
    with pytest.raises(UserError, match=r"scales\.W"):
        CenterPrivacy(1.0, 1e-5, scales=req.Scales(W=0.0))
    with pytest.raises(UserError, match=r"Theorem 3"):
        PaperPrivacy(1.0, 0.6)


def test_a_delta_above_one_over_the_subjects_is_warned_about() -> None:
    with pytest.warns(DataWarning, match=r"delta = 0\.01 is above 1/200"):
        req.warn_about(SubjectPrivacy(1.0, 0.01), subjects=200, centers=3, rounds=10)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        req.warn_about(SubjectPrivacy(1.0, 1e-5), subjects=200, centers=3, rounds=10)
        req.warn_about(CenterPrivacy(1.0, 1e-5), subjects=200, centers=100, rounds=10)
    with pytest.warns(DataWarning, match=r"delta = 0\.02 is above 1/100.*one center"):
        req.warn_about(CenterPrivacy(1.0, 0.02), subjects=200, centers=100, rounds=10)


def test_few_centers_are_warned_about_with_the_figure() -> None:
    with pytest.warns(DataWarning, match=r"with 3 centers.*43\.1 times"):
        req.warn_about(CenterPrivacy(1.0, 1e-5), subjects=200, centers=3, rounds=100)


def test_a_table_becomes_the_policy_it_describes() -> None:
    assert req.make_policy({"policy": "subject", "epsilon": 3.0, "delta": 1e-5}) == SubjectPrivacy(3.0, 1e-5)
    assert req.make_policy({"policy": "none"}) == NoPrivacy()
    assert req.make_policy({"policy": "paper", "clip": 0.2}) == PaperPrivacy(clip=0.2)
    asked = req.make_policy({"policy": "center", "epsilon": 1, "delta": 1e-6, "scales": {"mu": 0.2}})
    assert asked == CenterPrivacy(1, 1e-6, scales=req.Scales(mu=0.2))


@pytest.mark.parametrize(
    ("table", "message"),
    [
        ({}, "policy must be one of none, subject, center, paper"),
        ({"policy": "magic"}, "'magic'"),
        ({"policy": "subject", "epsilon": 1.0}, "needs delta"),
        ({"policy": "center", "delta": 1e-5}, "needs epsilon"),
        ({"policy": "subject", "epsilon": 1.0, "delta": 1e-5, "sigma": 3}, "'sigma' is not an option"),
        ({"policy": "subject", "epsilon": 1.0, "delta": 1e-5, "seed": 3}, "'seed' is not an option"),
        ({"policy": "subject", "epsilon": "1", "delta": 1e-5}, "epsilon must be"),
    ],
)
def test_bad_tables(table: dict[str, object], message: str) -> None:
    with pytest.raises(UserError, match=message):
        req.make_policy(table)


def test_a_center_accepts_its_own_kind_with_no_larger_budget() -> None:
    own = SubjectPrivacy(3.0, 1e-5, bound=1.5)
    assert req.accept(own, SubjectPrivacy(3.0, 1e-5), "nice") == own
    assert req.accept(own, SubjectPrivacy(1.0, 1e-6), "nice") == SubjectPrivacy(1.0, 1e-6, bound=1.5)
    assert req.accept(NoPrivacy(), NoPrivacy(), "nice") == NoPrivacy()
    scales = req.Scales(mu=0.5)  # the master decodes with the study's units, so a center must use them
    asked = CenterPrivacy(1.0, 1e-5, clip=9.0, scales=scales)
    assert req.accept(CenterPrivacy(2.0, 1e-5), asked, "nice") == CenterPrivacy(1.0, 1e-5, scales=scales)
    assert req.accept(None, CenterPrivacy(1.0, 1e-5, seed=3), "nice") == CenterPrivacy(1.0, 1e-5)
    assert req.accept(None, NoPrivacy(), "nice") == NoPrivacy()


@pytest.mark.parametrize(
    ("own", "asked"),
    [
        (SubjectPrivacy(3.0, 1e-5), SubjectPrivacy(3.1, 1e-5)),
        (SubjectPrivacy(3.0, 1e-5), SubjectPrivacy(1.0, 1e-4)),
        (SubjectPrivacy(3.0, 1e-5), NoPrivacy()),
        (SubjectPrivacy(3.0, 1e-5), CenterPrivacy(0.1, 1e-9)),
        (CenterPrivacy(3.0, 1e-5), SubjectPrivacy(0.1, 1e-9)),
        (NoPrivacy(), SubjectPrivacy(0.1, 1e-9)),
        (PaperPrivacy(first_round="public"), PaperPrivacy(first_round="raw")),
        (SubjectPrivacy(3.0, 1e-5, budgets={"nice": (1.0, 1e-5)}), SubjectPrivacy(2.0, 1e-5)),
    ],
)
def test_anything_else_is_refused(own: req.AnyPolicy, asked: req.AnyPolicy) -> None:
    with pytest.raises(UserError, match="center 'nice'"):
        req.accept(own, asked, "nice")


def test_a_requested_seed_is_never_taken() -> None:
    accepted = req.accept(SubjectPrivacy(3.0, 1e-5), SubjectPrivacy(1.0, 1e-5, seed=42), "nice")
    assert isinstance(accepted, SubjectPrivacy)
    assert accepted.seed is None


def test_the_model_is_as_private_as_its_least_private_center() -> None:
    policy = CenterPrivacy(1.0, 1e-6, budgets={"nice": (3.0, 1e-7), "paris": (0.5, 1e-5)})
    assert req.model_budget(policy, ["nice", "paris", "rome"]) == (3.0, 1e-5)
    assert policy.of("paris").budget == req_budget(0.5, 1e-5)
    assert policy.of("rome").epsilon == 1.0


def req_budget(epsilon: float, delta: float) -> object:
    from vedute.privacy.accounting import Budget

    return Budget(epsilon, delta)


@pytest.mark.parametrize(
    ("policy", "scaling"),
    [
        (SubjectPrivacy(1.0, 1e-5), "shared-minmax"),
        (SubjectPrivacy(1.0, 1e-5), "center-minmax"),
        (CenterPrivacy(1.0, 1e-5), "shared-standard"),
        (PaperPrivacy(), "shared-minmax"),
    ],
)
def test_scalings_that_leak_are_refused(policy: req.AnyPolicy, scaling: str) -> None:
    with pytest.raises(UserError, match=re.escape(f"scaling {scaling!r} would leak")):
        req.check_scaling(policy, scaling)
    req.check_scaling(policy, "declared")
