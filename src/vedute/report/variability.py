"""How centers differ: the share of variance that lies between them, and how far each is from the usual."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from vedute.model.parameters import GlobalPrior, ViewParams, ViewPrior
from vedute.model.prediction import between_centers
from vedute.report.centers import WITHHELD
from vedute.report.content import (
    COLOURS,
    MANY,
    Figure,
    Option,
    Section,
    Table,
    layout,
    name_axis,
    num,
    numbers,
    percent,
    row_height,
    safe,
)
from vedute.report.reading import Folder
from vedute.run.deviation import Deviation, center_deviation

Z = 1.96  # of a 95 % interval
ONE = "how centers differ in it cannot be told, as fewer than two centers hold it"


@dataclass(frozen=True)
class Share:
    """Shares of a view's variance: how centers measure (their mu and W), whom they recruit, and all the rest."""

    measuring: float
    case_mix: float


def share(view: ViewPrior, prior: GlobalPrior) -> Share:
    """Where the variance of a typical feature lies; NaN where a single center tells nothing of others."""
    if view.n_centers < 2 or math.isinf(view.sigma2_mu):
        return Share(math.nan, math.nan)
    s2_mu, s2_W = between_centers(view)
    loading = float(np.mean((view.W**2).sum(axis=1)))
    measuring = s2_mu + s2_W * prior.q * (1.0 + prior.tau2)
    total = measuring + loading * (1.0 + prior.tau2) + view.sigma2
    return Share(measuring / total, prior.tau2 * loading / total)


def sampling_sd(params: ViewParams, prior: ViewPrior, n: int) -> float:
    """Standard deviation of a center's deviation (rms over features) when n other subjects had come.

    By the delta method: the mean of n subjects has covariance (W W' + sigma2 I) / n.
    """
    a = params.mu - prior.mu
    length = float(np.linalg.norm(a))
    if length == 0.0:
        return 0.0
    g = a / length
    variance = float(((params.W.T @ g) ** 2).sum()) + params.sigma2
    return math.sqrt(variance / (n * len(a) * prior.sigma2_mu))


def interval(folder: Folder, row: Deviation) -> tuple[float, float]:
    """A 95 % interval of the deviation of a center's means; NaN where the number of its subjects is not known."""
    seen = folder.seen.get(row.center, {})
    n = seen[row.view].subjects if row.view in seen else folder.counts.get(row.center, 0)
    if n == 0 or math.isnan(row.mean):
        return math.nan, math.nan
    model = folder.run.model
    sd = sampling_sd(model.centers[row.center].views[row.view], model.prior.views[row.view], n)
    return max(0.0, row.mean - Z * sd), row.mean + Z * sd


def sentences(rows: list[Deviation]) -> list[str]:
    """Who differs most, and in what, in plain words."""
    found = []
    for what, template in (
        ("mean", "{} differs most, in {}: {} sd."),
        ("loadings", "In how features go together, {} differs most, in {}: {} sd."),
        ("noise", "In noise, {} differs most, in {}: {} sd ({})."),
    ):
        told = [row for row in rows if math.isfinite(getattr(row, what))]
        if told:
            top = max(told, key=lambda row: abs(getattr(row, what)))
            value = getattr(top, what)
            more = "noisier than usual" if value > 0 else "less noisy than usual"
            found.append(template.format(top.center, top.view, f"{abs(value):.1f}", more))
    mixed = [row for row in rows if row.case_mix > 0]
    if mixed:
        top = max(mixed, key=lambda row: row.case_mix)
        found.append(f"{top.center} recruits the most unusual patients: its case mix lies {top.case_mix:.1f} sd away.")
    return found


def section(folder: Folder) -> Section:
    """The chapter."""
    model = folder.run.model
    rows = center_deviation(model)
    missing = [f"{name}: {ONE}" for name, view in model.prior.views.items() if view.n_centers < 2]
    if not rows:
        missing.append("deviations of single centers: " + WITHHELD)
    elif any(row.center not in folder.counts for row in rows):
        missing.append("intervals of the deviations: they need the numbers of subjects, which stayed at the centers")
    shares = {name: share(view, model.prior) for name, view in model.prior.views.items()}
    told = {name: s for name, s in shares.items() if math.isfinite(s.measuring)}
    meaning = _chance(folder, rows)
    meaning += ["1 sd is what a usual center differs by (root mean square over the features of the view)."]
    if folder.counts:
        meaning.append("Intervals tell what other subjects of the same center would have given.")
    finite = any(math.isfinite(row.mean) for row in rows)
    figures = [_shares_figure(told)] if told else []
    if finite:
        figures.append(_figure(folder, rows))
    return Section(
        "variability", "Variability between centers",
        tuple(sentences(rows) + (meaning if finite else []) + _largest(told)), tuple(figures),
        (_shares(shares), *([_table(folder, rows)] if rows else [])), tuple(missing),
    )  # fmt: skip


