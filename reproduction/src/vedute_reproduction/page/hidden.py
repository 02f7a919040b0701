"""The part of the page on reproduction about views that are hidden from some centers, and predicted."""

from __future__ import annotations

import pandas as pd

from vedute_reproduction.missing import (
    ABOUT,
    BY_HIDING,
    CHOSEN,
    CHOSEN_HOLDERS,
    GLOBAL,
    HOLDERS,
    MEAN,
    MOFA_HOLDERS,
    MOFAS,
    OURS,
    markdown,
    summary,
)
from vedute_reproduction.page.parts import Results, span

RIDGE = "ridge, each center alone"
PEERS = (RIDGE, "ridge, pooled rows", MOFAS)
DATA = {"missing": "SD", "missing-cnp": "cnp, which is not ADNI"}


def files() -> list[str]:
    """The results that the section needs, without their endings."""
    return list(DATA)


def section(results: Results) -> str:
    """Both data sets, and what to take home."""
    tables = {name: summary(results[name]) for name in DATA}
    shown = [_data(name, tables[name], results[name]) for name in DATA]
    return "\n\n".join(
        [
            f"""## A view hidden in a third of the centers

Written by `vedute paper missing` and, with `--data cnp`, on cnp. {ABOUT}""",
            *shown,
            _verdict(tables["missing-cnp"], results["missing-cnp"]),
        ]
    )


def _data(name: str, table: pd.DataFrame, lines: pd.DataFrame) -> str:
    return f"""### {DATA[name]}, {lines["repeat"].nunique()} x {lines["fold"].nunique()} thirds

![Share of the variance explained, and coverage]({name}.png)

{_said(table)}

{markdown(table)}"""


def _said(table: pd.DataFrame) -> str:
    """One sentence: ours with as many components as the tables have, beside ridge and MOFA."""
    own = [str(name) for name in dict.fromkeys(table["method"]) if str(name).startswith(f"{OURS}, q =")][-1]
    explained = table.pivot(index="method", columns="view", values="explained").mean(axis=1)
    covered = table.loc[table["method"] == own, "coverage"]
    return f"""With as many components as the other tables have, ours explains {explained[own]:+.1%} of the variance of
a hidden view, ridge in each center {explained[RIDGE]:+.1%} and MOFA {explained[MOFAS]:+.1%}; our 90 % intervals
cover {span(covered, ".1%")}."""


def _median(lines: pd.DataFrame, method: str) -> str:
    """The same by medians, which a few fits that fail do not move; with most components where several were tried."""
    own = lines[lines["method"] == method]
    own = own[own["q"] == own["q"].max()]
    return f"{own.groupby('view')['explained'].median().mean():+.1%} by medians"


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
    best = max(explained[name] for name in ours)
    return f"""### What to take home

Variance explained on cnp, on average over the
hidden views: {pooled:+.1%} by ridge on pooled rows, {alone:+.1%} by ridge in each center alone, {mofa:+.1%} by
MOFA with as many components as the tables have ({_median(lines, MOFAS)}); ours, by its number of components: {steps}
({_median(lines, OURS)}; 0 is the {MEAN}). The 90 % intervals cover {covered[ours[0]]:.1%} with the fewest and
{covered[ours[-1]]:.1%} with the most.

Two things change that, each by itself and together. A fit in which the lacking centers take no part, and only use its
result, has {explained[held]:+.1%} with as many components instead of {explained[ours[-1]]:+.1%}, and its intervals
cover {covered[held]:.1%}. It places the rows by the global parameters; where the lacking centers take part and are
placed so, it is {explained[placed]:+.1%}, so the rest of the gain is that of leaving them out: where few components
have to serve all views, rows that lack a view may draw the components to what they have. The number of components
chosen by hiding the view in one more center that has it gives {explained[CHOSEN]:+.1%}. Both give
{explained[CHOSEN_HOLDERS]:+.1%}, with {covered[CHOSEN_HOLDERS]:.1%} covered. One small number for all views, with all
centers taking part, gives {best:+.1%} at best. MOFA, helped in the same two ways, has
{explained[MOFAS + BY_HIDING]:+.1%} with its number chosen so and {explained[MOFA_HOLDERS + BY_HIDING]:+.1%} with both.

Ridge, which moves no rows either when each center fits its own, does better than all of these, with
{alone:+.1%}. So on cnp, where a view has little to do with the others, a regression gives the better values. The model
gives intervals as well, a latent space, and one answer for every pattern of missing views; here it is at its best
fitted to the centers that have the view, with q chosen for the purpose, and then its 90 % intervals still cover
{covered[CHOSEN_HOLDERS]:.1%} only."""
