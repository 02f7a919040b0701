"""What was fitted and how centers differ: views and what is missing, shares of variance, and who is unusual."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from vedute.model.parameters import GlobalPrior, ViewParams, ViewPrior
from vedute.model.prediction import between_centers
from vedute.report.charts import MANY, Axis, Bars, Dots, Heatmap, Series, array, colour
from vedute.report.content import UNKNOWN, Figure, Option, Section, Table, count, listed, num, percent, row_height
from vedute.report.reading import Folder
from vedute.run.fitted_model import Deviation, center_deviation

FEW = 6
WITHHELD = "a center's own parameters stay at home across machines, and under a privacy policy that keeps them there"
Z = 1.96  # of a 95 % interval
ONE = "how centers differ in it cannot be told, as fewer than two centers hold it"


def holdings(folder: Folder) -> dict[str, frozenset[str]]:
    """The views of each center, from its parameters or else from what was counted at home."""
    told = {name: frozenset(views) for name, views in folder.seen.items()}
    return told | {name: frozenset(center.views) for name, center in folder.run.model.centers.items()}


def filled(folder: Folder) -> dict[str, list[float]]:
    """Share of the cells of each view that hold a value, by center; 1 where it has the view and nobody counted."""
    sizes = dict(zip(folder.run.model.layout.names, folder.run.model.layout.sizes, strict=True))

    def share(center: str, view: str) -> float:
        if (seen := folder.seen.get(center, {}).get(view)) is None:
            return 1.0
        return (seen.subjects - seen.empty / sizes[view]) / folder.counts[center]

    return {name: [share(name, v) if v in held else 0.0 for v in sizes] for name, held in holdings(folder).items()}


def holdings_map(folder: Folder) -> Heatmap:
    """What is missing: centers by views, coloured by the share of cells that hold a value."""
    shares, views = filled(folder), folder.run.model.layout.names
    return Heatmap(
        list(shares), views, 100 * np.array(list(shares.values())),
        [["none" if share == 0 else percent(share) for share in row] for row in shares.values()],
        [[_words(folder, name, *pair) for pair in zip(views, row, strict=True)] for name, row in shares.items()],
        roomy=len(shares) * len(views) <= 150 and len(views) <= 12,
    )  # fmt: skip


def _words(folder: Folder, center: str, view: str, share: float) -> str:
    seen = folder.seen.get(center, {}).get(view)
    words = "no data" if share == 0 else "has data"
    if seen is not None:
        words = f"{seen.subjects:,} of {folder.counts[center]:,} subjects, {percent(share)} of all cells"
    return f"{center}, {view}: {words}"


def fitted(folder: Folder) -> Section:
    """The chapter on what was fitted."""
    model = folder.run.model
    held = holdings(folder)
    views, total = model.layout.names, sum(folder.counts.values())
    known = len(folder.counts) == len(folder.centers)
    people = f", {count(total, 'subject')}" if known else ""
    size = f"{count(len(views), 'view')} with {count(model.layout.total, 'feature')} in all"
    chosen = model.settings
    sentences = [
        f"{count(len(folder.centers), 'center')}{people}, {size}, {count(model.prior.q, 'component')}.",
        *_lacking(held, views),
        *_emptiest(folder),
        f"Scaling of the features: {chosen.scaling or 'none'}. Variant: {chosen.preset}. Seed: {chosen.seed}.",
    ]
    missing = []
    if not known:
        missing.append("numbers of subjects: they are written at the centers only (local/), and stayed there")
    if not set(folder.centers) <= set(folder.seen):
        missing.append("empty cells: they are counted at the centers only (local/), and the counts stayed there")
    if not held:
        missing.append(f"which center has which view: {WITHHELD}")
    alt = "Map of what is missing, centers by views: the bluer, the more cells hold a value; grey where none does."
    option = Option("", holdings_map(folder), row_height(len(held)))
    counted = (_counted(folder),) if folder.seen else ()
    return Section(
        "fitted", "What was fitted", tuple(sentences), (Figure("holdings", alt, (option,)),) if held else (),
        (_views(folder), _centers(folder), *counted), tuple(missing),
    )  # fmt: skip


def _lacking(held: Mapping[str, frozenset[str]], views: Sequence[str]) -> list[str]:
    """Who lacks what, by center while they are few and by view otherwise."""
    lacking = [(c, [v for v in views if v not in h]) for c, h in held.items() if not h >= set(views)]
    if held and not lacking:
        return ["Every center has data for every view."]
    if len(lacking) <= FEW:
        return [f"{c} has no data for {listed(absent)}." for c, absent in lacking]
    by_view = [(view, [c for c, absent in lacking if view in absent]) for view in views]
    return [f"No data for {view} at {count(len(c), 'center')}: {listed(c)}." for view, c in by_view if c]


def _emptiest(folder: Folder) -> list[str]:
    """Where, among the views that a center has, most cells are empty."""
    shares = [
        (1 - share, view, center)
        for center, row in filled(folder).items()
        for view, share in zip(folder.run.model.layout.names, row, strict=True)
        if view in folder.seen.get(center, {})
    ]
    if not shares:
        return []
    most, view, center = max(shares)
    if most <= 0:
        return ["No cell is empty in the views that centers have."]
    return [f"Where a center has a view, most is missing in {view} at {center}: {percent(most)} of its cells."]


def _views(folder: Folder) -> Table:
    model, held = folder.run.model, holdings(folder)
    rows = tuple(
        (view, f"{d:,}", str(sum(view in h for h in held.values())) if held else UNKNOWN)
        for view, d in zip(model.layout.names, model.layout.sizes, strict=True)
    )
    return Table("Views", ("view", "features", "centers with data"), rows)


def _centers(folder: Folder) -> Table:
    held = holdings(folder)
    rows = tuple(
        (
            name,
            ", ".join(v for v in folder.run.model.layout.names if v in held[name]) if name in held else UNKNOWN,
            f"{folder.counts[name]:,}" if name in folder.counts else UNKNOWN,
        )
        for name in folder.centers
    )
    return Table("Centers", ("center", "views", "subjects"), rows, labels=2)


def _counted(folder: Folder) -> Table:
    sizes = dict(zip(folder.run.model.layout.names, folder.run.model.layout.sizes, strict=True))

    def cell(center: str, view: str, features: int) -> str:
        if (seen := folder.seen[center].get(view)) is None:
            return "0"
        return f"{seen.subjects:,} ({percent(seen.empty / (seen.subjects * features))})"

    rows = tuple((name, *(cell(name, view, d) for view, d in sizes.items())) for name in folder.seen)
    return Table("Subjects with each view (empty cells in their rows)", ("center", *sizes), rows)


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


def shares(prior: GlobalPrior) -> dict[str, Share]:
    """The shares of all views in which they can be told."""
    found = {name: share(view, prior) for name, view in prior.views.items()}
    return {name: both for name, both in found.items() if math.isfinite(both.measuring)}


def share_bars(found: Mapping[str, Share]) -> Bars:
    """Share of each view's variance that lies between centers."""
    rows = array(range(len(found)))
    measuring = array([100 * both.measuring for both in found.values()])
    recruited = array([100 * both.case_mix for both in found.values()])
    series = (
        Series("how centers measure", measuring, rows, texts=list(found), colour=colour(1)),
        Series("whom they recruit", recruited, rows, texts=list(found), colour=colour(0)),
    )
    axis = Axis("share of the view's variance, %", from_zero=True)
    return Bars(list(found), series, axis, "{text}: {x:.1f} %", stacked=True)


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


