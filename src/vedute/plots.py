"""The figures of the report for a paper: matplotlib Axes in, the same Axes out.

Every function takes a fitted :class:`FederatedPPCA` or the path of a run folder. Subjects are known only to a run
folder that lies where the rows are.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from vedute.errors import UserError
from vedute.estimator import FederatedPPCA
from vedute.report import centers, components, convergence, explained, spending
from vedute.report.charts import INK, SOFT, Bars, Cloud, Dots, Heatmap, Lines, colour
from vedute.report.reading import Folder, from_estimator, read_folder

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = [
    "change", "deviation", "holdings", "imputed", "latent", "model_choice", "shares", "spent", "spreads",
    "top_loadings", "variance_explained",
]  # fmt: skip

Source = FederatedPPCA | str | os.PathLike[str]
LEGEND = 12  # names that a legend can hold


def holdings(source: Source, ax: Axes | None = None) -> Axes:
    """What is missing: the share of each view's cells that hold a value, by center; has or lacks where none counted."""
    chart = centers.holdings_map(_folder(source))
    if not chart.rows:
        raise UserError(f"which center has which view is not known: {centers.WITHHELD}")
    return _heatmap(chart, ax)


def spent(source: Source, ax: Axes | None = None) -> Axes:
    """What each center had spent in privacy after each of its releases; needs a folder with ledgers."""
    found = spending.running(_folder(source))
    if not found:
        raise UserError("no ledger with a finite total is in the folder; a fit under a privacy policy writes them")
    return _legend(draw_lines(spending.spent_lines(found), ax))


def change(source: Source, ax: Axes | None = None) -> Axes:
    """How much each round changed the global distribution."""
    return draw_lines(convergence.change_line(_folder(source).run.history), ax)


def spreads(source: Source, parameter: str = "mean", ax: Axes | None = None) -> Axes:
    """Standard deviations between centers of a parameter ("mean", "loadings", "log noise") after each round."""
    folder = _folder(source)
    if parameter not in convergence.PARAMETERS:
        raise UserError(f"parameter={parameter!r}: choose one of {', '.join(map(repr, convergence.PARAMETERS))}")
    views = convergence.estimated(folder)
    if not views:
        raise UserError("no view has spreads round by round: fewer than two centers hold it, or an older vedute fitted")
    ax = draw_lines(convergence.spread_lines(folder.run.history, views, parameter), ax)
    ax.set_ylabel(f"sd of the {parameter} between centers")
    return _legend(ax)


def shares(source: Source, ax: Axes | None = None) -> Axes:
    """Share of each view's variance that lies between centers: in how they measure, and in whom they recruit."""
    prior = _folder(source).run.model.prior
    found = centers.shares(prior)
    if not found:
        raise UserError(f"{next(iter(prior.views))}: {centers.ONE}")
    ax = _bars(centers.share_bars(found), ax)
    ax.legend(frameon=False, loc="lower left", bbox_to_anchor=(0, 1), ncols=2)
    return ax


def deviation(source: Source, view: str | None = None, ax: Axes | None = None) -> Axes:
    """How far the means of each center lie from the usual, with 95 % intervals where subjects were counted."""
    folder = _folder(source)
    view = _view(folder, view)
    rows = centers.deviations(folder, view)
    if not rows:
        raise UserError(f"{view}: {centers.ONE if folder.run.model.centers else centers.WITHHELD}")
    ax = _dots(centers.deviation_dots(folder, rows), ax)
    ax.set_xlabel(f"deviation in {_name(view)}, sd")
    return ax


def latent(
    source: Source, components: tuple[int, int] = (1, 2), colour: str = "center", ax: Axes | None = None
) -> Axes:
    """Subjects in the plane of two components, coloured by ``"center"`` or ``"group"``; needs a folder with rows.

    By center, crosses are their case mix and ellipses one standard deviation of the uncertainty about a single subject.
    """
    from vedute.report.components import ROWS, cloud, subjects

    folder = _folder(source)
    if not folder.subjects:
        raise UserError(f"{ROWS}; give the run folder of a fit made where the rows are")
    if colour not in ("center", "group"):
        raise UserError(f"colour={colour!r}: choose 'center' or 'group'")
    across, up = (_component(folder, component) for component in components)
    parts = sorted(subjects(folder, colour), key=lambda part: part.name)
    return _legend(_cloud(cloud(folder, colour, parts), [across, up], ax))


def top_loadings(source: Source, component: int = 1, ax: Axes | None = None) -> Axes:
    """The largest loadings of each view in a component, with 95 % intervals."""
    folder = _folder(source)
    ax = _bars(components.loading_bars(folder.run.model, _component(folder, component)), ax)
    ax.axvline(0.0, color=INK, lw=0.8)
    ax.set_xlabel(f"loading on component {component}")
    ax.legend(frameon=False)
    return ax


def variance_explained(source: Source, view: str | None = None, ax: Axes | None = None) -> Axes:
    """Share of a view's variance that each component explains, in a usual center and in each center."""
    folder = _folder(source)
    view = _view(folder, view)
    ax = _heatmap(explained.explained_map(explained.by_center(folder.run.model, view)), ax)
    ax.set_xlabel(f"component, {_name(view)}")
    ax.figure.colorbar(ax.images[0], ax=ax, label="variance explained, %")
    return ax


def imputed(source: Source, center: str, view: str, ax: Axes | None = None) -> Axes:
    """What is predicted for a view that a center lacks, beside what other centers observed (mean ± sd, scaled)."""
    model = _folder(source).run.model
    if (center, view) not in explained.gaps(model):
        lacking = [f"{v} at {c}" for c, v in explained.gaps(model)]
        raise UserError(f"view {view!r} at center {center!r} is not missing; missing are {lacking or 'none'}")
    ax = _dots(explained.gap_dots(model, center, view), ax)
    ax.set_xlabel(f"{_name(view)}, predicted at {_name(center)} (colour) and observed elsewhere (grey)")
    return ax


