"""How well a center knows its parameters: the posterior that WAIC draws from.

The covariances that EM carries along take the latent x as known. They are too small by the information that x is
missing, most of all for components that fit noise, which are the ones that model choice is about. Here the inverse of
the Fisher information of the rows themselves stands instead. With t ~ N(c, C), c = mu + W m, C = W W' + Psi and
M = W' C^-1 W = I - P^-1, a change of c and W falls into parts that do not disturb each other:

* across the span of W (in the metric Psi^-1): rows are independent, w_j has information N M / sigma2, c_j N / sigma2;
* along it, dc = W a: a has information N M; dW = W Z with Z symmetric (the rest is rotation, which the data do not
  see): Z has information 2 N tr(M Z M Z).

Each part has a prior around the global parameters, which are themselves known only so well: their precision is the sum
over centers of (prior variance + 1 / information)^-1. Where centers hardly differ it is this that counts the
parameters (Kass & Steffey 1989); taking the fitted prior as given would make every component look free.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from vedute.model.means import precisions
from vedute.model.parameters import Array, Layout
from vedute.model.stacked import Stacked, StackedPrior, State

LEAST_SHAPE = 0.5  # of the inverse gamma, where a flat prior and hardly a cell leave none


@dataclass(frozen=True)
class Information:
    """What the rows of one center tell of each part of its parameters, and what the prior does; as precisions."""

    W: Array  # (G, q, q) of a row w_j, for each class of features
    c: Array  # (G,) of c_j
    a: Array  # (q, q)
    Z: Array  # (b, b), b = q (q + 1) / 2
    prior_W: Array  # (G,)
    prior_c: Array  # (G,)
    prior_a: Array  # (q, q)
    prior_Z: Array  # (b, b)


@dataclass(frozen=True)
class Evidence:
    """Precision of the global parameters: a sum over centers, of the mean over the features in each view."""

    W: Mapping[str, Array]  # (q, q)
    c: Mapping[str, float]
    a: Array
    Z: Array

    def __add__(self, other: Evidence) -> Evidence:
        names = {**self.W, **other.W}
        zero = np.zeros_like(self.a)
        return Evidence(
            {name: self.W.get(name, zero) + other.W.get(name, zero) for name in names},
            {name: self.c.get(name, 0.0) + other.c.get(name, 0.0) for name in names},
            self.a + other.a,
            self.Z + other.Z,
        )


@dataclass(frozen=True)
class Posterior:
    """What one center knows of its parameters, in scaled units, ready to draw from."""

    layout: Layout
    W: Array  # (D, q)
    c: Array  # (D,): mu + W m
    noise: Array  # (D,): sigma2 of the feature's view
    class_of: NDArray[np.intp]  # (D,)
    root_W: Array  # (G, q, q): square roots of covariances
    sd_c: Array  # (G,)
    root_a: Array  # (q, q)
    root_Z: Array  # (b, b)
    shape: Array  # (K,): sigma2 is inverse gamma
    rate: Array  # (K,)


def symmetric_basis(q: int) -> Array:
    """(b, q, q): a basis of the symmetric matrices, orthonormal in tr(Z Z)."""
    rows, cols = np.triu_indices(q)
    basis = np.zeros((len(rows), q, q))
    size = np.where(rows == cols, 1.0, np.sqrt(0.5))
    basis[np.arange(len(rows)), rows, cols] = size
    basis[np.arange(len(rows)), cols, rows] = size
    return basis


def information(stacked: Stacked, prior: StackedPrior, state: State) -> Information:
    """The information in the rows of a center (the only one of its stack) whose local step has settled at ``state``."""
    q, view = state.W.shape[-1], stacked.layout.view_of
    W, sigma2, n = state.W[0], state.sigma2[0], stacked.n[0]
    P, _ = precisions(stacked, state.W, state.W / state.sigma2[:, view, None], None)
    M = np.eye(q) - np.linalg.inv(P[0])  # (patterns, q, q)
    inv_g = 1.0 / sigma2[stacked.class_view]
    seen = stacked.class_mask * n  # (G, patterns)
    total = np.einsum("p,pij->ij", n, M)
    basis = symmetric_basis(q)
    turned = np.einsum("pij,bjk->pbik", M, basis)
    held_W = np.einsum("j,ja,jb->ab", prior.precision_W[view], W, W)
    held_mu = np.einsum("j,ja,jb->ab", prior.precision_mu[view], W, W)
    return Information(
        W=np.einsum("gp,pij->gij", seen, M) * inv_g[:, None, None],
        c=seen.sum(axis=1) * inv_g,
        a=total,
        Z=2.0 * np.einsum("p,pbij,pcji->bc", n, turned, turned, optimize=True),
        prior_W=prior.precision_W[stacked.class_view],
        prior_c=_of_expected(prior, state.m[0])[stacked.class_view],
        prior_a=np.linalg.solve(np.eye(q) + prior.tau2 * held_mu, held_mu),
        prior_Z=np.einsum("bij,jk,cki->bc", basis, held_W, basis, optimize=True),
    )


def _of_expected(prior: StackedPrior, m: Array) -> Array:
    """(K,): prior precision of c_j = mu_j + w_j . m; zero where either prior is flat."""
    both = prior.precision_W + float(m @ m) * prior.precision_mu
    return np.asarray(prior.precision_mu * prior.precision_W / np.where(both > 0, both, 1.0))


def evidence(stacked: Stacked, known: Information) -> Evidence:
    """What a center adds to the precision of the global parameters."""
    rows = _marginal(known.W, known.prior_W[:, None, None] * np.eye(known.a.shape[0]))
    alone = known.prior_c * known.c / np.maximum(known.prior_c + known.c, np.finfo(float).tiny)
    W, c = {}, {}
    for k, name in enumerate(stacked.layout.names):
        share = stacked.class_weight * (stacked.class_view == k)
        W[name] = np.einsum("g,gij->ij", share / share.sum(), rows)
        c[name] = float(share @ alone / share.sum())
    return Evidence(W, c, _marginal(known.a, known.prior_a), _marginal(known.Z, known.prior_Z))


def _marginal(F: Array, prior: Array) -> Array:
    """(prior^-1 + F^-1)^-1 = prior (prior + F)^-1 F; zero where either is."""
    found = prior @ _inverse(prior + F) @ F
    return np.asarray(0.5 * (found + found.mT))


def _inverse(precision: Array) -> Array:
    """Inverse of a positive semi-definite matrix; a direction of which nothing at all is known gets none."""
    values, vectors = np.linalg.eigh(precision)
    least = values[..., -1:] * values.shape[-1] * np.finfo(float).eps
    inverse = np.where(values > least, 1.0 / np.where(values > least, values, 1.0), 0.0)
    return np.asarray((vectors * inverse[..., None, :]) @ vectors.mT)


def _covariance(F: Array, prior: Array, of_prior: Array) -> Array:
    """Posterior covariance, with what the uncertainty of the prior's own mean adds to it."""
    own = _inverse(F + prior)
    lean = own @ prior
    return np.asarray(own + lean @ of_prior @ lean.mT)


