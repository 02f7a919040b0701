"""Charts on the page, as plotly takes them: traces and a layout for each state of a figure."""

from __future__ import annotations

import html
import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from vedute.model.parameters import Array
from vedute.report import charts
from vedute.report.charts import COLOURS, INK, MANY, Axis, Series, colour
from vedute.report.content import Option

LABEL = 28  # characters of a name beside an axis; hovering and the tables show all of it
SHAPES = ("circle", "diamond", "square", "triangle-up", "x-thin-open")  # one more each time the colours are used up
Plotted = dict[str, Any]


def plotted(option: Option) -> Plotted:
    """One state of a figure.

    ``columns`` holds, for some traces, all components of their points, ``covs`` those of an ellipse about its one
    point: the page then offers a choice of the two components to look at.
    """
    found: Plotted = {"label": option.label, "columns": [], "covs": None}
    chart, height = option.chart, option.height
    match chart:
        case charts.Lines():
            return found | _lines(chart, height)
        case charts.Bars():
            return found | _bars(chart, height)
        case charts.Dots():
            return found | _dots(chart, height)
        case charts.Heatmap():
            return found | _heatmap(chart, height)
        case charts.Cloud():
            return found | _cloud(chart, height)
        case charts.Strip():
            return found | _strip(chart, height)


def safe(name: str) -> str:
    """A name for a figure: plotly reads a few HTML tags in texts, so none may be left."""
    return html.escape(name, quote=False)


def short(name: str) -> str:
    """The same beside an axis, where there is little room."""
    return safe(name if len(name) <= LABEL else name[: LABEL - 1] + "…")


def numbers(values: Array | Sequence[float]) -> list[float | None]:
    """Numbers for a figure, to five digits; NaN and infinity, which JSON does not know, are gaps."""
    return [float(f"{v:.5g}") if math.isfinite(v) else None for v in np.asarray(values, dtype=float).ravel()]


def _layout(height: int, **more: Any) -> Plotted:
    """The common look."""
    return {
        "height": height,
        "margin": {"l": 60, "r": 16, "t": 40, "b": 56},
        "font": {"family": "system-ui, sans-serif", "size": 13, "color": INK},
        "paper_bgcolor": "#ffffff",
        "plot_bgcolor": "#ffffff",
        "colorway": list(COLOURS),
        "hoverlabel": {"align": "left"},
        "legend": {"orientation": "h", "traceorder": "normal", "yanchor": "bottom", "y": 1.0, "x": 0},
        **more,
    }


def _axis(axis: Axis, **more: Any) -> Plotted:
    found: Plotted = {"title": {"text": axis.title}, **more}
    if axis.from_zero:
        found |= {"rangemode": "tozero", "zeroline": False}
    if axis.whole:
        found |= {"dtick": 1}
    if axis.log:
        found |= {"type": "log", "exponentformat": "power"}
        found |= {} if axis.whole else {"nticks": 6, "automargin": True}
    return found


def _names(names: Sequence[str], *, down: bool = False) -> Plotted:
    """An axis with a place for each name, from the top ``down``; names stay away where they would not fit."""
    ends = [-0.6, len(names) - 0.4]
    ends = ends[::-1] if down else ends
    axis: Plotted = {"zeroline": False, "automargin": True, "ticks": "", "ticklabelstandoff": 6, "range": ends}
    if len(names) > MANY:
        return {**axis, "showticklabels": False}
    return {**axis, "tickmode": "array", "tickvals": list(range(len(names))), "ticktext": [short(n) for n in names]}


def _hover(words: str) -> str:
    """``{x}`` as plotly writes it, and no second box beside."""
    return words.replace("{", "%{") + "<extra></extra>"


