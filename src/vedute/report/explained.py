"""Variance explained: for each view, component and center, the share that the fitted parameters imply."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from vedute.model.parameters import Array, ViewParams, ViewPrior
from vedute.report.centers import WITHHELD
from vedute.report.content import (
    BLUES,
    INK,
    MANY,
    Figure,
    Option,
    Section,
    Table,
    layout,
    name_axis,
    percent,
    row_height,
    safe,
)
from vedute.report.reading import Folder
from vedute.run.fitted_model import Model

USUAL = "a usual center"
LABELLED = 10  # components whose shares can be written into the map


def shares(params: ViewParams | ViewPrior) -> Array:
    """Share of a view's variance, tr(W W' + sigma2 I), that each component explains, and all of them at the end."""
    each = (params.W**2).sum(axis=0)
    total = each.sum() + len(params.mu) * params.sigma2
    return np.asarray(np.append(each, each.sum()) / total)


def by_center(model: Model, view: str) -> dict[str, Array]:
    """The shares of a view under the global parameters and in each center that holds it."""
    own = {name: shares(center.views[view]) for name, center in model.centers.items() if view in center.views}
    return {USUAL: shares(model.prior.views[view]), **own}


def section(folder: Folder) -> Section:
    """The chapter."""
    model = folder.run.model
    whole = {view: shares(prior)[-1] for view, prior in model.prior.views.items()}
    best = max(whole, key=lambda view: whole[view])
    sentences = [f"The components explain most of {best}: {percent(whole[best])} of its variance in a usual center."]
    sentences += [
        f"{view}: {percent(found[-1])} explained, "
        f"component {int(np.argmax(found[:-1])) + 1} the most ({percent(max(found[:-1]))})."
        for view, found in ((view, shares(prior)) for view, prior in model.prior.views.items())
    ]
    missing = [] if model.centers else ["variance explained in single centers: " + WITHHELD]
    missing.append("variance explained of single subjects' rows: they are not in a run folder; these are shares that "
                   "the fitted parameters imply")  # fmt: skip
    head = ("view", "center", *(f"{k + 1}" for k in range(model.prior.q)), "all")
    rows = tuple(
        (view, name, *(percent(s) for s in found))
        for view in model.layout.names
        for name, found in by_center(model, view).items()
    )
    table = Table("Share of variance explained by each component", head, rows, labels=2)
    return Section(
        "explained", "Variance explained", tuple(sentences), (_figure(model),), (table,), tuple(missing)
    )  # fmt: skip


def _figure(model: Model) -> Figure:
    overview = {view: shares(prior) for view, prior in model.prior.views.items()}
    options = [_option("all, in a usual center", overview, model.prior.q)]
    options += [_option(view, by_center(model, view), model.prior.q) for view in model.layout.names]
    alt = (
        "Heat map of the share of variance that each component explains: of all views in a usual center, or of one "
        "view in each center."
    )
    return Figure("explained", alt, tuple(options), "View")


def _option(label: str, found: Mapping[str, Array], q: int) -> Option:
    words = [*(f"component {k + 1}" for k in range(q)), "all"]
    trace: dict[str, object] = {
        "type": "heatmap", "z": [[round(float(100 * s), 2) for s in row] for row in found.values()], "zmin": 0,
        "zmax": 100, "colorscale": BLUES, "colorbar": {"title": {"text": "%"}, "thickness": 12},
        "xgap": 1, "ygap": 1 if len(found) <= MANY else 0,
        "customdata": [[f"{safe(name)}, {word}" for word in words] for name in found],
        "hovertemplate": "%{customdata}: %{z:.1f} %<extra></extra>",
    }  # fmt: skip
    if len(found) <= MANY and q <= LABELLED:
        trace |= {"texttemplate": "%{z:.0f}", "textfont": {"color": INK}}
    look = layout(
        max(220, row_height(len(found))), yaxis=name_axis(list(found), down=True),
        xaxis=name_axis([word.removeprefix("component ") for word in words], title={"text": "component"}),
    )  # fmt: skip
    return Option(label, (trace,), look)
