"""The part of the page on reproduction about collapsing variances and what each correction buys."""

from __future__ import annotations

import math
from typing import cast

import pandas as pd

from vedute_reproduction import collapse
from vedute_reproduction.collapse import LOST, lost, markdown
from vedute_reproduction.collapse import summary as spreads
from vedute_reproduction.contenders import DEFAULT, PAPER, SCATTERED, YARDSTICK
from vedute_reproduction.corrections import CORRECTED
from vedute_reproduction.page.parts import Results, means, placed, ratios, span, times


def files() -> list[str]:
    """The results that the section needs, without their endings."""
    return ["collapse", "corrections"]


def section(results: Results) -> str:
    """Recovery of a known spread, then errors on SD."""
    draws, lines = (results[name] for name in files())
    table, ratio = spreads(draws), ratios(lines, YARDSTICK)
    shrunk = draws[(draws["round"] == draws["round"].max()) & (draws["parameter"] == "W")]
    gone = lost(draws)
    wide, wild = (_above(shrunk[shrunk["method"] == name]) for name in (PAPER, DEFAULT))
    worst = ratio.max()
    _, variances, mix, both, corrected = CORRECTED
    unknown = (table["method"] == variances) & (table["parameter"] == "mu") & (table["case_mix"] > 0)
    taken = table.loc[unknown, "median"]
    plain = table.loc[(table["method"] == PAPER) & (table["parameter"] == "mu") & (table["case_mix"] > 0), "median"]
    carried = table.loc[(table["method"] == corrected) & (table["parameter"] == "W"), "median"]
    expected = " and ".join(f"{math.sqrt(1 - 1 / n):.2f}" for n in collapse.COUNTS)
    return f"""## Variances that collapse, patients that differ, and what each correction buys

The paper's algorithm has two faults, measured here with one scaling for all, and the default preset a cure for each. It
plugs modes into variances between centers, so that these collapse: posterior variances keep them. It knows of
no centers whose patients differ, so that a shift of the patients is taken for one of the instruments: a latent mean for
each center, the case mix, takes it up. A third correction carries the uncertainty of the loadings ("spread") through
the estimates of x. Each is added to the paper preset in turn.

### Is the spread between centers found?

The paper says that the standard deviations of its global parameters "converge, as expected, indicating harmonization".
Whether they converge to how much centers differ can be seen where that is known: in draws of the model itself
({draws["repeat"].nunique()} for each setting) with {" or ".join(map(str, collapse.COUNTS))} centers of
{collapse.SUBJECTS} subjects, the standard deviation of W between centers is {collapse.SD["W"]:g} and that of mu
{collapse.SD["mu"]:g}, without and with patients that differ by center (case mix). From so few centers a standard
deviation by maximum likelihood is expected at {expected} times the truth.

![Spread between centers, found over true, by round](collapse.png)

With the paper preset the standard deviation of W is below a hundredth of the truth after {collapse.ROUNDS} rounds in
{gone[PAPER]:.0%} of all views and draws, where it has no meaning but its floor; of the others, {wide:.0%} are above
twice the truth. With the posterior variances it is lost in {gone[variances]:.0%}, with the default preset in
{gone[DEFAULT]:.0%}; in the median the default preset finds {_found(table, "W")} of W and {_found(table, "mu")} of mu,
a little less than is expected, and {wild:.0%} of what it finds of W is above twice the truth. Without a case mix in
the model, patients that differ are taken for spread of the means: where they do, posterior variances alone find of mu
{taken.min():.1f} to {taken.max():.1f} times the truth in the median, and the plain paper preset {plain.min():.1f} to
{plain.max():.1f} times, so far. All three corrections leave the sd of W, still on its way after {collapse.ROUNDS}
rounds, at {carried.min():.1f} to {carried.max():.1f} times the truth in the median.

{_moving(draws)} Median over draws and views, quartiles, and how often W is lost:

{markdown(table)}
### What does it cost in errors?

On SD ({times(lines)}, one scaling for all), test error over that of PCA which saw all rows and views. At worst it is
{worst[PAPER]:.2f} with the paper preset, {worst[variances]:.2f} with the posterior variances alone, {worst[mix]:.2f}
with the case mix alone, {worst[both]:.2f} with both, {worst[corrected]:.2f} with all three corrections, and
{worst[DEFAULT]:.2f} with the default preset, which also starts all centers alike and turns them towards each other. So
where groups are unevenly dealt it is the case mix that mends the error; variances that do not collapse are no
cure for that by themselves. {_alone(lines)}

![Errors and accuracy with each correction](corrections.png)

{placed(ratio)}"""


def _alone(lines: pd.DataFrame) -> str:
    """What each of two corrections does by itself where each center is scaled by itself."""
    error = means(lines, "test_mae", "per center").loc[list(SCATTERED)]
    _, variances, mix, *_ = CORRECTED
    gain = error[PAPER] - error[DEFAULT]
    alone, mixed = ((error[PAPER] - error[name]) / gain for name in (variances, mix))
    return f"""With each center scaled by itself either of them mends most of it: in G and G/K the posterior variances
alone make up {span(alone, ".0%")} of what the default preset gains, and the case mix alone {span(mixed, ".0%")}."""


def _found(table: pd.DataFrame, parameter: str) -> str:
    """Medians of what the default preset finds, over the truth."""
    own = table.loc[(table["method"] == DEFAULT) & (table["parameter"] == parameter), "median"]
    return f"{span(own, '.2f')} times the truth"


def _above(ends: pd.DataFrame) -> float:
    """Of the spreads that are not lost, the share that ends above twice the truth."""
    left = ends[ends["ratio"] >= LOST]
    return float((left["ratio"] > 2.0).mean())


def _moving(draws: pd.DataFrame) -> str:
    """How far medians still move between the last two rounds that were looked at."""
    keys = ["method", "centers", "case_mix", "parameter"]
    by = draws.groupby([*keys, "round"])["ratio"].median().unstack("round")
    late, last = by.columns[-2], by.columns[-1]
    theirs = by.drop(DEFAULT, level="method")
    found = theirs.assign(change=(theirs[last] / theirs[late]).apply(math.log).abs()).sort_values("change").iloc[-1]
    method, n, tau, parameter = cast("tuple[str, int, float, str]", found.name)
    return f"""These are values after {last} rounds, and in the paper preset, corrected or not, the runs have not come
to rest: the median that moves most, that of the sd of {parameter} with {n} centers, case mix {tau:g} and "{method}",
goes from {found[late]:.2f} after {late} rounds to {found[last]:.2f} after {last}. Runs of the default preset end when
they have converged, and their last values stand for all rounds after that."""
