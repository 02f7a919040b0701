"""The parts of the page on reproduction that show variability and the prediction of missing views."""

from __future__ import annotations

from pathlib import Path

import pandas as pd

from vedute.evaluation import missing, variability
from vedute.evaluation.missing import CHOSEN, CHOSEN_HOLDERS, HOLDERS, MEAN, OURS
from vedute.evaluation.variability_results import ABOUT_MISSING, ABOUT_VARIABILITY

PEERS = ("ridge, each center alone", "ridge, pooled rows", "MOFA, pooled rows")
DATA = {"": ("SD", ("view2", "view3")), "-cnp": ("cnp", ("QUEST", "T1W"))}


def files() -> list[str]:
    """The results that the sections need, without their endings."""
    return [f"{name}{end}" for end in DATA for name in ("variability", "missing")]


def section(folder: Path) -> str:
    """Figures and tables of both data sets, then the prediction of hidden views."""
    lines = {end: pd.read_csv(folder / f"variability{end}.csv") for end in DATA}
    hidden = {end: missing.summary(pd.read_csv(folder / f"missing{end}.csv")) for end in DATA}
    shown = [_variability(end, lines[end]) for end in DATA]
    told = [_missing(end, hidden[end]) for end in DATA]
    return "\n\n".join(
        [
            f"""## Variability of centers, and missing views imputed (the paper's section 4.3.2)

Written by `vedute paper variability` and, with `--data cnp`, on cnp. {ABOUT_VARIABILITY}""",
            *shown,
            f"""## A view hidden in a third of the centers

Written by `vedute paper missing` and, with `--data cnp`, on cnp. {ABOUT_MISSING}""",
            *told,
            _verdict(hidden["-cnp"]),
        ]
    )


def _variability(end: str, lines: pd.DataFrame) -> str:
    about, views = DATA[end]
    figures = "\n\n".join(
        f"![All features of {view}: truth, imputed and global distribution](reproduction/variability{end}-{view}.png)"
        for view in views
    )
    return f"""### {about}, {lines["repeat"].nunique()} x 3-fold

![Centers in latent and original space](reproduction/variability{end}.png)

{figures}

{variability.markdown(lines)}"""


def _missing(end: str, table: pd.DataFrame) -> str:
    return f"""### {DATA[end][0]}

![Share of the variance explained, and coverage](reproduction/missing{end}.png)

{missing.markdown(table)}"""


def _verdict(table: pd.DataFrame) -> str:
    """What a reader should take home from cnp, in the numbers of the table."""
    explained = table.pivot(index="method", columns="view", values="explained").mean(axis=1).to_dict()
    covered = table.pivot(index="method", columns="view", values="coverage").mean(axis=1).to_dict()
    ours = [str(name) for name in dict.fromkeys(table["method"]) if str(name).startswith(f"{OURS}, q =")]
    held = next(str(name) for name in table["method"] if str(name).startswith(f"{HOLDERS}, q ="))
    steps = ", ".join(f"{explained[name]:+.1%} with {name.rsplit(' ', 1)[-1]}" for name in ours)
    alone, pooled, mofa = (explained[name] for name in PEERS)
    return f"""On cnp the views have little in common, unlike those of SD. Variance explained, on average over the four
hidden views: {pooled:+.1%} by ridge on pooled rows, {alone:+.1%} by ridge in each center alone, {mofa:+.1%} by
MOFA; ours, by its number of components: {steps} (0 is
the {MEAN}). The 90 % intervals cover {covered[ours[0]]:.1%} with the fewest and {covered[ours[-1]]:.1%} with the most.

Why guesses can be worse than the mean: where a few components have to serve all views, rows that lack a view put the
components that it has in the other centers to another use. What they say of it is then of full size and has nothing to
do with it. A model of the holders alone, of which the lacking centers only use the result, is not bent so: with as many
components, {explained[held]:+.1%} instead of {explained[ours[-1]]:+.1%}, and the intervals cover {covered[held]:.1%}.
The rest is that a noise equal in all features of a view takes correlated noise for evidence, which fewer components
heed less. With both mended, the number of components chosen by hiding the view in one more center that has it, it is
{explained[CHOSEN_HOLDERS]:+.1%} with {covered[CHOSEN_HOLDERS]:.1%} covered, against {explained[CHOSEN]:+.1%} with the
lacking centers in the fit. So: to predict a view that has little to do with the others, fit the centers that have it
and choose q for the purpose; regression, which does nothing else, remains better at it."""
