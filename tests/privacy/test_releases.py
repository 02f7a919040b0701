"""What a policy releases: the same question is answered once and paid once, and all that leaves is known by name."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from vedute.data.scaling import SCALINGS, scaling_of
from vedute.errors import Refused, UserError
from vedute.model.parameters import CenterParams, GlobalPrior, Layout, ViewParams
from vedute.privacy.ledger import Ledger
from vedute.privacy.mechanisms import SecretNoise, SeededNoise
from vedute.privacy.policies import CenterPrivacy, NoPrivacy, PaperPrivacy, Policy, SubjectPrivacy
from vedute.privacy.policies.center import Scales
from vedute.privacy.release import SUBJECT
from vedute.privacy.second_moments import Ranges, SecondMoments, make_bound
from vedute.privacy.update import Update, public_prior

LAYOUT = Layout(("A", "B"), (3, 2))
RANGES = Ranges(LAYOUT, np.zeros(5), np.ones(5))
PRIOR = public_prior([("A", 3), ("B", 2)], 2, seed=1)


def moments(bound: float | None = None) -> SecondMoments:
    rng = np.random.default_rng(0)
    found = SecondMoments(RANGES, make_bound(LAYOUT, bound))
    found.add({"A": rng.uniform(size=(50, 3)), "B": rng.uniform(size=(50, 2))})
    return found


def update(round_: int, rounds: int = 3, prior: GlobalPrior = PRIOR) -> Update:
    views = {name: ViewParams(v.mu + 0.1, v.W, v.sigma2) for name, v in prior.views.items()}
    return Update(CenterParams(views, np.zeros(2)), prior, round_, rounds)


def test_the_second_run_gets_the_first_runs_release_and_no_other(tmp_path: Path) -> None:
    policy, noise = SubjectPrivacy(3.0, 1e-5), SecretNoise()
    first = policy.release(Ledger("nice", "d", tmp_path / "l.jsonl"), "run", moments(), noise)
    ledger = Ledger("nice", "d", tmp_path / "l.jsonl")
    again = policy.release(ledger, "second run", moments(), noise)
    assert np.array_equal(first.values["moments"], again.values["moments"])
    assert len(ledger.entries()) == 1
    with pytest.raises(UserError, match="exceed the promise"):
        policy.release(ledger, "run", moments(bound=0.3), noise)
    with pytest.raises(UserError, match="exceed the promise"):
        SubjectPrivacy(2.0, 1e-5).release(ledger, "run", moments(), noise)


@pytest.mark.parametrize("policy", [CenterPrivacy(3.0, 1e-5), PaperPrivacy(first_round="public")])
def test_a_resumed_round_is_sent_again_and_a_new_prior_is_a_new_question(
    tmp_path: Path, policy: CenterPrivacy | PaperPrivacy
) -> None:
    ledger, noise = Ledger("nice", "d", tmp_path / "l.jsonl"), SecretNoise()
    first = policy.release(ledger, "run", update(1), noise)
    again = policy.release(ledger, "run", update(1), noise)
    name = next(iter(first.values))
    assert np.array_equal(first.values[name], again.values[name])
    other = policy.release(ledger, "run", update(1, prior=public_prior([("A", 3), ("B", 2)], 2, 2)), noise)
    assert not np.any(first.values[name] == other.values[name])
    policy.release(ledger, "other run", update(1), noise)
    assert len(ledger.entries()) == 3


def test_other_settings_are_another_question() -> None:
    noise = SecretNoise()
    base = CenterPrivacy(3.0, 1e-5)
    for other in (replace(base, clip=2.0), replace(base, scales=Scales(mu=0.2)), replace(base, delta=2e-5)):
        ledger = Ledger("nice", "d")
        base.release(ledger, "run", update(1), noise)
        other.release(ledger, "run", update(1), noise)
        assert len(ledger.entries()) == 2
    ledger = Ledger("nice", "d")
    for first in ("raw", "public"):
        PaperPrivacy(first_round=first).release(ledger, "run", update(1), noise)
    assert len(ledger.entries()) == 2


def test_center_level_runs_stop_when_the_budget_does(tmp_path: Path) -> None:
    policy, ledger = CenterPrivacy(3.0, 1e-5), Ledger("nice", "d", tmp_path / "l.jsonl")
    for round_ in (1, 2, 3):
        policy.release(ledger, "run", update(round_), SecretNoise())
    assert ledger.spent(1e-5, policy.relation) == pytest.approx(3.0, rel=1e-6)
    with pytest.raises(UserError, match="exceed"):
        policy.release(ledger, "second run", update(1), SecretNoise())


def test_seeded_runs_are_marked_and_do_not_answer_for_secret_ones(tmp_path: Path) -> None:
    policy, ledger = SubjectPrivacy(3.0, 1e-5, seed=4), Ledger("nice", "d", tmp_path / "l.jsonl")
    seeded = policy.release(ledger, "run", moments(), SeededNoise(4, "nice"))
    assert seeded.seeded
    assert "NOT PRIVATE" in (tmp_path / "l.jsonl").read_text()
    with pytest.raises(UserError, match="not private"):
        policy.release(ledger, "run", moments(), SecretNoise())


def test_without_a_policy_the_ledger_says_infinity(tmp_path: Path) -> None:
    ledger = Ledger("nice", "d", tmp_path / "l.jsonl")
    NoPrivacy().release(ledger, "run", {})
    NoPrivacy().release(ledger, "run", {})
    lines = [json.loads(text) for text in (tmp_path / "l.jsonl").read_text().splitlines()]
    assert len(lines) == 2
    assert lines[1]["spent_epsilon"] == "infinity"
    assert ledger.spent(1e-5, SUBJECT) == float("inf")


def test_every_field_that_crosses_is_known(tmp_path: Path) -> None:
    ledger = Ledger("nice", "d", tmp_path / "l.jsonl")
    rows = SubjectPrivacy(3.0, 1e-5).release(ledger, "run", moments(), SecretNoise())
    level = CenterPrivacy(3.0, 1e-5).release(Ledger("a", "d"), "run", update(1), SecretNoise())
    paper = PaperPrivacy().release(Ledger("b", "d"), "run", update(2), SecretNoise())
    raw = PaperPrivacy().release(Ledger("c", "d"), "run", update(1), SecretNoise())
    names = {f"{what}.{view}" for what in ("mu", "W", "sigma2") for view in ("A", "B")}
    assert (set(rows.values), set(rows.public)) == ({"moments"}, {"subjects", "length", "weight", "std"})
    assert (set(level.values), set(level.public)) == ({"update"}, {"round", "std"})
    for release in (paper, raw):
        assert (set(release.values), set(release.public)) == (names, {"round"})


@pytest.mark.parametrize(
    ("policy", "question"),
    [
        (SubjectPrivacy(3.0, 1e-5), moments()),
        (CenterPrivacy(3.0, 1e-5), update(1)),
        (PaperPrivacy(), update(1)),
        (PaperPrivacy(), update(2)),
    ],
)
def test_a_release_has_the_arrays_and_the_noise_that_its_policy_says(policy: Policy, question: object) -> None:
    release = policy.release(Ledger("nice", "d"), "run", question)
    assert {name: value.shape for name, value in release.values.items()} == policy.shapes(LAYOUT, 2)
    policy.check_claims(release, LAYOUT, 3)
    first = next(iter(release.values))
    lie = replace(release, values={**release.values, first: release.values[first] + 1e16})
    with pytest.raises(Refused):
        policy.check_claims(lie, LAYOUT, 3)


@pytest.mark.parametrize("policy", [SubjectPrivacy(3.0, 1e-5), CenterPrivacy(3.0, 1e-5)])
def test_noise_of_a_smaller_budget_is_not_that_of_the_policy(policy: SubjectPrivacy | CenterPrivacy) -> None:
    question = moments() if policy.once else update(1)
    release = replace(policy, epsilon=2.9).release(Ledger("nice", "d"), "run", question)
    with pytest.raises(Refused, match="not that of the policy"):
        policy.check_claims(release, LAYOUT, 3)


def test_exact_values_and_noise_are_not_taken_for_each_other() -> None:
    exact = NoPrivacy().release(Ledger("nice", "d"), "run", {"contribution": np.ones(3)})
    NoPrivacy().check_claims(exact, LAYOUT, 3)
    with pytest.raises(Refused, match="claim noise"):
        NoPrivacy().check_claims(CenterPrivacy(3.0, 1e-5).release(Ledger("a", "d"), "run", update(1)), LAYOUT, 3)
    with pytest.raises(Refused, match="does not tell its noise"):
        CenterPrivacy(3.0, 1e-5).check_claims(exact, LAYOUT, 3)


def test_a_center_is_asked_for_sums_only_where_nothing_is_hidden() -> None:
    asked = {name: scaling_of(name).steps for name in (None, *SCALINGS)}
    assert asked["shared-standard"] == asked["shared-view"] == ("sums", "squares")
    assert asked["shared-minmax"] == ("extremes",)
    assert asked["center-minmax"] == asked["declared"] == asked[None] == ()
    for sums in asked.values():
        assert NoPrivacy().steps(sums) == ("round", "finish", *sums)
        assert SubjectPrivacy(3.0, 1e-5).steps(sums) == ("moments", "finish")
        assert CenterPrivacy(3.0, 1e-5).steps(sums) == PaperPrivacy().steps(sums) == ("round", "finish")
