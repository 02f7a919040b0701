"""A fitted model as named arrays (all numbers, bit by bit) and a plain description (names and settings)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

import numpy as np
from numpy.typing import NDArray

from vedute.data.scaling import Scaler
from vedute.model.parameters import Array, CenterParams, GlobalPrior, ViewParams, ViewPrior
from vedute.model.schema import Layout
from vedute.run.fitted_model import Model
from vedute.run.settings import Settings

Arrays = dict[str, NDArray[Any]]
SCALARS = ("sigma2_mu", "sigma2_W", "alpha", "beta", "n_centers")  # of a view's prior


def model_arrays(model: Model) -> Arrays:
    """The numbers: features of all views side by side, one row per center; NaN where a center lacks a view."""
    own = model.scalers if own_scaling(model.settings) else {"": next(iter(model.scalers.values()))}
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
    columns = {name: tuple(listed) for name, listed in names["views"].items()}
    layout = Layout(tuple(columns), tuple(len(listed) for listed in columns.values()))
    settings = build_settings(names["settings"])
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
        if c and not own_scaling(settings):
            scalers[center] = next(iter(scalers.values()))
            continue
        shift, scale = arrays["scaler.shift"][c], arrays["scaler.scale"][c]
        scalers[center] = Scaler(
            {view: shift[layout.slices[view]] for view in held}, {view: scale[layout.slices[view]] for view in held}
        )
    return Model(layout, columns, build_prior(arrays, layout), centers, scalers, settings)


def own_scaling(settings: Settings) -> bool:
    """Whether each center has a scaling of its own, instead of one for all."""
    return settings.scaling == "center-minmax"


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
