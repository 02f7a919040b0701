"""What a variant promises never falls: the likelihood, the posterior, or the variational bound."""

from dataclasses import replace

import numpy as np
import pytest

from core_cases import bunch_of, draw, flat_prior, some_prior, some_state, with_holes
from never_falls import assert_never_falls
from objective import log_likelihood, log_posterior, variational_bound
from vedute.model.local_step import LocalRule, iterate

Q = 2
SIZES = [(6,), (5, 4, 3), (3, 1, 2)]


def path(views, prior_of, rule, value, *, steps=40, q=Q, m=0.0, seed=4):
    stacked = bunch_of(views)
    prior = prior_of(stacked.layout)
    state = iterate(stacked, prior, some_state(stacked.layout, q, seed=seed, m=m), rule)
    values = []
    for _ in range(steps):
        values.append(value(stacked, prior, state)[0])
        state = iterate(stacked, prior, state, rule)
    return values


def likelihood(stacked, _, state):
    return log_likelihood(stacked, state)


def case(sizes, holes, n=40):
    views = draw(sizes, n=n, m=1.5)
    return with_holes(views) if holes else views


@pytest.mark.parametrize("sizes", SIZES)
@pytest.mark.parametrize("holes", [False, True])
@pytest.mark.parametrize("expand", [False, True])
def test_em_never_lowers_the_likelihood(sizes, holes, expand):
    rule = LocalRule(spread=False, expand=expand)
    assert_never_falls(path(case(sizes, holes), lambda layout: flat_prior(layout, Q), rule, likelihood))


@pytest.mark.parametrize("sizes", SIZES)
def test_em_of_the_paper_never_lowers_the_likelihood_without_priors(sizes):
    rule = LocalRule(mean="marginal", spread=False, expand=False)
    assert_never_falls(path(case(sizes, False), lambda layout: flat_prior(layout, Q), rule, likelihood))


@pytest.mark.parametrize("sizes", SIZES)
@pytest.mark.parametrize("holes", [False, True])
@pytest.mark.parametrize("tau2", [0.0, 0.5, 4.0])
def test_the_joint_mean_never_lowers_the_posterior(sizes, holes, tau2):
    rule = LocalRule(spread=False)
    values = path(case(sizes, holes), lambda layout: some_prior(layout, Q, tau2), rule, log_posterior)
    assert_never_falls(values)


@pytest.mark.parametrize("sizes", SIZES)
@pytest.mark.parametrize("holes", [False, True])
@pytest.mark.parametrize("tau2", [0.0, 0.5, 4.0])
@pytest.mark.parametrize("n", [3, 40])
def test_the_spread_never_lowers_the_bound(sizes, holes, tau2, n):
    """Also with case mix: both steps for the means climb the same bound."""
    values = path(case(sizes, holes, n), lambda layout: some_prior(layout, Q, tau2), LocalRule(), variational_bound)
    assert_never_falls(values)


@pytest.mark.parametrize("flat", ["precision_W", "precision_mu"])
@pytest.mark.parametrize("tau2", [0.0, 0.5])
@pytest.mark.parametrize("holes", [False, True])
@pytest.mark.parametrize("spread", [False, True])
def test_promises_hold_where_a_view_has_no_prior(flat, tau2, holes, spread):
    """As for a view that one center alone holds."""

    def prior_of(layout):
        prior = some_prior(layout, Q, tau2)
        return replace(prior, **{flat: getattr(prior, flat) * np.array([1.0, 0.0, 1.0])})

    value = variational_bound if spread else log_posterior
    assert_never_falls(path(case((5, 4, 3), holes), prior_of, LocalRule(spread=spread), value))


@pytest.mark.parametrize("tau2", [0.0, 2.0])
@pytest.mark.parametrize("holes", [False, True])
@pytest.mark.parametrize("informed_mean", [False, True])
def test_expansion_climbs_where_only_w_is_flat(tau2, holes, informed_mean):
    """With a prior on the means or a case mix the latent mean is not zero, and x may not be rescaled about it."""

    def prior_of(layout):
        prior = some_prior(layout, Q, tau2)
        return replace(prior, precision_W=np.zeros(3), precision_mu=prior.precision_mu * informed_mean)

    assert_never_falls(path(case((5, 4, 3), holes), prior_of, LocalRule(spread=False), log_posterior))


def test_the_papers_mean_may_lower_the_posterior():
    """Why there is no promise for it: each view's marginal ignores what the other views say of the mean."""
    rule = LocalRule(mean="marginal", spread=False, expand=False)
    values = path(case((5, 4, 3), False), lambda layout: some_prior(layout, Q), rule, log_posterior)
    assert np.diff(values).min() < -1e-6


def test_a_center_with_fewer_rows_than_components_climbs_too():
    rule = LocalRule(spread=False)
    values = path(draw(n=2), lambda layout: some_prior(layout, 4, 1.0), rule, log_posterior, q=4)
    assert_never_falls(values)
