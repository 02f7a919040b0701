"""The master's step: the global prior from sums over centers (Appendix A, "in the master"), extrapolated."""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import inf, log, sqrt

import numpy as np
from scipy.special import digamma, zeta

from vedute.model.contribution import Contribution, ViewContribution
from vedute.model.parameters import Array, GlobalPrior, ViewPrior

VARIANCE_FLOOR = 1e-10  # public, in the units of the scaled data: a variance between centers never reaches zero
ALPHA_CEILING = 1e6  # centers whose noise is equal would drive alpha to infinity
TINY = 1e-12
RESOLUTION = 0.05  # of the variance with which a center knows its own parameter: less variability is invisible
LEAST_GAIN = 1e-3  # no step of the master is stretched more than a thousandfold


@dataclass(frozen=True)
class MasterRule:
    """Which variant of the master's step is run."""

    posterior: bool = True  # add the centers' posterior spreads to the variances (the paper plugs in estimates)
    case_mix: bool = True  # estimate tau2, the variance of the case mix
    expand: bool = True  # rewrite the latent space in the scale that the sums ask for
    accelerate: bool = True  # extrapolate from the last rounds
    narrow: bool = False  # the paper's rule for views with d_k <= q


def inverse_gamma_shape(mean_precision: float, mean_log: float) -> float:
    """alpha with ``ln alpha - psi(alpha) = ln mean(1/sigma2) + mean(ln sigma2)`` (ML1 of Llera & Beckmann), by Newton.

    Newton's steps are taken in 1/alpha, where the function is nearly linear.
    """
    target = np.log(mean_precision) + mean_log
    if target <= 0.5 / ALPHA_CEILING:
        return ALPHA_CEILING
    alpha = (3.0 - target + np.sqrt((target - 3.0) ** 2 + 24.0 * target)) / (12.0 * target)
    for _ in range(50):
        gap = np.log(alpha) - digamma(alpha) - target
        slope = alpha - alpha**2 * zeta(
            2.0, alpha
        )  # d(gap)/d(1/alpha) = -alpha^2 (1/alpha - psi'(alpha)), psi' = zeta(2, .)
        inverse = 1.0 / alpha + gap / slope
        if abs(1.0 / inverse - alpha) <= 1e-12 * alpha:
            break
        alpha = 1.0 / inverse
    return float(min(alpha, ALPHA_CEILING))


def master_step(prior: GlobalPrior, total: Contribution, rule: MasterRule) -> tuple[GlobalPrior, Array | None]:
    """The next global prior; a view that nobody contributed to this round keeps its prior, but for the origin."""
    # The mean of the m_c belongs into mu~. EM would bring it there too, but in a thousand rounds. It is a new origin of
    # the latent space, so it moves all views, those without a contribution too.
    views = {
        name: _view_step(old, total.views[name], rule) if name in total.views else old
        for name, old in prior.views.items()
    }
    if rule.case_mix:
        shift = total.m / total.centers
        views = {name: replace(step, mu=step.mu + prior.views[name].W @ shift) for name, step in views.items()}
    tau2 = _tau2(prior, total, rule)
    if not rule.expand:
        return GlobalPrior(views, tau2), None
    L = rescaling(prior, total)
    return GlobalPrior({name: replace(view, W=view.W @ L) for name, view in views.items()}, tau2), L


def rescaling(prior: GlobalPrior, total: Contribution) -> Array:
    """L, the symmetric change of basis x -> L^-1 x, W -> W L that the sums ask for (parameter expansion, PX-EM).

    Where noise is small EM hardly moves the scale of W, since x can make up for it. Were all W, m and x rewritten in
    the basis L = I + E/2, the objective would change by tr(E G)/2 with

        G = sum <(x - m)(x - m)'> - N I + sum m m'/tau2 - sum_k ([sum D_W'D_W + V_W]/s2_W - cells_k I)

    which vanishes at every fixed point of the plain rounds whose variances are above their floors: multiply the
    equation of the E-step, P <x> = W' Psi^-1 (t - mu) - h + m, by x' and that of the rows of W by W. (m is a point.)
    """
    eye = np.eye(prior.q)
    G = total.sq_x - total.subjects * eye
    curvature = total.subjects
    if prior.tau2 > 0:
        G = G + total.sq_m / prior.tau2
    for name, part in total.views.items():
        if np.isfinite(prior.views[name].sigma2_W):
            cells = float(part.count.sum())
            G = G - _anisotropy(part.sq_W + part.var_W, cells)
            curvature += cells
    values, vectors = np.linalg.eigh(eye + G / curvature)
    return np.asarray((vectors * np.sqrt(np.clip(values, 0.25, 4.0))) @ vectors.T)


