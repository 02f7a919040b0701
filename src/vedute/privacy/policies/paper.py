"""Algorithm 2 of the paper, to the letter, and what can be known of it before it runs.

Each parameter's difference from the prior is clipped at ``g = const * (sd of the prior)`` and noised with
sensitivity 2 g: mu and W by the Gaussian of Theorem 3 (W in the Frobenius norm), sigma2 by Laplace (Theorem 1).

Where the paper is silent: the prior's centre of sigma2 is ``beta / alpha`` and its sd that of the inverse gamma,
but no more than the centre itself (the sd does not exist for alpha <= 2); a noised sigma2 is raised to a public
floor; no sd is taken below a public floor, which matters where a single center holds a view.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np

from vedute.errors import UserError
from vedute.model.contribution import Contribution
from vedute.model.parameters import Array, GlobalPrior, ViewPrior
from vedute.privacy.accounting import zhao_multiplier
from vedute.privacy.events import CENTER, Composed, Event, Gaussian, Laplace, NonPrivate
from vedute.privacy.mechanisms import Noise, add_gaussian, add_laplace, clip
from vedute.privacy.release import Release
from vedute.privacy.update import NoiseVariance, Update, contribution, named, view_contribution

SD_FLOOR = 1e-12
SIGMA2_FLOOR = 1e-8


def noise_sd(prior: ViewPrior) -> float:
    """The sd of sigma2 under the prior, at most its centre."""
    centre = prior.sigma2
    if prior.alpha <= 2.0:
        return centre
    return min(centre, prior.beta / ((prior.alpha - 1.0) * math.sqrt(prior.alpha - 2.0)))


def clip_bounds(prior: ViewPrior, const: float) -> tuple[float, float, float]:
    """g for mu, W and sigma2 (section 3.2.2)."""
    spreads = (math.sqrt(prior.sigma2_mu), math.sqrt(prior.sigma2_W), noise_sd(prior))
    mu, W, sigma2 = (const * max(spread, SD_FLOOR) for spread in spreads)
    return mu, W, sigma2


def raw_release(update: Update) -> Release:
    """Round 1 as published: there is no prior, hence no clip, hence no privacy."""
    values: dict[str, Array] = {}
    for name, view in update.params.views.items():
        values |= {named("mu", name): view.mu, named("W", name): view.W}
        values[named("sigma2", name)] = np.array(view.sigma2)
    return Release(values, (NonPrivate("round 1 as published: no prior, no clip"),), "paper", _public(update))


def paper_release(update: Update, epsilon: float, delta: float, const: float, noise: Noise) -> Release:
    """One noised round: 3 K mechanisms, each (epsilon, delta) or (epsilon, 0)."""
    z = zhao_multiplier(epsilon, delta)
    noise = noise.at(f"round {update.round}")
    values: dict[str, Array] = {}
    events: list[Event] = []
    for name, view in update.params.views.items():
        prior = update.prior.views[name]
        g_mu, g_W, g_sigma2 = clip_bounds(prior, const)
        if not math.isfinite(g_mu + g_W + g_sigma2) or prior.alpha <= 0:
            raise UserError(f"view {name!r}: the prior is flat, so nothing bounds the update: use a public prior")
        steps = [("mu", view.mu, prior.mu, g_mu), ("W", view.W, prior.W, g_W)]
        for what, value, centre, g in steps:
            moved, event = add_gaussian(clip(value - centre, g), 2 * g, z, CENTER, noise.at(named(what, name)))
            values[named(what, name)] = centre + moved
            events.append(event)
        change = clip(np.array([view.sigma2 - prior.sigma2]), g_sigma2)
        moved, lap = add_laplace(change, 2 * g_sigma2, epsilon, CENTER, noise.at(named("sigma2", name)))
        values[named("sigma2", name)] = np.array(max(prior.sigma2 + float(moved[0]), SIGMA2_FLOOR))
        events.append(lap)
    return Release(values, tuple(events), "paper", _public(update))


def paper_contribution(release: Release, prior: GlobalPrior, centers: Mapping[str, int]) -> Contribution:
    """What the master adds: the noised parameters, plugged in as they are; ``centers`` holds each view's number."""
    views = {
        name: view_contribution(
            release.values[named("mu", name)],
            release.values[named("W", name)],
            math.log(float(release.values[named("sigma2", name)])),
            prior.views[name],
            NoiseVariance(),
            centers[name],
        )
        for name in prior.views
        if named("mu", name) in release.values
    }
    return contribution(views, prior.q)


def ratio(const: float, epsilon: float, delta: float, centers: int) -> float:
    """rho: by what factor the clip bound grows from round to round when updates are all noise.

    The noise on an entry has sd 2 g z, the master estimates the prior's sd from C noised values, and the next
    bound is const times that: rho = 2 const z sqrt(1 - 1/C). Below 1 the bound collapses, above 1 it explodes.
    """
    return 2.0 * const * zhao_multiplier(epsilon, delta) * math.sqrt(1.0 - 1.0 / centers)


def refuse_divergence(const: float, epsilon: float, delta: float, centers: int, allow: bool) -> float:
    """rho, or an error that says which clip constant would do."""
    rho = ratio(const, epsilon, delta, centers)
    if rho >= 1.0 and not allow:
        raise UserError(
            f"the paper's algorithm diverges here: noise grows by rho = {rho:.3g} a round with eps = {epsilon:g}, "
            f"delta = {delta:g}, clip = {const:g} and {centers} centers. Take clip < {const / rho:.3g}, a larger "
            "eps, or allow_divergence=True to watch it"
        )
    return rho


def paper_events(epsilon: float, delta: float, views: int, rounds: int) -> tuple[Event, ...]:
    """What ``rounds`` noised rounds of a center with ``views`` views amount to."""
    z = zhao_multiplier(epsilon, delta)
    gaussians = Composed((Gaussian(1.0, z, CENTER),), 2 * views)
    laplaces = Composed((Laplace(1.0, 1.0 / epsilon, CENTER),), views)
    return (Composed((gaussians, laplaces), rounds),)


def _public(update: Update) -> dict[str, int]:
    return {"round": update.round}
