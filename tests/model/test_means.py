"""The step for the means: a maximum with the curvature it claims, and one answer whatever the form."""

import numpy as np
import pytest
from scipy.optimize import minimize

from core_cases import bunch_of, draw, flat_prior, side_by_side, some_covariance, some_prior, some_state, with_holes
from objective import log_posterior, variational_bound
from vedute.model.local_step import LocalRule, fit, relative_spread
from vedute.model.means import _System, joint_means, marginal_means, precisions
from vedute.model.stacked import State, stack_statistics
from vedute.model.statistics import Statistics

Q = 2


def found_means(stacked, prior, state, spread=None, **kwargs):
    inv = 1.0 / state.sigma2[:, stacked.layout.view_of]
    P, h = precisions(stacked, state.W, state.W * inv[..., None], spread)
    return joint_means(stacked, prior, state.W, inv, P, h, **kwargs)


def dense_problem(stacked, prior, state, value):
    """The objective as a quadratic function of (mu, m): its maximum and the inverse of its curvature."""
    D = stacked.layout.total
    size = D + (Q if prior.tau2 > 0 else 0)

    def at(theta):
        m = theta[D:][None] if prior.tau2 > 0 else np.zeros((1, Q))
        return value(stacked, prior, State(theta[None, :D], state.W, state.sigma2, m, state.cov))[0]

    base, eye = at(np.zeros(size)), np.eye(size)
    single = np.array([at(e) for e in eye])
    gradient = (single - np.array([at(-e) for e in eye])) / 2
    curvature = np.array([[at(a + b) - single[i] - single[j] + base for j, b in enumerate(eye)]
                          for i, a in enumerate(eye)])  # fmt: skip
    return at, np.linalg.solve(-curvature, gradient), np.linalg.inv(-curvature)


@pytest.mark.parametrize("holes", [False, True])
@pytest.mark.parametrize("tau2", [0.0, 0.8])
def test_joint_means_are_the_maximum_and_their_variances_the_inverse_curvature(holes, tau2):
    views = draw((4, 3, 2), n=12)
    views = with_holes(views) if holes else views
    stacked = bunch_of(views)
    prior, state = some_prior(stacked.layout, Q, tau2), some_state(stacked.layout, Q)
    at, best, inverse = dense_problem(stacked, prior, state, log_posterior)
    means = found_means(stacked, prior, state, variances=True)
    D = stacked.layout.total
    assert np.allclose((prior.mu + means.delta)[0], best[:D], atol=1e-8)
    assert np.allclose(means.var_delta[0], np.diag(inverse)[:D], rtol=1e-6)
    if tau2:
        assert np.allclose(means.m[0], best[D:], atol=1e-8)
        assert np.allclose(means.var_m[0], inverse[D:, D:], rtol=1e-6, atol=1e-9)
    reached = minimize(lambda theta: -at(theta), np.zeros(len(best)), method="BFGS").fun
    assert at(np.append((prior.mu + means.delta)[0], means.m[0] if tau2 else [])) >= -reached - 1e-7


@pytest.mark.parametrize("holes", [False, True])
def test_with_the_spread_they_are_the_maximum_of_the_bound(holes):
    views = draw((4, 3, 2), n=12)
    views = with_holes(views) if holes else views
    stacked = bunch_of(views)
    prior = some_prior(stacked.layout, Q, 0.8)
    state = some_state(stacked.layout, Q, cov=some_covariance(stacked, Q + 1))
    _, best, _ = dense_problem(stacked, prior, state, variational_bound)
    means = found_means(stacked, prior, state, relative_spread(stacked, prior, state))
    assert np.allclose((prior.mu + means.delta)[0], best[: stacked.layout.total], atol=1e-8)
    assert np.allclose(means.m[0], best[stacked.layout.total :], atol=1e-8)


def system(copies, seed):
    """The normal equations of a center with four patterns, each told as so many equal parts of its rows."""
    views = draw((4, 3, 2), n=12, seed=seed)
    views["v0"][:3] = views["v2"][3:6] = np.nan
    views["v0"][6:8, 1] = np.nan
    views["v1"][:, 0] = np.nan  # seen by nobody
    stacked = bunch_of(views)
    assert len(stacked.mask) == 4
    prior, state = some_prior(stacked.layout, Q), some_state(stacked.layout, Q)
    inv = 1.0 / state.sigma2[:, stacked.layout.view_of]
    P, h = precisions(stacked, state.W, state.W * inv[..., None], None)

    def told(array):
        return np.repeat(array, copies, axis=0)

    dev = stacked.mean[0] - prior.mu[0]
    return _System(
        told(stacked.mask), told(stacked.n[0] / copies), told(dev), state.W[0], inv[0], told(P[0]), told(h[0] + 0.3)
    )


