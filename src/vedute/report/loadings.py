"""What the components mean: the features that weigh most in each, with how sure that is."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from vedute.model.parameters import GlobalPrior
from vedute.report.content import (
    COLOURS,
    Figure,
    Option,
    Section,
    Table,
    layout,
    listed,
    name_axis,
    num,
    numbers,
    row_height,
    safe,
)
from vedute.report.reading import Folder
from vedute.run.fitted_model import Model

Z = 1.96  # of a 95 % interval
TOP = 5  # features of a view that are named for each component


@dataclass(frozen=True)
class Loading:
    """A feature's weight in a component."""

    view: str
    feature: str
    value: float
    se: float  # of the global loading; NaN where one center holds the view
    spread: float  # standard deviation of single centers around it


def top_loadings(model: Model, component: int, top: int = TOP) -> list[Loading]:
    """The ``top`` features of each view with the largest global loadings, the largest first."""
    found = []
    for name, view in model.prior.views.items():
        known = view.n_centers > 1 and math.isfinite(view.sigma2_W)
        spread = math.sqrt(view.sigma2_W) if known else math.nan
        n = max(view.n_centers, 1)
        order = np.argsort(-np.abs(view.W[:, component]), kind="stable")[:top]
        found += [
            Loading(name, model.columns[name][j], float(view.W[j, component]), spread / math.sqrt(n), spread)
            for j in order
        ]  # fmt: skip
    return found


def weights(prior: GlobalPrior, component: int) -> dict[str, float]:
    """How much of a component each view carries: its share of the squared loadings, per feature."""
    sizes = {name: float(np.mean(view.W[:, component] ** 2)) for name, view in prior.views.items()}
    total = sum(sizes.values())
    return {name: size / total if total > 0 else math.nan for name, size in sizes.items()}


def section(folder: Folder) -> Section:
    """The chapter."""
    model = folder.run.model
    sentences = []
    for k in range(min(model.prior.q, 12)):
        top = sorted(top_loadings(model, k), key=lambda loading: -abs(loading.value))[:3]
        words = [f"{loading.feature} ({loading.view}, {loading.value:+.2f})" for loading in top]
        sentences.append(f"Component {k + 1} is mostly {listed(words)}.")
    sentences.append("Loadings are in scaled units; a component may be turned round, so only signs within it compare.")
    alone = [name for name, view in model.prior.views.items() if view.n_centers < 2]
    missing = (f"uncertainty for {listed(alone)}: fewer than two centers hold it",) if alone else ()
    tables = tuple(_table(model, k) for k in range(model.prior.q))
    return Section(
        "loadings", "Loadings: what the components mean", tuple(sentences), (_figure(model),), tables, missing
    )


def _table(model: Model, k: int) -> Table:
    rows = tuple(
        (found.view, found.feature, num(found.value), num(found.se, 3), num(found.spread, 3))
        for found in top_loadings(model, k)
    )
    head = ("view", "feature", "loading", "standard error", "sd between centers")
    most = f"the {TOP} largest loadings of each view"
    return Table(f"Component {k + 1}: {most}", head, rows, labels=2, folded=k > 0)


def _figure(model: Model) -> Figure:
    options = []
    views = list(model.prior.views)
    for k in range(model.prior.q):
        found = top_loadings(model, k)
        places = list(range(len(found)))
        traces = []
        for j, view in enumerate(views):
            own = [i for i in places if found[i].view == view]
            known = all(math.isfinite(found[i].se) for i in own)
            traces.append(
                {
                    "type": "bar", "orientation": "h", "name": safe(view), "y": own,
                    "x": numbers([found[i].value for i in own]), "marker": {"color": COLOURS[j % len(COLOURS)]},
                    "error_x": {
                        "type": "data", "array": numbers([Z * found[i].se for i in own]), "color": "#222222",
                        "visible": known,
                    },
                    "text": [safe(f"{view}: {found[i].feature}") for i in own], "textposition": "none",
                    "hovertemplate": "%{text}: %{x:.2f}<extra></extra>",
                }
            )  # fmt: skip
        look = layout(
            min(row_height(min(len(found), 40)), 1100), xaxis={"title": {"text": "loading"}, "zeroline": True},
            yaxis=name_axis([loading.feature for loading in found], down=True), bargap=0.25,
        )  # fmt: skip
        options.append(Option(f"component {k + 1}", tuple(traces), look))
    alt = "The largest loadings of each view in a component, with 95 % intervals of the global loading."
    return Figure("loadings", alt, tuple(options), "Component")
