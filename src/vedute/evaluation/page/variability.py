"""The parts of the page on reproduction that show variability and the prediction of missing views."""

from __future__ import annotations

from pathlib import Path

import pandas as pd

from vedute.evaluation.missing import (
    BY_HIDING,
    CHOSEN,
    CHOSEN_HOLDERS,
    GLOBAL,
    HOLDERS,
    MEAN,
    MOFA_HOLDERS,
    MOFAS,
    OURS,
)
from vedute.evaluation.results import missing as missing_results
from vedute.evaluation.results import variability as variability_results
from vedute.evaluation.tables import missing, variability
from vedute.evaluation.variability import PARTED

PEERS = ("ridge, each center alone", "ridge, pooled rows", MOFAS)
DATA = {"": ("SD", ("view2", "view3")), "-cnp": ("cnp, which is not ADNI", ("QUEST", "T1W"))}


def files() -> list[str]:
    """The results that the sections need, without their endings."""
    return [f"{name}{end}" for end in DATA for name in ("variability", "missing")]


def section(folder: Path) -> str:
    """Figures and tables of both data sets, then the prediction of hidden views."""
    lines = {end: pd.read_csv(folder / f"variability{end}.csv") for end in DATA}
    raw = {end: pd.read_csv(folder / f"missing{end}.csv") for end in DATA}
    hidden = {end: missing.summary(raw[end]) for end in DATA}
    shown = [_variability(end, lines[end]) for end in DATA]
    told = [_missing(end, hidden[end], raw[end]) for end in DATA]
    return "\n\n".join(
        [
            f"""## Variability of centers, and missing views imputed (the paper's section 4.3.2)

Written by `vedute paper variability` and, with `--data cnp`, on cnp. {variability_results.ABOUT}""",
            *shown,
            f"""## A view hidden in a third of the centers

Written by `vedute paper missing` and, with `--data cnp`, on cnp. {missing_results.ABOUT}""",
            *told,
            _verdict(hidden["-cnp"], raw["-cnp"]),
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

The first panel has one posterior sample of each train subject; the others the first two features of each view as
observed, and what is predicted of them, at two standard deviations: for each center, also where it lacks the view, and
for all.

{figures}

{_described(lines)}

{variability.markdown(lines)}"""


def _described(lines: pd.DataFrame) -> str:
    """Whether the global distribution describes a missing view, and what is imputed is better than the mean."""
    means = lines[lines["preset"] == "default"].groupby(["parted_by", "view"], sort=False).mean(numeric_only=True)
    own = means.reset_index("parted_by")
    both, even = (own[own["parted_by"] == by] for by in PARTED)
    apart, level, chance = (
        ", ".join(f"{value:.3f} ({view})" for view, value in table[column].items())
        for table, column in ((both, "distance_global"), (even, "distance_global"), (even, "distance_chance"))
    )
    return f"""The paper finds its global distribution an accurate description of a view that is missing. With the
default preset its distance to the truth, of 1 at most, is {level} where test rows are parted by views alone. Of as many
rows of the very distribution that is predicted, {chance} is expected. Parted by groups as well it is {apart}: a part
then has more of one group than the whole, of which the global distribution cannot know.

{_imputed(both, "Parted by groups and views")} {_imputed(even, "Parted by views alone")}{_hint(own)}"""


def _imputed(own: pd.DataFrame, how: str) -> str:
    """How what is imputed compares with the mean of those who have the view."""
    worse = [str(view) for view in own.index[own["mae"] > own["mae_mean"]]]
    where = f"further from the truth than the mean in {' and '.join(worse)}"
    told = where if worse else "nearer to the truth than the mean"
    covered = f"{own['coverage'].min():.1%} to {own['coverage'].max():.1%}"
    return f"{how}, what the default preset imputes is {told}, and the 90 % intervals cover {covered}."


def _hint(own: pd.DataFrame) -> str:
    return " The section on hidden views tells what helps." if (own["mae"] > own["mae_mean"]).any() else ""


def _missing(end: str, table: pd.DataFrame, lines: pd.DataFrame) -> str:
    return f"""### {DATA[end][0]}, {lines["repeat"].nunique()} x {lines["fold"].nunique()} thirds

![Share of the variance explained, and coverage](reproduction/missing{end}.png)

{missing.markdown(table)}"""


def _outliers(lines: pd.DataFrame) -> str:
    """The same of MOFA by medians, which a few fits that fail do not move."""
    own = lines[lines["method"] == PEERS[-1]]
    return f" (by medians {own.groupby('view')['explained'].median().mean():+.1%}: a few of its fits fail)"


def _verdict(table: pd.DataFrame, lines: pd.DataFrame) -> str:
    """What a reader should take home from cnp, in the numbers of the table."""
    explained = table.pivot(index="method", columns="view", values="explained").mean(axis=1).to_dict()
    covered = table.pivot(index="method", columns="view", values="coverage").mean(axis=1).to_dict()
    ours = [str(name) for name in dict.fromkeys(table["method"]) if str(name).startswith(f"{OURS}, q =")]
    held, placed = (
        next(str(name) for name in table["method"] if str(name).startswith(f"{start}, q ="))
        for start in (HOLDERS, GLOBAL)
    )
    steps = ", ".join(f"{explained[name]:+.1%} with {name.rsplit(' ', 1)[-1]}" for name in ours)
    alone, pooled, mofa = (explained[name] for name in PEERS)
    fewest = max(explained[name] for name in ours)
    return f"""Variance explained on cnp, on average over the four
hidden views: {pooled:+.1%} by ridge on pooled rows, {alone:+.1%} by ridge in each center alone, {mofa:+.1%} by
MOFA with as many components as the tables have{_outliers(lines)}; ours, by its number of components: {steps} (0 is
the {MEAN}). The 90 % intervals cover {covered[ours[0]]:.1%} with the fewest and {covered[ours[-1]]:.1%} with the most.

Two things change that, each by itself and together. A fit in which the lacking centers take no part, and only use its
result, has {explained[held]:+.1%} with as many components instead of {explained[ours[-1]]:+.1%}, and its intervals
cover {covered[held]:.1%}. It places the rows by the global parameters; where the lacking centers take part and are
placed so, it is {explained[placed]:+.1%}, so the rest of the gain is that of leaving them out: where few components
have to serve all views, rows that lack a view may draw the components to what they have. The number of components
chosen by hiding the view in one more center that has it gives {explained[CHOSEN]:+.1%}. Both give
{explained[CHOSEN_HOLDERS]:+.1%}, with {covered[CHOSEN_HOLDERS]:.1%} covered. One small number for all views, with all
centers taking part, gives {fewest:+.1%} at best. MOFA, helped in the same two ways, has
{explained[MOFAS + BY_HIDING]:+.1%} with its number chosen so and {explained[MOFA_HOLDERS + BY_HIDING]:+.1%} with both.

Ridge, which moves no rows either when each center fits its own, does better than all of these, with
{alone:+.1%}. So on cnp, where a view has little to do with the others, a regression gives the better values. The model
gives intervals as well, a latent space, and one answer for every pattern of missing views; here it is at its best
fitted to the centers that have the view, with q chosen for the purpose, and then its 90 % intervals still cover
{covered[CHOSEN_HOLDERS]:.1%} only."""