@pytest.mark.parametrize("tau2", [0.0, 0.8])
@pytest.mark.parametrize("precision_mu", [0.0, 2.0])
@pytest.mark.parametrize("seed", [0, 1])
def test_unknowns_by_feature_and_by_pattern_give_the_same(tau2, precision_mu, seed):
    """Few patterns are solved for their latent means, many for the features: here the same problem, told both ways."""
    precision = np.full(9, precision_mu)
    forms = []
    for copies, by_features in ((1, False), (6, True)):
        equations = system(copies, seed)
        assert ((equations.n_j > 0).sum() + Q <= len(equations.n) * Q) == by_features
        forms.append((*equations.solve(precision, tau2), *equations.variances(precision, tau2)))
    for one, two in zip(*forms, strict=True):
        assert np.allclose(one, two, rtol=1e-9, atol=1e-10)


@pytest.mark.parametrize("prior_of", [flat_prior, some_prior])
@pytest.mark.parametrize("rule", [LocalRule(), LocalRule(spread=False), LocalRule("marginal", spread=False)])
def test_one_pattern_split_in_two_is_still_one(prior_of, rule):
    """The forms for one and for several patterns agree: the same rows, told as one pattern or as two."""
    views = draw(n=40)
    whole = bunch_of(views)
    halves = [bunch_of({k: T[half] for k, T in views.items()}) for half in (slice(0, 15), slice(15, 40))]
    split = stack_statistics([Statistics(
        whole.layout, np.ones((2, 12), dtype=bool), np.array([15.0, 25.0]),
        np.vstack([half.mean[0] for half in halves]), np.vstack([half.factor[0] for half in halves]),
        np.repeat([0, 1], [half.factor.shape[1] for half in halves]),
    )])  # fmt: skip
    assert whole.single
    assert not split.single
    prior = prior_of(whole.layout, Q, 0.0 if rule.mean == "marginal" else 0.7)
    start = some_state(whole.layout, Q)
    one, two = fit(whole, prior, start, rule, 8), fit(split, prior, start, rule, 8)
    for name in ("mu", "W", "sigma2", "m"):
        assert np.allclose(getattr(one, name), getattr(two, name), rtol=1e-10, atol=1e-10)
    for means in (joint_means, marginal_means) if rule.mean == "joint" else (marginal_means,):
        forms = []
        for form in (whole, split):
            inv = 1.0 / one.sigma2[:, form.layout.view_of]
            P, h = precisions(form, one.W, one.W * inv[..., None], None)
            args = (P, h) if means is joint_means else ()
            forms.append(means(form, prior, one.W, inv, *args, variances=True))
        for name in ("delta", "m", "var_delta", "var_m"):
            assert np.allclose(getattr(forms[0], name), getattr(forms[1], name), rtol=1e-9, atol=1e-10)


@pytest.mark.parametrize("holes", [False, True])
def test_rows_that_are_patterns_of_their_own_agree_with_grouped_rows(holes):
    """Row form: each row its own pattern with no factor at all."""
    views = draw(n=30)
    views = with_holes(views) if holes else views
    grouped = bunch_of(views)
    rows = side_by_side(views)
    rows = rows[~np.isnan(rows).all(axis=1)]
    no_factor = np.zeros((0, 12)), np.zeros(0, np.intp)
    alone = stack_statistics(
        [Statistics(grouped.layout, ~np.isnan(rows), np.ones(len(rows)), np.nan_to_num(rows), *no_factor)]
    )
    prior, start = some_prior(grouped.layout, Q, 0.7), some_state(grouped.layout, Q)
    one, two = fit(grouped, prior, start, LocalRule(), 6), fit(alone, prior, start, LocalRule(), 6)
    for name in ("mu", "W", "sigma2", "m"):
        assert np.allclose(getattr(one, name), getattr(two, name), rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("holes", [False, True])
def test_marginal_means_are_each_views_own_maximum_with_its_variance(holes):
    views = draw((4, 3, 2), n=15)
    views = with_holes(views) if holes else views
    stacked = bunch_of(views)
    prior, state = some_prior(stacked.layout, Q), some_state(stacked.layout, Q)
    inv = 1.0 / state.sigma2[:, stacked.layout.view_of]
    means = marginal_means(stacked, prior, state.W, inv, variances=True)
    for k, (name, cols) in enumerate(stacked.layout.slices.items()):
        d = len(views[name][0])
        left, right = prior.precision_mu[k] * np.eye(d), np.zeros(d)
        C = state.W[0, cols] @ state.W[0, cols].T + state.sigma2[0, k] * np.eye(d)
        for row in views[name]:
            seen = np.flatnonzero(~np.isnan(row))
            if len(seen):
                inverse = np.linalg.inv(C[np.ix_(seen, seen)])
                left[np.ix_(seen, seen)] += inverse
                right[seen] += inverse @ (row - prior.mu[0, cols])[seen]
        assert np.allclose(means.delta[0, cols], np.linalg.solve(left, right), atol=1e-10)
        assert np.allclose(means.var_delta[0, cols], np.diag(np.linalg.inv(left)), rtol=1e-10)
    assert not means.m.any()
