"""How the fit went: change and bytes of its rounds, and the numbers of components that were compared before it."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

from vedute.model.parameters import Spreads, ViewPrior
from vedute.report.charts import Axis, Lines, Series, array, colour
from vedute.report.content import Figure, Option, Section, Table, count, num
from vedute.report.reading import Folder
from vedute.run.model_choice import Choice
from vedute.run.protocol import Record

FIXED = ("center", "paper")  # policies that cannot stop early: when to stop would tell of the data
PARAMETERS = ("mean", "loadings", "log noise")
NO_CHOICE = "no comparison of numbers of components: 'vedute select STUDY --out RUN' makes one, 'vedute fit' does not"


def spreads(view: ViewPrior) -> Spreads:
    """Standard deviations between centers of mu, W and ln sigma2; NaN where they were not estimated."""
    found = view.spreads
    return found if view.n_centers > 1 and math.isfinite(found[0]) else (math.nan, math.nan, math.nan)


def estimated(folder: Folder) -> list[str]:
    """Views whose spread between centers was estimated, and told round by round."""
    views = folder.run.model.prior.views
    rounds = folder.run.history
    return [name for name, view in views.items() if view.n_centers > 1 and all(name in r.spreads for r in rounds)]


def change_line(history: Sequence[Record]) -> Lines:
    """How much each round changed the global model; infinite in the first, which has nothing to compare with."""
    line = Series("change", array([r.round for r in history]), array([r.change for r in history]))
    return Lines((line,), Axis("round"), Axis("change", log=True, whole=True), "round {x}: {y:.2e}")


def spread_lines(history: Sequence[Record], views: Sequence[str], parameter: str) -> Lines:
    """As the rounds used them: at the end they are divided by one center less, which the table shows."""
    k, rounds = PARAMETERS.index(parameter), array([r.round for r in history])
    lines = [
        Series(view, rounds, array([r.spreads[view][k] for r in history]), colour=colour(j))
        for j, view in enumerate(views)
    ]
    axis = Axis("sd between centers", log=True)
    return Lines(lines, Axis("round"), axis, "{text}, round {x}: {y:.3g}", markers=False)


def convergence(folder: Folder) -> Section:
    """The chapter on the rounds."""
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
        "convergence", "Convergence", (verdict, sent, seconds), _figures(folder), (_spreads(folder), _rounds(folder)),
        tuple(missing),
    )  # fmt: skip


def convergence_so_far(folder: Folder) -> Section:
    """The same of a fit that is still running."""
    return Section("convergence", "Convergence so far", (), _figures(folder), (_spreads(folder), _rounds(folder)))


def _figures(folder: Folder) -> tuple[Figure, ...]:
    history, views = folder.run.history, estimated(folder)
    alt = "Relative change of the global model in each round, on a log scale; a settled fit falls below the tolerance."
    change = Figure("change", alt, (Option("", change_line(history), 320),))
    if not views:
        return (change,)
    options = tuple(Option(what, spread_lines(history, views, what), 360) for what in PARAMETERS)
    alt = "Standard deviations of the global parameters between centers after each round, on a log scale, by view."
    return change, Figure("spreads", alt, options, "Spread of")


def _spreads(folder: Folder) -> Table:
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


def waic_lines(choices: Iterable[Choice], errors: float = 2.0) -> Lines:
    """WAIC above the best for each number of components, with so many standard ``errors``."""
    lines = _by_components(choices, "difference", errors)
    hover = "{x} components: {y:.1f} above the best"
    return Lines(lines, Axis("components", whole=True), Axis("WAIC above the best"), hover)


def mae_lines(choices: Iterable[Choice]) -> Lines:
    """The mean absolute error for each number of components."""
    axis = Axis("mean absolute error (standard deviations)", from_zero=True)
    return Lines(_by_components(choices, "mae"), Axis("components", whole=True), axis, "{x} components: {y:.3f}")


def _by_components(choices: Iterable[Choice], what: str, errors: float | None = None) -> list[Series]:
    """A line for each scaling."""
    found: dict[str, list[Choice]] = {}
    for choice in choices:
        found.setdefault(choice.scaling or "none", []).append(choice)
    return [
        Series(
            scaling, array([choice.components for choice in own]), array([getattr(choice, what) for choice in own]),
            None if errors is None else errors * array([choice.difference_se for choice in own]), colour=colour(k),
        )
        for k, (scaling, own) in enumerate(found.items())
    ]  # fmt: skip


def model_choice(folder: Folder) -> Section:
    """The chapter on the number of components, when ``vedute select`` made the run."""
    choices = folder.choices
    if folder.misfits:
        return _by_misfit(folder)
    if not choices:
        return Section("choice", "Model choice", missing=(NO_CHOICE,))
    best = min(choices, key=lambda choice: choice.waic)
    sentences = [f"The smallest WAIC has {count(best.components, 'component')} (scaling {best.scaling or 'none'})."]
    if folder.recommended is not None:
        chosen = choices[folder.recommended].components
        sentences.append(f"Recommended: {count(chosen, 'component')}, the fewest within two standard errors of it.")
        if chosen == max(choice.components for choice in choices):
            sentences.append("That is the largest number tried; more may be better still.")
    alt = "Difference of WAIC to the best choice, with two standard errors, by number of components; lower is better."
    figure = Figure("choice", alt, (Option("", waic_lines(choices), 380),))
    return Section("choice", "Model choice", tuple(sentences), (figure,), (_choices(folder),))


def _by_misfit(folder: Folder) -> Section:
    """Where a policy keeps the rows from WAIC, the number was chosen by the moments that had been released."""
    chosen = folder.run.model.prior.q
    told = f"Recommended: {count(chosen, 'component')}, which meet the released moments best, at no further cost."
    cells = tuple(
        ("recommended" if q == chosen else "", str(q), num(misfit, 1)) for q, misfit in folder.misfits.items()
    )
    table = Table("Numbers of components compared", ("verdict", "components", "misfit"), cells)
    return Section("choice", "Model choice", (told,), tables=(table,))


def _choices(folder: Folder) -> Table:
    cells = tuple(
        (
            choice.scaling or "none", "recommended" if i == folder.recommended else "", str(choice.components),
            num(choice.waic, 1), num(choice.difference, 1), num(choice.difference_se, 1), num(choice.p_waic, 1),
            num(choice.mae, 3),
        )
        for i, choice in enumerate(folder.choices)
    )  # fmt: skip
    head = ("scaling", "verdict", "components", "WAIC", "difference", "its error", "parameters", "mean absolute error")
    return Table("Numbers of components compared", head, cells, labels=2)
