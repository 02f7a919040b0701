"""Fewer rounds: Anderson's extrapolation of the master's fixed-point iteration.

The rounds iterate a map theta -> g(theta) whose slowest directions shrink by a few per cent a round. From the last
few residuals g(theta) - theta, least squares finds the combination that would have cancelled them; the next prior is
the same combination of the g's. The fixed points are those of the plain rounds; a step that does not pay is forgotten.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from vedute.model.parameters import Array, GlobalPrior, ViewPrior

LARGEST = 200_000  # loadings above which remembering rounds costs more than it saves
WINDOW = 6  # residuals remembered
LONGEST = 1.0  # an extrapolated ln(variance) stays this near to the plain step
WORSE = 1.5  # a residual that grew by more than this tells that the last extrapolation was wrong


@dataclass(frozen=True)
class Memory:
    """The last priors that were sent, and what the master's step made of them."""

    inputs: tuple[Array, ...] = ()
    outputs: tuple[Array, ...] = ()


def accelerate(memory: Memory, old: GlobalPrior, new: GlobalPrior) -> tuple[GlobalPrior, Memory]:
    """The prior to send next, instead of the plain step ``new``, and what to remember."""
    if any(view.n_centers == 0 for view in old.views.values()) or old.tau2 == 0.0 < new.tau2:
        return new, Memory()  # round 1 has no proper prior to extrapolate from
    if sum(view.W.size for view in new.views.values()) > LARGEST:
        return new, Memory()
    x, g = _pack(old), _pack(new)
    if len(x) != len(g):
        return new, Memory()  # a view is now held by one center, or no longer by one alone
    if memory.inputs and len(memory.inputs[-1]) != len(x):
        memory = Memory()  # a view joined or left
    inputs, outputs = (*memory.inputs, x)[-WINDOW:], (*memory.outputs, g)[-WINDOW:]
    weight = _weights(new)
    residuals = [weight * (after - before) for before, after in zip(inputs, outputs, strict=True)]
    if len(residuals) > 1 and np.linalg.norm(residuals[-1]) > WORSE * np.linalg.norm(residuals[-2]):
        return new, Memory((x,), (g,))
    if len(residuals) < 2:
        return new, Memory(inputs, outputs)
    dF = np.stack([residuals[-1] - r for r in residuals[:-1]], axis=1)
    dG = np.stack([outputs[-1] - o for o in outputs[:-1]], axis=1)
    scale = np.maximum(np.linalg.norm(dF, axis=0), np.finfo(float).tiny)
    gamma, *_ = np.linalg.lstsq(dF / scale, residuals[-1], rcond=1e-6)
    return _unpack(new, g - dG @ (gamma / scale), g), Memory(inputs, outputs)


def _pack(prior: GlobalPrior) -> Array:
    """mu~, W~ and the logarithms of the variances; infinite ones (a view of one center) have no place in it."""
    parts = [np.array([_log(prior.tau2)])]
    for view in prior.views.values():
        parts += [view.mu, view.W.ravel(), np.array([_log(v) for v in _variances(view)])]
    return np.concatenate(parts)


def _variances(view: ViewPrior) -> list[float]:
    between = [view.sigma2_mu, view.sigma2_W] if np.isfinite(view.sigma2_mu) else []
    return [*between, view.sigma2]


def _log(variance: float) -> float:
    return float(np.log(max(variance, 1e-10)))


def _weights(prior: GlobalPrior) -> Array:
    """A change of mu~ or W~ counts in units of the view's loadings, one of a ln(variance) less."""
    parts = [np.full(1, 0.1)]
    for view in prior.views.values():
        size = 1.0 / max(float(np.linalg.norm(view.W)), 1e-12)
        parts += [np.full(view.mu.size + view.W.size, size), np.full(len(_variances(view)), 0.1)]
    return np.concatenate(parts)


def _unpack(plain: GlobalPrior, vector: Array, plain_vector: Array) -> GlobalPrior:
    views, at = {}, 1
    tau2 = plain.tau2 and float(np.exp(_near(vector[0], plain_vector[0])))
    for name, view in plain.views.items():
        d, q = view.W.shape
        mu, W = vector[at : at + d], vector[at + d : at + d + d * q].reshape(d, q)
        at += d + d * q
        logs = [_near(vector[at + i], plain_vector[at + i]) for i in range(len(_variances(view)))]
        at += len(logs)
        *between, sigma2 = (float(v) for v in np.exp(logs))
        sigma2_mu, sigma2_W = between or (view.sigma2_mu, view.sigma2_W)
        views[name] = replace(view, mu=mu, W=W, sigma2_mu=sigma2_mu, sigma2_W=sigma2_W, beta=view.alpha * sigma2)
    return GlobalPrior(views, tau2)


def _near(value: float, plain: float) -> float:
    return float(np.clip(value, plain - LONGEST, plain + LONGEST))
