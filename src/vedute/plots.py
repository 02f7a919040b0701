"""The figures of the report for a paper: matplotlib Axes in, the same Axes out.

Every function takes a fitted :class:`FederatedPPCA` or the path of a run folder. Subjects are known only to a run
folder that lies where the rows are.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from vedute.errors import UserError
from vedute.estimator import FederatedPPCA
from vedute.report import centers as fitted
from vedute.report import choice, convergence, explained, imputation, loadings, variability
from vedute.report import components as latent_space
from vedute.report import spending as privacy
from vedute.report.content import COLOURS, INK
from vedute.report.reading import Folder, from_estimator, read_folder
from vedute.run.deviation import center_deviation

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Source = FederatedPPCA | str | os.PathLike[str]
SOFT = "#888888"
LEGEND = 12  # names that a legend can hold


def holdings(source: Source, ax: Axes | None = None) -> Axes:
    """What is missing: the share of each view's cells that hold a value, by center; has or lacks where none counted."""
    folder = _folder(source)
    shares, views = fitted.filled(folder), folder.run.model.layout.names
    if not shares:
        raise UserError(f"which center has which view is not known: {fitted.WITHHELD}")
    ax = _axes(ax)
    ax.imshow(list(shares.values()), cmap="Blues", vmin=0, vmax=1.6, aspect="auto")
    for i, row in enumerate(shares.values()):
        for j, share in enumerate(row):
            ax.text(j, i, f"{100 * share:.0f} %" if share else "none", ha="center", va="center", color=INK)
    ax.set_xticks(range(len(views)), [_name(view) for view in views])
    return _rows(ax, list(shares))


def spent(source: Source, ax: Axes | None = None) -> Axes:
    """What each center had spent in privacy after each of its releases; needs a folder with ledgers."""
    lines = privacy.running(_folder(source))
    if not lines:
        raise UserError("no ledger with a finite total is in the folder; a fit under a privacy policy writes them")
    ax = _axes(ax)
    for k, (center, line) in enumerate(lines.items()):
        ax.plot(range(1, len(line) + 1), line, ".-", color=COLOURS[k % len(COLOURS)], label=_name(center))
    ax.set(xlabel="release", ylabel="epsilon so far")
    ax.set_ylim(bottom=0)
    return _plain(_legend(ax))


def change(source: Source, ax: Axes | None = None) -> Axes:
    """How much each round changed the global distribution."""
    folder, ax = _folder(source), _axes(ax)
    history = folder.run.history[1:]  # the first round has nothing to compare with
    ax.semilogy([record.round for record in history], [record.change for record in history], ".-", color=COLOURS[0])
    ax.set(xlabel="round", ylabel="change")
    return _plain(ax)


def spreads(source: Source, parameter: str = "mean", ax: Axes | None = None) -> Axes:
    """Standard deviations between centers of a parameter ("mean", "loadings", "log noise") after each round."""
    folder = _folder(source)
    if parameter not in convergence.PARAMETERS:
        raise UserError(f"parameter={parameter!r}: choose one of {', '.join(map(repr, convergence.PARAMETERS))}")
    views, k = convergence.estimated(folder), convergence.PARAMETERS.index(parameter)
    if not views:
        raise UserError("no view has spreads round by round: fewer than two centers hold it, or an older vedute fitted")
    ax = _axes(ax)
    for j, view in enumerate(views):
        line = [record.spreads[view][k] for record in folder.run.history]
        ax.semilogy(range(1, len(line) + 1), line, color=COLOURS[j % len(COLOURS)], label=_name(view))
    ax.set(xlabel="round", ylabel=f"sd of the {parameter} between centers")
    return _plain(_legend(ax))