def _root(cov: Array) -> Array:
    values, vectors = np.linalg.eigh(cov)
    return np.asarray(vectors * np.sqrt(np.maximum(values, 0.0))[..., None, :])


def center_posterior(
    stacked: Stacked, prior: StackedPrior, state: State, known: Information, total: Evidence
) -> Posterior:
    """The posterior of a center, given the precision of the global parameters over all centers."""
    names = [stacked.layout.names[k] for k in stacked.class_view]
    q = state.W.shape[-1]
    of_W = np.stack([_inverse(total.W[name]) for name in names])
    of_c = np.array([1.0 / total.c[name] if total.c[name] > 0 else 0.0 for name in names])
    own_c = 1.0 / np.maximum(known.c + known.prior_c, np.finfo(float).tiny)
    shape = np.maximum(prior.alpha + stacked.cells[0] / 2.0, LEAST_SHAPE)
    return Posterior(
        layout=stacked.layout,
        W=state.W[0],
        c=state.mu[0] + state.W[0] @ state.m[0],
        noise=state.sigma2[0][stacked.layout.view_of],
        class_of=stacked.class_of,
        root_W=_root(_covariance(known.W, known.prior_W[:, None, None] * np.eye(q), of_W)),
        sd_c=np.sqrt(own_c + (own_c * known.prior_c) ** 2 * of_c),
        root_a=_root(_covariance(known.a, known.prior_a, _inverse(total.a))),
        root_Z=_root(_covariance(known.Z, known.prior_Z, _inverse(total.Z))),
        shape=shape,
        rate=state.sigma2[0] * (shape + 1.0),  # sigma2 is the mode b / (a + 1)
    )
