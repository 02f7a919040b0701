"""Requests and options: what is accepted, what is refused, and how the message helps."""

import json
import math
import re
import warnings

import pytest

from vedute.errors import DataWarning, UserError
from vedute.privacy import policies as req
from vedute.privacy.policies import CenterPrivacy, NoPrivacy, PaperPrivacy, SubjectPrivacy
from vedute.run.settings import Settings


def asked(rounds: int) -> Settings:
    return Settings(2, rounds=rounds, scaling="declared")


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
        SubjectPrivacy(1.0, 0.01).check_subjects(200)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        SubjectPrivacy(1.0, 1e-5).check_subjects(200)
        CenterPrivacy(1.0, 1e-5).check(asked(10), 100)
    with pytest.warns(DataWarning, match=r"delta = 0\.02 is above 1/100.*one center"):
        CenterPrivacy(1.0, 0.02).check(asked(10), 100)


def test_few_centers_are_warned_about_with_the_figure() -> None:
    with pytest.warns(DataWarning, match=r"with 3 centers.*43\.1 times"):
        CenterPrivacy(1.0, 1e-5).check(asked(100), 3)


def test_a_table_becomes_the_policy_it_describes() -> None:
    assert req.make_policy({"policy": "subject", "epsilon": 3.0, "delta": 1e-5}) == SubjectPrivacy(3.0, 1e-5)
    assert req.make_policy({"policy": "none"}) == NoPrivacy()
    assert req.make_policy({"policy": "paper", "clip": 0.2}) == PaperPrivacy(clip=0.2)
    asked = req.make_policy({"policy": "center", "epsilon": 1, "delta": 1e-6, "scales": {"mu": 0.2}})
    assert asked == CenterPrivacy(1, 1e-6, scales=req.Scales(mu=0.2))


@pytest.mark.parametrize(
    "policy",
    [
        NoPrivacy(),
        SubjectPrivacy(3.0, 1e-5, bound=1.5, seed=4),
        CenterPrivacy(1.0, 1e-6, scales=req.Scales(mu=0.2)),
        PaperPrivacy(2.0, first_round="public", seed=0),
    ],
)
def test_a_policy_is_found_again_in_its_table(policy: req.Policy) -> None:
    assert req.policy_of(json.loads(json.dumps(policy.table()))) == policy
    assert req.policy_of(None) == NoPrivacy()


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
def test_anything_else_is_refused(own: req.Policy, asked: req.Policy) -> None:
    with pytest.raises(UserError, match="center 'nice'"):
        req.accept(own, asked, "nice")


def test_a_requested_seed_is_never_taken() -> None:
    accepted = req.accept(SubjectPrivacy(3.0, 1e-5), SubjectPrivacy(1.0, 1e-5, seed=42), "nice")
    assert isinstance(accepted, SubjectPrivacy)
    assert accepted.seed is None


def test_a_center_may_have_a_budget_of_its_own() -> None:
    policy = CenterPrivacy(1.0, 1e-6, budgets={"nice": (3.0, 1e-7), "paris": (0.5, 1e-5)})
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
def test_scalings_that_leak_are_refused(policy: req.Policy, scaling: str) -> None:
    with pytest.raises(UserError, match=re.escape(f"scaling {scaling!r} would leak")):
        policy.check_scaling(scaling)
    policy.check_scaling("declared")
