"""WAIC against slow definitions, closed forms, and what it is meant to estimate."""

from dataclasses import replace

import numpy as np
import pytest
from scipy.special import logsumexp
from scipy.stats import multivariate_normal

from core_cases import bunch_of, draw, some_prior, with_holes
from vedute.model.local_step import LocalRule, fit
from vedute.model.seeds import stream
from vedute.model.stacked import StackedPrior, State
from vedute.model.uncertainty import center_posterior, evidence, information, symmetric_basis
from vedute.model.waic import BLOCK, Sums, log_densities, pointwise, sums
from vedute.model.waic import draw as draw_parameters

Q = 2


def alone(layout, q=Q):
    """The prior of a single center: flat, but for a noise prior worth two cells."""
    K = len(layout.names)
    flat = np.zeros(K)
    mu, W = np.zeros((1, layout.total)), np.zeros((1, layout.total, q))
    return StackedPrior(mu, W, flat, flat, flat + 1, flat + 0.1, 0.0)


def settled(views, prior=None, q=Q, iterations=100):
    stacked = bunch_of(views)
    prior = alone(stacked.layout, q) if prior is None else prior
    rng = np.random.default_rng(0)
    D = stacked.layout.total
    start = State(np.zeros((1, D)), rng.normal(size=(1, D, q)), np.ones((1, len(views))), np.zeros((1, q)))
    return stacked, prior, fit(stacked, prior, start, LocalRule(expand=False), iterations)


def posterior_of(views, prior=None, q=Q, centers=1):
    stacked, prior, state = settled(views, prior, q)
    known = information(stacked, prior, state)
    total = evidence(stacked, known)
    for _ in range(centers - 1):
        total = total + evidence(stacked, known)
    return center_posterior(stacked, prior, state, known, total), np.hstack(list(views.values()))


@pytest.mark.parametrize("holes", [False, True])
def test_densities_are_those_of_scipy(holes):
    views = with_holes(draw(n=12)) if holes else draw(n=12)
    posterior, rows = posterior_of(views)
    draws = draw_parameters(posterior, 4, np.random.default_rng(1))
    found = log_densities(draws, rows)
    for s in range(4):
        C = draws.W[s] @ draws.W[s].T + np.diag(draws.noise[s])
        for n, row in enumerate(rows):
            seen = ~np.isnan(row)
            known = multivariate_normal(draws.c[s, seen], C[np.ix_(seen, seen)]) if seen.any() else None
            assert found[s, n] == pytest.approx(known.logpdf(row[seen]) if known else 0.0, rel=1e-9, abs=1e-9)


def test_terms_are_log_mean_density_and_variance_over_the_draws():
    posterior, rows = posterior_of(draw(n=30))
    lppd, p = pointwise(posterior, rows, seed=5, name="nice", n_draws=BLOCK + 7)
    parts = [draw_parameters(posterior, size, stream(5, "waic", "nice", b)) for b, size in enumerate((BLOCK, 7))]
    densities = np.vstack([log_densities(part, rows) for part in parts])
    assert np.allclose(lppd, logsumexp(densities, axis=0) - np.log(BLOCK + 7), rtol=1e-10)
    assert np.allclose(p, np.var(densities, axis=0, ddof=1), rtol=1e-8)
    again = np.hstack([pointwise(posterior, part, 5, "nice", BLOCK + 7)[0] for part in (rows[:11], rows[11:])])
    assert np.allclose(again, lppd, rtol=1e-12)


def test_a_large_mean_costs_no_digits():
    posterior, rows = posterior_of(draw(n=30))
    far = replace(posterior, c=posterior.c + 2.0**20)
    near = pointwise(posterior, rows, 0, "a", 40)
    assert np.allclose(pointwise(far, rows + 2.0**20, 0, "a", 40), near, rtol=1e-7)


def fisher(W, noise, n):
    """Information of n rows on vec(W), from the textbook formula n/2 tr(C^-1 dC C^-1 dC)."""
    D, q = W.shape
    Ci = np.linalg.inv(W @ W.T + np.diag(noise))
    steps = []
    for j in range(D):
        for a in range(q):
            E = np.zeros((D, q))
            E[j, a] = 1.0
            steps.append(Ci @ (E @ W.T + W @ E.T))
    return 0.5 * n * np.array([[np.sum(A * B.T) for B in steps] for A in steps])


def test_draws_of_the_covariance_spread_as_fishers_information_says():
    """Var(C) to first order, rotations left out; 20,000 draws: 1 % on a standard deviation, off by 4 % at 4 errors."""
    posterior, rows = posterior_of(draw(sizes=(4, 3), n=200, noise=1.0))
    W, noise, (D, q) = posterior.W, posterior.noise, posterior.W.shape
    cov = np.linalg.pinv(fisher(W, noise, len(rows)), rcond=1e-9)
    draws = draw_parameters(posterior, 20_000, np.random.default_rng(0))
    step = draws.W - W
    found = (step @ W.T + W @ step.mT).std(axis=0)
    jacobian = np.zeros((D, D, D * q))
    for i in range(D * q):
        E = np.zeros(D * q)
        E[i] = 1.0
        E = E.reshape(D, q)
        jacobian[..., i] = E @ W.T + W @ E.T
    expected = np.sqrt(np.einsum("abi,ij,abj->ab", jacobian, cov, jacobian))
    assert np.abs(found / expected - 1.0).max() < 0.04
    mean_sd = np.sqrt(np.diag(W @ W.T + np.diag(noise)) / len(rows))
    assert np.abs(draws.c.std(axis=0) / mean_sd - 1.0).max() < 0.04


