"""The part of the page on reproduction about real data in place of ADNI: how far from PCA, where, and why."""

from __future__ import annotations

import pandas as pd

from vedute_reproduction.comparison import printed, summary
from vedute_reproduction.contenders import CUT, DEFAULT, ONE_NOISE, OWN, PAPER, PROJECTED, SUMS, YARDSTICK
from vedute_reproduction.methods import ROUNDS
from vedute_reproduction.page.parts import (
    Results,
    against,
    at_most,
    at_sites,
    by_scaling,
    listed,
    means,
    placed,
    ratios,
    span,
    times,
    value,
)
from vedute_reproduction.writing import rows

POINTS = 3.0  # of accuracy below PCA that are to be named


def files() -> list[str]:
    """The results that the section needs, without their endings."""
    return ["adni-cnp"]


def section(results: Results) -> str:
    """How far from PCA, where, and why."""
    lines = results["adni-cnp"]
    ratio, told = ratios(lines, YARDSTICK), means(lines, "accuracy")
    known = [at_sites(ratio[name], "known sites") for name in (DEFAULT + OWN, DEFAULT)]
    known += [at_sites(told[name] - told[YARDSTICK], "known sites") * 100 for name in (DEFAULT + OWN, DEFAULT)]
    ours, gain = (part.drop("known sites") for part in (ratio[DEFAULT], (told[DEFAULT] - told[YARDSTICK]) * 100))
    placed_by = value(ratio, "IID", 1, DEFAULT + ONE_NOISE + PROJECTED)
    unlike = ratio[DEFAULT + ONE_NOISE].dropna()
    merged = ((told[DEFAULT + ONE_NOISE] - told[YARDSTICK]) * 100).dropna()
    cut = at_sites(ratio[DEFAULT + CUT]), at_sites(told[DEFAULT + CUT] - told[YARDSTICK]) * 100
    plain = [name for name in ratio if name == DEFAULT + OWN or not str(name).startswith(f"{DEFAULT},")]
    return f"""## cnp in place of ADNI (table ADNI_2), {times(lines)}

This is not ADNI. The paper's values beside ours, in the figure as rings, are those of ADNI, for orientation; `adni.md`
tells how to run on ADNI itself. "sites" are the true centers: the scanners.

![Errors and accuracy of all methods in all scenarios](adni-cnp.png)

Default preset, test error over that of PCA: {ours.min():.3f} to {ours.max():.3f}, on average {ours.mean():.3f}, with
3 and 6 random centers {ours["IID", 3]:.3f} and {ours["IID", 6]:.3f}, with the true centers {at_sites(ours):.3f}.
Accuracy against that of PCA: on average {gain.mean():+.1f} points, from {gain.min():+.1f} to {gain.max():+.1f}, with 3
and 6 random centers {gain["IID", 3]:+.1f} and {gain["IID", 6]:+.1f}, with the true centers {at_sites(gain):+.1f}; our
own fit to all rows as one center has {gain["IID", 1]:+.1f}. {_far(gain)} Some fits to cnp take more than the paper's
{ROUNDS} rounds to converge; cut off there, those to the true centers have {cut[0]:.3f} times the error and
{cut[1]:+.1f} points. {_uncertain(lines)}

{_federated(lines)}

{gained(lines)}

All of that is judged by the global parameters, as in the paper. Where the scanner of a test row is known, its own
parameters can place the row. With test rows judged scanner by scanner ("known sites") that gives {known[0]:.3f} times
the error of PCA and {known[2]:+.1f} points, and the global parameters {known[1]:.3f} times and {known[3]:+.1f} points.

Most of the distance to PCA is that of the model, not of the federation: the model has a noise for each view, PCA one
for all features, so a view with more noise counts for less, also where it tells the groups apart. With one noise for
all features the same fits have {unlike.min():.3f} to {unlike.max():.3f} times the error of PCA, and in
accuracy {listed(merged, "+z.1f")}; with its rows projected, too, the fit to one center has {placed_by:.3f} times
the error. A noise for each view is the paper's model, and what lets it tell a noisy view from a precise one; whoever
wants reconstruction alone has PCA.

On ADNI the paper's accuracy falls most in G/K, less in G and hardly in K; on cnp that of the paper preset falls in K as
well. In points, from IID with as many centers:

{_falls(lines)}

In G most of the fall goes along with the scaling: with one for all, little is left. In K and G/K most of what is left
then is a matter of views that test rows lack: PCA that learnt from all rows and views is judged on the same rows, and
falls as well. The accuracies themselves:

{by_scaling(summary(lines, "ADNI_2"), "accuracy", ".3f", "the paper, on ADNI")}

The paper notes that test errors are slightly larger in K and G/K. Here they are, too, and all of it is the scaling of
the parts: with common values for all parts they are those of IID, or less.

{by_scaling(summary(lines, "ADNI_2"), "test_mae", ".4f", "the paper, on ADNI")}

Test error over that of PCA, with one scaling for all:

{placed(ratio[plain])}

Accuracy:

{placed(told[[DEFAULT, YARDSTICK, *(name for name in plain if name != DEFAULT)]])}"""


