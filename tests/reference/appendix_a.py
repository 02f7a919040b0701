"""Appendix A of the paper, transcribed with a Python loop over subjects: the slow twin of ``vedute.model``.

It shares no code with the package and uses no statistics of the rows, so that an error in one is not an
error in both. Order of a local iteration: mu, then <x> and <xx'>, then W, then sigma2, as in the appendix.
A view that a center lacks is absent from its mapping. Priors may be this file's ``Prior`` or the package's
``ViewPrior``: only the names ``mu, W, sigma2_mu, sigma2_W, alpha, beta`` are used.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np
from scipy.special import digamma, polygamma

Views = Mapping[str, np.ndarray]


class Local(NamedTuple):
    """Parameters of one view in one center."""

    mu: np.ndarray
    W: np.ndarray
    sigma2: float


class Prior(NamedTuple):
    """Global parameters of one view."""

    mu: np.ndarray
    W: np.ndarray
    sigma2_mu: float
    sigma2_W: float
    alpha: float
    beta: float


class Run(NamedTuple):
    """A whole run: last global prior, last local parameters, and the global prior after each round."""

    prior: dict[str, Prior]
    centers: dict[str, dict[str, Local]]
    history: list[dict[str, Prior]]


def flat_prior(d: int, q: int, alpha: float = -1.0, beta: float = 0.0) -> Prior:
    """No prior on mu and W; none on sigma2 either, unless alpha and beta are given."""
    return Prior(np.zeros(d), np.zeros((d, q)), np.inf, np.inf, alpha, beta)


def free_columns(d: int, q: int) -> int:
    """In a narrow view (d <= q) only the first d - 1 columns of W are free, the rest zero (sec. 4.3.1)."""
    return d - 1 if d <= q else q


# --- in each center


def mean_step(T: np.ndarray, old: Local, prior: Any) -> np.ndarray:
    """mu maximises the view's own marginal likelihood times its prior."""
    N, d = T.shape
    C = old.W @ old.W.T + old.sigma2 * np.eye(d)
    total = np.zeros(d)
    for n in range(N):
        total = total + T[n]
    left = N * np.eye(d) + C / prior.sigma2_mu
    return np.linalg.solve(left, total + C @ prior.mu / prior.sigma2_mu)


def expectations(views: Views, local: Mapping[str, Local]) -> tuple[list[np.ndarray], list[np.ndarray]]:
    """<x_n> and <x_n x_n'> of every subject."""
    names = list(views)
    q = local[names[0]].W.shape[1]
    Sigma = np.eye(q)
    for k in names:
        Sigma = Sigma + local[k].W.T @ local[k].W / local[k].sigma2
    Sigma_inv = np.linalg.inv(Sigma)
    x, xx = [], []
    for n in range(len(views[names[0]])):
        Bt = np.zeros(q)
        for k in names:
            Bt = Bt + local[k].W.T @ (views[k][n] - local[k].mu) / local[k].sigma2
        mean = Sigma_inv @ Bt
        x.append(mean)
        xx.append(Sigma_inv + np.outer(mean, mean))
    return x, xx


def weight_step(
    T: np.ndarray, mu: np.ndarray, old: Local, prior: Any, x: list[np.ndarray], xx: list[np.ndarray]
) -> np.ndarray:
    """W maximises the expected complete-data log likelihood plus the log of its prior."""
    d, q = old.W.shape
    p = free_columns(d, q)
    ratio = old.sigma2 / prior.sigma2_W
    left, right = ratio * prior.W[:, :p], ratio * np.eye(p)
    for n in range(len(T)):
        left = left + np.outer(T[n] - mu, x[n][:p])
        right = right + xx[n][:p, :p]
    W = np.zeros((d, q))
    W[:, :p] = left @ np.linalg.inv(right)
    return W