def _trace(series: Series, hover: str, along: str, **more: Any) -> Plotted:
    """What the points of all charts have in common; error bars run ``along`` an axis."""
    found: Plotted = {"name": safe(series.name), "x": numbers(series.x), "y": numbers(series.y)}
    found["hovertemplate"] = _hover(hover)
    if "{text}" in hover:
        found["text"] = [safe(text) for text in series.texts or [series.name] * len(series.x)]
    if series.errors is not None:
        below, above = np.broadcast_to(series.errors, (2, len(series.x)))
        bars: Plotted = {"type": "data", "array": numbers(above)}
        if series.errors.ndim > 1:
            bars |= {"symmetric": False, "arrayminus": numbers(below)}
        found[f"error_{along}"] = bars
    return {**found, **more}


def _lines(chart: charts.Lines, height: int) -> Plotted:
    mode = "lines+markers" if chart.markers else "lines"
    look = {"type": "scatter", "mode": mode}
    traces = [
        _trace(series, chart.hover, "y", **look, line={"color": series.colour}, marker={"color": series.colour})
        for series in chart.series
    ]
    return {"data": traces, "layout": _layout(height, xaxis=_axis(chart.x, zeroline=False), yaxis=_axis(chart.y))}


def _bars(chart: charts.Bars, height: int) -> Plotted:
    traces = [
        _trace(series, chart.hover, "x", type="bar", orientation="h", marker={"color": series.colour},
               textposition="none")
        for series in chart.series
    ]  # fmt: skip
    for trace in traces:
        trace.get("error_x", {})["color"] = INK
    gap = {"barmode": "stack", "bargap": 0.3} if chart.stacked else {"bargap": 0.25}
    look = _layout(height, xaxis=_axis(chart.x), yaxis=_names(chart.rows, down=True), **gap)
    return {"data": traces, "layout": look}


def _dots(chart: charts.Dots, height: int) -> Plotted:
    size = 10 if len(chart.series) == 1 else 8
    traces = []
    for series in chart.series:
        look = {"type": "scatter", "mode": "markers", "marker": {"size": size, "color": series.colour}}
        trace = _trace(series, chart.hover, "x", **look)
        trace.get("error_x", {}).update(color=series.colour, thickness=1.5)
        traces.append(trace)
    marked = {} if chart.mark is None else _mark(*chart.mark)
    look = _layout(height, xaxis=_axis(chart.x), yaxis=_names(chart.rows, down=True), **marked)
    return {"data": traces, "layout": look}


def _mark(value: float, words: str) -> Plotted:
    line = {"type": "line", "x0": value, "x1": value, "yref": "paper", "y0": 0, "y1": 1,
            "line": {"color": charts.SOFT, "dash": "dot"}}  # fmt: skip
    note = {"x": value, "y": 1, "yref": "paper", "yanchor": "bottom", "text": words, "showarrow": False,
            "font": {"color": "#595959", "size": 12}}  # fmt: skip
    return {"shapes": [line], "annotations": [note]}


def _heatmap(chart: charts.Heatmap, height: int) -> Plotted:
    gap = 1 if chart.scale else 2
    shades = [[0, charts.EMPTY], [0.01, charts.EMPTY], [0.01, charts.BLUES[0]], [1, charts.BLUES[-1]]]
    trace: Plotted = {
        "type": "heatmap", "z": [[round(float(value), 2) for value in row] for row in chart.values], "zmin": 0,
        "zmax": 100, "xgap": gap, "ygap": gap if len(chart.rows) < 60 else 0,
        "customdata": [[safe(text) for text in row] for row in chart.texts],
        "hovertemplate": _hover("{customdata}"), "textfont": {"color": INK},
    }  # fmt: skip
    if chart.scale:
        trace |= {"colorscale": [[i / 2, shade] for i, shade in enumerate(charts.BLUES)]}
        trace |= {"colorbar": {"title": {"text": chart.scale}, "thickness": 12}}
    else:
        trace |= {"colorscale": shades, "showscale": False}
    if chart.roomy:
        trace |= {"text": [list(row) for row in chart.cells], "texttemplate": "%{text}"}
    across = _names(chart.columns) | ({"title": {"text": chart.title}} if chart.title else {})
    return {"data": [trace], "layout": _layout(height, xaxis=across, yaxis=_names(chart.rows, down=True))}


