"""The slow reference deserves trust of its own: closed forms, numerical maxima and what EM promises."""

import numpy as np
import pytest
from scipy.optimize import minimize
from scipy.stats import invgamma
from sklearn.decomposition import PCA

import appendix_a as ref


def draw(sizes, n=60, q=2, seed=0):
    rng = np.random.default_rng(seed)
    x = rng.standard_normal((n, q))
    return {
        f"v{k}": x @ rng.uniform(-2, 2, (q, d)) + rng.uniform(-3, 3, d) + 0.5 * rng.standard_normal((n, d))
        for k, d in enumerate(sizes)
    }


def starts(views, q=2, seed=1):
    start = ref.random_start(np.random.default_rng(seed))
    return {k: start("c", k, T.shape[1], q) for k, T in views.items()}


def some_prior(d, q=2, seed=2):
    rng = np.random.default_rng(seed)
    return ref.Prior(rng.normal(size=d), rng.normal(size=(d, q)), 0.3, 0.2, 4.0, 1.5)


def log_posterior(views, local, prior):
    total = ref.log_likelihood(views, local)
    for k, view in local.items():
        p = prior[k]
        total -= np.sum((view.mu - p.mu) ** 2) / (2 * p.sigma2_mu)
        total -= np.sum((view.W - p.W) ** 2) / (2 * p.sigma2_W)
        total -= (p.alpha + 1) * np.log(view.sigma2) + p.beta / view.sigma2
    return total


def path(views, prior, value, iterations=25):
    local = ref.local_fit(views, starts(views), prior, 1)
    values = [value(local)]
    for _ in range(iterations):
        local = ref.local_iteration(views, local, prior)
        values.append(value(local))
    return np.array(values)


@pytest.mark.parametrize("sizes", [(6,), (5, 4, 6)])
def test_em_never_lowers_the_likelihood(sizes):
    views = draw(sizes)
    flat = {k: ref.flat_prior(T.shape[1], 2) for k, T in views.items()}
    values = path(views, flat, lambda local: ref.log_likelihood(views, local))
    assert np.diff(values).min() > -1e-9
    assert values[-1] > values[0] + 10


def test_map_never_lowers_the_posterior_of_one_view():
    views = draw((6,))
    prior = {"v0": some_prior(6)}
    values = path(views, prior, lambda local: log_posterior(views, local, prior))
    assert np.diff(values).min() > -1e-9
    assert values[-1] > values[0] + 1


def test_one_view_with_flat_priors_is_the_closed_form_of_tipping_and_bishop():
    views = draw((6,), n=80)
    T = views["v0"]
    fit = ref.local_fit(views, starts(views), {"v0": ref.flat_prior(6, 2)}, 400)["v0"]
    values, vectors = np.linalg.eigh(np.cov(T.T, bias=True))
    noise = values[:4].mean()
    assert np.allclose(fit.mu, T.mean(axis=0), atol=1e-12)
    assert fit.sigma2 == pytest.approx(noise, rel=1e-8)
    assert np.allclose(fit.W @ fit.W.T, vectors[:, 4:] * (values[4:] - noise) @ vectors[:, 4:].T, atol=1e-6)
    projector = fit.W @ np.linalg.pinv(fit.W)
    components = PCA(2).fit(T).components_
    assert np.allclose(projector, components.T @ components, atol=1e-7)


def test_several_views_with_flat_priors_reach_a_stationary_point():
    views = draw((4, 3), n=30, q=1)
    flat = {k: ref.flat_prior(T.shape[1], 1) for k, T in views.items()}
    fit = ref.local_fit(views, starts(views, q=1), flat, 1000)

    def value(theta):
        local = {
            "v0": ref.Local(theta[0:4], theta[4:8, None], np.exp(theta[8])),
            "v1": ref.Local(theta[9:12], theta[12:15, None], np.exp(theta[15])),
        }
        return ref.log_likelihood(views, local)

    theta = np.concatenate([np.r_[p.mu, p.W[:, 0], np.log(p.sigma2)] for p in fit.values()])
    steps = 1e-5 * np.eye(len(theta))
    gradient = np.array([(value(theta + h) - value(theta - h)) / 2e-5 for h in steps])
    assert np.abs(gradient).max() < 1e-3


