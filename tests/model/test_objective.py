"""Objectives from statistics = the same from rows, by scipy and by integration."""

import numpy as np
import pytest
from scipy.integrate import dblquad
from scipy.stats import invgamma, norm

from core_cases import (
    bunch_of,
    draw,
    flat_prior,
    row_log_likelihood,
    side_by_side,
    some_covariance,
    some_prior,
    some_state,
    with_holes,
)
from objective import log_likelihood, log_posterior, log_prior, variational_bound
from vedute.model.stacked import StackedPrior, State

Q = 2


@pytest.mark.parametrize("holes", [False, True])
def test_the_likelihood_from_statistics_is_that_of_the_rows(holes):
    views = draw(n=30)
    views = with_holes(views) if holes else views
    stacked = bunch_of(views)
    state = some_state(stacked.layout, Q, m=1.0)
    expected = row_log_likelihood(views, stacked.layout, state)
    assert log_likelihood(stacked, state)[0] == pytest.approx(expected, rel=1e-12)


def test_a_bunch_has_a_likelihood_for_each_center():
    centers = [draw(seed=s) for s in (0, 1, 2)]
    stacked = bunch_of(*centers)
    state = some_state(stacked.layout, Q, B=3, m=1.0)
    expected = [row_log_likelihood(views, stacked.layout, state, c) for c, views in enumerate(centers)]
    assert np.allclose(log_likelihood(stacked, state), expected, rtol=1e-12)


def test_the_log_prior_is_a_sum_of_textbook_densities():
    stacked = bunch_of(draw())
    prior, state = some_prior(stacked.layout, Q, tau2=0.7), some_state(stacked.layout, Q, m=1.0)
    expected = norm(0, 0.7**0.5).logpdf(state.m).sum()
    for k, cols in enumerate(stacked.layout.slices.values()):
        expected += norm(prior.mu[0, cols], prior.precision_mu[k] ** -0.5).logpdf(state.mu[0, cols]).sum()
        expected += norm(prior.W[0, cols], prior.precision_W[k] ** -0.5).logpdf(state.W[0, cols]).sum()
        expected += invgamma(prior.alpha[k], scale=prior.beta[k]).logpdf(state.sigma2[0, k])
    assert log_prior(stacked, prior, state)[0] == pytest.approx(expected, rel=1e-12)
    assert log_posterior(stacked, prior, state)[0] == pytest.approx(
        expected + log_likelihood(stacked, state)[0], rel=1e-12
    )


def test_flat_priors_add_nothing_and_unseen_features_are_integrated_out():
    views = draw()
    stacked = bunch_of(views)
    state = some_state(stacked.layout, Q)
    assert log_prior(stacked, flat_prior(stacked.layout, Q), state)[0] == 0.0
    prior = some_prior(stacked.layout, Q)
    without = log_posterior(bunch_of({k: T for k, T in views.items() if k != "v2"}), *_without_last(prior, state))
    views["v2"] = np.full_like(views["v2"], np.nan)
    gone = log_posterior(bunch_of(views), prior, state)
    noise = invgamma(prior.alpha[2], scale=prior.beta[2]).logpdf(state.sigma2[0, 2])
    assert gone[0] == pytest.approx(without[0] + noise, rel=1e-12)


def _without_last(prior, state):
    less = StackedPrior(
        prior.mu[:, :9], prior.W[:, :9], prior.precision_mu[:2], prior.precision_W[:2], prior.alpha[:2], prior.beta[:2],
        prior.tau2,
    )  # fmt: skip
    return less, State(state.mu[:, :9], state.W[:, :9], state.sigma2[:, :2], state.m)


