"""Parameters of a center on their way to the master: names in a release, and the sums that the master adds."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np

from vedute.model.contribution import Contribution, ViewContribution
from vedute.model.master import MasterRule, master_step
from vedute.model.parameters import Array, CenterParams, GlobalPrior, ViewPrior

PLUG_IN = MasterRule(posterior=False, case_mix=False, expand=False, accelerate=False)
LOG_SIGMA2_LIMITS = (-18.0, 5.0)  # sigma2 from 1e-8 to 150, in units of the scaled data: public


@dataclass(frozen=True)
class Update:
    """What a center would say in a round if nothing had to be hid, and the public prior that it began from."""

    params: CenterParams
    prior: GlobalPrior
    round: int
    rounds: int


@dataclass(frozen=True)
class NoiseVariance:
    """The variance of the noise on each entry of mu, of W, and on ln sigma2 of a view: public."""

    mu: float = 0.0
    W: float = 0.0
    log_sigma2: float = 0.0


def named(what: str, view: str) -> str:
    """The name of a value in a release: the parameter, a dot, the view."""
    return f"{what}.{view}"


def view_contribution(
    mu: Array, W: Array, log_sigma2: float, prior: ViewPrior, noise: NoiseVariance, centers: int
) -> ViewContribution:
    """The share of one center in the master's sums, as the paper plugs it in, less what the known noise adds.

    Over n centers with noise of variance v the sum of squares about the mean grows by (1 - 1/n) v for each of
    them and each entry, and the mean of 1/sigma2 by the factor e^(v/2); beyond v = 1 that factor is not worth
    removing. sigma2 itself is held within public limits, which costs nothing and keeps a run of noise finite.
    """
    log_sigma2 = float(np.clip(log_sigma2, *LOG_SIGMA2_LIMITS))
    d, q = W.shape
    d_mu, d_W = mu - prior.mu, W - prior.W
    share = 1.0 - 1.0 / centers
    return ViewContribution(
        centers=1.0,
        count=np.ones(d),
        d_mu=d_mu,
        d_W=d_W,
        sq_mu=float(np.sum(d_mu**2)) - share * d * noise.mu,
        sq_W=d_W.T @ d_W - share * d * noise.W * np.eye(q),
        var_mu=0.0,
        var_W=np.zeros((q, q)),
        turn=np.zeros((q, q)),
        mu_gain=1.0,
        precision=float(np.exp(-log_sigma2 - min(noise.log_sigma2, 1.0) / 2.0)),
        log_sigma2=log_sigma2,
        noise_gain=1.0,
    )


def contribution(views: Mapping[str, ViewContribution], q: int) -> Contribution:
    """A contribution without case mix and latent scatter: under these policies they stay at home."""
    zero = np.zeros((q, q))
    return Contribution(views, centers=1.0, m=np.zeros(q), sq_m=zero, var_m=zero, subjects=0.0, sq_x=zero)


def plug_in_step(prior: GlobalPrior, total: Contribution) -> GlobalPrior:
    """The master's step for noised parameters: estimates as they are, no spreads, no case mix, nothing stretched."""
    return master_step(prior, total, PLUG_IN)[0]


def public_prior(
    sizes: Iterable[tuple[str, int]], q: int, seed: int, sd: float = 0.1, noise: float = 0.01
) -> GlobalPrior:
    """A prior that owes nothing to data: middle of the scaled range, loadings from a shared seed.

    Units are those of data scaled to [0, 1] by declared ranges; ``alpha = 3`` is the least whole number for which
    the variance of sigma2 exists.
    """
    rng = np.random.default_rng(seed)
    views = {
        name: ViewPrior(np.full(d, 0.5), sd * rng.standard_normal((d, q)), sd**2, sd**2, 3.0, 3.0 * noise)
        for name, d in sizes
    }
    return GlobalPrior(views)
