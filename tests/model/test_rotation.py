"""Wide views in a rotated basis: the same step, to 1e-10."""

import numpy as np
import pytest

from core_cases import bunch_of, draw, flat_prior, some_prior, some_state, statistics_of
from objective import log_likelihood, log_posterior, variational_bound
from vedute.model.contribution import align, contributions
from vedute.model.local_step import LocalRule, fit
from vedute.model.stacked import find_rotation, turn

Q = 2
RULES = [LocalRule(), LocalRule(spread=False), LocalRule("marginal", False, False), LocalRule("marginal", True, False)]
SMALL = 0.1  # sizes of the priors and starts: with hundreds of features larger ones leave nothing to the data


def wide(n=12, missing=False, seed=0):
    views = draw((90, 5, 70), n=n, seed=seed)
    if missing:
        views["v2"][2:6] = np.nan
        views["v1"][5:7, :2] = np.nan
    return views


def scaled(state_or_prior):
    object.__setattr__(state_or_prior, "W", state_or_prior.W * SMALL)
    return state_or_prior


@pytest.mark.parametrize("missing", [False, True])
@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("prior_of", [flat_prior, some_prior])
def test_the_rotated_step_is_the_plain_one(missing, rule, prior_of):
    statistics = statistics_of(wide(missing=missing))
    plain, layout = bunch_of(wide(missing=missing)), statistics.layout
    prior = scaled(prior_of(layout, Q, 0.5 if rule.mean == "joint" else 0.0))
    start = scaled(some_state(layout, Q))
    rotation = find_rotation(statistics, Q)
    assert set(rotation.bases) == {"v0", "v2"}
    turned = turn(rotation, prior, start)
    assert turned.stacked.layout.total < 90
    small, large = fit(turned.stacked, turned.prior, turned.start, rule, 10), fit(plain, prior, start, rule, 10)
    back = turned.state_back(small)
    for name in ("mu", "W", "sigma2", "m"):
        assert np.allclose(getattr(back, name), getattr(large, name), rtol=1e-10, atol=1e-10)
    assert np.allclose(back.cov, large.cov, rtol=1e-9, atol=1e-12)
    value = variational_bound if rule.spread else log_posterior
    assert np.allclose(value(turned.stacked, turned.prior, small), value(plain, prior, large), rtol=1e-10)
    assert np.allclose(log_likelihood(turned.stacked, small), log_likelihood(plain, large), rtol=1e-10)
    # a second round goes on from the first, with the covariance it left
    again = turn(rotation, prior, back)
    small, large = fit(again.stacked, again.prior, again.start, rule, 3), fit(plain, prior, large, rule, 3)
    assert np.allclose(again.state_back(small).W, large.W, rtol=1e-10, atol=1e-10)
    assert np.allclose(small.sigma2, large.sigma2, rtol=1e-10)


@pytest.mark.parametrize("missing", [False, True])
@pytest.mark.parametrize("posterior", [False, True])
@pytest.mark.parametrize("rule", RULES[:3])
def test_rotated_shares_count_all_the_features(missing, posterior, rule):
    statistics = statistics_of(wide(missing=missing))
    plain, layout = bunch_of(wide(missing=missing)), statistics.layout
    prior = scaled(some_prior(layout, Q, 0.5 if rule.mean == "joint" else 0.0))
    start = scaled(some_state(layout, Q))
    turned = turn(find_rotation(statistics, Q), prior, start)
    shares = []
    for stacked, p, s in ((turned.stacked, turned.prior, turned.start), (plain, prior, start)):
        state, turns = align(stacked, p, fit(stacked, p, s, rule, 5))
        shares.append(contributions(stacked, p, state, turns, rule, posterior=posterior)[0])
    for name in layout.names:
        one, two = (share.views[name] for share in shares)
        for scalar in ("sq_mu", "sq_W", "var_mu", "var_W", "turn", "mu_gain", "precision", "log_sigma2", "noise_gain"):
            assert np.allclose(getattr(one, scalar), getattr(two, scalar), rtol=1e-9, atol=1e-12), scalar
    for name in ("m", "sq_m", "var_m", "sq_x", "subjects"):
        assert np.allclose(getattr(shares[0], name), getattr(shares[1], name), rtol=1e-9, atol=1e-9), name


def test_a_wide_view_with_empty_cells_is_not_rotated():
    views = wide()
    views["v0"][3, 7] = np.nan
    assert set(find_rotation(statistics_of(views), Q).bases) == {"v2"}


def test_tall_views_are_not_rotated():
    assert find_rotation(statistics_of(draw(n=100)), Q) is None


def test_starts_and_priors_inside_the_span_add_no_directions():
    statistics = statistics_of(wide())
    rotation = find_rotation(statistics, Q)
    layout = statistics.layout
    prior = flat_prior(layout, Q)
    start = some_state(layout, Q)
    inside = statistics.factor[:Q].T[None]
    start = type(start)(statistics.mean, inside, start.sigma2, start.m)
    turned = turn(rotation, prior, start)
    assert turned.bases["v0"].size == len(rotation.bases["v0"])
    for basis in turn(rotation, prior, some_state(layout, Q)).bases.values():
        both = np.vstack([basis.Q, basis.E])
        assert np.allclose(both @ both.T, np.eye(basis.size), atol=1e-12)


def test_one_row_is_enough_for_a_basis():
    statistics = statistics_of(wide(n=1))
    rotation = find_rotation(statistics, Q)
    assert rotation.bases["v0"].shape == (1, 90)


def test_a_basis_stays_orthonormal_when_vectors_nearly_agree():
    """As in late rounds, when a center's W differs from the prior's by very little."""
    statistics = statistics_of(wide())
    rotation, layout = find_rotation(statistics, Q), statistics.layout
    prior = some_prior(layout, Q)
    for gap in (1e-6, 1e-9, 1e-12):
        away = some_state(layout, Q)
        near = type(away)(prior.mu + gap * away.mu, prior.W + gap * away.W, away.sigma2, away.m)
        for basis in turn(rotation, prior, near).bases.values():
            both = np.vstack([basis.Q, basis.E])
            assert np.allclose(both @ both.T, np.eye(basis.size), atol=1e-12)
