"""What was fitted: views, centers, subjects, and what is missing where."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from vedute.report.content import (
    BLUES,
    INK,
    UNKNOWN,
    Figure,
    Option,
    Section,
    Table,
    count,
    layout,
    listed,
    name_axis,
    percent,
    row_height,
    safe,
)
from vedute.report.reading import Folder

FEW = 6
WITHHELD = "a center's own parameters stay at home across machines, and under a privacy policy that keeps them there"


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
    counted = (_counted(folder),) if folder.seen else ()
    return Section(
        "fitted", "What was fitted", tuple(sentences), (_map(folder),) if held else (),
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
    model = folder.run.model
    sizes = dict(zip(model.layout.names, model.layout.sizes, strict=True))
    rows = tuple(
        (
            name,
            *(
                f"{seen[v].subjects:,} ({percent(seen[v].empty / (seen[v].subjects * sizes[v]))})" if v in seen else "0"
                for v in sizes
            ),
        )
        for name, seen in folder.seen.items()
    )
    return Table("Subjects with each view (empty cells in their rows)", ("center", *sizes), rows)


def _map(folder: Folder) -> Figure:
    shares, views = filled(folder), folder.run.model.layout.names
    text = [[_words(folder, name, *pair) for pair in zip(views, row, strict=True)] for name, row in shares.items()]
    few = len(shares) * len(views) <= 150 and len(views) <= 12
    trace = {
        "type": "heatmap", "z": [[round(100 * share, 1) for share in row] for row in shares.values()], "zmin": 0,
        "zmax": 100, "showscale": False, "xgap": 2, "ygap": 2 if len(shares) < 60 else 0,
        "colorscale": [[0, "#e8e8e8"], [0.01, "#e8e8e8"], [0.01, BLUES[0][1]], [1, BLUES[-1][1]]],
        "textfont": {"color": INK}, "customdata": text, "hovertemplate": "%{customdata}<extra></extra>",
    }  # fmt: skip
    if few:
        trace |= {"text": [[_cell(share) for share in row] for row in shares.values()], "texttemplate": "%{text}"}
    look = layout(
        row_height(len(shares)), xaxis=name_axis(views), yaxis=name_axis(list(shares), down=True),
    )  # fmt: skip
    alt = "Map of what is missing, centers by views: the bluer, the more cells hold a value; grey where none does."
    return Figure("holdings", alt, (Option("", (trace,), look),))


def _cell(share: float) -> str:
    return "none" if share == 0 else percent(share)


def _words(folder: Folder, center: str, view: str, share: float) -> str:
    seen = folder.seen.get(center, {}).get(view)
    words = "no data" if share == 0 else "has data"
    if seen is not None:
        words = f"{seen.subjects:,} of {folder.counts[center]:,} subjects, {percent(share)} of all cells"
    return f"{safe(center)}, {safe(view)}: {words}"