@pytest.mark.parametrize("q", [1, 2, 3])
def test_p_counts_the_parameters_of_a_well_specified_model(q):
    """D (q + 1) + K less the rotations, q (q - 1) / 2; with many rows WAIC's p comes near it."""
    posterior, rows = posterior_of(draw(n=2000, q=q, noise=1.0), q=q)
    _, p = pointwise(posterior, rows, 0, "a", 400)
    number = 12 * (q + 1) + 3 - q * (q - 1) / 2
    assert p.sum() == pytest.approx(number, rel=0.08)


def test_waic_foretells_new_rows():
    """What the fit loses on new rows against the truth, over 20 samples of 100: about half a unit a parameter.

    Their difference varies by about 6 between samples; the mean of 20 has a standard error of 1.4, and 6 is four of
    them (false alarms 1e-4).
    """
    lost = []
    rng = np.random.default_rng(0)
    W, mu, D, n = rng.normal(size=(8, 2)), rng.normal(size=8), 8, 100
    truth = multivariate_normal(mu, W @ W.T + np.eye(D))
    for _ in range(20):
        rows, new = truth.rvs(n, random_state=rng), truth.rvs(2000, random_state=rng)
        posterior, _ = posterior_of({"v0": rows})
        lppd, p = pointwise(posterior, rows, 0, "a", 100)
        held_out, _ = pointwise(posterior, new, 0, "a", 100)
        lost.append([np.sum(lppd - p - truth.logpdf(rows)), n * np.mean(held_out - truth.logpdf(new))])
    by_waic, by_rows = np.mean(lost, axis=0)
    assert -20 < by_rows < -8
    assert abs(by_waic - by_rows) < 6


def test_a_sharp_prior_hides_no_parameter():
    """Centers that do not differ share W: alone each would count it whole, together they count it once."""
    views = draw(n=300, noise=1.0)
    _, _, state = settled(views)
    sharp = StackedPrior(
        state.mu + state.m @ state.W[0].T, state.W, np.full(3, 1e8), np.full(3, 1e8), np.ones(3), np.full(3, 0.1), 0.0
    )
    posterior, rows = posterior_of(views, sharp, centers=4)
    _, p = pointwise(posterior, rows, 0, "a", 200)
    _, whole = pointwise(*posterior_of(views), 0, "a", 200)
    assert p.sum() == pytest.approx(whole.sum() / 4, rel=0.15)


def test_priors_narrow_the_posterior():
    views = with_holes(draw(n=50))
    stacked = bunch_of(views)
    prior = some_prior(stacked.layout, Q, tau2=0.5)
    posterior, _ = posterior_of(views, prior)
    stacked, _, state = settled(views, prior)
    known = information(stacked, prior, state)
    total = evidence(stacked, known)
    for name, precision in total.W.items():
        k = stacked.layout.names.index(name)
        assert np.linalg.eigvalsh(precision)[-1] < prior.precision_W[k]  # one center tells less than the prior's own
        assert np.linalg.eigvalsh(precision)[0] > 0
    wide = np.linalg.inv(known.W[0])
    narrow = posterior.root_W[0] @ posterior.root_W[0].T
    assert np.trace(narrow) < np.trace(wide) + np.trace(np.linalg.inv(total.W["v0"]))


def test_the_basis_of_symmetric_matrices_is_orthonormal():
    basis = symmetric_basis(4)
    assert basis.shape == (10, 4, 4)
    assert np.allclose(np.einsum("bij,cji->bc", basis, basis), np.eye(10))
    assert np.array_equal(basis, basis.mT)


def test_sums_of_parts_give_the_errors_of_the_whole():
    rng = np.random.default_rng(0)
    lppd, p = rng.normal(size=(3, 50)) - 20, rng.gamma(1.0, size=(3, 50))
    parts = sums(lppd[:, :20], p[:, :20]) + sums(lppd[:, 20:], p[:, 20:])
    terms = -2.0 * (lppd - p)
    assert isinstance(parts, Sums)
    assert parts.n == 50
    assert np.allclose(parts.waic, terms.sum(axis=1))
    assert np.allclose(parts.se(), np.sqrt(50) * terms.std(axis=1, ddof=1))
    difference, se = parts.difference(1)
    assert np.allclose(difference, (terms - terms[1]).sum(axis=1))
    assert np.allclose(se, np.sqrt(50) * (terms - terms[1]).std(axis=1, ddof=1))
    assert difference[1] == se[1] == 0.0
