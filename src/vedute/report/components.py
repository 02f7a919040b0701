"""What the components are: where subjects lie, how surely each is placed there, and the features that weigh most."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from vedute.model.parameters import Array
from vedute.model.prediction import posterior
from vedute.report.centers import WITHHELD, Z
from vedute.report.charts import MANY, Axis, Bars, Cloud, Cross, Points, Series, Strip, array, colour
from vedute.report.content import Figure, Option, Section, Table, count, listed, num, row_height
from vedute.report.reading import Folder
from vedute.run.fitted_model import Model

MOST = 3000  # subjects drawn on the page; more make a browser slow and a picture black
CENTERS = 12  # whose case mix is drawn
ROWS = "subjects: their positions are written at the centers only (local/), and stayed there"
TOP = 5  # features of a view that are named for each component


def uncertainty(model: Model, center: str) -> Array:
    """Posterior covariance of a subject of the center all of whose views were observed, (q, q)."""
    emission = model.emission(center)
    row = emission.mu.copy()
    for view, columns in model.layout.slices.items():
        if view not in model.centers[center].views:
            row[columns] = np.nan
    return np.asarray(posterior(emission, row[None]).covs[0])


def crosses(model: Model, most: int = CENTERS) -> list[Cross]:
    """The case mix of all centers, or of the most unusual ones where they are many."""
    names = sorted(model.centers, key=lambda name: -float(np.linalg.norm(model.centers[name].m)))[:most]
    return [Cross(name, model.centers[name].m, uncertainty(model, name)) for name in names]


def cloud(folder: Folder, by: str, parts: Sequence[Points]) -> Cloud:
    """Subjects in the latent space, with the case mix of centers."""
    return Cloud(parts, crosses(folder.run.model), by == "center")


def subjects(folder: Folder, by: str, step: int = 1, *, ids: bool = False) -> list[Points]:
    """Every ``step``-th subject of each center, in parts by "center" or "group"; named only where ``ids`` asks."""
    found: dict[str, list[tuple[str, int]]] = {}
    for center, latent in folder.subjects.items():
        for i in range(0, len(latent.ids), step):
            group = latent.groups[i] if latent.groups else ""
            found.setdefault(center if by == "center" else group or "no group", []).append((center, i))
    names = found if by == "center" else sorted(found)
    return [_points(folder, name, found[name], ids) for name in names]


def _points(folder: Folder, name: str, chosen: Sequence[tuple[str, int]], ids: bool) -> Points:
    texts = []
    for center, i in chosen:
        latent = folder.subjects[center]
        words = ([latent.ids[i]] if ids else []) + [center] + ([latent.groups[i]] if latent.groups else [])
        texts.append(", ".join(words))
    x = np.array([folder.subjects[center].x[i] for center, i in chosen])
    return Points(name, x, texts, [center for center, _ in chosen])


def _together(parts: Sequence[Points]) -> Points:
    """All in one: nobody tells apart so many colours."""
    x = np.concatenate([part.x for part in parts])
    return Points("subjects", x, [t for part in parts for t in part.texts], [c for part in parts for c in part.centers])


def latent(folder: Folder, ids: bool = False) -> Section:
    """The chapter on the latent space; names of subjects are shown only where asked for."""
    model = folder.run.model
    total = sum(len(latent.ids) for latent in folder.subjects.values())
    step = max(1, -(-total // MOST))
    kept = sum(-(-len(latent.ids) // step) for latent in folder.subjects.values())
    sentences, missing = [], []
    if total:
        told = count(total, "subject") if kept == total else f"one in {step} of {count(total, 'subject')}"
        whose = "model of its own center" if model.centers else "global model"
        sentences.append(f"Each point is a subject ({told}), placed by the {whose}.")
        sentences.append("This page therefore shows single patients: treat it with the care that their data need.")
        if not ids:
            missing.append("names of subjects: they stay at home unless the report is made with --ids")
    else:
        missing.append(ROWS)
    absent = [name for name in folder.centers if name not in folder.subjects]
    if total and absent:
        missing.append(f"subjects of {count(len(absent), 'center')}: their rows are not in this folder")
    if not model.centers:
        missing.append("case mix and certainty of single centers: " + WITHHELD)
        if not total:
            return Section("latent", "Latent space", missing=tuple(missing))
    else:
        sentences.append(
            "Crosses are the case mix of each center, the mean of its patients; the ellipse around a cross is one "
            "standard deviation of the uncertainty about a single subject with all views of that center."
        )
        if len(model.centers) > CENTERS:
            sentences.append(f"Crosses are drawn for the {CENTERS} centers with the most unusual case mix.")
    table = (_case_mix(model),) if model.centers else ()
    figure = _latent_figure(folder, step, ids)
    return Section("latent", "Latent space", tuple(sentences), (figure,), table, tuple(missing))


def _case_mix(model: Model) -> Table:
    rows = tuple(
        (
            name,
            *(f"{num(m)} ± {num(sd)}" for m, sd in zip(c.m, np.sqrt(np.diag(uncertainty(model, name))), strict=True)),
        )
        for name, c in model.centers.items()
    )
    head = ("center", *(f"component {k + 1}" for k in range(model.prior.q)))
    return Table("Case mix of each center ± uncertainty of a single subject", head, rows)


def _latent_figure(folder: Folder, step: int, ids: bool) -> Figure:
    grouped = any(latent.groups is not None for latent in folder.subjects.values())
    options = []
    for by in ("center", "group") if grouped else ("center",):
        parts = subjects(folder, by, step, ids=ids)
        if by == "center" and len(parts) > MANY:
            parts = [_together(parts)]
        options.append(_latent_option(folder, by, parts))
    alt = "Subjects in the latent space, two components at a time, coloured by center or by group."
    return Figure("latent", alt, tuple(options), "Colour by" if grouped else "")


def _latent_option(folder: Folder, by: str, parts: Sequence[Points]) -> Option:
    if folder.run.model.prior.q > 1:
        return Option(by, cloud(folder, by, parts), 640)
    centers = folder.centers
    strip = Strip(centers, parts, crosses(folder.run.model, len(centers)), Axis("component 1"))
    return Option(by, strip, max(360, 26 * min(len(centers), MANY)))


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


def loading_bars(model: Model, component: int) -> Bars:
    """The largest loadings of each view in a component, with 95 % intervals where more than one center holds it."""
    found = top_loadings(model, component)
    series = []
    for j, view in enumerate(model.prior.views):
        own = [i for i, loading in enumerate(found) if loading.view == view]
        errors = Z * array([found[i].se for i in own])
        series.append(Series(
            view, array([found[i].value for i in own]), array(own), None if np.isnan(errors).any() else errors,
            [f"{view}: {found[i].feature}" for i in own], colour(j),
        ))  # fmt: skip
    return Bars([loading.feature for loading in found], series, Axis("loading"), "{text}: {x:.2f}")


def loadings(folder: Folder) -> Section:
    """The chapter on what the components mean."""
    model = folder.run.model
    sentences = []
    for k in range(min(model.prior.q, 12)):
        top = sorted(top_loadings(model, k), key=lambda loading: -abs(loading.value))[:3]
        words = [f"{loading.feature} ({loading.view}, {loading.value:+.2f})" for loading in top]
        sentences.append(f"Component {k + 1} is mostly {listed(words)}.")
    sentences.append("Loadings are in scaled units; a component may be turned round, so only signs within it compare.")
    alone = [name for name, view in model.prior.views.items() if view.n_centers < 2]
    missing = (f"uncertainty for {listed(alone)}: fewer than two centers hold it",) if alone else ()
    tables = tuple(_loadings(model, k) for k in range(model.prior.q))
    return Section(
        "loadings", "Loadings: what the components mean", tuple(sentences), (_loading_figure(model),), tables, missing
    )


def _loadings(model: Model, k: int) -> Table:
    rows = tuple(
        (found.view, found.feature, num(found.value), num(found.se, 3), num(found.spread, 3))
        for found in top_loadings(model, k)
    )
    head = ("view", "feature", "loading", "standard error", "sd between centers")
    most = f"the {TOP} largest loadings of each view"
    return Table(f"Component {k + 1}: {most}", head, rows, labels=2, folded=k > 0)


def _loading_figure(model: Model) -> Figure:
    options = []
    for k in range(model.prior.q):
        bars = loading_bars(model, k)
        options.append(Option(f"component {k + 1}", bars, min(row_height(min(len(bars.rows), MANY)), 1100)))
    alt = "The largest loadings of each view in a component, with 95 % intervals of the global loading."
    return Figure("loadings", alt, tuple(options), "Component")
