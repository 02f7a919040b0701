"""W is known up to a rotation of the latent space: a center turns its own to lie as near the prior's as it can.

The likelihood and the prior of the case mix do not change, the prior of W only rises (orthogonal Procrustes). Two
centers that found the same W up to a rotation agree after it, even when the common W~ is still a random start.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from vedute.model.parameters import Array, CenterParams, GlobalPrior, ViewParams
from vedute.model.stacked import Bunch, StackedPrior, State


def align(bunch: Bunch, prior: StackedPrior, state: State) -> tuple[State, Array]:
    """The state with its latent space rotated towards the prior's W~, and the rotations (B, q, q)."""
    weight = np.where(prior.precision_W > 0, prior.precision_W, prior.precision_W.max() or 1.0)
    seen = (bunch.n_features > 0) * weight[bunch.layout.view_of]
    R = rotation_towards(state.W * seen[..., None], prior.W)
    q = R.shape[-1]
    cov = state.cov
    if cov is not None:
        whole = np.broadcast_to(np.eye(cov.shape[-1]), (len(R), 1, *cov.shape[-2:])).copy()
        whole[..., :q, :q] = R[:, None]
        cov = whole.mT @ cov @ whole
    return State(state.mu, state.W @ R, state.sigma2, (state.m[:, None] @ R)[:, 0], cov), R


def rebased(state: State, L: Array) -> State:
    """The same model with its latent space written in another basis: x -> L^-1 x, W -> W L, m -> L^-1 m."""
    q = len(L)
    cov = state.cov
    if cov is not None:
        whole = np.eye(cov.shape[-1])
        whole[:q, :q] = L
        cov = whole.T @ cov @ whole
    return State(state.mu, state.W @ L, state.sigma2, np.linalg.solve(L, state.m.T).T, cov)


def rotation_towards(W: Array, target: Array) -> Array:
    """The orthogonal R that brings ``W R`` nearest to the target."""
    U, _, Vt = np.linalg.svd(W.mT @ target)
    return np.asarray(U @ Vt)


def principal_axes(prior: GlobalPrior) -> Array:
    """The rotation that makes components uncorrelated in what they explain, largest first, largest loading positive."""
    W = np.concatenate([v.W / np.sqrt(v.sigma2) for v in prior.views.values()])
    _, _, Vt = np.linalg.svd(W.T @ W)
    turned = W @ Vt.T
    signs = np.sign(turned[np.abs(turned).argmax(axis=0), np.arange(turned.shape[1])])
    return np.asarray(Vt.T * np.where(signs == 0, 1.0, signs))


def turned_prior(prior: GlobalPrior, R: Array) -> GlobalPrior:
    """The prior with its latent space rotated."""
    return prior.with_views({name: replace(view, W=view.W @ R) for name, view in prior.views.items()})


def turned_center(center: CenterParams, R: Array) -> CenterParams:
    """The parameters of a center with its latent space rotated."""
    views = {name: ViewParams(view.mu, view.W @ R, view.sigma2) for name, view in center.views.items()}
    return CenterParams(views, center.m @ R)
