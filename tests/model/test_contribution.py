"""What a center shares = the same sums from its state; posterior spreads = textbook expectations."""

from dataclasses import fields, replace

import numpy as np
import pytest
from scipy.stats import invgamma

from core_cases import bunch_of, draw, flat_prior, side_by_side, some_prior, some_state, with_holes
from vedute.model.contribution import contributions, rebased
from vedute.model.local_step import LocalRule, fit, relative_spread
from vedute.model.means import joint_means, precisions

Q = 2
NO_TURN = np.eye(Q)[None]


def shared(views, prior_of=some_prior, *, tau2=0.6, rule=None, posterior=True, steps=4):
    rule = rule or LocalRule()
    stacked = bunch_of(views)
    prior = prior_of(stacked.layout, Q, tau2)
    state = fit(stacked, prior, some_state(stacked.layout, Q), rule, steps)
    return contributions(stacked, prior, state, NO_TURN, rule, posterior=posterior)[0], stacked, prior, state


@pytest.mark.parametrize("holes", [False, True])
@pytest.mark.parametrize("posterior", [False, True])
def test_deviations_and_their_squares(holes, posterior):
    views = draw(n=30)
    views = with_holes(views) if holes else views
    views["v1"][:, 0] = np.nan  # nobody saw it: it deviates by nothing, and is not counted
    found, stacked, prior, state = shared(views, posterior=posterior)
    assert found.centers == 1.0
    for name, cols in stacked.layout.slices.items():
        seen = np.ones(cols.stop - cols.start)
        seen[0] = name != "v1"
        part = found.views[name]
        d_mu = (state.mu - prior.mu)[0, cols] * seen
        d_W = (state.W - prior.W)[0, cols] * seen[:, None]
        assert (part.count == seen).all()
        assert np.allclose(part.d_mu, d_mu)
        assert np.allclose(part.d_W, d_W)
        assert part.sq_mu == pytest.approx(d_mu @ d_mu)
        assert np.allclose(part.sq_W, d_W.T @ d_W)
        assert not part.turn.any()
    assert np.allclose(found.sq_m, np.outer(state.m[0], state.m[0]))
    assert found.subjects == stacked.n.sum()


@pytest.mark.parametrize("holes", [False, True])
def test_posterior_spreads(holes):
    views = draw(n=30)
    views = with_holes(views) if holes else views
    views["v1"][:, 0] = np.nan
    found, stacked, prior, state = shared(views)
    inv = 1.0 / state.sigma2[:, stacked.layout.view_of]
    P, h = precisions(stacked, state.W, state.W * inv[..., None], None)
    means = joint_means(stacked, prior, state.W, inv, P, h, variances=True)
    assert np.allclose(found.var_m, means.var_m[0])
    for k, (name, cols) in enumerate(stacked.layout.slices.items()):
        part, n = found.views[name], (~np.isnan(side_by_side(views)[:, cols])).sum(axis=0)
        seen = n > 0
        assert part.var_mu == pytest.approx(means.var_delta[0, cols][seen].sum())
        rows = state.cov[0][stacked.class_of[cols]][seen, :Q, :Q]
        assert np.allclose(part.var_W, rows.sum(axis=0))
        told = n * inv[0, cols] / (n * inv[0, cols] + prior.precision_mu[k])
        assert part.mu_gain == pytest.approx(told[seen].mean())
        a = prior.alpha[k] + n.sum() / 2
        posterior = invgamma(a, scale=state.sigma2[0, k] * (a + 1))  # its mode is the estimate
        assert part.precision == pytest.approx(posterior.expect(lambda s: 1 / s), rel=1e-6)
        assert part.log_sigma2 == pytest.approx(posterior.expect(np.log), rel=1e-6)
        assert part.noise_gain == pytest.approx((n.sum() / 2) / a)


def test_the_plug_in_has_no_spreads():
    found, _, _, state = shared(draw(n=30), posterior=False)
    assert not found.var_m.any()
    for k, part in enumerate(found.views.values()):
        assert part.var_mu == 0.0
        assert not part.var_W.any()
        assert part.mu_gain == 1.0
        assert part.precision == pytest.approx(1.0 / state.sigma2[0, k])
        assert part.log_sigma2 == pytest.approx(np.log(state.sigma2[0, k]))


@pytest.mark.parametrize("holes", [False, True])
@pytest.mark.parametrize("spread", [False, True])
def test_the_scatter_of_the_latent_positions_about_m(holes, spread):
    views = draw(n=20, m=1.0)
    views = with_holes(views) if holes else views
    found, stacked, prior, state = shared(views, rule=LocalRule(spread=spread))
    relative = (
        relative_spread(stacked, prior, state)[0] if spread else np.zeros((len(stacked.class_mask), Q + 1, Q + 1))
    )
    W, m, sigma2 = state.W[0], state.m[0], state.sigma2[0][stacked.layout.view_of]
    expected, rows = np.zeros((Q, Q)), side_by_side(views)
    for row in rows[~np.isnan(rows).all(axis=1)]:
        P, pull = np.eye(Q), m.copy()
        for j in np.flatnonzero(~np.isnan(row)):
            of_row = relative[stacked.class_of[j]]
            P = P + np.outer(W[j], W[j]) / sigma2[j] + of_row[:Q, :Q]
            pull = pull + W[j] * (row[j] - state.mu[0, j]) / sigma2[j] - of_row[:Q, Q]
        V = np.linalg.inv(P)
        expected += V + np.outer(V @ pull - m, V @ pull - m)
    assert np.allclose(found.sq_x, expected, rtol=1e-10)


def test_round_1_shares_finite_numbers_without_any_prior():
    views = with_holes(draw(n=30))
    views["v1"][:, 0] = np.nan
    found, _, _, _ = shared(views, flat_prior, tau2=0.0)
    for part in found.views.values():
        for field in fields(part):
            assert np.isfinite(getattr(part, field.name)).all(), field.name
        assert part.noise_gain == 1.0


def test_shares_of_a_view_that_only_one_center_holds_pass_through_the_sum():
    one, *_ = shared(draw(n=30))
    two, *_ = shared({k: T for k, T in draw(n=30, seed=1).items() if k != "v2"})
    total = one + two
    assert total.centers == 2.0
    assert total.views["v2"] is one.views["v2"]
    assert np.allclose(total.views["v1"].d_W, one.views["v1"].d_W + two.views["v1"].d_W)
    assert np.allclose(total.sq_x, one.sq_x + two.sq_x)
    assert (total + one).views["v1"].centers == 3.0


def test_a_new_basis_keeps_what_the_latent_space_says_of_the_data():
    """W x is the same: W -> W L, x -> L^-1 x, m -> L^-1 m, and the covariance of the rows of W with them."""
    _, _, _, state = shared(draw(n=30))
    L = np.array([[1.2, 0.3], [0.3, 0.7]])
    moved = rebased(state, L)
    assert np.allclose(moved.W[0] @ moved.m[0], state.W[0] @ state.m[0])
    assert np.allclose(moved.W[0], state.W[0] @ L)
    whole = np.eye(Q + 1)
    whole[:Q, :Q] = L
    root = np.linalg.cholesky(state.cov)
    assert np.allclose(moved.cov, (whole.T @ root) @ (whole.T @ root).mT)
    assert np.allclose(rebased(moved, np.linalg.inv(L)).cov, state.cov)
    assert rebased(replace(state, cov=None), L).cov is None