def test_each_step_maximises_what_the_appendix_says():
    views = draw((4, 5), n=30)
    prior = {k: some_prior(T.shape[1]) for k, T in views.items()}
    before = ref.local_fit(views, starts(views), prior, 2)
    after = ref.local_iteration(views, before, prior)
    k, T, p = "v1", views["v1"], prior["v1"]
    middle = {name: before[name]._replace(mu=after[name].mu) for name in views}
    x, xx = ref.expectations(views, middle)

    def marginal(mu):
        alone = {k: before[k]._replace(mu=mu)}
        return ref.log_likelihood({k: T}, alone) - np.sum((mu - p.mu) ** 2) / (2 * p.sigma2_mu)

    def expected(W, sigma2):
        total = -np.sum((W - p.W) ** 2) / (2 * p.sigma2_W) - (p.alpha + 1) * np.log(sigma2) - p.beta / sigma2
        for t, mean, square in zip(T - after[k].mu, x, xx, strict=True):
            rest = t @ t + np.trace(W @ square @ W.T) - 2 * mean @ W.T @ t
            total -= len(t) / 2 * np.log(sigma2) + rest / (2 * sigma2)
        return total

    best_mu = minimize(lambda mu: -marginal(mu), before[k].mu, tol=1e-10).x
    best_W = minimize(lambda w: -expected(w.reshape(5, 2), before[k].sigma2), before[k].W.ravel(), tol=1e-10).x
    best_noise = np.exp(minimize(lambda s: -expected(after[k].W, np.exp(s[0])), [0.0], tol=1e-10).x[0])
    assert np.allclose(best_mu, after[k].mu, atol=1e-4)
    assert np.allclose(best_W.reshape(5, 2), after[k].W, atol=1e-4)
    assert best_noise == pytest.approx(after[k].sigma2, rel=1e-4)


def test_a_sharp_prior_wins_and_a_vague_one_is_none():
    views = draw((5,))
    sharp = some_prior(5)._replace(sigma2_mu=1e-12, sigma2_W=1e-12)
    fit = ref.local_fit(views, starts(views), {"v0": sharp}, 3)["v0"]
    assert np.allclose(fit.mu, sharp.mu, atol=1e-6)
    assert np.allclose(fit.W, sharp.W, atol=1e-6)
    vague = some_prior(5)._replace(sigma2_mu=1e12, sigma2_W=1e12, alpha=-1.0, beta=0.0)
    one, two = (ref.local_fit(views, starts(views), {"v0": p}, 5)["v0"] for p in (vague, ref.flat_prior(5, 2)))
    assert np.allclose(one.W, two.W, atol=1e-8)
    assert np.allclose(one.mu, two.mu, atol=1e-8)


def test_a_narrow_view_uses_fewer_columns():
    views = draw((6, 2, 1), q=3)
    flat = {k: ref.flat_prior(T.shape[1], 3, 2.25, 0.625) for k, T in views.items()}
    fit = ref.local_fit(views, starts(views, q=3), flat, 5)
    assert [int((np.abs(p.W).sum(axis=0) > 0).sum()) for p in fit.values()] == [3, 1, 0]


@pytest.mark.parametrize("y", [-50.0, -3.0, -2.22, 0.0, 1.7, 12.0])
def test_inverse_digamma(y):
    from scipy.special import digamma

    assert digamma(ref.inverse_digamma(y)) == pytest.approx(y, rel=1e-10, abs=1e-10)


@pytest.mark.parametrize("alpha", [0.4, 3.0, 80.0, 1e4])
def test_ml1_is_the_maximum_of_the_likelihood(alpha):
    sigma2 = list(invgamma.rvs(alpha, scale=2 * alpha, size=7, random_state=3))
    a, b = ref.inverse_gamma_ml1(sigma2, 1e8)

    def loss(theta):
        return -invgamma.logpdf(sigma2, np.exp(theta[0]), scale=np.exp(theta[1])).sum()

    here = loss(np.log([a, b]))
    nearby = [loss(np.log([a * f, b * g])) for f in (0.99, 1, 1.01) for g in (0.99, 1, 1.01) if (f, g) != (1, 1)]
    assert here < min(nearby)
    gap = np.log(np.mean(1 / np.array(sigma2))) + np.mean(np.log(sigma2))
    assert ref.inverse_digamma(np.log(a) - gap) == pytest.approx(a, rel=1e-6)
    assert b == pytest.approx(a / np.mean(1 / np.array(sigma2)))


