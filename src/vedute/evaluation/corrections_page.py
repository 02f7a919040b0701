"""The part of the page on reproduction about collapsing variances and what each correction buys."""

from __future__ import annotations

from pathlib import Path

import pandas as pd

from vedute.evaluation import collapse
from vedute.evaluation.experiments import CORRECTED, DEFAULT, PAPER, YARDSTICK
from vedute.evaluation.page_parts import placed, ratios, times


def files() -> list[str]:
    """The results that the section needs, without their endings."""
    return ["collapse", "corrections"]


def section(folder: Path) -> str:
    """Recovery of a known spread, then errors on SD."""
    draws, lines = (pd.read_csv(folder / f"{name}.csv") for name in files())
    table, ratio = collapse.summary(draws), ratios(lines, YARDSTICK)
    shrunk = draws[(draws["round"] == draws["round"].max()) & (draws["parameter"] == "W")]
    lost = shrunk.assign(lost=shrunk["ratio"] < 0.01).groupby("method", sort=False)["lost"].mean()
    worst = ratio.max()
    _, variances, mixed, corrected = CORRECTED
    unknown = (table["method"] == variances) & (table["parameter"] == "mu") & (table["case_mix"] > 0)
    taken = table.loc[unknown, "median"]
    return f"""## Variances that collapse, and what each correction buys

The paper says that the standard deviations of its global parameters "converge, as expected, indicating harmonization".
Whether they converge to how much centers differ can be seen where that is known: in {draws["repeat"].nunique()} draws
of the model itself, with {" or ".join(map(str, collapse.COUNTS))} centers of {collapse.SUBJECTS} subjects, the standard
deviation of W between centers is {collapse.SD["W"]:g} and that of mu {collapse.SD["mu"]:g}. Half of the draws also have
patients that differ by center (case mix).

![Spread between centers, found over true, by round](reproduction/collapse.png)

With the paper preset the standard deviation of W is below a hundredth of the truth in {lost[PAPER]:.0%} of all views
and draws, where it has no meaning but its floor, and elsewhere mostly too large: every center starts from a rotation of
its own, and if they have not met before the variance is gone, the difference of rotations stays for good. With the
posterior variances it is so in {lost[variances]:.0%}, with the default preset in {lost[DEFAULT]:.0%}. Posterior
variances alone take case mix, of which the model does not know, for spread of the means: with it, what they find of mu
is {taken.min():.1f} to {taken.max():.1f} times the truth in the median. Median over draws and views, and quartiles:

{collapse.markdown(table)}
On SD ({times(lines)}, one scaling for all), test error over that of PCA which saw all rows and views. At worst it is
{worst[PAPER]:.2f} with the paper preset, {worst[variances]:.2f} with the posterior variances, {worst[mixed]:.2f} with
these and the case mix, {worst[corrected]:.2f} with all three corrections, and {worst[DEFAULT]:.2f} with the default
preset, which also starts all centers alike and turns them towards each other. Where groups are apart (G, G/K) it is the
case mix that mends the error: without it the shift between groups has to be a difference of means and loadings.

{placed(ratio)}"""
