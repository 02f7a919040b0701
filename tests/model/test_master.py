"""The master's step from sums = the maximum that an optimiser finds; the stretched steps end where EM ends."""

from dataclasses import replace
from functools import reduce
from operator import add

import numpy as np
import pytest
from scipy.optimize import brentq, minimize
from scipy.special import digamma
from scipy.stats import invgamma, norm, ortho_group

from vedute.model.contribution import Contribution, ViewContribution
from vedute.model.master import (
    ALPHA_CEILING,
    VARIANCE_FLOOR,
    MasterRule,
    change,
    inverse_gamma_shape,
    master_step,
    rescaling,
    unbiased,
)
from vedute.model.parameters import GlobalPrior, ViewPrior, flat_view_prior

Q, D = 2, 4
PLUG_IN = MasterRule(posterior=False, case_mix=False, expand=False)
DEFAULT = MasterRule(expand=False)  # the change of basis has tests of its own


def prior_like(seed=0, tau2=0.5, **changes):
    rng = np.random.default_rng(seed)
    view = ViewPrior(rng.normal(size=D), rng.normal(size=(D, Q)), 0.3, 0.2, 4.0, 1.5, n_centers=5)
    return GlobalPrior({"v": replace(view, **changes)}, tau2)


def locals_(n=5, seed=1):
    rng = np.random.default_rng(seed)
    return [(rng.normal(size=D), rng.normal(size=(D, Q)), float(rng.uniform(0.2, 1.0))) for _ in range(n)]


def share(prior, mu, W, sigma2, m=None, **changes):
    view = prior.views["v"]
    part = ViewContribution(
        1.0, np.ones(D), mu - view.mu, W - view.W, float(((mu - view.mu) ** 2).sum()), (W - view.W).T @ (W - view.W),
        0.0, np.zeros((Q, Q)), np.zeros((Q, Q)), 1.0, 1.0 / sigma2, np.log(sigma2), 1.0,
    )  # fmt: skip
    m = np.zeros(Q) if m is None else m
    nothing = np.zeros((Q, Q))
    return Contribution({"v": replace(part, **changes)}, 1.0, m, np.outer(m, m), nothing, 10.0, 10.0 * np.eye(Q))


def step_of(prior, total, rule):
    return master_step(prior, total, rule)[0]


def log_density(view, found):
    total = 0.0
    for mu, W, sigma2 in found:
        total += norm.logpdf(mu, view.mu, view.sigma2_mu**0.5).sum()
        total += norm.logpdf(W, view.W, view.sigma2_W**0.5).sum()
        total += invgamma.logpdf(sigma2, view.alpha, scale=view.beta)
    return total


def test_the_plug_in_step_is_the_maximum_of_the_likelihood_of_the_centers():
    prior, found = prior_like(), locals_()
    total = reduce(add, (share(prior, *center) for center in found))
    step = step_of(prior, total, PLUG_IN).views["v"]

    def unpacked(theta):
        mu, W, rest = theta[:D], theta[D : D + D * Q].reshape(D, Q), np.exp(theta[D + D * Q :])
        return ViewPrior(mu, W, *rest)

    first = np.concatenate([np.zeros(D + D * Q), np.log([1.0, 1.0, 2.0, 1.0])])
    best = minimize(lambda theta: -log_density(unpacked(theta), found), first, method="BFGS", options={"gtol": 1e-7})
    reached = unpacked(best.x)
    assert log_density(step, found) >= -best.fun - 1e-8
    for name in ("mu", "W", "sigma2_mu", "sigma2_W"):
        assert np.allclose(getattr(step, name), getattr(reached, name), atol=1e-4)
    assert step.alpha == pytest.approx(reached.alpha, rel=1e-3)
    assert step.beta == pytest.approx(reached.beta, rel=1e-3)
    assert step.n_centers == 5


def test_it_does_not_matter_from_where_deviations_are_taken():
    found = locals_()
    steps = []
    for seed in (0, 7):
        prior = prior_like(seed)
        steps.append(step_of(prior, reduce(add, (share(prior, *c) for c in found)), PLUG_IN).views["v"])
    for name in ("mu", "W", "sigma2_mu", "sigma2_W", "alpha", "beta"):
        assert np.allclose(getattr(steps[0], name), getattr(steps[1], name), rtol=1e-10)


