"""A fitted model in the units of the data: what is asked of it, and its numbers and names as files keep them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from vedute.data.scaling import Scaler, minmax, scaling_of
from vedute.errors import UserError
from vedute.model.parameters import Array, CenterParams, GlobalPrior, Layout, Schema, ViewParams, ViewPrior
from vedute.model.prediction import (
    Emission,
    Latent,
    center_emission,
    global_emission,
    harmonised,
    log_density,
    posterior,
    predicted,
    predictive_sd,
    sample_center,
    sample_global,
)
from vedute.model.statistics import from_rows
from vedute.run.center import make_center, run_round
from vedute.run.settings import Settings

Views = Mapping[str, Array]
ADAPT_ITERATIONS = 200
Arrays = dict[str, NDArray[Any]]
SCALARS = ("sigma2_mu", "sigma2_W", "alpha", "beta", "n_centers")  # of a view's prior


@dataclass(frozen=True)
class Model:
    """The global distribution, what is known of each center, and the scaling that both refer to.

    ``prior`` and ``centers`` are in scaled units; every method takes and gives the original ones.
    """

    schema: Schema
    prior: GlobalPrior
    centers: Mapping[str, CenterParams]
    scalers: Mapping[str, Scaler]
    settings: Settings

    @property
    def layout(self) -> Layout:
        """Where the features of each view stand."""
        return self.schema.layout

    @property
    def columns(self) -> Mapping[str, tuple[str, ...]]:
        """The columns of each view."""
        return self.schema.columns

    def scaler(self, views: Views, center: str | CenterParams | None) -> Scaler:
        """The scaling of a table: the common one, the center's, or (paper, no center named) the table's own."""
        if scaling_of(self.settings.scaling).common:
            return next(iter(self.scalers.values()))
        if isinstance(center, str):
            own = self.scalers[center]
            if set(views) <= set(own.shift):
                return own
        return _own_minmax(self.layout, views)

    def emission(self, center: str | CenterParams | None) -> Emission:
        """The model of a row of a known center, or of a new one."""
        kept_at_home = isinstance(center, str) and center not in self.centers and center in self.scalers
        if center is None or kept_at_home:
            return global_emission(self.prior, self.layout)
        return center_emission(self.prior, self.center(center), self.layout)

    def center(self, center: str | CenterParams) -> CenterParams:
        """The parameters of a center."""
        if isinstance(center, CenterParams):
            return center
        if center not in self.centers:
            known = ", ".join(repr(name) for name in self.centers) or "none (their parameters stayed at home)"
            raise UserError(f"center {center!r} is not in the model; known are {known}, or use center=None")
        return self.centers[center]

    def rows(self, views: Views, center: str | CenterParams | None) -> Array:
        """Scaled rows of all views of the model side by side, NaN where a view is not given."""
        n = len(next(iter(views.values())))
        scaled = self.scaler(views, center).transform(views)
        absent = {name: np.full((n, d), np.nan) for name, d in zip(self.layout.names, self.layout.sizes, strict=True)}
        return np.concatenate([scaled.get(name, absent[name]) for name in self.layout.names], axis=1)

    def project(self, views: Views, center: str | CenterParams | None = None) -> Latent:
        """Posterior of the latent x of each row."""
        return posterior(self.emission(center), self.rows(views, center))

    def reconstruct(self, views: Views, center: str | CenterParams | None = None) -> dict[str, Array]:
        """Expected values of the given views."""
        emission = self.emission(center)
        values = predicted(emission, posterior(emission, self.rows(views, center)))
        return self.scaler(views, center).inverse({name: values[:, self.layout.slices[name]] for name in views})

    def impute(
        self, views: Views, center: str | CenterParams | None = None
    ) -> tuple[dict[str, Array], dict[str, Array]]:
        """All views of the model with missing cells filled, and the sd of each cell (0 where it was observed)."""
        emission = self.emission(center)
        rows = self.rows(views, center)
        latent = posterior(emission, rows)
        missing = np.isnan(rows)
        filled = np.where(missing, predicted(emission, latent), rows)
        sd = np.where(missing, predictive_sd(emission, latent), 0.0)
        scaler = self.scaler(views, center)
        known = [name for name in self.layout.names if name in scaler.shift]  # no unit is known for other views
        values = scaler.inverse({name: filled[:, self.layout.slices[name]] for name in known})
        for name in views:  # what was observed comes back untouched, to the last bit
            values[name] = np.where(np.isnan(views[name]), values[name], views[name])
        return values, {name: sd[:, self.layout.slices[name]] * scaler.scale[name] for name in known}

    def harmonise(self, views: Views, center: str | CenterParams) -> dict[str, Array]:
        """The same patients as the typical center would have measured them."""
        target = global_emission(self.prior, self.layout, typical=True)
        rows = harmonised(self.emission(center), target, self.rows(views, center))
        return self.scaler(views, center).inverse({name: rows[:, self.layout.slices[name]] for name in views})

    def log_density(self, views: Views, center: str | CenterParams | None = None) -> Array:
        """Log density of the observed cells of each row, in the units of the data."""
        rows = self.rows(views, center)
        scaler = self.scaler(views, center)
        units = sum(~np.isnan(table) @ np.log(scaler.scale[name]) for name, table in views.items())
        return log_density(self.emission(center), rows) - units

    def sample(self, n: int, rng: np.random.Generator, center: str | CenterParams | None = None) -> dict[str, Array]:
        """New subjects: of one center, or each of a center of its own."""
        if center is None:
            rows = sample_global(self.prior, self.layout, n, rng)
        else:
            rows = sample_center(self.emission(center), n, rng)
        scaler = self.scalers[center] if isinstance(center, str) else next(iter(self.scalers.values()))
        known = [name for name in self.layout.names if name in scaler.shift]
        return scaler.inverse({name: rows[:, self.layout.slices[name]] for name in known})

    def variance_explained(self, views: Views, center: str | CenterParams | None = None) -> dict[str, Array]:
        """For each view, the share of its variance that each component explains, and all together at the end."""
        emission = self.emission(center)
        rows = self.rows(views, center)
        x = posterior(emission, rows).mean
        found = {}
        for name in views:
            columns = self.layout.slices[name]
            centred = rows[:, columns] - emission.mu[columns]
            total = np.nansum(centred**2)
            parts = [x[:, [k]] @ emission.W[columns, k][None] for k in range(emission.q)] + [x @ emission.W[columns].T]
            found[name] = np.array([1.0 - np.nansum((centred - part) ** 2) / total for part in parts])
        return found

    def adapt(self, views: Views, iterations: int = ADAPT_ITERATIONS) -> CenterParams:
        """The parameters of a center that took no part: it fits itself under the prior, at home."""
        layout = self.layout.restrict(views)
        statistics = self.scaler(views, None).apply(from_rows(layout, {name: views[name] for name in layout.names}))
        center = make_center("new", statistics, self.prior.q)
        plan = replace(self.settings.plan(), redraw=False, own_start=False, align=False, iterations=iterations)
        run_round([center], self.prior, plan, round_=2)
        return center.parameters()


def _own_minmax(layout: Layout, views: Views) -> Scaler:
    if len(next(iter(views.values()))) < 2:
        raise UserError(
            "scaling 'center-minmax' with center=None scales a table by its own smallest and largest values, "
            "which needs more than one row; give more rows, or name the center"
        )
    own = layout.restrict(views)
    with np.errstate(all="ignore"):
        low = np.concatenate([np.fmin.reduce(views[name], axis=0) for name in own.names])
        high = np.concatenate([np.fmax.reduce(views[name], axis=0) for name in own.names])
    return minmax(own, low, high)


def model_arrays(model: Model) -> Arrays:
    """The numbers: features of all views side by side, one row per center; NaN where a center lacks a view."""
    own = model.scalers if not scaling_of(model.settings.scaling).common else {"": next(iter(model.scalers.values()))}
    return {
        **prior_arrays(model.prior, model.layout),
        "centers.mu": _rows(model.layout, [{k: v.mu for k, v in c.views.items()} for c in model.centers.values()]),
        "centers.W": _rows(
            model.layout, [{k: v.W for k, v in c.views.items()} for c in model.centers.values()], (model.prior.q,)
        ),
        "centers.sigma2": np.array(
            [
                [c.views[n].sigma2 if n in c.views else np.nan for n in model.layout.names]
                for c in model.centers.values()
            ]
        ).reshape(len(model.centers), len(model.layout.names)),
        "centers.m": np.array([c.m for c in model.centers.values()]).reshape(len(model.centers), model.prior.q),
        "scaler.shift": _rows(model.layout, [scaler.shift for scaler in own.values()]),
        "scaler.scale": _rows(model.layout, [scaler.scale for scaler in own.values()]),
    }


def describe_model(model: Model) -> dict[str, Any]:
    """The names that go with the numbers, and how the model was fitted."""
    return {
        "views": {name: list(model.columns[name]) for name in model.layout.names},
        "centers": {name: list(center.views) for name, center in model.centers.items()},
        "scaled": {name: list(scaler.shift) for name, scaler in model.scalers.items()},
        "settings": describe_settings(model.settings),
    }


def build_model(arrays: Mapping[str, NDArray[Any]], names: Mapping[str, Any]) -> Model:
    """The model again."""
    schema, settings = Schema(names["views"]), build_settings(names["settings"])
    layout = schema.layout
    centers = {}
    for c, (center, held) in enumerate(names["centers"].items()):
        mu, W, sigma2 = (arrays[f"centers.{part}"][c] for part in ("mu", "W", "sigma2"))
        views = {
            view: ViewParams(mu[layout.slices[view]], W[layout.slices[view]], sigma2[layout.names.index(view)])
            for view in held
        }
        centers[center] = CenterParams(views, arrays["centers.m"][c])
    scalers: dict[str, Scaler] = {}
    for c, (center, held) in enumerate(names["scaled"].items()):
        if c and scaling_of(settings.scaling).common:
            scalers[center] = next(iter(scalers.values()))
            continue
        shift, scale = arrays["scaler.shift"][c], arrays["scaler.scale"][c]
        scalers[center] = Scaler(
            {view: shift[layout.slices[view]] for view in held}, {view: scale[layout.slices[view]] for view in held}
        )
    return Model(schema, build_prior(arrays, layout), centers, scalers, settings)


def describe_settings(settings: Settings) -> dict[str, Any]:
    """Settings as JSON takes them."""
    found = asdict(settings)
    if isinstance(settings.iterations, Mapping):
        found["iterations"] = {name: int(n) for name, n in settings.iterations.items()}
    return found


def build_settings(described: Mapping[str, Any]) -> Settings:
    """Settings again."""
    return Settings(**described)


def prior_arrays(prior: GlobalPrior, layout: Layout) -> Arrays:
    """The global distribution; W and mu of all views side by side, one entry per view for the scalars."""
    views = [prior.views[name] for name in layout.names]
    return {
        "prior.mu": np.concatenate([view.mu for view in views]),
        "prior.W": np.concatenate([view.W for view in views]),
        **{f"prior.{name}": np.array([getattr(view, name) for view in views], dtype=float) for name in SCALARS},
        "prior.tau2": np.array(prior.tau2),
    }


def build_prior(arrays: Mapping[str, NDArray[Any]], layout: Layout) -> GlobalPrior:
    """The global distribution again."""
    views = {
        name: ViewPrior(
            arrays["prior.mu"][columns],
            arrays["prior.W"][columns],
            **{scalar: arrays[f"prior.{scalar}"][k] for scalar in SCALARS},
        )
        for k, (name, columns) in enumerate(layout.slices.items())
    }
    return GlobalPrior(views, float(arrays["prior.tau2"]))


def _rows(layout: Layout, parts: list[Mapping[str, Array]], tail: tuple[int, ...] = ()) -> Array:
    rows = np.full((len(parts), layout.total, *tail), np.nan)
    for row, part in zip(rows, parts, strict=True):
        for name, values in part.items():
            row[layout.slices[name]] = values
    return rows


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
