"""Model choice, when ``vedute select`` made the run."""

from __future__ import annotations

from collections.abc import Mapping

from vedute.errors import UserError
from vedute.report.content import Figure, Option, Section, Table, count, layout, num, numbers, safe
from vedute.report.reading import SELECTION, Folder

NONE = "no comparison of numbers of components: 'vedute select STUDY --out RUN' makes one, 'vedute fit' does not"
COLUMNS = ("components", "scaling", "waic", "se", "difference", "difference_se", "p_waic", "mae", "recommended")


def by_scaling(folder: Folder) -> dict[str, list[Mapping[str, str]]]:
    """The rows of the comparison, apart for each scaling."""
    found: dict[str, list[Mapping[str, str]]] = {}
    for row in folder.selection:
        found.setdefault(row["scaling"], []).append(row)
    return found


def section(folder: Folder) -> Section:
    """The chapter."""
    rows = folder.selection
    if not rows:
        return Section("choice", "Model choice", missing=(NONE,))
    if not set(COLUMNS) <= set(rows[0]):
        raise UserError(f"{SELECTION}: is not what vedute writes there; run 'vedute select' again, or remove the file")
    chosen = next((row for row in rows if row["recommended"] == "True"), None)
    best = min(rows, key=lambda row: float(row["waic"]))
    sentences = [
        f"The smallest WAIC has {count(int(best['components']), 'component')} (scaling {best['scaling'] or 'none'})."
    ]
    if chosen is not None:
        fewest = count(int(chosen["components"]), "component")
        sentences.append(f"Recommended: {fewest}, the fewest within two standard errors of it.")
        if int(chosen["components"]) == max(int(row["components"]) for row in rows):
            sentences.append("That is the largest number tried; more may be better still.")
    return Section("choice", "Model choice", tuple(sentences), (_figure(folder),), (_table(folder),))


def _table(folder: Folder) -> Table:
    cells = tuple(
        (
            row["scaling"] or "none", "recommended" if row["recommended"] == "True" else "", row["components"],
            num(float(row["waic"]), 1), num(float(row["difference"]), 1), num(float(row["difference_se"]), 1),
            num(float(row["p_waic"]), 1), num(float(row["mae"]), 3),
        )
        for row in folder.selection
    )  # fmt: skip
    head = ("scaling", "verdict", "components", "WAIC", "difference", "its error", "parameters", "mean absolute error")
    return Table("Numbers of components compared", head, cells, labels=2)


def _figure(folder: Folder) -> Figure:
    traces = []
    for scaling, own in by_scaling(folder).items():
        traces.append(
            {
                "type": "scatter", "mode": "lines+markers", "name": safe(scaling or "none"),
                "x": [int(row["components"]) for row in own], "y": numbers([float(row["difference"]) for row in own]),
                "error_y": {"type": "data", "array": numbers([2 * float(row["difference_se"]) for row in own])},
                "hovertemplate": "%{x} components: %{y:.1f} above the best<extra></extra>",
            }
        )  # fmt: skip
    look = layout(
        380, xaxis={"title": {"text": "components"}, "dtick": 1}, yaxis={"title": {"text": "WAIC above the best"}}
    )
    alt = "Difference of WAIC to the best choice, with two standard errors, by number of components; lower is better."
    return Figure("choice", alt, (Option("", tuple(traces), look),))