def _subjects(part: charts.Points, k: int, n: int) -> Plotted:
    """The k-th part of n subjects, without its places."""
    shape = SHAPES[k // len(COLOURS) % len(SHAPES)]
    return {
        "type": "scatter", "mode": "markers", "name": safe(part.name), "text": [safe(text) for text in part.texts],
        "marker": {"color": colour(k), "symbol": shape, "size": 7 if n < 1000 else 5, "opacity": 0.7},
        "hovertemplate": _hover("{text}"),
    }  # fmt: skip


def _cloud(chart: charts.Cloud, height: int) -> Plotted:
    n = sum(len(part.x) for part in chart.parts)
    traces = [{**_subjects(part, k, n), "legendgroup": safe(part.name)} for k, part in enumerate(chart.parts)]
    columns = [[numbers(column) for column in part.x.T] for part in chart.parts]
    covs: dict[int, list[list[float | None]]] = {}
    place = {part.name: k for k, part in enumerate(chart.parts)}
    for j, cross in enumerate(chart.crosses):
        shade = colour(place.get(cross.center, j)) if chart.by_center else INK
        traces += _cross(cross, shade, chart.by_center, alone=chart.by_center and cross.center not in place)
        columns += 2 * [[[value] for value in numbers(cross.mean)]]
        covs[len(traces) - 1] = [numbers(row) for row in cross.cov]
    axis = {"zeroline": False, "constrain": "domain"}  # equal scales, as distances have a meaning
    look = _layout(height, xaxis=axis, yaxis={**axis, "scaleanchor": "x"}, hovermode="closest",
                   showlegend=len(chart.parts) <= MANY)  # fmt: skip
    return {"data": traces, "layout": look, "columns": columns, "covs": covs}


def _cross(cross: charts.Cross, shade: str, by_center: bool, *, alone: bool) -> list[Plotted]:
    """A cross and its ellipse; in the legend only where it is ``alone``, without points of its own."""
    common = {
        "type": "scatter", "name": safe(cross.center), "text": [safe(f"case mix of {cross.center}")],
        "legendgroup": safe(cross.center) if by_center else "case mix",  # a click hides cross and ellipse as well
    }  # fmt: skip
    mark = {"symbol": "cross", "size": 11, "color": shade, "line": {"width": 1, "color": "#ffffff"}}
    line = {"color": shade, "width": 2}
    return [
        {**common, "mode": "markers", "marker": mark, "hovertemplate": _hover("{text}"), "showlegend": alone},
        {**common, "mode": "lines", "line": line, "hoverinfo": "skip", "showlegend": False},
    ]


def _strip(chart: charts.Strip, height: int) -> Plotted:
    """Subjects of a center are spread a little over its row, so that they can be told apart."""
    place = {name: k for k, name in enumerate(chart.rows)}
    n = sum(len(part.x) for part in chart.parts)
    traces = []
    for k, part in enumerate(chart.parts):
        heights = [place[center] + 0.3 * np.sin(2.4 * i) for i, center in enumerate(part.centers)]
        traces.append({**_subjects(part, k, n), "x": numbers(part.x[:, 0]), "y": numbers(heights)})
    names = [cross.center for cross in chart.crosses]
    traces.append(
        {"type": "scatter", "mode": "markers", "name": "case mix", "y": [place[name] for name in names],
         "x": numbers([float(cross.mean[0]) for cross in chart.crosses]),
         "error_x": {"type": "data", "array": numbers([float(np.sqrt(cross.cov[0, 0])) for cross in chart.crosses]),
                     "color": INK},
         "marker": {"symbol": "cross", "size": 11, "color": INK}, "text": [safe(name) for name in names],
         "hovertemplate": _hover("{text}")}
    )  # fmt: skip
    look = _layout(height, xaxis=_axis(chart.x), yaxis=_names(chart.rows, down=True), hovermode="closest")
    return {"data": traces, "layout": look}