def test_shares_add_in_any_order_and_grouping():
    prior = prior_like()
    shares = [share(prior, *c, m=np.arange(2.0)) for c in locals_()]
    one = step_of(prior, reduce(add, shares), DEFAULT)
    two = step_of(prior, (shares[4] + shares[2]) + ((shares[0] + shares[3]) + shares[1]), DEFAULT)
    assert change(one, two) < 1e-14


def test_a_feature_that_some_centers_never_saw_is_averaged_over_the_others():
    prior = prior_like()
    found = locals_()
    shares = []
    for c, center in enumerate(found):
        part = share(prior, *center)
        if c < 2:
            v, gone = part.views["v"], np.array([0.0, 1.0, 1.0, 1.0])
            d_mu, d_W = v.d_mu * gone, v.d_W * gone[:, None]
            v = replace(v, count=gone, d_mu=d_mu, d_W=d_W, sq_mu=float((d_mu**2).sum()), sq_W=d_W.T @ d_W)
            part = replace(part, views={"v": v})
        shares.append(part)
    step = step_of(prior, reduce(add, shares), PLUG_IN).views["v"]
    values = [np.array([mu[j] for c, (mu, _, _) in enumerate(found) if c >= 2 or j > 0]) for j in range(D)]
    assert np.allclose(step.mu, [v.mean() for v in values], atol=1e-12)
    expected = sum(((v - v.mean()) ** 2).sum() for v in values) / sum(len(v) for v in values)
    assert step.sigma2_mu == pytest.approx(expected, rel=1e-12)


def test_narrow_views_divide_by_their_free_columns():
    rng = np.random.default_rng(0)
    view = ViewPrior(np.zeros(2), np.zeros((2, 3)), 1.0, 1.0, 2.0, 1.0)
    prior, W = GlobalPrior({"v": view}), [np.pad(rng.normal(size=(2, 1)), ((0, 0), (0, 2))) for _ in range(4)]
    parts = [ViewContribution(1.0, np.ones(2), np.zeros(2), w, 0.0, w.T @ w, 0.0, np.zeros((3, 3)),
                              np.zeros((3, 3)), 1.0, 1.0 + i, 0.1, 1.0) for i, w in enumerate(W)]  # fmt: skip
    nothing = np.zeros((3, 3))
    total = Contribution({"v": reduce(add, parts)}, 4.0, np.zeros(3), nothing, nothing, 40.0, 40.0 * np.eye(3))
    spread = np.var([w[:, 0] for w in W], axis=0).mean()
    assert step_of(prior, total, replace(PLUG_IN, narrow=True)).views["v"].sigma2_W == pytest.approx(spread)
    assert step_of(prior, total, PLUG_IN).views["v"].sigma2_W == pytest.approx(spread / 3)


def test_centers_that_agree_reach_the_public_floors():
    prior, (center, *_) = prior_like(), locals_()
    step = step_of(prior, reduce(add, [share(prior, *center)] * 3), PLUG_IN).views["v"]
    assert step.sigma2_mu == step.sigma2_W == VARIANCE_FLOOR
    assert step.alpha == ALPHA_CEILING
    assert step.sigma2 == pytest.approx(center[2], rel=1e-9)


@pytest.mark.parametrize("shape", [0.05, 0.5, 1.0, 3.0, 40.0, 3000.0])
def test_the_shape_of_an_inverse_gamma_is_that_of_scipy(shape):
    x = invgamma(shape, scale=2.0).rvs(200, random_state=0)
    x = np.clip(x, 1e-300, 1e300)
    found = inverse_gamma_shape(float(np.mean(1 / x)), float(np.mean(np.log(x))))
    target = np.log(np.mean(1 / x)) + np.mean(np.log(x))
    root = brentq(lambda a: np.log(a) - digamma(a) - target, 1e-4, 1e7, xtol=1e-14, rtol=1e-14)
    assert found == pytest.approx(root, rel=1e-7)
    if 0.5 <= shape <= 40:
        assert found == pytest.approx(invgamma.fit(x, floc=0)[0], rel=1e-2)


def test_equal_noise_gives_the_ceiling_and_nearly_equal_noise_stays_below():
    assert inverse_gamma_shape(2.0, np.log(0.5)) == ALPHA_CEILING
    assert inverse_gamma_shape(2.0, np.log(0.5) + 1e-6) == pytest.approx(5e5, rel=1e-3)


