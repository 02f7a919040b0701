"""Example data: the synthetic study SD of the paper, centers drawn from the hierarchical model, and a real study."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, overload

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from vedute.errors import UserError
from vedute.model.parameters import Array, CenterParams, GlobalPrior, ViewParams, ViewPrior
from vedute.model.seeds import RandomState, generator

__all__ = ["HierarchicalTruth", "SDTruth", "load_breast_cancer_views", "make_hierarchical", "make_sd"]

Views = dict[str, Array]
PerView = float | Sequence[float]


def load_breast_cancer_views() -> tuple[dict[str, pd.DataFrame], NDArray[np.str_]]:
    """The Wisconsin breast-cancer study: three views of ten features, and the diagnosis of each of 569 rows.

    The views are the "mean", the standard "error" and the "worst" value of the same ten measurements over the
    cell nuclei of an image; the groups are "malignant" and "benign".
    """
    from sklearn.datasets import load_breast_cancer

    study = load_breast_cancer(as_frame=True)
    table: pd.DataFrame = study.data
    views = {
        kind: table.loc[:, [column for column in table.columns if kind in column.split()]]
        for kind in ("mean", "error", "worst")
    }
    return views, np.asarray(study.target_names, dtype=np.str_)[study.target.to_numpy()]


@dataclass(frozen=True)
class SDTruth:
    """What an SD study was drawn from: parameters, the shift of group 1 and the latent ``x`` of each row."""

    params: CenterParams
    shift: Array
    latent: Array


@dataclass(frozen=True)
class HierarchicalTruth:
    """What a hierarchical study was drawn from: global prior, each center's parameters and latent ``x``."""

    prior: GlobalPrior
    centers: Mapping[str, CenterParams]
    latent: Mapping[str, Array]


@overload
def make_sd(
    n_subjects: int = ...,
    n_shifted: int = ...,
    *,
    sizes: Sequence[int] = ...,
    n_components: int = ...,
    weights: PerView = ...,
    means: PerView = ...,
    noise: PerView = ...,
    shift: float = ...,
    random_state: RandomState = ...,
    return_truth: Literal[False] = ...,
) -> tuple[Views, NDArray[np.int64]]: ...


@overload
def make_sd(
    n_subjects: int = ...,
    n_shifted: int = ...,
    *,
    sizes: Sequence[int] = ...,
    n_components: int = ...,
    weights: PerView = ...,
    means: PerView = ...,
    noise: PerView = ...,
    shift: float = ...,
    random_state: RandomState = ...,
    return_truth: Literal[True],
) -> tuple[Views, NDArray[np.int64], SDTruth]: ...


def make_sd(
    n_subjects: int = 400,
    n_shifted: int = 250,
    *,
    sizes: Sequence[int] = (15, 8, 10),
    n_components: int = 5,
    weights: PerView = (10.0, 5.0, 15.0),
    means: PerView = (10.0, 5.0, 15.0),
    noise: PerView = (2.0, 1.0, 3.0),
    shift: float = 5.0,
    random_state: RandomState = None,
    return_truth: bool = False,
) -> tuple[Views, NDArray[np.int64]] | tuple[Views, NDArray[np.int64], SDTruth]:
    """The synthetic study SD: one population, two groups, ``t = W x + mu + eps`` in each view (eq. 1).

    Entries of ``W`` and ``mu`` are uniform on ``+-weights`` and ``+-means``, the noise variance of a view is
    ``noise``; these three are one number for all views or one for each. ``n_shifted`` of the subjects form
    group 1, whose latent mean is one draw, uniform on ``+-shift`` in each component; the others, group 0,
    have latent mean 0. The rows are in random order. The defaults come close to the paper's results on SD.

    Returns the views ("view1", "view2", ...), the groups, and the truth if ``return_truth``.
    """
    _check_shape(sizes, n_components)
    if not 0 <= n_shifted <= n_subjects or n_subjects < 1:
        raise UserError(f"n_shifted={n_shifted}: must lie between 0 and n_subjects={n_subjects}, which must be >= 1")
    names = _view_names(sizes)
    rng = generator(random_state)
    params = _uniform_params(
        names, sizes, n_components, _per_view("weights", weights, sizes), _per_view("means", means, sizes),
        _per_view("noise", noise, sizes), rng,
    )  # fmt: skip
    offset = rng.uniform(-abs(shift), abs(shift), n_components)
    groups = rng.permutation(np.repeat(np.array([0, 1]), [n_subjects - n_shifted, n_shifted]))
    latent = rng.standard_normal((n_subjects, n_components)) + groups[:, None] * offset
    views = _observe(params, latent, rng)
    if return_truth:
        return views, groups, SDTruth(params, offset, latent)
    return views, groups


