"""The audit: right about mechanisms whose privacy is known, and a judge of whole runs of every policy.

Lower bounds hold with confidence 1 - 1e-4, so a claim that is true is refuted by accident once in 10,000 tests;
seeds are fixed.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pytest
from scipy.stats import binomtest

from vedute.errors import UserError
from vedute.privacy import audit as aud
from vedute.privacy.accounting import gaussian_mu, spent_epsilon, zhao_multiplier
from vedute.privacy.mechanisms import SecretNoise
from vedute.privacy.policies import CenterPrivacy, NoPrivacy, PaperPrivacy, SubjectPrivacy
from vedute.privacy.policies.center import far_center
from vedute.privacy.policies.paper import edge_center
from vedute.privacy.policies.subject import worst_neighbours
from vedute.privacy.release import CENTER, Gaussian

SURE = 1 - 1e-4


def gaussian_epsilon(delta: float, mu: float) -> float:
    return spent_epsilon([Gaussian(mu, 1.0, CENTER)], delta, CENTER)


def gaussian(mu: float, seed: int) -> Callable[[int], np.ndarray]:
    rng = np.random.default_rng(seed)
    return lambda which: which * mu + rng.standard_normal(1)


@pytest.mark.parametrize("mu", [0.5, 1.5])
def test_a_gaussian_of_known_mu_is_bounded_from_below_and_closely(mu: float) -> None:
    found = aud.audit(gaussian(mu, 1), 4000, 1e-5, confidence=SURE)
    assert mu - 0.3 < found.mu < mu
    assert found.epsilon <= gaussian_epsilon(1e-5, mu)
    assert aud.refuted(found, aud.Claim(gaussian_epsilon(1e-5, mu), 1e-5, mu)) is None
    assert "mu >=" in str(aud.refuted(found, aud.Claim(50.0, 1e-5, found.mu / 1.01)))


def test_one_outcome_that_gives_all_away_is_found_on_either_side() -> None:
    rng = np.random.default_rng(0)

    def leaky(which: int) -> np.ndarray:
        return np.array([-5.0 if which == 1 and rng.random() < 0.3 else rng.random()])

    found = aud.audit(leaky, 2000, 1e-3, confidence=SURE)
    assert found.epsilon > 2.5
    swapped = aud.audit(lambda which: leaky(1 - which), 2000, 1e-3, confidence=SURE)
    assert swapped.epsilon > 2.5


def test_outputs_that_do_not_depend_on_the_neighbour_show_nothing() -> None:
    found = aud.audit(gaussian(0.0, 3), 2000, 1e-5, confidence=SURE)
    assert (found.epsilon, found.mu) == (0.0, 0.0)


def test_what_the_first_half_imagines_the_second_half_does_not_confirm() -> None:
    # 60 numbers that mean nothing, 100 runs to learn from: a projection that tells those 100 apart is always found.
    rng = np.random.default_rng(9)
    found = aud.audit(lambda which: rng.standard_normal(60), 200, 1e-5, confidence=SURE)
    assert (found.epsilon, found.mu) == (0.0, 0.0)


def test_clopper_pearson_is_that_of_scipy() -> None:
    for hits, trials in [(0, 50), (7, 50), (50, 50), (999, 1000)]:
        exact = binomtest(hits, trials).proportion_ci(0.98, "exact")
        assert aud.clopper_pearson(hits, trials, 0.01) == pytest.approx((exact.low, exact.high), abs=1e-9)


def test_limits_hold_as_often_as_they_say() -> None:
    # 400 audits at confidence 0.8: at most 20 % may exceed the truth; 110 of 400 or more has probability 2e-4.
    exceeded = sum(aud.audit(gaussian(1.0, seed), 60, 1e-5, confidence=0.8).mu > 1.0 for seed in range(400))
    assert exceeded < 110


def test_too_few_trials_are_refused_and_claims_are_judged_at_their_delta() -> None:
    with pytest.raises(UserError, match="1000 or more"):
        aud.audit(gaussian(1.0, 0), 10, 1e-5)
    found = aud.audit(gaussian(1.0, 0), 100, 1e-5)
    with pytest.raises(ValueError, match="own delta"):
        aud.refuted(found, aud.Claim(1.0, 1e-6))


def test_progress_is_told_and_a_picture_is_drawn(tmp_path: Path) -> None:
    told: list[tuple[int, int]] = []
    found = aud.audit(gaussian(1.0, 0), 50, 1e-5, progress=lambda done, of: told.append((done, of)))
    assert told[-1] == (50, 50)
    aud.plot(found, str(tmp_path / "audit.png"))
    assert (tmp_path / "audit.png").stat().st_size > 5000


# --- whole runs, worst-case centers in place of EM


@dataclass(frozen=True)
class StreamNoise:
    """One stream drawn on and on, quick enough for thousands of simulated runs."""

    rng: np.random.Generator
    seeded = True

    def at(self, key: str) -> "StreamNoise":
        return self

    def gaussian(self, values: np.ndarray, std: float, grid: int) -> np.ndarray:
        return values + std * self.rng.standard_normal(values.shape)

    def laplace(self, values: np.ndarray, scale: float, grid: int) -> np.ndarray:
        return values + scale * self.rng.laplace(size=values.shape)


def noise(seed: int) -> StreamNoise:
    return StreamNoise(np.random.default_rng(seed))


def promised(epsilon: float, delta: float) -> aud.Claim:
    return aud.Claim(epsilon, delta, gaussian_mu(epsilon, delta))


def of_the_gaussians(policy: PaperPrivacy, rounds: int, delta: float) -> aud.Claim:
    """What the Gaussian releases of such a run may show: two a round, for mu and W."""
    mu = math.sqrt(2.0 * rounds) / zhao_multiplier(policy.epsilon, policy.delta)
    return aud.Claim(gaussian_epsilon(delta, mu), delta, mu)


def test_subject_runs_keep_their_promise_and_come_near_it() -> None:
    run, claim = worst_neighbours(SubjectPrivacy(10.0, 1e-5), noise(1)), promised(10.0, 1e-5)
    found = aud.audit(run, 4000, claim.delta, confidence=SURE)
    assert aud.refuted(found, claim) is None
    assert found.mu > 0.85 * claim.mu  # the neighbours are the worst: less noise would be noticed


def test_subject_runs_with_secret_noise_keep_their_promise() -> None:
    run, claim = worst_neighbours(SubjectPrivacy(10.0, 1e-5), SecretNoise()), promised(10.0, 1e-5)
    found = aud.audit(run, 500, claim.delta, confidence=SURE)
    assert aud.refuted(found, claim) is None
    # 250 runs a side put the bound near 1.25 with an sd of 0.15; below 0.4 it falls once in 10^8.
    assert found.mu > 0.2 * claim.mu


def test_center_runs_keep_their_promise_over_all_rounds_and_come_near_it() -> None:
    run, claim = far_center(CenterPrivacy(10.0, 1e-5), noise(2), rounds=5), promised(10.0, 1e-5)
    found = aud.audit(run, 800, claim.delta, confidence=SURE)
    assert aud.refuted(found, claim) is None
    assert claim.mu is not None
    assert found.mu > 0.5 * claim.mu


def test_the_papers_claim_over_100_rounds_is_refuted_and_the_honest_total_is_not() -> None:
    policy = PaperPrivacy(0.3, 0.02, clip=0.05, first_round="public")
    assert policy.check_rho(3) < 1
    theirs = aud.Claim(*policy.claim(1))
    assert (theirs.epsilon, theirs.delta) == pytest.approx((0.9, 0.04))
    run, honest = edge_center(policy, noise(3), 100), aud.Claim(policy.honest(1, 100, theirs.delta), theirs.delta)
    found = aud.audit(run, 100, theirs.delta, score=lambda output: float(output[0]), confidence=SURE)
    assert "claimed eps = 0.9" in str(aud.refuted(found, theirs))
    assert aud.refuted(found, honest) is None
    assert honest.epsilon > 5


def test_one_round_of_the_paper_keeps_the_papers_claim_and_its_gaussians_come_near_their_mu() -> None:
    policy = PaperPrivacy(3.0, 0.01, clip=0.1, first_round="public")
    theirs = aud.Claim(*policy.claim(1))
    run = edge_center(policy, noise(4), 1)
    kept = [[run(which) for _ in range(1000)] for which in (0, 1)]
    again = [iter(outputs) for outputs in kept]
    found = aud.audit(
        lambda which: next(again[which]), 1000, theirs.delta, score=lambda output: float(output[0]), confidence=SURE
    )
    assert aud.refuted(found, theirs) is None
    once_more = [iter(outputs) for outputs in kept]
    parts = aud.audit(
        lambda which: next(once_more[which]), 1000, theirs.delta, score=lambda output: float(output[1]), confidence=SURE
    )
    claim = of_the_gaussians(policy, 1, theirs.delta)
    assert aud.refuted(parts, claim) is None
    assert claim.mu == pytest.approx(math.sqrt(2) / zhao_multiplier(3.0, 0.01))
    assert parts.mu > 0.4 * claim.mu


def test_one_call_audits_any_policy_that_hides_something() -> None:
    told: list[int] = []
    subject = SubjectPrivacy(10.0, 1e-5).audit(200, noise(5), 10, lambda done, of: told.append(done))
    assert (subject.refuted, told[-1]) == (False, 200)
    assert not CenterPrivacy(10.0, 1e-5).audit(60, noise(6), 2).refuted
    policy = PaperPrivacy(0.3, 0.02, clip=0.05, first_round="public")
    paper = policy.audit(60, noise(7), 2)
    assert paper.against == {"the honest total": None, "Theorem 4": None}
    assert replace(paper, against={"Theorem 4": "no"}).refuted
    for raw in (NoPrivacy(), PaperPrivacy()):
        with pytest.raises(UserError, match="nothing to audit"):
            raw.audit(60, noise(8), 10)