def test_equal_noise_meets_the_bound():
    assert ref.inverse_gamma_ml1([0.2, 0.2, 0.2], 1e6) == pytest.approx((1e6, 2e5))


def test_master_means_and_variances_maximise_the_likelihood():
    rng = np.random.default_rng(4)
    locals_ = [ref.Local(rng.normal(size=3), rng.normal(size=(3, 2)), s) for s in (0.2, 0.3, 0.5, 0.6)]
    prior = ref.master_view(locals_, 0.0, 1e8)
    mus, Ws = np.array([c.mu for c in locals_]), np.array([c.W for c in locals_])
    assert np.allclose(prior.mu, mus.mean(axis=0))
    assert np.allclose(prior.W, Ws.mean(axis=0))
    assert prior.sigma2_mu == pytest.approx(mus.var(axis=0).mean())
    assert prior.sigma2_W == pytest.approx(Ws.var(axis=0).mean())


def three_centers():
    views = draw((6, 4, 5), n=90)
    parts = {c: {k: T[i::3] for k, T in views.items()} for i, c in enumerate("abc")}
    del parts["b"]["v1"], parts["c"]["v2"], parts["b"]["v2"]
    return parts


def test_a_run_with_views_missing():
    result = ref.run(three_centers(), 2, rounds=4, rng=np.random.default_rng(5), floor=1e-9)
    assert [list(c) for c in result.centers.values()] == [["v0", "v1", "v2"], ["v0"], ["v0", "v1"]]
    assert len(result.history) == 4
    assert result.prior["v2"].sigma2_mu == result.prior["v2"].sigma2_W == 1e-9  # one center alone
    assert np.allclose(result.prior["v1"].mu, (result.centers["a"]["v1"].mu + result.centers["c"]["v1"].mu) / 2)
    again = ref.run(three_centers(), 2, rounds=4, rng=np.random.default_rng(5), floor=1e-9)
    assert np.array_equal(again.prior["v0"].W, result.prior["v0"].W)


def test_given_draws_replace_the_generator():
    asked = []
    W = {k: np.random.default_rng(6).normal(size=(d, 2)) for k, d in (("v0", 6), ("v1", 4), ("v2", 5))}

    def redraw(round_, center, view, prior):
        asked.append((round_, center, view))
        return prior.W, prior.beta / prior.alpha

    result = ref.run(
        three_centers(),
        2,
        rounds=3,
        start=lambda c, k, d, q: (W[k], 0.3),
        redraw=redraw,
        iterations=2,
        first_iterations=3,
    )
    holders = [("a", "v0"), ("a", "v1"), ("a", "v2"), ("b", "v0"), ("c", "v0"), ("c", "v1")]
    assert asked == [(r, *h) for r in (2, 3) for h in holders]
    by_hand = ref.local_fit(
        three_centers()["b"],
        {"v0": (result.history[1]["v0"].W, result.history[1]["v0"].beta / result.history[1]["v0"].alpha)},
        result.history[1],
        2,
    )
    assert np.array_equal(by_hand["v0"].W, result.centers["b"]["v0"].W)


def test_the_variances_of_the_paper_collapse():
    """What the package corrects: plugging MAP estimates into ML variances shrinks them round after round."""
    views = draw((8, 6), n=150, seed=7)
    centers = {c: {k: T[i::3] for k, T in views.items()} for i, c in enumerate("abc")}
    history = ref.run(centers, 2, rounds=8, rng=np.random.default_rng(8), floor=0.0).history
    spread = [prior["v0"].sigma2_W for prior in history]
    assert spread[-1] < spread[0] / 100