def make_hierarchical(
    n_centers: int = 20,
    n_subjects: int | Sequence[int] = 200,
    *,
    sizes: Sequence[int] = (14, 9, 11),
    n_components: int = 3,
    sd_mu: PerView = 0.3,
    sd_W: PerView = 0.1,
    noise: PerView = 0.25,
    noise_shape: float = 50.0,
    tau: float = 0.0,
    weights: PerView = 2.0,
    means: PerView = 3.0,
    random_state: RandomState = None,
) -> tuple[dict[str, Views], HierarchicalTruth]:
    """Centers drawn from the hierarchical model itself (eqs. 1 and 4 to 6, with a latent case mix).

    The global ``W`` and ``mu`` are uniform on ``+-weights`` and ``+-means``. Each center's own lie around
    them with standard deviations ``sd_W`` and ``sd_mu``; its noise variances are inverse-gamma with shape
    ``noise_shape`` and inverse mean precision ``noise``; its patients have latent mean ``m ~ N(0, tau^2 I)``.
    ``n_subjects`` is one number or one for each center.

    Returns the centers ("center01", ... -> view -> array) and the truth, with the same objects a fit returns.
    """
    _check_shape(sizes, n_components)
    counts = _counts(n_centers, n_subjects)
    names = _view_names(sizes)
    sd_mus, sd_Ws = _per_view("sd_mu", sd_mu, sizes), _per_view("sd_W", sd_W, sizes)
    typical = _per_view("noise", noise, sizes)
    if not (noise_shape > 0 and np.isfinite(noise_shape)):
        raise UserError(f"noise_shape={noise_shape}: must be a finite number above 0")
    if not (tau >= 0 and np.isfinite(tau)):
        raise UserError(f"tau={tau}: a standard deviation must be a finite number >= 0")
    rng = generator(random_state)
    mean = _uniform_params(
        names, sizes, n_components, _per_view("weights", weights, sizes), _per_view("means", means, sizes),
        typical, rng,
    )  # fmt: skip
    prior = GlobalPrior(
        {
            name: ViewPrior(
                mean.views[name].mu, mean.views[name].W, sd_mus[k] ** 2, sd_Ws[k] ** 2,
                alpha=noise_shape, beta=noise_shape * typical[k], n_centers=n_centers,
            )
            for k, name in enumerate(names)
        },
        tau2=tau**2,
    )  # fmt: skip
    centers: dict[str, Views] = {}
    params: dict[str, CenterParams] = {}
    latent: dict[str, Array] = {}
    for name, count in zip(center_names(n_centers), counts, strict=True):
        params[name] = _draw_center(prior, rng)
        latent[name] = params[name].m + rng.standard_normal((count, n_components))
        centers[name] = _observe(params[name], latent[name], rng)
    return centers, HierarchicalTruth(prior, params, latent)


def center_names(n_centers: int) -> list[str]:
    """Names whose alphabetical order is their order: center1 to center3, center01 to center20."""
    width = len(str(n_centers))
    return [f"center{c:0{width}d}" for c in range(1, n_centers + 1)]


def _uniform_params(
    names: Sequence[str],
    sizes: Sequence[int],
    q: int,
    weights: Sequence[float],
    means: Sequence[float],
    noise: Sequence[float],
    rng: np.random.Generator,
) -> CenterParams:
    """Parameters with entries of ``W`` and ``mu`` uniform on ``+-weights`` and ``+-means``, no case mix."""
    views = {
        name: ViewParams(rng.uniform(-means[k], means[k], d), rng.uniform(-weights[k], weights[k], (d, q)), noise[k])
        for k, (name, d) in enumerate(zip(names, sizes, strict=True))
    }
    return CenterParams(views, np.zeros(q))


def _draw_center(prior: GlobalPrior, rng: np.random.Generator) -> CenterParams:
    """One center's parameters, drawn from the global prior (eqs. 4 to 6)."""
    views = {
        name: ViewParams(
            view.mu + np.sqrt(view.sigma2_mu) * rng.standard_normal(view.mu.shape),
            view.W + np.sqrt(view.sigma2_W) * rng.standard_normal(view.W.shape),
            view.beta / rng.gamma(view.alpha),
        )
        for name, view in prior.views.items()
    }
    return CenterParams(views, np.sqrt(prior.tau2) * rng.standard_normal(prior.q))


def _observe(params: CenterParams, latent: Array, rng: np.random.Generator) -> Views:
    """Rows of every view for given latent rows (eq. 1)."""
    return {
        name: latent @ view.W.T + view.mu + np.sqrt(view.sigma2) * rng.standard_normal((len(latent), len(view.mu)))
        for name, view in params.views.items()
    }


def _view_names(sizes: Sequence[int]) -> list[str]:
    return [f"view{k}" for k in range(1, len(sizes) + 1)]


def _check_shape(sizes: Sequence[int], n_components: int) -> None:
    if not sizes or min(sizes) < 1:
        raise UserError(f"sizes={sizes!r}: give the number of features of each view, all >= 1")
    if n_components < 1:
        raise UserError(f"n_components={n_components}: must be >= 1")


def _counts(n_centers: int, n_subjects: int | Sequence[int]) -> list[int]:
    if n_centers < 1:
        raise UserError(f"n_centers={n_centers}: must be >= 1")
    counts = [n_subjects] * n_centers if isinstance(n_subjects, int | np.integer) else list(n_subjects)
    if len(counts) != n_centers or min(counts) < 1:
        raise UserError(f"n_subjects={n_subjects!r}: give one number >= 1, or one for each of {n_centers} centers")
    return counts


def _per_view(what: str, value: PerView, sizes: Sequence[int]) -> list[float]:
    """One non-negative number per view, from one for all or one for each."""
    values = [float(value)] * len(sizes) if isinstance(value, int | float | np.number) else [float(v) for v in value]
    if len(values) != len(sizes):
        raise UserError(f"{what}={value!r}: give one number, or one for each of the {len(sizes)} views")
    if not all(np.isfinite(v) and v >= 0 for v in values):
        raise UserError(f"{what}={value!r}: must be finite and >= 0")
    return values