def row_bound(views, stacked, prior, state, flat=()):
    """The bound written out row by row and feature by feature, from E_q of the complete log likelihood."""
    layout, q = stacked.layout, state.W.shape[-1]
    total = 0.0
    W, mu, m = state.W[0], state.mu[0], state.m[0]
    sigma2 = state.sigma2[0][layout.view_of]
    cov = [state.cov[0, g] * (k not in flat) for g, k in zip(stacked.class_of, layout.view_of, strict=True)]
    for row in side_by_side(views):
        seen = np.flatnonzero(~np.isnan(row))
        precision, pull = np.eye(q), m.copy()
        for j in seen:
            precision = precision + (np.outer(W[j], W[j]) + cov[j][:q, :q]) / sigma2[j]
            pull = pull + (W[j] * (row[j] - mu[j]) - cov[j][:q, q]) / sigma2[j]
        V = np.linalg.inv(precision)
        x = V @ pull
        xx = V + np.outer(x, x)
        total += -0.5 * np.trace(xx) + x @ m - 0.5 * m @ m + 0.5 * np.linalg.slogdet(V)[1] + 0.5 * q
        for j in seen:
            one = np.block([[xx, x[:, None]], [x[None], np.ones((1, 1))]])
            mean = np.append(W[j], mu[j])
            second = np.outer(mean, mean) + cov[j]
            total += -0.5 * np.log(2 * np.pi * sigma2[j])
            total += -0.5 / sigma2[j] * (row[j] ** 2 - 2 * row[j] * mean @ np.append(x, 1.0) + np.trace(second @ one))
    for j in range(len(mu)):
        k = layout.view_of[j]
        prec = np.append(np.full(q, prior.precision_W[k]), prior.precision_mu[k])
        off = np.append(W[j], mu[j]) - np.append(prior.W[0, j], prior.mu[0, j])
        for i in range(q + 1):
            if prec[i] > 0:
                total += 0.5 * np.log(prec[i] / (2 * np.pi)) - 0.5 * prec[i] * (off[i] ** 2 + cov[j][i, i])
        if k not in flat:
            total += 0.5 * np.linalg.slogdet(2 * np.pi * np.e * cov[j])[1]
    for k in range(len(layout.names)):
        total += invgamma(prior.alpha[k], scale=prior.beta[k]).logpdf(state.sigma2[0, k])
    return total + (norm(0, prior.tau2**0.5).logpdf(m).sum() if prior.tau2 else 0.0)


@pytest.mark.parametrize("holes", [False, True])
@pytest.mark.parametrize("flat", [(), (1,)])
def test_the_bound_is_the_one_written_out_by_rows(holes, flat):
    views = draw(n=20)
    views = with_holes(views) if holes else views
    stacked = bunch_of(views)
    prior = some_prior(stacked.layout, Q, tau2=0.7)
    prior.precision_W[list(flat)] = 0.0
    state = some_state(stacked.layout, Q, m=1.0, cov=some_covariance(stacked, Q + 1))
    expected = row_bound(views, stacked, prior, state, flat)
    assert variational_bound(stacked, prior, state)[0] == pytest.approx(expected, rel=1e-11)


def test_it_is_a_bound_on_the_evidence():
    """One feature, q = 1: the evidence is a double integral over (w, mu)."""
    rng = np.random.default_rng(0)
    t = rng.normal(size=(4, 1)) + 0.5
    stacked = bunch_of({"v0": t})
    prior = StackedPrior(
        np.zeros((1, 1)), np.ones((1, 1, 1)), np.ones(1), 2 * np.ones(1), 3 * np.ones(1), 2 * np.ones(1), 0.0
    )

    def density(mu, w):
        state = State(np.full((1, 1), mu), np.full((1, 1, 1), w), np.full((1, 1), 0.5), np.zeros((1, 1)))
        return np.exp(log_posterior(stacked, prior, state)[0])

    evidence = np.log(dblquad(density, -4, 6, -6, 6, epsabs=1e-9)[0])
    gaps = []
    for scale in (0.02, 0.1, 0.4):
        cov = scale * np.array([[[[1.0, -0.2], [-0.2, 1.0]]]])
        state = State(np.full((1, 1), 0.3), np.full((1, 1, 1), 0.8), np.full((1, 1), 0.5), np.zeros((1, 1)), cov)
        gaps.append(evidence - variational_bound(stacked, prior, state)[0])
    assert min(gaps) > 0
    assert min(gaps) < 1.5  # and not an empty one: 1.13 at the middle covariance


def test_a_marginal_row_is_w_alone():
    """With covariances of w only, mu is a point: the limit of a tiny variance of mu, less that variance's own terms."""
    views = draw()
    stacked = bunch_of(views)
    prior = some_prior(stacked.layout, Q)
    cov = some_covariance(stacked, Q)
    padded = np.zeros((1, len(stacked.class_mask), Q + 1, Q + 1))
    padded[..., :Q, :Q] = cov
    padded[..., Q, Q] = tiny = 1e-9
    state = some_state(stacked.layout, Q, cov=cov)
    joint = State(state.mu, state.W, state.sigma2, state.m, padded)
    entropy = 0.5 * stacked.layout.total * np.log(2 * np.pi * np.e * tiny)
    gap = variational_bound(stacked, prior, joint) - entropy - variational_bound(stacked, prior, state)
    assert abs(gap[0]) < 1e-4


def test_without_a_covariance_the_bound_is_the_posterior():
    stacked = bunch_of(draw())
    prior, state = some_prior(stacked.layout, Q, tau2=1.0), some_state(stacked.layout, Q, m=1.0)
    assert variational_bound(stacked, prior, state)[0] == log_posterior(stacked, prior, state)[0]
