"""What was fitted: views, centers, subjects, and who lacks which view."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from vedute.report.parts import UNKNOWN, Figure, Option, Section, Table, count, layout, listed, name_axis, row_height
from vedute.report.parts import safe as plain
from vedute.report.reading import Folder

FEW = 6
WITHHELD = "what single centers hold is not told: the privacy policy kept their parameters at home"


def holdings(folder: Folder) -> dict[str, frozenset[str]]:
    """The views of each center whose parameters are known."""
    return {name: frozenset(center.views) for name, center in folder.run.model.centers.items()}


def section(folder: Folder) -> Section:
    """The chapter."""
    model = folder.run.model
    held = holdings(folder)
    views, total = model.layout.names, sum(folder.counts.values())
    known = len(folder.counts) == len(folder.centers)
    people = f", {count(total, 'subject')}" if known else ""
    size = f"{count(len(views), 'view')} with {count(model.layout.total, 'feature')} in all"
    chosen = model.settings
    sentences = [
        f"{count(len(folder.centers), 'center')}{people}, {size}, {count(model.prior.q, 'component')}.",
        f"Scaling of the features: {chosen.scaling or 'none'}. Variant: {chosen.preset}. Seed: {chosen.seed}.",
    ]
    sentences += _lacking(held, views)
    missing = ["single empty cells are not counted in a run folder; 'vedute check STUDY' counts them at home"]
    if not known:
        missing.append("numbers of subjects: they are written at the centers only (local/), and stayed there")
    if not held:
        missing.append(WITHHELD)
    return Section(
        "fitted", "What was fitted", tuple(sentences), (_map(folder),) if held else (),
        (_views(folder), _centers(folder)), tuple(missing),
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


def _map(folder: Folder) -> Figure:
    held, views = holdings(folder), folder.run.model.layout.names
    z = [[int(view in h) for view in views] for h in held.values()]
    text = [
        [f"{plain(name)}: {'has' if view in h else 'lacks'} {plain(view)}" for view in views]
        for name, h in held.items()
    ]
    trace = {
        "type": "heatmap", "z": z, "zmin": 0, "zmax": 1, "showscale": False, "xgap": 2, "ygap": 2 if len(z) < 60 else 0,
        "colorscale": [[0, "#e8e8e8"], [1, "#0072b2"]], "text": text, "hovertemplate": "%{text}<extra></extra>",
    }  # fmt: skip
    look = layout(
        row_height(len(held)), xaxis=name_axis(views), yaxis=name_axis(list(held), down=True),
    )  # fmt: skip
    alt = "Map of centers (rows) and views (columns): blue where a center has data, grey where it has none."
    return Figure("holdings", alt, (Option("", (trace,), look),))