def shares(source: Source, ax: Axes | None = None) -> Axes:
    """Share of each view's variance that lies between centers: in how they measure, and in whom they recruit."""
    folder = _folder(source)
    prior = folder.run.model.prior
    found = {name: variability.share(view, prior) for name, view in prior.views.items() if view.n_centers > 1}
    if not found:
        raise UserError(f"{next(iter(prior.views))}: {variability.ONE}")
    ax = _axes(ax)
    measuring = np.array([100 * share.measuring for share in found.values()])
    ax.barh(range(len(found)), measuring, color=COLOURS[1], label="how centers measure")
    mix = [100 * share.case_mix for share in found.values()]
    ax.barh(range(len(found)), mix, left=measuring, color=COLOURS[0], label="whom they recruit")
    ax.set_xlabel("share of the view's variance, %")
    ax.legend(frameon=False, loc="lower left", bbox_to_anchor=(0, 1), ncols=2)
    return _rows(_plain(ax), list(found))


def deviation(source: Source, view: str | None = None, ax: Axes | None = None) -> Axes:
    """How far the means of each center lie from the usual, with 95 % intervals where subjects were counted."""
    folder = _folder(source)
    view = _view(folder, view)
    rows = [row for row in center_deviation(folder.run.model) if row.view == view and np.isfinite(row.mean)]
    if not rows:
        raise UserError(f"{view}: {variability.ONE if folder.run.model.centers else fitted.WITHHELD}")
    rows.sort(key=lambda row: -row.mean)
    ax = _axes(ax)
    for place, row in enumerate(rows):
        ax.plot(variability.interval(folder, row), [place, place], color=COLOURS[0])
    ax.plot([row.mean for row in rows], range(len(rows)), "o", color=COLOURS[0])
    ax.axvline(1.0, color=SOFT, ls=":")
    ax.set_xlabel(f"deviation in {_name(view)}, sd")
    ax.set_xlim(left=0)
    return _rows(_plain(ax), [row.center for row in rows])


def latent(
    source: Source, components: tuple[int, int] = (1, 2), colour: str = "center", ax: Axes | None = None
) -> Axes:
    """Subjects in the plane of two components, coloured by ``"center"`` or ``"group"``; needs a folder with rows.

    By center, crosses are their case mix and ellipses one standard deviation of the uncertainty about a single subject.
    """
    folder = _folder(source)
    if not folder.subjects:
        raise UserError(f"{latent_space.ROWS}; give the run folder of a fit made where the rows are")
    if colour not in ("center", "group"):
        raise UserError(f"colour={colour!r}: choose 'center' or 'group'")
    h, v = (_component(folder, component) for component in components)
    x = np.concatenate([subjects.x for subjects in folder.subjects.values()])
    labels = np.array(
        [
            name if colour == "center" else (subjects.groups[i] if subjects.groups else "no group")
            for name, subjects in folder.subjects.items()
            for i in range(len(subjects.ids))
        ]
    )
    ax = _axes(ax)
    for k, label in enumerate(sorted(set(labels))):
        own = x[labels == label]
        ax.scatter(
            own[:, h], own[:, v], s=14, alpha=0.7, color=COLOURS[k % len(COLOURS)], lw=0, label=_name(str(label))
        )
    model = folder.run.model
    order = {label: k for k, label in enumerate(sorted(set(labels)))}
    for name in latent_space.marked(model) if colour == "center" else []:
        m, cov = model.centers[name].m[[h, v]], latent_space.uncertainty(model, name)[np.ix_([h, v], [h, v])]
        shade = COLOURS[order[name] % len(COLOURS)] if name in order else INK
        around = np.linspace(0, 2 * np.pi, 49)
        ax.plot(*(m[:, None] + np.linalg.cholesky(cov) @ [np.cos(around), np.sin(around)]), color=shade, lw=1.5)
        ax.plot(*m, "P", color=shade, ms=9, mec="white")
    ax.set(xlabel=f"component {h + 1}", ylabel=f"component {v + 1}")
    ax.set_aspect("equal", adjustable="datalim")
    return _plain(_legend(ax))


