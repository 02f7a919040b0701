"""How far each center lies from the global distribution."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from vedute.model.parameters import ViewParams, ViewPrior
from vedute.run.fitted_model import Model


@dataclass(frozen=True)
class Deviation:
    """One center in one view, in standard deviations of the global distribution (root mean square over entries).

    A value of 1 is what a typical center has. Where variability cannot be told (one center) or is nil, it is NaN.
    """

    center: str
    view: str
    mean: float  # of mu_c from mu~
    loadings: float  # of W_c from W~
    noise: float  # of ln sigma2_c, signed: positive is noisier than usual
    case_mix: float  # of m_c from 0: who was recruited, the same for all views


def center_deviation(model: Model) -> list[Deviation]:
    """The deviations of all centers whose parameters are known, in all their views."""
    found = []
    for name, center in model.centers.items():
        tau = np.sqrt(model.prior.tau2)
        case_mix = float(np.sqrt(np.mean(center.m**2)) / tau) if tau > 1e-3 else 0.0
        for view, params in center.views.items():
            found.append(Deviation(name, view, *_of_view(params, model.prior.views[view]), case_mix))
    return found


def _of_view(params: ViewParams, prior: ViewPrior) -> tuple[float, float, float]:
    if prior.n_centers < 2:
        return np.nan, np.nan, np.nan
    mean = np.sqrt(np.mean((params.mu - prior.mu) ** 2) / prior.sigma2_mu)
    loadings = np.sqrt(np.mean((params.W - prior.W) ** 2) / prior.sigma2_W)
    # ln sigma2 has standard deviation of about alpha^-1/2 under the inverse gamma
    noise = np.log(params.sigma2 / prior.sigma2) * np.sqrt(prior.alpha)
    return float(mean), float(loadings), float(noise)