def test_a_view_of_one_center_takes_its_parameters_and_says_nothing_of_variability():
    prior, (mu, W, sigma2) = prior_like(), locals_()[0]
    step = step_of(prior, share(prior, mu, W, sigma2), replace(DEFAULT, case_mix=False)).views["v"]
    assert np.allclose(step.mu, mu)
    assert np.allclose(step.W, W)
    assert step.sigma2_mu == step.sigma2_W == np.inf
    assert step.sigma2 == pytest.approx(sigma2)
    assert step.n_centers == 1


def test_the_mean_case_mix_goes_into_the_means_of_all_views():
    """x = m + z: moving m by s and mu by W s changes no prediction, so all views move, contributed to or not."""
    one = prior_like()
    prior = GlobalPrior({**one.views, "absent": replace(one.views["v"], mu=np.ones(D))}, 0.5)
    m = [np.array([1.0, 2.0]), np.array([3.0, -1.0])]
    total = reduce(add, (share(prior, *c, m=s) for c, s in zip(locals_(2), m, strict=True)))
    still = step_of(prior, replace(total, m=np.zeros(Q)), DEFAULT)
    moved = step_of(prior, total, DEFAULT)
    for name in ("v", "absent"):
        assert np.allclose(moved.views[name].mu - still.views[name].mu, prior.views[name].W @ [2.0, 0.5])
    assert replace(moved.views["absent"], mu=np.ones(D)).sigma2_W == prior.views["absent"].sigma2_W


def test_tau2_begins_at_one_and_then_is_what_the_centers_differ_by():
    m = np.random.default_rng(0).normal(size=(5, Q))
    prior = prior_like(tau2=0.5)
    shares = [share(prior, *c, m=s) for c, s in zip(locals_(), m, strict=True)]
    total = reduce(add, shares)
    assert step_of(replace(prior, tau2=0.0), total, DEFAULT).tau2 == 1.0
    assert step_of(prior, total, DEFAULT).tau2 == pytest.approx(np.var(m, axis=0).mean())
    assert step_of(prior, total, replace(DEFAULT, case_mix=False)).tau2 == 0.0


def test_unbiased_variances_are_over_one_center_less():
    prior = prior_like()
    view = unbiased(prior).views["v"]
    assert view.sigma2_mu == pytest.approx(0.3 * 5 / 4)
    assert view.sigma2_W == pytest.approx(0.2 * 5 / 4)
    alone = prior_like(n_centers=1)
    assert unbiased(alone).views["v"] is alone.views["v"]


def test_change_ignores_rotations_and_sees_everything_else():
    old = prior_like()
    view = old.views["v"]
    R = ortho_group.rvs(Q, random_state=0)
    assert change(old, old) == 0.0
    assert change(old, old.with_views({"v": replace(view, W=view.W @ R)})) < 1e-14
    for moved in (
        replace(view, mu=view.mu + 0.1), replace(view, W=view.W * 1.1), replace(view, sigma2_mu=0.4),
        replace(view, sigma2_W=0.3), replace(view, beta=view.beta * 1.1),
    ):  # fmt: skip
        assert change(old, old.with_views({"v": moved})) > 1e-2
    assert change(old, replace(old, tau2=0.6)) > 1e-2
    W = view.W * 1.1
    dense = np.linalg.norm(W @ W.T - view.W @ view.W.T) / np.linalg.norm(W @ W.T)
    assert change(old, old.with_views({"v": replace(view, W=W)})) == pytest.approx(dense, rel=1e-10)


def test_loadings_that_collapse_in_one_round_are_a_change_like_others():
    """|b|^2 taken from products of something far larger would be lost, and often below 0."""
    for seed in range(10):
        rng = np.random.default_rng(seed)
        before, after = 1e6 * rng.normal(size=(D, Q)), 1e-6 * rng.normal(size=(D, Q))
        old, new = prior_like(W=before), prior_like(W=after)
        assert 1e6 < change(old, new) < np.inf
        smaller = prior_like(W=after, sigma2_W=4 * 0.2)  # measured in loadings, as ever
        rms = np.sqrt(np.mean(after**2))
        assert change(prior_like(W=after), smaller) == pytest.approx(np.sqrt(0.2) / rms)


def test_the_first_step_away_from_a_flat_prior_counts_as_change():
    flat = GlobalPrior({"v": flat_view_prior(D, Q)})
    assert change(flat, prior_like()) == np.inf


