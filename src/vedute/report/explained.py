"""Variance explained: for each view, component and center, the share that the fitted parameters imply."""

from __future__ import annotations

import numpy as np

from vedute.core.params import Array, ViewParams, ViewPrior
from vedute.federation.model import Model
from vedute.report.fitted import WITHHELD
from vedute.report.parts import Figure, Option, Section, Table, layout, name_axis, percent, row_height, safe
from vedute.report.reading import Folder

USUAL = "a usual center"


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
    sentences = [
        f"{view}: the components explain {percent(found[-1])} of its variance in a usual center, "
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
    components = [*(str(k + 1) for k in range(model.prior.q)), "all"]
    words = [*(f"component {k + 1}" for k in range(model.prior.q)), "all"]
    options = []
    for view in model.layout.names:
        found = by_center(model, view)
        trace = {
            "type": "heatmap", "z": [[round(float(100 * s), 2) for s in row] for row in found.values()],
            "zmin": 0, "zmax": 100, "colorscale": [[0, "#f7fbff"], [0.5, "#6baed6"], [1, "#08306b"]],
            "colorbar": {"title": {"text": "%"}, "thickness": 12},
            "text": [[f"{safe(name)}, {word}" for word in words] for name in found],
            "hovertemplate": "%{text}: %{z:.1f} %<extra></extra>",
        }  # fmt: skip
        look = layout(
            max(220, row_height(len(found))), xaxis=name_axis(components, title={"text": "component"}),
            yaxis=name_axis(list(found), down=True),
        )  # fmt: skip
        options.append(Option(view, (trace,), look))
    alt = (
        "Heat map of the share of a view's variance that each component explains, in a usual center and in each center."
    )
    return Figure("explained", alt, tuple(options), "View")
