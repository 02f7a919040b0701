"""Alignment turns the latent space: the likelihood stays, the prior of W only rises."""

from dataclasses import replace

import numpy as np
import pytest
from scipy.linalg import expm
from scipy.stats import ortho_group

from core_cases import bunch_of, draw, flat_prior, some_covariance, some_prior, some_state, with_holes
from objective import log_likelihood, log_prior, variational_bound
from vedute.model.contribution import align, rotation_towards

Q = 3


@pytest.mark.parametrize("seed", range(5, 10))
@pytest.mark.parametrize("holes", [False, True])
def test_the_likelihood_stays_and_the_prior_rises(seed, holes):
    views = draw(n=20, q=Q, seed=seed)
    views = with_holes(views) if holes else views
    stacked = bunch_of(views)
    prior = some_prior(stacked.layout, Q, tau2=0.7)
    state = some_state(stacked.layout, Q, seed=seed, m=1.0, cov=some_covariance(stacked, Q + 1))
    turned, R = align(stacked, prior, state)
    assert np.allclose(turned.W, state.W @ R, atol=1e-14)
    assert log_likelihood(stacked, turned)[0] == pytest.approx(log_likelihood(stacked, state)[0], rel=1e-12)
    assert log_prior(stacked, prior, turned)[0] > log_prior(stacked, prior, state)[0]
    gained = variational_bound(stacked, prior, turned) - variational_bound(stacked, prior, state)
    assert gained[0] == pytest.approx(
        (log_prior(stacked, prior, turned) - log_prior(stacked, prior, state))[0], rel=1e-8
    )
    assert np.allclose(turned.W[0] @ turned.W[0].T, state.W[0] @ state.W[0].T, atol=1e-12)
    again, _ = align(stacked, prior, turned)
    assert np.allclose(again.W, turned.W, atol=1e-12)


def test_no_rotation_does_better():
    stacked = bunch_of(draw(q=Q))
    prior, state = some_prior(stacked.layout, Q), some_state(stacked.layout, Q)
    best = log_prior(stacked, prior, align(stacked, prior, state)[0])[0]
    for seed in range(50):
        R = ortho_group.rvs(Q, random_state=seed)
        assert log_prior(stacked, prior, replace(state, W=state.W @ R))[0] < best
    turned = align(stacked, prior, state)[0]
    for axis in np.eye(Q):  # nor a small turn about any axis: views count by the precision of their prior
        skew = np.cross(np.eye(Q), axis)
        for angle in (-1e-3, 1e-3):
            assert log_prior(stacked, prior, replace(turned, W=turned.W @ expm(angle * skew)))[0] < best


def test_centers_that_differ_by_a_rotation_agree_after_it():
    stacked = bunch_of(draw(q=Q, seed=0), draw(q=Q, seed=1))
    one = some_state(stacked.layout, Q)
    R = ortho_group.rvs(Q, random_state=0)
    both = replace(one, W=np.concatenate([one.W, one.W @ R]), mu=np.tile(one.mu, (2, 1)),
                   sigma2=np.tile(one.sigma2, (2, 1)), m=np.concatenate([one.m, one.m @ R]))  # fmt: skip
    for prior in (
        some_prior(stacked.layout, Q),
        replace(flat_prior(stacked.layout, Q), W=some_prior(stacked.layout, Q).W),
    ):
        turned, _ = align(stacked, prior, both)
        assert np.allclose(turned.W[0], turned.W[1], atol=1e-12)
        assert np.allclose(turned.m[0], turned.m[1], atol=1e-12)


def test_features_that_a_center_never_saw_do_not_turn_it():
    views = draw(q=Q)
    views["v1"][:] = np.nan
    stacked = bunch_of(views)
    prior, state = some_prior(stacked.layout, Q), some_state(stacked.layout, Q)
    moved = np.array(state.W)
    moved[:, 5:9] += 100.0
    _, one = align(stacked, prior, state)
    _, two = align(stacked, prior, replace(state, W=moved))
    assert np.allclose(one, two, atol=1e-12)


def test_a_known_rotation_is_found():
    W = some_state(bunch_of(draw()).layout, Q).W
    R = ortho_group.rvs(Q, random_state=1)
    assert np.allclose(rotation_towards(W, W @ R), R, atol=1e-12)