def top_loadings(source: Source, component: int = 1, ax: Axes | None = None) -> Axes:
    """The largest loadings of each view in a component, with 95 % intervals."""
    folder = _folder(source)
    k = _component(folder, component)
    found = loadings.top_loadings(folder.run.model, k)
    ax = _axes(ax)
    for j, view in enumerate(folder.run.model.prior.views):
        own = [i for i, loading in enumerate(found) if loading.view == view]
        errors = loadings.Z * np.array([found[i].se for i in own])
        bars = None if np.isnan(errors).any() else errors
        values = [found[i].value for i in own]
        ax.barh(own, values, xerr=bars, color=COLOURS[j % len(COLOURS)], ecolor=INK, label=_name(view))
    ax.axvline(0.0, color=INK, lw=0.8)
    ax.set_xlabel(f"loading on component {k + 1}")
    ax.legend(frameon=False)
    return _rows(_plain(ax), [loading.feature for loading in found])


def variance_explained(source: Source, view: str | None = None, ax: Axes | None = None) -> Axes:
    """Share of a view's variance that each component explains, in a usual center and in each center."""
    folder = _folder(source)
    found = explained.by_center(folder.run.model, view := _view(folder, view))
    ax = _axes(ax)
    image = ax.imshow(100 * np.array(list(found.values())), cmap="Blues", vmin=0, vmax=100, aspect="auto")
    q = folder.run.model.prior.q
    ax.set_xticks(range(q + 1), [*(str(k + 1) for k in range(q)), "all"])
    ax.set_xlabel(f"component, {_name(view)}")
    ax.figure.colorbar(image, ax=ax, label="variance explained, %")
    return _rows(ax, list(found))


def imputed(source: Source, center: str, view: str, ax: Axes | None = None) -> Axes:
    """What is predicted for a view that a center lacks, beside what other centers observed (mean ± sd, scaled)."""
    folder = _folder(source)
    if (center, view) not in imputation.gaps(folder.run.model):
        lacking = [f"{v} at {c}" for c, v in imputation.gaps(folder.run.model)]
        raise UserError(f"view {view!r} at center {center!r} is not missing; missing are {lacking or 'none'}")
    rows = imputation.predict_gap(folder.run.model, center, view)
    ax = _axes(ax)
    for i, row in enumerate(rows):
        for mean, sd in row.elsewhere.values():
            ax.errorbar(mean, i + 0.18, xerr=sd, fmt="o", color=SOFT, ms=4, lw=1)
    ax.errorbar(
        [r.mean for r in rows], np.arange(len(rows)) - 0.18, xerr=[r.sd for r in rows], fmt="o", color=COLOURS[1]
    )
    ax.set_xlabel(f"{_name(view)}, predicted at {_name(center)} (colour) and observed elsewhere (grey)")
    return _rows(_plain(ax), [row.feature for row in rows])


def model_choice(source: Source, ax: Axes | None = None) -> Axes:
    """WAIC above the best for each number of components, with two standard errors; needs a folder of ``select``."""
    folder = _folder(source)
    if not folder.selection:
        raise UserError(choice.NONE)
    ax = _axes(ax)
    for k, (scaling, rows) in enumerate(choice.by_scaling(folder).items()):
        x, y, se = (
            np.array([float(row[name]) for row in rows]) for name in ("components", "difference", "difference_se")
        )
        ax.errorbar(x, y, yerr=2 * se, fmt="o-", color=COLOURS[k % len(COLOURS)], label=scaling or "none")
    ax.set(xlabel="components", ylabel="WAIC above the best")
    ax.legend(frameon=False, title="scaling")
    return _plain(ax)


def _folder(source: Source) -> Folder:
    if not isinstance(source, FederatedPPCA):
        return read_folder(Path(source))
    if not hasattr(source, "model_"):
        raise UserError("the estimator is not fitted; call fit first")
    return from_estimator(source)


def _axes(ax: Axes | None) -> Axes:
    if ax is not None:
        return ax
    from matplotlib import pyplot

    return pyplot.subplots(layout="constrained")[1]


def _name(name: str) -> str:
    """A name that stays as it is: matplotlib would set what stands between dollars as a formula."""
    return name.replace("$", r"\$")


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


def _rows(ax: Axes, names: list[str]) -> Axes:
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