def _anisotropy(scatter: Array, number: float) -> Array:
    """``scatter / s2 - number I`` with the s2 that the master will settle on, so that the trace is zero."""
    q = len(scatter)
    return np.asarray(number * (q * scatter / max(float(np.trace(scatter)), TINY) - np.eye(q)))


def _view_step(old: ViewPrior, part: ViewContribution, rule: MasterRule) -> ViewPrior:
    d, q = old.W.shape
    n = round(part.centers)
    columns = d - 1 if rule.narrow and d <= q else q
    if rule.posterior and n == 1:
        return _alone(old, part)
    cells = float(part.count.sum())
    share = np.maximum(part.count, 1.0)
    d_mu, d_W = part.d_mu / share, part.d_W / share[:, None]
    left_mu = part.sq_mu - float(part.d_mu @ d_mu)
    left_W = float(part.sq_W.trace()) - float(np.vdot(part.d_W, d_W))
    alpha, beta = _noise(old, part, n, rule)
    if not rule.posterior:
        s2_mu, s2_W = left_mu / cells, left_W / max(cells * columns, 1.0)
        floored = max(s2_mu, VARIANCE_FLOOR), max(s2_W, VARIANCE_FLOOR)
        return ViewPrior(old.mu + d_mu, old.W + d_W, *floored, alpha, beta, n)
    gain_mu = max(part.mu_gain / n, LEAST_GAIN)
    variance_gain_mu = _gain(part.var_mu, cells * old.sigma2_mu)
    variance_gain_W = _gain(float(np.trace(part.var_W)), cells * columns * old.sigma2_W)
    turned = old.W @ part.turn / n  # a rotation of the latent space is no pull of the data: it is not stretched
    return ViewPrior(
        mu=old.mu + d_mu / gain_mu,
        W=old.W + turned + (d_W - turned) @ _stretch(part.var_W / (cells * old.sigma2_W)),
        sigma2_mu=max(left_mu / (cells * variance_gain_mu), _floor(old.sigma2_mu, gain_mu)),
        sigma2_W=max(left_W / max(cells * columns * variance_gain_W, 1.0), _floor(old.sigma2_W, variance_gain_W)),
        alpha=alpha,
        beta=beta,
        n_centers=n,
    )


def _gain(variance: float, prior_variance: float) -> float:
    """The share of what is known that comes from the data, not from the prior: 1 - V / (prior variance).

    EM would take the plain mean of the deviations and add V to their squares. Both steps have the same fixed points as
    the ones here, divided by this gain (MacKay's for the variances), but crawl where the prior is sharp.
    """
    return max(1.0 - variance / prior_variance, LEAST_GAIN)


def _floor(variance: float, gain: float) -> float:
    """The least variance between centers that the data could tell from none.

    A gain g = s2 / (s2 + l) gives away l, the variance with which a center knows its own parameter. A variance far
    below l is not zero for sure, only invisible; letting it sink further would pin the centers and stall the rounds.
    """
    if gain >= 1.0 or np.isinf(variance):
        return VARIANCE_FLOOR
    return max(RESOLUTION * variance * (1.0 - gain) / gain, VARIANCE_FLOOR)


def _stretch(posterior_share: Array) -> Array:
    """The inverse of the gain of W, direction by direction of the latent space: (I - V_W / prior variance)^-1."""
    values, vectors = np.linalg.eigh(posterior_share)
    return np.asarray((vectors / np.maximum(1.0 - values, LEAST_GAIN)) @ vectors.T)


