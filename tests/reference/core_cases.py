"""Small data sets, priors and states for the tests of the core, and plain row-by-row values to compare with."""

from __future__ import annotations

import numpy as np
from scipy.stats import multivariate_normal

from vedute.model.parameters import Layout
from vedute.model.stacked import StackedPrior, State, stack_statistics
from vedute.model.statistics import from_rows


def layout_of(sizes):
    return Layout(tuple(f"v{k}" for k in range(len(sizes))), tuple(sizes))


def draw(sizes=(5, 4, 3), n=40, q=2, seed=0, noise=0.5, m=0.0):
    """Views of one center: a common latent x ~ N(m, I), loadings of size one, means of size two."""
    rng = np.random.default_rng(seed)
    x = rng.standard_normal((n, q)) + m
    return {
        f"v{k}": x @ rng.uniform(-2, 2, (q, d)) + rng.uniform(-3, 3, d) + noise * rng.standard_normal((n, d))
        for k, d in enumerate(sizes)
    }


def with_holes(views, seed=0, cells=0.1, views_missing=0.2):
    """The same rows with cells and whole views missing at random; the first row stays whole, the second is empty."""
    rng = np.random.default_rng(seed)
    found = {}
    for name, T in views.items():
        T = T.copy()
        keep = slice(2, None)
        T[keep][rng.random(T[keep].shape) < cells] = np.nan
        T[keep][rng.random(len(T) - 2) < views_missing] = np.nan
        T[1] = np.nan
        found[name] = T
    return found


def bunch_of(*centers):
    """One stack of centers given as rows."""
    return stack_statistics([statistics_of(views) for views in centers])


def statistics_of(views):
    return from_rows(Layout(tuple(views), tuple(T.shape[1] for T in views.values())), views)


def flat_prior(layout, q, tau2=0.0):
    K = len(layout.names)
    return StackedPrior(
        np.zeros((1, layout.total)), np.zeros((1, layout.total, q)), np.zeros(K), np.zeros(K), -np.ones(K), np.zeros(K),
        tau2,
    )  # fmt: skip


def some_prior(layout, q, tau2=0.0, seed=3):
    """An informative prior, different in each view."""
    rng = np.random.default_rng(seed)
    K = len(layout.names)
    return StackedPrior(
        rng.normal(size=(1, layout.total)), rng.normal(size=(1, layout.total, q)), rng.uniform(1, 4, K),
        rng.uniform(2, 8, K), rng.uniform(2, 5, K), rng.uniform(0.5, 2, K), tau2,
    )  # fmt: skip


def some_state(layout, q, B=1, seed=4, m=0.0, cov=None):
    rng = np.random.default_rng(seed)
    return State(
        rng.normal(size=(B, layout.total)), rng.normal(size=(B, layout.total, q)),
        rng.uniform(0.2, 1.0, (B, len(layout.names))), m * rng.normal(size=(B, q)), cov,
    )  # fmt: skip


def some_covariance(stacked, size, B=1, seed=5, scale=0.05):
    """(B, G, size, size): a covariance of the rows of each class."""
    rng = np.random.default_rng(seed)
    root = rng.normal(size=(B, len(stacked.class_mask), size, size))
    return scale * (root @ root.mT + 0.1 * np.eye(size))


def side_by_side(views):
    return np.hstack(list(views.values()))


def row_log_likelihood(views, layout, state, c=0):
    """Sum over the rows of the log density of what each observes, by scipy."""
    total = 0.0
    psi = state.sigma2[c][layout.view_of]
    mean = state.mu[c] + state.W[c] @ state.m[c]
    for row in side_by_side(views):
        seen = ~np.isnan(row)
        if seen.any():
            W = state.W[c][seen]
            total += multivariate_normal.logpdf(row[seen], mean[seen], W @ W.T + np.diag(psi[seen]))
    return total