def noise_step(
    T: np.ndarray, mu: np.ndarray, W: np.ndarray, prior: Any, x: list[np.ndarray], xx: list[np.ndarray]
) -> float:
    """sigma2 maximises the expected complete-data log likelihood plus the log of its prior."""
    N, d = T.shape
    WW = W.T @ W
    total = 2 * prior.beta
    for n in range(N):
        t = T[n] - mu
        total += t @ t + np.trace(WW @ xx[n]) - 2 * x[n] @ W.T @ t
    return float(total / (N * d + 2 * (prior.alpha + 1)))


def local_iteration(views: Views, local: Mapping[str, Local], prior: Mapping[str, Any]) -> dict[str, Local]:
    """One iteration of EM (flat priors) or MAP in one center."""
    local = {k: local[k]._replace(mu=mean_step(views[k], local[k], prior[k])) for k in views}
    x, xx = expectations(views, local)
    new = {}
    for k in views:
        W = weight_step(views[k], local[k].mu, local[k], prior[k], x, xx)
        sigma2 = noise_step(views[k], local[k].mu, W, prior[k], x, xx)
        new[k] = Local(local[k].mu, W, sigma2)
    return new


def local_fit(
    views: Views, start: Mapping[str, tuple[np.ndarray, float]], prior: Mapping[str, Any], iterations: int
) -> dict[str, Local]:
    """Some iterations from given (W, sigma2) per view; mu needs no start, it is the first thing updated."""
    local = {k: Local(np.zeros(views[k].shape[1]), *start[k]) for k in views}
    for _ in range(iterations):
        local = local_iteration(views, local, prior)
    return local


def log_likelihood(views: Views, local: Mapping[str, Local]) -> float:
    """ln p(t_1, ..., t_N) of the concatenated views, with the latent variables integrated out."""
    W = np.vstack([local[k].W for k in views])
    mu = np.concatenate([local[k].mu for k in views])
    psi = np.concatenate([np.full(len(local[k].mu), local[k].sigma2) for k in views])
    C = W @ W.T + np.diag(psi)
    logdet = np.linalg.slogdet(C)[1]
    total = 0.0
    for rows in zip(*views.values(), strict=True):
        t = np.concatenate(rows) - mu
        total -= 0.5 * (len(t) * np.log(2 * np.pi) + logdet + t @ np.linalg.solve(C, t))
    return float(total)


# --- in the master


def inverse_digamma(y: float) -> float:
    """The x with psi(x) = y, by Newton from Minka's start."""
    x = np.exp(y) + 0.5 if y >= -2.22 else -1 / (y - digamma(1.0))
    for _ in range(8):
        x = x - (digamma(x) - y) / polygamma(1, x)
    return float(x)


def inverse_gamma_ml1(sigma2: list[float], largest_alpha: float) -> tuple[float, float]:
    """Maximum likelihood of an inverse gamma: psi(alpha) = ln(n alpha) - ln(sum 1/s) - mean ln s.

    Llera and Beckmann iterate alpha = psi^-1(right-hand side), whose steps shrink by 1 - 1/(2 alpha) only.
    Each is therefore followed by Newton's step on the same equation in ln alpha; both end at the same point.
    """
    n = len(sigma2)
    precision = sum(1 / s for s in sigma2)
    gap = np.log(precision / n) + sum(np.log(s) for s in sigma2) / n
    alpha = largest_alpha
    if gap > 1 / (2 * largest_alpha):  # ln a - psi(a) is 1/(2a) and more, so alpha is above the bound otherwise
        alpha = (3 - gap + np.sqrt((gap - 3) ** 2 + 24 * gap)) / (12 * gap)
        for _ in range(20):
            alpha = inverse_digamma(np.log(alpha) - gap)
            excess = np.log(alpha) - digamma(alpha) - gap
            alpha = alpha * np.exp(-excess / (1 - alpha * polygamma(1, alpha)))
        alpha = min(float(alpha), largest_alpha)
    return alpha, n * alpha / precision