def _alone(old: ViewPrior, part: ViewContribution) -> ViewPrior:
    """A view of a single center: its parameters are the global ones, and nothing can be told of variability.

    The variances stay infinite (a flat prior), and the noise gets a prior worth two observed cells.
    """
    return ViewPrior(
        old.mu + part.d_mu,
        old.W + part.d_W,
        np.inf,
        np.inf,
        alpha=1.0,
        beta=1.0 / part.precision,
        n_centers=1,
    )


def _noise(old: ViewPrior, part: ViewContribution, n: int, rule: MasterRule) -> tuple[float, float]:
    mean_precision = part.precision / n
    alpha = inverse_gamma_shape(mean_precision, part.log_sigma2 / n)
    if rule.posterior and old.n_centers > 0:
        before = old.alpha / old.beta
        gain = max(part.noise_gain / n, LEAST_GAIN)
        mean_precision = before * np.exp(np.clip(np.log(mean_precision / before) / gain, -1.0, 1.0))
    return alpha, alpha / mean_precision


def _tau2(prior: GlobalPrior, total: Contribution, rule: MasterRule) -> float:
    if not rule.case_mix:
        return 0.0
    if prior.tau2 == 0.0:
        return 1.0  # round 1 tells nothing of case mix: begin with patients who differ as much as they vary
    size = total.centers * prior.q
    left = float(np.trace(total.sq_m)) - float(total.m @ total.m) / total.centers
    return max(left / (size * _gain(float(np.trace(total.var_m)), size * prior.tau2)), VARIANCE_FLOOR)


def unbiased(prior: GlobalPrior) -> GlobalPrior:
    """Variances over n - 1 instead of n centers (REML), taken once, after the last round."""
    views = {
        name: replace(
            view,
            sigma2_mu=view.sigma2_mu * view.n_centers / (view.n_centers - 1),
            sigma2_W=view.sigma2_W * view.n_centers / (view.n_centers - 1),
        )
        for name, view in prior.views.items()
        if view.n_centers > 1
    }
    return prior.with_views(views)


def change(old: GlobalPrior, new: GlobalPrior) -> float:
    """Largest relative change of mu~, W~ W~' and the variances over views; W~ itself may rotate freely.

    Standard deviations are compared with the spread of the data that they describe, so that one which tends to zero
    does not keep the rounds going.
    """
    found = [abs(sqrt(new.tau2) - sqrt(old.tau2)) / sqrt(1.0 + new.tau2)]
    for name, b in new.views.items():
        a = old.views[name]
        relative, length2 = _outer_change(a.W, b.W)
        loading = max(sqrt(length2 / b.W.size), TINY)
        spread = max(sqrt(length2 / len(b.mu) + b.sigma2), TINY)
        gap = b.mu - a.mu
        found.append(sqrt(gap @ gap / len(gap)) / spread)
        found.append(relative)
        found.append(_sd_change(a.sigma2_mu, b.sigma2_mu) / spread)
        found.append(_sd_change(a.sigma2_W, b.sigma2_W) / loading)
        found.append(abs(log(b.sigma2 / a.sigma2)) if a.n_centers > 0 else inf)
    return float(max(found))


def _sd_change(old: float, new: float) -> float:
    return 0.0 if old == new else abs(sqrt(new) - sqrt(old))


def _outer_change(a: Array, b: Array) -> tuple[float, float]:
    """|b b' - a a'| / |b b'| from q x q products only, and |b|^2: b b' - a a' = g b' + a g' with g = b - a.

    The trace of the sum of products would be |b|^2 as well, but below 0 where b is all that a large a leaves.
    """
    g = b - a
    aa, ag, gg = a.T @ a, a.T @ g, g.T @ g
    bg = ag + gg
    bb = aa + ag.T + bg
    gap = float(np.vdot(gg, aa + bb) + 2.0 * np.vdot(ag, bg.T))
    return sqrt(max(gap, 0.0)) / max(sqrt(np.vdot(bb, bb)), TINY), float(np.vdot(b, b))


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
    """Anderson's extrapolation: the prior to send next, instead of the plain step ``new``, and what to remember.

    The rounds iterate a map theta -> g(theta) whose slowest directions shrink by a few per cent a round. From the last
    few residuals g(theta) - theta, least squares finds the combination that would have cancelled them; the next prior
    is the same combination of the g's. The fixed points are those of the plain rounds; a step that does not pay is
    forgotten.
    """
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
