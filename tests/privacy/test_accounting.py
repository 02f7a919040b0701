"""The price of releases, against published figures, an independent library and slow references."""

import math

import numpy as np
import pytest
from dp_accounting.pld import privacy_loss_distribution as oracle
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.integrate import quad
from scipy.stats import norm

from vedute.errors import UserError
from vedute.privacy import accounting as acc
from vedute.privacy.accounting import chords, laplace_delta
from vedute.privacy.release import CENTER, SUBJECT, Composed, Event, Gaussian, Laplace, NonPrivate


def paper_run(epsilon: float, delta: float, views: int, rounds: int) -> list[Event]:
    z = acc.zhao_multiplier(epsilon, delta)
    gaussians = Composed((Gaussian(2.0, 2.0 * z, CENTER),), 2 * views)
    laplaces = Composed((Laplace(2.0, 2.0 / epsilon, CENTER),), views)
    return [Composed((gaussians, laplaces), rounds)]


@pytest.mark.parametrize(
    ("epsilon", "rounds", "published"),
    [(10, 100, 6642), (10, 1, 95.4), (1, 100, 280), (1, 1, 7.95), (0.1, 1, 0.69), (0.1, 100, 11.6)],
)
def test_honest_totals_of_the_papers_runs(epsilon: float, rounds: int, published: float) -> None:
    spent = acc.spent_epsilon(paper_run(epsilon, 0.01, 4, rounds), 1e-5, CENTER)
    assert spent == pytest.approx(published, rel=0.01)


@pytest.mark.parametrize(
    ("epsilon", "rounds", "step"), [(1, 1, 1e-4), (1, 100, 1e-3), (0.1, 100, 1e-3), (10, 100, 1e-2)]
)
def test_mixtures_agree_with_an_independent_library(epsilon: float, rounds: int, step: float) -> None:
    # The true sensitivity is passed: the library's REPLACE_ONE would double it.
    z = acc.zhao_multiplier(epsilon, 0.01)
    gaussian = oracle.from_gaussian_mechanism(z / math.sqrt(8 * rounds), value_discretization_interval=step)
    laplace = oracle.from_laplace_mechanism(1 / epsilon, value_discretization_interval=step)
    upper = gaussian.compose(laplace.self_compose(4 * rounds)).get_epsilon_for_delta(1e-5)
    spent = acc.spent_epsilon(paper_run(epsilon, 0.01, 4, rounds), 1e-5, CENTER)
    assert spent == pytest.approx(upper, rel=1e-3)


@pytest.mark.parametrize(("epsilon", "multiplier"), [(1, 3.7306), (3, 1.3906), (10, 0.4999)])
def test_noise_multipliers(epsilon: float, multiplier: float) -> None:
    assert acc.noise_multiplier(epsilon, 1e-5) == pytest.approx(multiplier, abs=1e-4)


@pytest.mark.parametrize("releases", [1, 7, 100])
def test_calibration_is_spent_exactly_by_that_many_releases(releases: int) -> None:
    z = acc.noise_multiplier(2.0, 1e-6, releases)
    event = Gaussian(3.0, 3.0 * z, SUBJECT)
    assert acc.spent_epsilon([Composed((event,), releases)], 1e-6, SUBJECT) == pytest.approx(2.0, rel=1e-9)
    assert acc.spent_epsilon([event] * (releases + 1), 1e-6, SUBJECT) > 2.0


@pytest.mark.parametrize(("mu", "epsilon"), [(0.1, 0.05), (1, 0), (1, -2), (5, 20), (40, 900)])
def test_gaussian_delta_is_the_integral_it_stands_for(mu: float, epsilon: float) -> None:
    start = epsilon / mu - mu / 2  # from start + mu on the density ratio exceeds e^eps

    def excess(x: float) -> float:
        return float(norm.pdf(x - mu) - math.exp(epsilon + norm.logpdf(x)))

    tail, _ = quad(excess, start + mu, start + mu + 40, limit=200)
    assert float(acc.gaussian_delta(epsilon, mu)) == pytest.approx(tail, rel=1e-7, abs=1e-14)