def _chance(folder: Folder, rows: list[Deviation]) -> list[str]:
    """A word of caution where even the center that differs most may differ by chance."""
    lows = [low for low, _ in (interval(folder, row) for row in rows) if math.isfinite(low)]
    return ["No center differs for sure: every interval of the means reaches 0."] if lows and max(lows) == 0 else []


def _largest(shares: Mapping[str, Share]) -> list[str]:
    if not shares:
        return []
    view, most = max(shares.items(), key=lambda item: item[1].measuring)
    where = f"{percent(most.measuring)} of its variance lies in how they measure, {percent(most.case_mix)} in whom they"
    return [f"Centers measure most differently in {view}: {where} recruit."]


def _shares(shares: Mapping[str, Share]) -> Table:
    rows = tuple((name, percent(s.measuring), percent(s.case_mix)) for name, s in shares.items())
    return Table("Share of variance between centers", ("view", "how they measure", "whom they recruit"), rows)


def _shares_figure(shares: Mapping[str, Share]) -> Figure:
    names = list(shares)
    parts = {
        "how centers measure": [s.measuring for s in shares.values()],
        "whom they recruit": [s.case_mix for s in shares.values()],
    }
    traces = tuple(
        {
            "type": "bar", "orientation": "h", "name": what, "y": list(range(len(names))),
            "x": numbers([100 * value for value in values]), "marker": {"color": colour},
            "text": [safe(name) for name in names], "textposition": "none",
            "hovertemplate": "%{text}: %{x:.1f} %<extra></extra>",
        }
        for (what, values), colour in zip(parts.items(), (COLOURS[1], COLOURS[0]), strict=True)
    )  # fmt: skip
    look = layout(
        row_height(len(names)), barmode="stack", bargap=0.3,
        xaxis={"title": {"text": "share of the view's variance, %"}, "rangemode": "tozero", "zeroline": False},
        yaxis=name_axis(names, down=True),
    )  # fmt: skip
    alt = "Share of each view's variance that lies between centers: in how they measure, and in whom they recruit."
    return Figure("shares", alt, (Option("", traces, look),))


def _table(folder: Folder, rows: list[Deviation]) -> Table:
    ordered = sorted(rows, key=lambda row: -row.mean if math.isfinite(row.mean) else math.inf)
    cells = tuple(
        (r.center, r.view, num(r.mean), _range(*interval(folder, r)), num(r.loadings), num(r.noise), num(r.case_mix))
        for r in ordered
    )
    head = ("center", "view", "means", "95 % interval", "loadings", "noise", "case mix")
    return Table("Deviation of each center from the usual, in sd; the farthest first", head, cells, labels=2)


def _range(low: float, high: float) -> str:
    return num(low) if math.isnan(low) else f"{num(low)} to {num(high)}"


def _figure(folder: Folder, rows: list[Deviation]) -> Figure:
    options = []
    for view in folder.run.model.layout.names:
        own = sorted((r for r in rows if r.view == view and math.isfinite(r.mean)), key=lambda r: -r.mean)[:MANY]
        if not own:
            continue
        bounds = [interval(folder, r) for r in own]
        x, places = np.array([r.mean for r in own]), list(range(len(own)))
        trace = {
            "type": "scatter", "mode": "markers", "name": safe(view), "x": numbers(x), "y": places,
            "marker": {"size": 10, "color": COLOURS[0]},
            "error_x": {
                "type": "data", "symmetric": False, "array": numbers([b[1] for b in bounds] - x),
                "arrayminus": numbers(x - [b[0] for b in bounds]), "color": COLOURS[0], "thickness": 1.5,
            },
            "text": [safe(r.center) for r in own], "hovertemplate": "%{text}: %{x:.2f} sd<extra></extra>",
        }  # fmt: skip
        line = {
            "type": "line",
            "x0": 1,
            "x1": 1,
            "yref": "paper",
            "y0": 0,
            "y1": 1,
            "line": {"color": "#777777", "dash": "dot"},
        }
        note = {
            "x": 1, "y": 1, "yref": "paper", "yanchor": "bottom", "text": "a usual center", "showarrow": False,
            "font": {"color": "#595959", "size": 12},
        }  # fmt: skip
        look = layout(
            row_height(len(own)), xaxis={"title": {"text": "deviation, sd"}, "rangemode": "tozero", "zeroline": False},
            yaxis=name_axis([r.center for r in own], down=True), shapes=[line], annotations=[note],
        )  # fmt: skip
        options.append(Option(view, (trace,), look))
    alt = "Deviation of each center's means from the usual, with 95 % intervals; the dotted line is a usual center."
    if len(folder.centers) > MANY:
        alt += f" The {MANY} farthest of each view; the table has all."
    return Figure("deviation", alt, tuple(options), "View")
