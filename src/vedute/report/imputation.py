"""Imputation: how surely a missing view follows from the others, and what is predicted where it is missing."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from vedute.model.parameters import Array
from vedute.model.prediction import posterior
from vedute.report.centers import WITHHELD
from vedute.report.content import (
    COLOURS,
    Figure,
    Option,
    Section,
    Table,
    count,
    layout,
    listed,
    name_axis,
    num,
    numbers,
    percent,
    row_height,
    safe,
)
from vedute.report.reading import Folder
from vedute.run.fitted_model import Model
from vedute.run.model_file import own_scaling

FEATURES = 8  # of a missing view that are shown: those that the components carry most
GAPS = 60  # missing views that get a figure and a table


@dataclass(frozen=True)
class Predicted:
    """A feature that a center lacks: predicted over its patients, and where other centers observed it."""

    feature: str
    mean: float
    sd: float
    elsewhere: dict[str, tuple[float, float]]  # center -> mean and sd of its patients


def certainty(model: Model, center: str | None, view: str) -> float:
    """Share of the view's variance that is known once all other views of a subject are observed.

    ``center`` None is a subject of a center that nobody has seen.
    """
    emission = model.emission(center)
    row = emission.mu.copy()
    held = set(model.layout.names) if center is None else set(model.centers[center].views)
    for name, columns in model.layout.slices.items():
        if name == view or name not in held:
            row[columns] = np.nan
    if np.isnan(row).all():
        return math.nan
    cov = posterior(emission, row[None]).covs[0]
    columns = model.layout.slices[view]
    W, noise = emission.W[columns], emission.noise[columns]
    before = emission.latent * (W**2).sum() + noise.sum()
    return float(1.0 - (((W @ cov) * W).sum() + noise.sum()) / before)


def gaps(model: Model) -> list[tuple[str, str]]:
    """Centers and the views that they lack."""
    return [(c, v) for c, p in model.centers.items() for v in model.layout.names if v not in p.views]


def predict_gap(model: Model, center: str, view: str) -> list[Predicted]:
    """The distribution of a missing view over the patients of a center, in scaled units."""
    emission, columns = model.emission(center), model.layout.slices[view]
    mean, sd = _moments(emission.mu[columns], emission.W[columns], emission.noise[columns], emission.m)
    others = {
        name: _moments(p.views[view].mu, p.views[view].W, np.full(len(mean), p.views[view].sigma2), p.m)
        for name, p in model.centers.items()
        if view in p.views
    }
    order = np.argsort(-(model.prior.views[view].W ** 2).sum(axis=1), kind="stable")[:FEATURES]
    return [
        Predicted(
            model.columns[view][j], float(mean[j]), float(sd[j]),
            {name: (float(m[j]), float(s[j])) for name, (m, s) in others.items()},
        )
        for j in order
    ]  # fmt: skip


def _moments(mu: Array, W: Array, noise: Array, m: Array) -> tuple[Array, Array]:
    return mu + W @ m, np.sqrt((W**2).sum(axis=1) + noise)


def section(folder: Folder) -> Section:
    """The chapter."""
    model = folder.run.model
    if len(model.layout.names) == 1:
        return Section("imputation", "Imputation", missing=("one view only: there are no others to predict it from",))
    found = gaps(model)
    whole = {view: certainty(model, None, view) for view in model.layout.names}
    best = max(whole, key=lambda view: whole[view])
    sentences = [f"A missing view is best predicted in {best}: the others tell {percent(whole[best])} of its variance."]
    if found:
        sentences.append(f"{count(len(found), 'view is', 'views are')} missing at whole centers: "
                         f"{listed([f'{view} at {center}' for center, view in found])}.")  # fmt: skip
    elif model.centers:
        sentences.append("Every center has every view, so nothing was predicted for a whole center.")
    missing = ["predictions for single subjects: 'vedute impute RUN STUDY' makes them where the rows are"]
    if not model.centers:
        missing.append(f"which center lacks which view: {WITHHELD}")
    tables = [_certainties(model, whole)] + [
        _gap_table(model, *gap, folded=i > 0) for i, gap in enumerate(found[:GAPS])
    ]
    return Section(
        "imputation", "Imputation", tuple(sentences), (_figure(model, found[:GAPS]),) if found else (), tuple(tables),
        tuple(missing),
    )  # fmt: skip


def _certainties(model: Model, whole: dict[str, float]) -> Table:
    rows = [("a new center", *(percent(s) for s in whole.values()))]
    rows += [(name, *(percent(certainty(model, name, view)) for view in whole)) for name in model.centers]
    caption = "If a view were missing: share of its variance that the other views of the center tell"
    return Table(caption, ("center", *whole), tuple(rows))


def _gap_table(model: Model, center: str, view: str, *, folded: bool) -> Table:
    """In the units of the data, where all centers share one scaling."""
    shared = None if own_scaling(model.settings) else next(iter(model.scalers.values()))
    rows = []
    for found in predict_gap(model, center, view):
        j = model.columns[view].index(found.feature)
        shift, scale = (0.0, 1.0) if shared is None else (shared.shift[view][j], shared.scale[view][j])
        observed = [m for m, _ in found.elsewhere.values()] or [math.nan]
        rows.append((
            found.feature, num(found.mean * scale + shift), num(found.sd * scale),
            " to ".join(dict.fromkeys(num(end(observed) * scale + shift) for end in (min, max))),
        ))  # fmt: skip
    units = "units of the data" if shared is not None else "scaled units"
    head = ("feature", "predicted mean", "predicted sd", "means observed elsewhere")
    return Table(f"{view}, which {center} lacks ({units})", head, tuple(rows), folded=folded)


def _figure(model: Model, found: list[tuple[str, str]]) -> Figure:
    options = []
    for center, view in found:
        rows = predict_gap(model, center, view)
        observed = [(i, name, m, s) for i, row in enumerate(rows) for name, (m, s) in list(row.elsewhere.items())[:30]]
        traces = (
            _dots("observed elsewhere", [o[0] + 0.18 for o in observed], [o[2] for o in observed],
                  [o[3] for o in observed], [f"{o[1]}: {rows[o[0]].feature}" for o in observed], "#777777"),
            _dots("predicted", [i - 0.18 for i in range(len(rows))], [r.mean for r in rows], [r.sd for r in rows],
                  [f"{center}: {r.feature}" for r in rows], COLOURS[1]),
        )  # fmt: skip
        look = layout(
            row_height(2 * len(rows)), xaxis={"title": {"text": "mean ± sd over patients, scaled"}},
            yaxis=name_axis([r.feature for r in rows], down=True),
        )  # fmt: skip
        options.append(Option(f"{view} at {center}", traces, look))
    alt = "Predicted mean and standard deviation of the features of a missing view, beside what other centers observed."
    return Figure("imputation", alt, tuple(options), "Missing view")


def _dots(
    name: str, y: list[float], x: list[float], sd: list[float], text: list[str], colour: str
) -> dict[str, object]:
    return {
        "type": "scatter", "mode": "markers", "name": name, "x": numbers(x), "y": y,
        "error_x": {"type": "data", "array": numbers(sd), "color": colour, "thickness": 1.5},
        "marker": {"color": colour, "size": 8}, "text": [safe(t) for t in text],
        "hovertemplate": "%{text}: %{x:.2f}<extra></extra>",
    }  # fmt: skip