def deviations(folder: Folder, view: str) -> list[Deviation]:
    """The centers that hold a view, the farthest from the usual first."""
    rows = [row for row in center_deviation(folder.run.model) if row.view == view and math.isfinite(row.mean)]
    return sorted(rows, key=lambda row: -row.mean)


def deviation_dots(folder: Folder, rows: Sequence[Deviation]) -> Dots:
    """How far the means of each center lie from the usual, with 95 % intervals."""
    x, names = array([row.mean for row in rows]), [row.center for row in rows]
    errors = np.abs(array([interval(folder, row) for row in rows]).T - x)
    series = Series(rows[0].view, x, array(range(len(rows))), errors, names)
    return Dots(names, (series,), Axis("deviation, sd", from_zero=True), "{text}: {x:.2f} sd", (1, "a usual center"))


def variability(folder: Folder) -> Section:
    """The chapter on how centers differ."""
    prior = folder.run.model.prior
    rows = center_deviation(folder.run.model)
    missing = [f"{name}: {ONE}" for name, view in prior.views.items() if view.n_centers < 2]
    if not rows:
        missing.append("deviations of single centers: " + WITHHELD)
    elif any(row.center not in folder.counts for row in rows):
        missing.append("intervals of the deviations: they need the numbers of subjects, which stayed at the centers")
    told = shares(prior)
    meaning = _chance(folder, rows)
    meaning += ["1 sd is what a usual center differs by (root mean square over the features of the view)."]
    if folder.counts:
        meaning.append("Intervals tell what other subjects of the same center would have given.")
    finite = any(math.isfinite(row.mean) for row in rows)
    figures = [_share_figure(told)] if told else []
    if finite:
        figures.append(_deviation_figure(folder))
    return Section(
        "variability", "Variability between centers",
        tuple(_unusual(rows) + (meaning if finite else []) + _largest(told)), tuple(figures),
        (_shares(prior), *([_deviations(folder, rows)] if rows else [])), tuple(missing),
    )  # fmt: skip