def master_view(locals_: list[Local], floor: float, largest_alpha: float) -> Prior:
    """Global parameters of one view from those of the centers that have it."""
    n = len(locals_)
    d, q = locals_[0].W.shape
    mu, W = np.zeros(d), np.zeros((d, q))
    for local in locals_:
        mu = mu + local.mu / n
        W = W + local.W / n
    sigma2_mu = sigma2_W = 0.0
    for local in locals_:
        sigma2_mu += np.sum((local.mu - mu) ** 2) / (n * d)
        sigma2_W += np.trace((local.W - W).T @ (local.W - W)) / (n * d * max(free_columns(d, q), 1))
    alpha, beta = inverse_gamma_ml1([local.sigma2 for local in locals_], largest_alpha)
    return Prior(mu, W, max(float(sigma2_mu), floor), max(float(sigma2_W), floor), alpha, beta)


def master_step(
    centers: Mapping[str, Mapping[str, Local]], *, floor: float = 1e-10, largest_alpha: float = 1e6
) -> dict[str, Prior]:
    """The global prior of every view that some center has.

    The paper is silent on a view with one center, or on centers that agree: variances of 0 and an infinite
    alpha. The floor and the bound keep such a run finite.
    """
    names = {k: None for center in centers.values() for k in center}
    return {k: master_view([c[k] for c in centers.values() if k in c], floor, largest_alpha) for k in names}


# --- the whole run

Start = Callable[[str, str, int, int], tuple[np.ndarray, float]]
Redraw = Callable[[int, str, str, Prior], tuple[np.ndarray, float]]


def random_start(rng: np.random.Generator) -> Start:
    """W ~ U(-2, 2), sigma2 ~ U(.1, .5), each center and view its own."""

    def start(center: str, view: str, d: int, q: int) -> tuple[np.ndarray, float]:
        W = rng.uniform(-2, 2, (d, q))
        W[:, free_columns(d, q) :] = 0
        return W, float(rng.uniform(0.1, 0.5))

    return start


def random_redraw(rng: np.random.Generator) -> Redraw:
    """W and sigma2 drawn from the global prior."""

    def redraw(round_: int, center: str, view: str, prior: Prior) -> tuple[np.ndarray, float]:
        W = prior.W + np.sqrt(prior.sigma2_W) * rng.standard_normal(prior.W.shape)
        W[:, free_columns(*prior.W.shape) :] = 0
        return W, float(prior.beta / rng.gamma(prior.alpha))

    return redraw


def run(
    centers: Mapping[str, Views],
    q: int,
    *,
    rounds: int = 100,
    first_iterations: int = 30,
    iterations: int = 15,
    rng: np.random.Generator | None = None,
    start: Start | None = None,
    redraw: Redraw | None = None,
    first_noise: tuple[float, float] = (2.25, 0.625),
    floor: float = 1e-10,
    largest_alpha: float = 1e6,
) -> Run:
    """Algorithm 1 without privacy; random numbers come from ``rng``, or from ``start`` and ``redraw``.

    ``start(center, view, d, q)`` and ``redraw(round, center, view, prior)`` return (W, sigma2); rounds count
    from 1. The first round has no prior on mu and W, and the authors' weak InvGamma(2.25, 0.625) on sigma2.
    """
    start = start or random_start(rng or np.random.default_rng())
    redraw = redraw or random_redraw(rng or np.random.default_rng())
    sizes = {k: T.shape[1] for views in centers.values() for k, T in views.items()}
    flat = {k: flat_prior(d, q, *first_noise) for k, d in sizes.items()}
    local = {
        c: local_fit(views, {k: start(c, k, sizes[k], q) for k in views}, flat, first_iterations)
        for c, views in centers.items()
    }
    prior = master_step(local, floor=floor, largest_alpha=largest_alpha)
    history = [prior]
    for round_ in range(2, rounds + 1):
        local = {
            c: local_fit(views, {k: redraw(round_, c, k, prior[k]) for k in views}, prior, iterations)
            for c, views in centers.items()
        }
        prior = master_step(local, floor=floor, largest_alpha=largest_alpha)
        history.append(prior)
    return Run(prior, local, history)
