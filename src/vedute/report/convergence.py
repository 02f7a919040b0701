"""How the rounds went: change per round, spread of the global parameters, bytes sent."""

from __future__ import annotations

import math

from vedute.model.parameters import Spreads, ViewPrior
from vedute.report.content import Figure, Option, Section, Table, count, layout, num, numbers, safe
from vedute.report.reading import Folder

FIXED = ("center", "paper")  # policies that cannot stop early: when to stop would tell of the data
PARAMETERS = ("mean", "loadings", "log noise")


def spreads(view: ViewPrior) -> Spreads:
    """Standard deviations between centers of mu, W and ln sigma2; NaN where they were not estimated."""
    found = view.spreads
    return found if view.n_centers > 1 and math.isfinite(found[0]) else (math.nan, math.nan, math.nan)


def estimated(folder: Folder) -> list[str]:
    """Views whose spread between centers was estimated, and told round by round."""
    views = folder.run.model.prior.views
    rounds = folder.run.history
    return [name for name, view in views.items() if view.n_centers > 1 and all(name in r.spreads for r in rounds)]


def section(folder: Folder) -> Section:
    """The chapter."""
    history = folder.run.history
    if not history:
        return Section("convergence", "Convergence", missing=("the run folder holds no rounds",))
    last, tol = history[-1], folder.run.model.settings.tol
    if folder.run.converged:
        verdict = f"The fit settled after {count(len(history), 'round')}: the last one changed the model by less than"
        verdict += f" the tolerance {tol:g}."
    elif tol is None or folder.asked.get("policy") in FIXED:
        verdict = (
            f"All {count(len(history), 'round')} were run, as asked; the last changed the model by {last.change:.1e}."
        )
    else:
        verdict = f"The fit had NOT settled when {count(len(history), 'round')} were over: the last one still changed "
        verdict += f"the model by {last.change:.1e} (tolerance {tol:g}). Run more rounds before you rely on details."
    up, down = (sum(getattr(r, f"bytes_{way}") for r in history) for way in ("up", "down"))
    sent = f"The centers sent {_bytes(up)} in all and received {_bytes(down)}; no row of a patient was among it."
    seconds = f"Computing took {num(sum(r.seconds for r in history), 1)} seconds."
    missing = []
    if any(view.n_centers > 1 for view in folder.run.model.prior.views.values()) and not estimated(folder):
        missing.append("standard deviations of earlier rounds: an older vedute wrote this folder and did not keep them")
    return Section(
        "convergence", "Convergence", (verdict, sent, seconds), _figures(folder), (_table(folder), _rounds(folder)),
        tuple(missing),
    )  # fmt: skip


def so_far(folder: Folder) -> Section:
    """The same of a fit that is still running."""
    return Section(
        "convergence", "Convergence so far", (), _figures(folder), (_table(folder), _rounds(folder))
    )  # fmt: skip


def _figures(folder: Folder) -> tuple[Figure, ...]:
    return (_change(folder), _spreads(folder)) if estimated(folder) else (_change(folder),)


def _change(folder: Folder) -> Figure:
    history = folder.run.history
    trace = {
        "type": "scatter", "mode": "lines+markers", "name": "change", "x": [r.round for r in history],
        "y": numbers([r.change for r in history]), "hovertemplate": "round %{x}: %{y:.2e}<extra></extra>",
    }  # fmt: skip
    look = layout(
        320,
        xaxis={"title": {"text": "round"}, "zeroline": False},
        yaxis={"type": "log", "title": {"text": "change"}, "dtick": 1, "exponentformat": "power"},
    )
    alt = "Relative change of the global model in each round, on a log scale; a settled fit falls below the tolerance."
    return Figure("change", alt, (Option("", (trace,), look),))


def _spreads(folder: Folder) -> Figure:
    """As the rounds used them: at the end they are divided by one center less, which the table shows."""
    history, views = folder.run.history, estimated(folder)
    look = layout(
        360, xaxis={"title": {"text": "round"}, "zeroline": False},
        yaxis={"type": "log", "title": {"text": "sd between centers"}, "exponentformat": "power", "nticks": 6,
               "automargin": True},
    )  # fmt: skip
    options = []
    for i, what in enumerate(PARAMETERS):
        traces = tuple(
            {
                "type": "scatter", "mode": "lines", "name": safe(view), "x": [r.round for r in history],
                "y": numbers([r.spreads[view][i] for r in history]), "text": [safe(view)] * len(history),
                "hovertemplate": "%{text}, round %{x}: %{y:.3g}<extra></extra>",
            }
            for view in views
        )  # fmt: skip
        options.append(Option(what, traces, look))
    alt = "Standard deviations of the global parameters between centers after each round, on a log scale, by view."
    return Figure("spreads", alt, tuple(options), "Spread of")


def _table(folder: Folder) -> Table:
    rows = tuple(
        (name, *(num(s, 3) for s in spreads(view)), str(view.n_centers))
        for name, view in folder.run.model.prior.views.items()
    )
    return Table("Standard deviations between centers at the end, scaled units", ("view", *PARAMETERS, "centers"), rows)


def _rounds(folder: Folder) -> Table:
    rows = tuple(
        (str(r.round), "first" if math.isinf(r.change) else f"{r.change:.2e}", f"{r.bytes_up:,}", f"{r.bytes_down:,}",
         num(r.seconds, 3))
        for r in folder.run.history
    )  # fmt: skip
    head = ("round", "change", "bytes sent", "bytes received", "seconds")
    return Table("Rounds: change and bytes of each", head, rows, folded=True)


def _bytes(n: int) -> str:
    for unit, size in (("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if n >= size:
            return f"{n / size:.1f} {unit}"
    return f"{n} bytes"
