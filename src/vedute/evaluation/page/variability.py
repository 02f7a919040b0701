"""The parts of the page on reproduction that show variability and the prediction of missing views."""

from __future__ import annotations

from pathlib import Path

import pandas as pd

from vedute.evaluation import missing, variability
from vedute.evaluation.missing import BY_HIDING, CHOSEN, CHOSEN_HOLDERS, HOLDERS, MEAN, MOFA_HOLDERS, MOFAS, OURS
from vedute.evaluation.variability_results import ABOUT_MISSING, ABOUT_VARIABILITY

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
    told = [_missing(end, hidden[end]) for end in DATA]
    return "\n\n".join(
        [
            f"""## Variability of centers, and missing views imputed (the paper's section 4.3.2)

Written by `vedute paper variability` and, with `--data cnp`, on cnp. {ABOUT_VARIABILITY}""",
            *shown,
            f"""## A view hidden in a third of the centers

Written by `vedute paper missing` and, with `--data cnp`, on cnp. {ABOUT_MISSING}""",
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

{figures}

{_described(lines)}

{variability.markdown(lines)}"""


def _described(lines: pd.DataFrame) -> str:
    """Whether what is imputed is better than the mean, as the paper's figures suggest."""
    own = lines[lines["preset"] == "default"].groupby("view", sort=False).mean(numeric_only=True)
    worse = own[own["mae"] > own["mae_mean"]]
    told = ", ".join(f"{distance:.3f} ({view})" for view, distance in own["distance_global"].items())
    apart = f"""The paper finds its global distribution an accurate description of a view that is missing. Its distance
to the truth, of 1 at most, is {told} with the default preset."""
    covered = f"the 90 % intervals cover {own['coverage'].min():.1%} to {own['coverage'].max():.1%}"
    if worse.empty:
        return f"{apart} With it every imputed view is nearer to the truth than the mean, and {covered}."
    return f"""{apart} With the default preset, what is imputed is further from the truth than the mean in
{" and ".join(map(str, worse.index))}, and {covered}. The section on hidden views has a likely reason, and what
helps."""


def _missing(end: str, table: pd.DataFrame) -> str:
    return f"""### {DATA[end][0]}

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
    held = next(str(name) for name in table["method"] if str(name).startswith(f"{HOLDERS}, q ="))
    steps = ", ".join(f"{explained[name]:+.1%} with {name.rsplit(' ', 1)[-1]}" for name in ours)
    alone, pooled, mofa = (explained[name] for name in PEERS)
    fewest = max(explained[name] for name in ours)
    return f"""Variance explained on cnp, on average over the four
hidden views: {pooled:+.1%} by ridge on pooled rows, {alone:+.1%} by ridge in each center alone, {mofa:+.1%} by
MOFA with as many components as the tables have{_outliers(lines)}; ours, by its number of components: {steps} (0 is
the {MEAN}). The 90 % intervals cover {covered[ours[0]]:.1%} with the fewest and {covered[ours[-1]]:.1%} with the most.

Two things change that, each by itself and together. A fit in which the lacking centers take no part, and only use its
result, has {explained[held]:+.1%} with as many components instead of {explained[ours[-1]]:+.1%}, and its intervals
cover {covered[held]:.1%}: where few components have to serve all views, rows that lack a view draw the components to
what they have. The number of components chosen by hiding the view in one more center that has it gives
{explained[CHOSEN]:+.1%}. Both give
{explained[CHOSEN_HOLDERS]:+.1%}, with {covered[CHOSEN_HOLDERS]:.1%} covered. One small number for all views, with all
centers taking part, gives {fewest:+.1%} at best. MOFA, helped in the same two ways, has
{explained[MOFAS + BY_HIDING]:+.1%} with its number chosen so and {explained[MOFA_HOLDERS + BY_HIDING]:+.1%} with both.

Ridge, which moves no rows either when each center fits its own, does better than all of these, with
{alone:+.1%}. So where a view has little to do with the others and all that is wanted is its values, take a regression;
the model is for those who also want intervals, a latent space and one answer for every pattern of missing views, and
then: fit the centers that have the view, and choose q for the purpose."""