def model_choice(source: Source, ax: Axes | None = None) -> Axes:
    """WAIC above the best for each number of components, with two standard errors; needs a folder of ``select``."""
    choices = _folder(source).choices
    if not choices:
        raise UserError(convergence.NO_CHOICE)
    ax = draw_lines(convergence.waic_lines(choices), ax, marker="o")
    ax.legend(frameon=False, title="scaling")
    return ax


def _folder(source: Source) -> Folder:
    if not isinstance(source, FederatedPPCA):
        return read_folder(Path(source))
    if not hasattr(source, "model_"):
        raise UserError("the estimator is not fitted; call fit first")
    return from_estimator(source)


def _view(folder: Folder, view: str | None) -> str:
    names = folder.run.model.layout.names
    if view is not None and view not in names:
        raise UserError(f"view {view!r} is not in the model; known are {', '.join(names)}")
    return view or names[0]


def _component(folder: Folder, component: int) -> int:
    q = folder.run.model.prior.q
    if not 1 <= component <= q:
        raise UserError(f"component {component} is not in the model; it has 1 to {q}")
    return component - 1


def draw_lines(chart: Lines, ax: Axes | None = None, **look: Any) -> Axes:
    """Lines on the Axes; what cannot be drawn is left out."""
    ax = _axes(ax)
    look = {"marker": "." if chart.markers else "", **look}
    for series in chart.series:
        told = ~np.isinf(series.y)  # the change of the first round, which has nothing to compare with
        errors = None if series.errors is None else series.errors[told]
        style = {"color": series.colour, "label": _name(series.name), **look}
        ax.errorbar(series.x[told], series.y[told], yerr=errors, **style)
    if chart.y.log:
        ax.set_yscale("log")
    ax.set(xlabel=chart.x.title, ylabel=chart.y.title)
    if chart.y.from_zero:
        ax.set_ylim(bottom=0)
    return _plain(ax)


def _bars(chart: Bars, ax: Axes | None) -> Axes:
    ax = _axes(ax)
    left = np.zeros(len(chart.rows))
    for series in chart.series:
        places = series.y.astype(int)
        ax.barh(
            places, series.x, left=left[places], xerr=series.errors, color=series.colour, ecolor=INK,
            label=_name(series.name),
        )  # fmt: skip
        if chart.stacked:
            left[places] += series.x
    ax.set_xlabel(chart.x.title)
    return _rows(_plain(ax), chart.rows)


def _dots(chart: Dots, ax: Axes | None) -> Axes:
    ax = _axes(ax)
    for series in chart.series:
        size, width = (4, 1) if series.colour == SOFT else (None, None)  # what stands behind
        ax.errorbar(series.x, series.y, xerr=series.errors, fmt="o", color=series.colour, ms=size, lw=width)
    if chart.mark is not None:
        ax.axvline(chart.mark[0], color=SOFT, ls=":")
    if chart.x.from_zero:
        ax.set_xlim(left=0)
    return _rows(_plain(ax), chart.rows)


def _heatmap(chart: Heatmap, ax: Axes | None) -> Axes:
    """With its words in the cells, where they leave room for them: shades are lighter then."""
    ax = _axes(ax)
    ax.imshow(chart.values, cmap="Blues", vmin=0, vmax=100 if chart.scale else 160, aspect="auto")
    for i, row in enumerate(chart.cells if not chart.scale else []):
        for j, words in enumerate(row):
            ax.text(j, i, words, ha="center", va="center", color=INK)
    ax.set_xticks(range(len(chart.columns)), [_name(column) for column in chart.columns])
    return _rows(ax, chart.rows)


def _cloud(chart: Cloud, plane: list[int], ax: Axes | None) -> Axes:
    ax = _axes(ax)
    shades = {part.name: colour(k) for k, part in enumerate(chart.parts)}
    for part in chart.parts:
        x, y = part.x[:, plane].T
        ax.scatter(x, y, s=14, alpha=0.7, color=shades[part.name], lw=0, label=_name(part.name))
    around = np.linspace(0, 2 * np.pi, 49)
    for cross in chart.crosses if chart.by_center else []:
        m, root = cross.mean[plane], np.linalg.cholesky(cross.cov[np.ix_(plane, plane)])
        shade = shades.get(cross.center, INK)
        ax.plot(*(m[:, None] + root @ [np.cos(around), np.sin(around)]), color=shade, lw=1.5)
        ax.plot(*m, "P", color=shade, ms=9, mec="white")
    ax.set(xlabel=f"component {plane[0] + 1}", ylabel=f"component {plane[1] + 1}")
    ax.set_aspect("equal", adjustable="datalim")
    return _plain(ax)


def _axes(ax: Axes | None) -> Axes:
    if ax is not None:
        return ax
    from matplotlib import pyplot

    return pyplot.subplots(layout="constrained")[1]


def _name(name: str) -> str:
    """A name that stays as it is: matplotlib would set what stands between dollars as a formula."""
    return name.replace("$", r"\$")


def _rows(ax: Axes, names: Sequence[str]) -> Axes:
    ax.set_yticks(range(len(names)), [_name(name) for name in names])
    ax.set_ylim(len(names) - 0.5, -0.5)
    return ax


def _legend(ax: Axes) -> Axes:
    if len(ax.get_legend_handles_labels()[1]) <= LEGEND:
        ax.legend(frameon=False)
    return ax


def _plain(ax: Axes) -> Axes:
    ax.spines[["top", "right"]].set_visible(False)
    return ax
