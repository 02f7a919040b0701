"""How the rounds went: change per round, spread of the global parameters, bytes sent."""

from __future__ import annotations

import math

from vedute.core.params import ViewPrior
from vedute.report.parts import Figure, Option, Section, Table, count, layout, name_axis, num, numbers, safe
from vedute.report.reading import Folder

FIXED = ("center", "paper")  # policies that cannot stop early: when to stop would tell of the data
PARAMETERS = ("mean", "loadings", "log noise")


def spreads(view: ViewPrior) -> tuple[float, float, float]:
    """Standard deviations between centers of mu, W and ln sigma2 (about alpha^-1/2); NaN where not estimated."""
    found = (math.sqrt(view.sigma2_mu), math.sqrt(view.sigma2_W), view.alpha**-0.5 if view.alpha > 0 else math.inf)
    return found if view.n_centers > 1 and math.isfinite(found[0]) else (math.nan, math.nan, math.nan)


def section(folder: Folder) -> Section:
    """The chapter."""
    history = folder.run.history
    missing = ["standard deviations of earlier rounds: a run folder keeps those of the last round"]
    if not history:
        return Section("convergence", "Convergence", missing=("the run folder holds no rounds", *missing))
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
    return Section(
        "convergence", "Convergence", (verdict, sent, seconds), (_change(folder), _spreads(folder)),
        (_table(folder), _rounds(folder)), tuple(missing),
    )  # fmt: skip


def so_far(folder: Folder) -> Section:
    """The same of a fit that is still running."""
    return Section(
        "convergence", "Convergence so far", (), (_change(folder), _spreads(folder)), (_table(folder), _rounds(folder))
    )


def _change(folder: Folder) -> Figure:
    history = folder.run.history
    trace = {
        "type": "scatter", "mode": "lines+markers", "x": [r.round for r in history],
        "y": numbers([r.change for r in history]), "hovertemplate": "round %{x}: %{y:.2e}<extra></extra>",
    }  # fmt: skip
    look = layout(
        320,
        xaxis={"title": {"text": "round"}},
        yaxis={"type": "log", "title": {"text": "change"}, "dtick": 1, "exponentformat": "e"},
    )
    alt = "Relative change of the global model in each round, on a log scale; a settled fit falls below the tolerance."
    return Figure("change", alt, (Option("", (trace,), look),))


def _spreads(folder: Folder) -> Figure:
    views = folder.run.model.prior.views
    marks = ("circle", "diamond", "square")
    traces = tuple(
        {
            "type": "scatter", "mode": "markers", "name": what, "x": numbers([spreads(v)[i] for v in views.values()]),
            "y": list(range(len(views))), "marker": {"size": 11, "symbol": marks[i]},
            "text": [safe(name) for name in views], "hovertemplate": "%{text}: %{x:.3g}<extra></extra>",
        }
        for i, what in enumerate(PARAMETERS)
    )  # fmt: skip
    look = layout(
        130 + 30 * len(views),
        xaxis={"type": "log", "title": {"text": "standard deviation between centers"}, "exponentformat": "e"},
        yaxis=name_axis(list(views), down=True),
    )
    alt = "Standard deviations of the global parameters between centers after the last round, on a log scale."
    return Figure("spreads", alt, (Option("", traces, look),))


def _table(folder: Folder) -> Table:
    rows = tuple(
        (name, *(num(s, 3) for s in spreads(view)), str(view.n_centers))
        for name, view in folder.run.model.prior.views.items()
    )
    return Table("Standard deviations between centers, scaled units", ("view", *PARAMETERS, "centers"), rows)


def _rounds(folder: Folder) -> Table:
    rows = tuple(
        (str(r.round), "first" if math.isinf(r.change) else f"{r.change:.2e}", f"{r.bytes_up:,}", f"{r.bytes_down:,}",
         num(r.seconds, 3))
        for r in folder.run.history
    )  # fmt: skip
    return Table("Rounds", ("round", "change", "bytes sent", "bytes received", "seconds"), rows)


def _bytes(n: int) -> str:
    for unit, size in (("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if n >= size:
            return f"{n / size:.1f} {unit}"
    return f"{n} bytes"