def spread_out(prior, **changes):
    """A sum of five centers with posterior spreads."""
    total = reduce(add, (share(prior, *center) for center in locals_()))
    view = replace(total.views["v"], **changes)
    return replace(total, views={"v": view}), view


def test_steps_are_stretched_by_what_the_prior_held_back():
    """EM's step of a mean is the gain times Newton's; the variance then solves s2 = (squares + V) / cells."""
    prior = prior_like()
    old, n, cells = prior.views["v"], 5, 5 * D
    var_W = np.array([[0.5, 0.2], [0.2, 0.9]])
    total, part = spread_out(prior, mu_gain=0.8 * n, var_mu=0.3, var_W=var_W, noise_gain=0.5 * n)
    step = step_of(prior, total, DEFAULT).views["v"]
    assert np.allclose(step.mu - old.mu, part.d_mu / n / 0.8)
    assert np.allclose((step.W - old.W) @ (np.eye(Q) - var_W / (cells * 0.2)), part.d_W / n)
    left_mu = part.sq_mu - (part.d_mu**2).sum() / n
    left_W = np.trace(part.sq_W) - (part.d_W**2).sum() / n
    assert step.sigma2_mu == pytest.approx(left_mu / (cells - 0.3 / 0.3))
    assert step.sigma2_W == pytest.approx(left_W / (cells * Q - np.trace(var_W) / 0.2))
    before = old.alpha / old.beta
    stretched = before * np.exp(np.clip(2 * np.log(part.precision / n / before), -1, 1))
    assert step.alpha / step.beta == pytest.approx(stretched)


def test_rotations_of_the_centers_are_followed_but_not_stretched():
    prior = prior_like()
    old = prior.views["v"]
    turn = ortho_group.rvs(Q, random_state=0) - np.eye(Q)
    var_W = 0.4 * 5 * D * 0.2 * np.eye(Q)  # a gain of 0.6
    total, part = spread_out(prior, turn=5 * turn, var_W=var_W)
    step = step_of(prior, total, DEFAULT).views["v"]
    pulled = part.d_W / 5 - old.W @ turn
    assert np.allclose(step.W, old.W + old.W @ turn + pulled / 0.6)


def test_a_variance_that_nobody_could_see_does_not_sink_to_zero():
    """A gain of 1/4 says: the centers know mu with three times the prior variance. A twentieth of that is the floor."""
    prior, (center, *_) = prior_like(), locals_()
    alike = reduce(add, [share(prior, *center)] * 5)
    view = replace(alike.views["v"], mu_gain=5 / 4)
    step = step_of(prior, replace(alike, views={"v": view}), DEFAULT).views["v"]
    assert step.sigma2_mu == pytest.approx(0.05 * 3 * 0.3)
    assert step.sigma2_W == VARIANCE_FLOOR  # nothing was said to be uncertain


def test_the_scale_of_the_latent_space_follows_the_sums():
    """Latent positions that scatter too widely along an axis make its loadings longer; m and W pull as they should."""
    prior = prior_like(sigma2_W=0.2)
    total = reduce(add, (share(prior, *center, m=np.array([1.0, 0.0])) for center in locals_()))
    balanced = replace(total.views["v"], sq_W=np.eye(Q), var_W=np.zeros((Q, Q)))
    total = replace(total, views={"v": balanced}, sq_m=np.zeros((Q, Q)))
    assert np.allclose(rescaling(prior, total), np.eye(Q))
    curvature = 50 + 5 * D
    wide = replace(total, sq_x=np.diag([60.0, 50.0]))
    assert np.allclose(rescaling(prior, wide), np.diag([np.sqrt(1 + 10 / curvature), 1.0]))
    mixed = replace(total, sq_m=np.diag([5.0, 0.0]))
    assert np.allclose(rescaling(prior, mixed), np.diag([np.sqrt(1 + 5 / 0.5 / curvature), 1.0]))
    uneven = replace(total, views={"v": replace(balanced, sq_W=np.diag([1.5, 0.5]))})
    assert np.allclose(rescaling(prior, uneven), np.diag(np.sqrt([1 - 10 / curvature, 1 + 10 / curvature])))
    step, L = master_step(prior, wide, MasterRule())
    assert np.allclose(step.views["v"].W, step_of(prior, wide, DEFAULT).views["v"].W @ L)