def test_a_promise_survives_the_way_there_and_back() -> None:
    for epsilon, delta in [(0.01, 1e-10), (1.0, 1e-5), (50.0, 0.3)]:
        mu = acc.gaussian_mu(epsilon, delta)
        assert acc.spent_epsilon([Gaussian(mu, 1.0, CENTER)], delta, CENTER) <= epsilon * (1 + 1e-9)
        assert float(acc.gaussian_delta(epsilon, mu * 1.001)) > delta


def test_theorem_3_keeps_its_promise_with_a_little_more_noise_than_needed() -> None:
    assert acc.zhao_multiplier(10, 0.01) == pytest.approx(0.3851, abs=1e-4)
    assert acc.zhao_multiplier(1, 0.01) == pytest.approx(2.7349, abs=1e-4)
    for epsilon in (0.1, 1.0, 10.0, 30.0):
        for delta in (1e-8, 1e-3, 0.4):
            assert acc.zhao_multiplier(epsilon, delta) > acc.noise_multiplier(epsilon, delta)


def test_theorem_4_counts_one_round() -> None:
    assert acc.paper_claim(10, 0.01, 4) == pytest.approx((120, 0.08))


@settings(max_examples=60, deadline=None)
@given(st.floats(0.01, 50), st.floats(0.02, 1.0), st.floats(-1.5, 1.5))
def test_chords_are_a_distribution_that_dominates(ratio: float, step: float, where: float) -> None:
    step, epsilon = step * ratio, where * ratio
    p = chords(ratio, step)
    losses = step * (np.arange(len(p)) - len(p) // 2)
    ours = float(p @ np.maximum(-np.expm1(np.minimum(epsilon - losses, 0.0)), 0.0))
    assert p.sum() == pytest.approx(1.0, abs=1e-9)
    assert ours >= float(laplace_delta(np.array(epsilon), ratio)) - 1e-12


def test_laplace_alone_is_pure_and_composes_better_than_by_addition() -> None:
    one = Laplace(1.0, 0.5, SUBJECT)
    assert acc.spent_epsilon([one], 1e-12, SUBJECT) == pytest.approx(2.0, rel=1e-6)
    many = acc.spent_epsilon([Composed((one,), 200)], 1e-5, SUBJECT)
    assert 200 < many < 400
    assert acc.spent_epsilon([one] * 3, 1e-300, SUBJECT) == pytest.approx(6.0, rel=1e-6)


def test_different_and_huge_ratios_never_beat_the_sum_of_their_parts() -> None:
    events = [Laplace(1.0, 1.0, CENTER), Laplace(1.0, 0.3, CENTER), Laplace(500.0, 1.0, CENTER)]
    assert 500.0 <= acc.spent_epsilon(events, 1e-6, CENTER) <= 504.34


def test_what_hides_a_center_hides_its_subjects_but_not_the_converse() -> None:
    center, subject = Gaussian(1.0, 3.0, CENTER), Gaussian(1.0, 3.0, SUBJECT)
    assert math.isfinite(acc.spent_epsilon([center, subject], 1e-5, SUBJECT))
    assert acc.spent_epsilon([center, subject], 1e-5, CENTER) == math.inf


def test_raw_values_and_seeded_noise_cost_everything() -> None:
    seeded = Gaussian(1.0, 3.0, SUBJECT, seeded=True)
    assert acc.spent_epsilon([NonPrivate("first round")], 1e-5, SUBJECT) == math.inf
    assert acc.spent_epsilon([seeded], 1e-5, SUBJECT) == math.inf
    assert acc.spent_epsilon([seeded], 1e-5, SUBJECT, nominal=True) < 2
    assert acc.spent_epsilon([], 1e-5, SUBJECT) == 0.0


@pytest.mark.parametrize("epsilon", [0, -1, math.inf, math.nan, "3"])
def test_bad_epsilon(epsilon: float) -> None:
    with pytest.raises(UserError, match="epsilon"):
        acc.Budget(epsilon, 1e-5)


@pytest.mark.parametrize("delta", [0, -1e-3, 1, 2, math.nan])
def test_bad_delta(delta: float) -> None:
    with pytest.raises(UserError, match="delta"):
        acc.Budget(1.0, delta)


def test_theorem_3_needs_a_small_delta_and_a_run_at_least_one_release() -> None:
    with pytest.raises(UserError, match="delta < "):
        acc.zhao_multiplier(1.0, 0.5)
    with pytest.raises(UserError, match="releases"):
        acc.noise_multiplier(1.0, 1e-5, 0)