def _unusual(rows: Sequence[Deviation]) -> list[str]:
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


def _chance(folder: Folder, rows: Sequence[Deviation]) -> list[str]:
    """A word of caution where even the center that differs most may differ by chance."""
    lows = [low for low, _ in (interval(folder, row) for row in rows) if math.isfinite(low)]
    return ["No center differs for sure: every interval of the means reaches 0."] if lows and max(lows) == 0 else []


def _largest(found: Mapping[str, Share]) -> list[str]:
    if not found:
        return []
    view, most = max(found.items(), key=lambda item: item[1].measuring)
    where = f"{percent(most.measuring)} of its variance lies in how they measure, {percent(most.case_mix)} in whom they"
    return [f"Centers measure most differently in {view}: {where} recruit."]


def _share_figure(found: Mapping[str, Share]) -> Figure:
    alt = "Share of each view's variance that lies between centers: in how they measure, and in whom they recruit."
    return Figure("shares", alt, (Option("", share_bars(found), row_height(len(found))),))


def _deviation_figure(folder: Folder) -> Figure:
    own = {view: deviations(folder, view)[:MANY] for view in folder.run.model.layout.names}
    options = tuple(
        Option(view, deviation_dots(folder, rows), row_height(len(rows))) for view, rows in own.items() if rows
    )
    alt = "Deviation of each center's means from the usual, with 95 % intervals; the dotted line is a usual center."
    if len(folder.centers) > MANY:
        alt += f" The {MANY} farthest of each view; the table has all."
    return Figure("deviation", alt, options, "View")


def _shares(prior: GlobalPrior) -> Table:
    found = {name: share(view, prior) for name, view in prior.views.items()}
    rows = tuple((name, percent(s.measuring), percent(s.case_mix)) for name, s in found.items())
    return Table("Share of variance between centers", ("view", "how they measure", "whom they recruit"), rows)


def _deviations(folder: Folder, rows: Sequence[Deviation]) -> Table:
    ordered = sorted(rows, key=lambda row: -row.mean if math.isfinite(row.mean) else math.inf)
    cells = tuple(
        (r.center, r.view, num(r.mean), _range(*interval(folder, r)), num(r.loadings), num(r.noise), num(r.case_mix))
        for r in ordered
    )
    head = ("center", "view", "means", "95 % interval", "loadings", "noise", "case mix")
    return Table("Deviation of each center from the usual, in sd; the farthest first", head, cells, labels=2)


def _range(low: float, high: float) -> str:
    return num(low) if math.isnan(low) else f"{num(low)} to {num(high)}"
