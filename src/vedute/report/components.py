"""The latent space: where subjects lie, and how surely a subject of each center is placed there."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from vedute.model.parameters import Array
from vedute.model.prediction import posterior
from vedute.report.centers import WITHHELD
from vedute.report.content import (
    COLOURS,
    MANY,
    Figure,
    Option,
    Section,
    Table,
    count,
    layout,
    name_axis,
    num,
    numbers,
    safe,
)
from vedute.report.reading import Folder
from vedute.run.fitted_model import Model
from vedute.run.latent import components

Rows = NDArray[np.intp]
MOST = 3000  # subjects drawn; more make a browser slow and a picture black
CENTERS = 12  # whose case mix is drawn
ROWS = "subjects: their positions are written at the centers only (local/), and stayed there"


def uncertainty(model: Model, center: str) -> Array:
    """Posterior covariance of a subject of the center all of whose views were observed, (q, q)."""
    emission = model.emission(center)
    row = emission.mu.copy()
    for view, columns in model.layout.slices.items():
        if view not in model.centers[center].views:
            row[columns] = np.nan
    return np.asarray(posterior(emission, row[None]).covs[0])


def marked(model: Model) -> list[str]:
    """Centers whose case mix is drawn: all, or the most unusual ones where they are many."""
    return sorted(model.centers, key=lambda name: -float(np.linalg.norm(model.centers[name].m)))[:CENTERS]


def section(folder: Folder, ids: bool = False) -> Section:
    """The chapter; names of subjects are shown only where asked for."""
    model = folder.run.model
    drawn, total = _thinned(folder), sum(len(s.ids) for s in folder.subjects.values())
    sentences, missing = [], []
    if total:
        kept = sum(len(rows) for rows in drawn.values())
        told = count(total, "subject") if kept == total else f"one in {-(-total // MOST)} of {count(total, 'subject')}"
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
    table = (_table(folder),) if model.centers else ()
    return Section("latent", "Latent space", tuple(sentences), (_figure(folder, drawn, ids),), table, tuple(missing))


def _table(folder: Folder) -> Table:
    model = folder.run.model
    rows = tuple(
        (
            name,
            *(f"{num(m)} ± {num(sd)}" for m, sd in zip(c.m, np.sqrt(np.diag(uncertainty(model, name))), strict=True)),
        )
        for name, c in model.centers.items()
    )
    head = ("center", *(f"component {k + 1}" for k in range(model.prior.q)))
    return Table("Case mix of each center ± uncertainty of a single subject", head, rows)


def _thinned(folder: Folder) -> dict[str, Rows]:
    """Which rows of each center are drawn."""
    step = max(1, -(-sum(len(s.ids) for s in folder.subjects.values()) // MOST))
    return {name: np.arange(0, len(s.ids), step, dtype=np.intp) for name, s in folder.subjects.items()}


def _figure(folder: Folder, drawn: Mapping[str, Rows], ids: bool) -> Figure:
    grouped = [name for name, s in folder.subjects.items() if s.groups is not None]
    build = _strip if folder.run.model.prior.q == 1 else _cloud
    options = [build(folder, "center", _by_center(folder, drawn, ids))]
    if grouped:
        options.append(build(folder, "group", _by_group(folder, drawn, ids)))
    alt = "Subjects in the latent space, two components at a time, coloured by center or by group."
    return Figure("latent", alt, tuple(options), "Colour by" if grouped else "")


Part = tuple[str, Array, list[str], list[str]]  # name, points, texts for hovering, center of each point


def _by_center(folder: Folder, drawn: Mapping[str, Rows], ids: bool) -> list[Part]:
    """A part for each center; all in one where they are many: nobody tells apart so many colours."""
    if len(drawn) > MANY:
        return [_part("subjects", list(drawn.items()), folder, ids)]
    return [_part(name, [(name, drawn[name])], folder, ids) for name in drawn if len(drawn[name])]


def _by_group(folder: Folder, drawn: Mapping[str, Rows], ids: bool) -> list[Part]:
    found: dict[str, list[tuple[str, Rows]]] = {}
    for name, rows in drawn.items():
        labels = np.array(
            [(folder.subjects[name].groups or ["no group"] * len(folder.subjects[name].ids))[i] for i in rows]
        )
        for group in dict.fromkeys(labels):
            found.setdefault(str(group) or "no group", []).append((name, rows[labels == group]))
    return [_part(group, parts, folder, ids) for group, parts in sorted(found.items())]


def _part(name: str, parts: Sequence[tuple[str, Rows]], folder: Folder, ids: bool) -> Part:
    x = np.concatenate([folder.subjects[c].x[rows] for c, rows in parts])
    texts, centers = [], []
    for center, rows in parts:
        subjects = folder.subjects[center]
        for i in rows:
            words = ([subjects.ids[i]] if ids else []) + [center] + ([subjects.groups[i]] if subjects.groups else [])
            texts.append(safe(", ".join(words)))
            centers.append(center)
    return name, x, texts, centers


def _marker(k: int, n: int) -> dict[str, Any]:
    shape = ("circle", "diamond", "square", "triangle-up", "x-thin-open")[(k // len(COLOURS)) % 5]
    return {"color": COLOURS[k % len(COLOURS)], "symbol": shape, "size": 7 if n < 1000 else 5, "opacity": 0.7}


def _cloud(folder: Folder, label: str, parts: list[Part]) -> Option:
    model, n = folder.run.model, sum(len(x) for _, x, _, _ in parts)
    traces: list[dict[str, Any]] = []
    columns: list[list[list[float | None]]] = []
    covs: dict[int, list[list[float | None]]] = {}
    for k, (name, x, texts, _) in enumerate(parts):
        traces.append(
            {"type": "scatter", "mode": "markers", "name": safe(name), "text": texts, "marker": _marker(k, n),
             "legendgroup": safe(name), "hovertemplate": "%{text}<extra></extra>"}
        )  # fmt: skip
        columns.append([numbers(column) for column in x.T])
    order = {name: k for k, (name, *_) in enumerate(parts)}
    for j, name in enumerate(marked(model)):
        center = model.centers[name]
        colour = COLOURS[order.get(name, j) % len(COLOURS)] if label == "center" else "#444444"
        alone = label == "center" and name not in order  # no points of its own in the legend
        common = {
            "type": "scatter",
            "showlegend": alone,
            "legendgroup": safe(name) if label == "center" else "case mix",  # a click hides cross and ellipse as well
            "name": safe(name),
            "text": [safe(f"case mix of {name}")],
        }
        mark = {"symbol": "cross", "size": 11, "color": colour, "line": {"width": 1, "color": "#ffffff"}}
        traces.append({**common, "mode": "markers", "marker": mark, "hovertemplate": "%{text}<extra></extra>"})
        columns.append([[value] for value in numbers(center.m)])
        covs[len(traces)] = [numbers(row) for row in uncertainty(model, name)]
        traces.append(
            {
                **common,
                "mode": "lines",
                "showlegend": False,
                "line": {"color": colour, "width": 2},
                "hoverinfo": "skip",
            }
        )
        columns.append([[value] for value in numbers(center.m)])
    axis = {"zeroline": False, "constrain": "domain"}  # equal scales, as distances have a meaning
    look = layout(
        640, xaxis=axis, yaxis={**axis, "scaleanchor": "x"}, hovermode="closest", showlegend=len(parts) <= MANY
    )
    return Option(label, tuple(traces), look, tuple(columns), covs)


def _strip(folder: Folder, label: str, parts: list[Part]) -> Option:
    """One component: subjects on a line for each center, spread a little so that they can be told apart."""
    model = folder.run.model
    names = list(folder.centers)
    place = {name: k for k, name in enumerate(names)}
    n = sum(len(x) for _, x, _, _ in parts)
    traces: list[dict[str, Any]] = []
    for k, (name, x, texts, centers) in enumerate(parts):
        height = [place[c] + 0.3 * np.sin(2.4 * i) for i, c in enumerate(centers)]
        traces.append(
            {"type": "scatter", "mode": "markers", "name": safe(name), "x": numbers(x[:, 0]), "y": numbers(height),
             "text": texts, "marker": _marker(k, n), "hovertemplate": "%{text}<extra></extra>"}
        )  # fmt: skip
    mean = [float(model.centers[c].m[0]) if c in model.centers else np.nan for c in names]
    sd = [float(np.sqrt(uncertainty(model, c)[0, 0])) if c in model.centers else np.nan for c in names]
    mark = {"symbol": "cross", "size": 11, "color": "#222222"}
    traces.append(
        {"type": "scatter", "mode": "markers", "name": "case mix", "x": numbers(mean), "y": list(range(len(names))),
         "error_x": {"type": "data", "array": numbers(sd), "color": "#222222"}, "marker": mark,
         "text": [safe(c) for c in names], "hovertemplate": "%{text}<extra></extra>"}
    )  # fmt: skip
    look = layout(
        max(360, 26 * min(len(names), 40)), xaxis={"title": {"text": components(1)[0].replace("t1", "t 1")}},
        yaxis=name_axis(names, down=True), hovermode="closest",
    )  # fmt: skip
    return Option(label, tuple(traces), look)