def _federated(lines: pd.DataFrame) -> str:
    """The rival that a federation could have: sums of products."""
    found = against(lines, DEFAULT, SUMS).drop("known sites", level="scenario", errors="ignore")
    lacking = found.loc[["K", "G/K"]]
    even = found.drop(["K", "G/K"], level="scenario")
    return f"""PCA from sums, which moves no rows either, is PCA itself where all centers have all views. Beside it,
ours has {span(even["error"], ".3f")} times the error there and {span(even["points"], "+.1f")} points of accuracy. Where
views are missing (K, G/K) it has {span(lacking["error"], ".3f")} times the error, and
{span(lacking["points"].loc["K"], "+.1f")} points in K and {span(lacking["points"].loc["G/K"], "+.1f")} in G/K."""


def gained(lines: pd.DataFrame) -> str:
    """What the default preset changes against the paper's, in the same units."""
    found = against(lines, DEFAULT, PAPER)
    less = found["error"] - 1.0
    return f"""Beside the paper preset, in the same units, the default preset has {span(less, "+.1%")} of test error,
{less.mean():+.1%} on average, and {span(found["points"], "+.1f")} points of accuracy,
{found["points"].mean():+z.1f} on average: on these data the corrections gain little in either. What they are for, the
sections on synthetic data and on corrections tell."""


def _far(gain: pd.Series[float]) -> str:
    """Where our accuracy is further below that of PCA than we want it."""
    far = gain[gain < -POINTS]
    if far.empty:
        return f"Nowhere is it more than {POINTS:g} points below."
    return f"More than {POINTS:g} points below: {listed(far, '+.1f')}."


def _falls(lines: pd.DataFrame) -> str:
    """Accuracy in G, K and G/K less that in IID: the paper's, the paper preset by scaling, and pooled PCA."""
    shared, own = (means(lines, "accuracy", scaling) for scaling in ("shared", "per center"))
    asked = ((printed("ADNI_2", "accuracy"), "Fed-mv-PPCA"), (own, PAPER), (shared, PAPER), (shared, YARDSTICK))
    body = []
    for scenario in ("G", "K", "G/K"):
        for n in (3, 6):
            gaps = [value(table, scenario, n, method) - value(table, "IID", n, method) for table, method in asked]
            body.append([scenario, str(n), *(f"{gap * 100:+.1f}" for gap in gaps)])
    head = ["the paper, on ADNI", "each part by itself", "one scaling for all", "PCA, pooled, one scaling for all"]
    return rows(["scenario", "centers", *head], body)


def _uncertain(lines: pd.DataFrame) -> str:
    """Largest standard error, over repetitions, of our accuracy less that of PCA."""
    own = lines[(lines["scaling"] == "shared") & (lines["scenario"] != "known sites")]
    by = own.groupby(["scenario", "centers", "repeat", "method"])["accuracy"].mean().unstack("method")
    spread = (by[DEFAULT] - by[YARDSTICK]).groupby(["scenario", "centers"]).sem()
    if spread.isna().all():
        return "One repetition tells nothing of how sure these differences are."
    return (
        "Dealing the same rows anew gives these means over repetitions a standard error of at most "
        f"{at_most(float(spread.max()), 1).rstrip('%')} points; other subjects would move them more."
    )
