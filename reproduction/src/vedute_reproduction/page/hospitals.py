"""The part of the page on reproduction about the four hospitals of heart4."""

from __future__ import annotations

import pandas as pd

from vedute_reproduction.contenders import COMPLETE, DEFAULT, ONE_NOISE, OWN, PROJECTED, SUMS, YARDSTICK
from vedute_reproduction.page.parts import (
    Results,
    against,
    at_sites,
    bullets,
    means,
    placed,
    ratios,
    span,
    times,
    value,
)
from vedute_reproduction.page.stand_in import gained
from vedute_reproduction.writing import rows


def files() -> list[str]:
    """The results that the section needs, without their endings."""
    return ["heart4", "heart4-data"]


def section(results: Results) -> str:
    """Random and true centers, and why ours lies above PCA."""
    lines = results["heart4"]
    error = means(lines, "test_mae")
    alone, pca = (value(error, "IID", 1, name) for name in (DEFAULT, YARDSTICK))
    three, six = (value(error, "IID", n, DEFAULT) / alone for n in (3, 6))
    sites = at_sites(error[DEFAULT]) / alone
    steps = [
        (", one noise for all features, complete rows alone, rows projected", ONE_NOISE + COMPLETE + PROJECTED),
        (", one noise for all features, complete rows alone", ONE_NOISE + COMPLETE),
        (", one noise for all features", ONE_NOISE),
        ("", ""),
    ]
    told = rows(
        ["", "test error over PCA"],
        [[DEFAULT + n, f"{value(error, 'IID', 1, DEFAULT + key) / pca:.3f}"] for n, key in steps],
    )
    ratio, right = ratios(lines, YARDSTICK), means(lines, "accuracy")
    projected = value(ratio, "IID", 1, DEFAULT + PROJECTED)
    rough = at_sites(error[DEFAULT + PROJECTED]) / value(error, "IID", 1, DEFAULT + PROJECTED)
    own, typical = (at_sites(ratio[name], "known sites") for name in (DEFAULT + OWN, DEFAULT))
    return f"""## heart4: true hospitals, {times(lines)}

Default preset, test error over that of our own fit to all rows as one center: {three:.3f} and {six:.3f} with 3 and 6
random centers, {sites:.3f} with the true hospitals. That last distance is hardly one of shrinkage: with the rows of
both projected it is {rough:.3f}. It lies in the parameters themselves, which are means over hospitals that differ:
placed by a hospital's own parameters its rows come nearer, as the end of this section tells.

![Errors and accuracy of all methods](heart4.png)

### Why it lies above PCA

Even as one center our error is {alone / pca:.2f} times that of PCA. PCA has one noise for all features, learns from
complete rows alone, and projects. Ours with all three of these is PCA; giving them up one by one, in this order, tells
where the distance comes from. In another order the shares differ: projection alone gives {projected:.3f}.

{told}

{bullets(_reasons(results["heart4-data"]))}

None of them is a cost of federating: the table is that of one center. {_federated(lines)}

Where the hospital of a test row is known, its own parameters can place the row. With test rows judged hospital by
hospital ("known sites") the error is then
{own:.3f} times that of PCA, and {typical:.3f} times by the global parameters. Pooled PCA has one set of parameters for
all.

Accuracy is {_points(right, DEFAULT)} points from that of PCA in all scenarios, and by a hospital's own parameters
{at_sites(right[DEFAULT + OWN] - right[YARDSTICK], "known sites") * 100:+.1f}; with one noise for all features
{_points(right, DEFAULT + ONE_NOISE)}. {gained(lines)}

Auto-encoders and the private runs are not in this table: they need every cell. Test error over PCA:

{placed(ratio[[name for name in ratio if name == DEFAULT + OWN or not str(name).startswith(f"{DEFAULT},")]])}"""


def _points(right: pd.DataFrame, method: str) -> str:
    """Smallest and largest difference to the accuracy of PCA."""
    return span((right[method] - right[YARDSTICK]) * 100, "+z.1f")


def _federated(lines: pd.DataFrame) -> str:
    """The rival that a federation could have: sums of products."""
    found = against(lines, DEFAULT, SUMS)
    even = found.drop(["sites", "known sites"], level="scenario", errors="ignore")
    return f"""PCA from sums, which moves no rows either, has less error: ours has {span(even["error"], ".2f")} times it
with random centers and {at_sites(found["error"]):.2f} times with the true hospitals, and is
{span(-found["points"], ".1f")} points less accurate."""


def _reasons(counted: pd.DataFrame) -> list[str]:
    """What each step costs, and why."""
    return [
        """The posterior mean shrinks towards 0 where noise is large; much of the variance of these mixed and binary
        features is noise to a model of few components. It is the better guess of x and the worse reconstruction.""",
        _complete(counted),
        """A noise for each view: of two views the model can describe the one with less noise well and leave the other
        to its noise. In min-max units a binary feature has much more variance than most continuous ones, and likelihood
        is not the error by which the table judges.""",
    ]


def _complete(counted: pd.DataFrame) -> str:
    """How many rows have every cell, and who has none such."""
    held = counted.set_index(["what", "name"])["count"]
    none = [str(site) for site, n in held["complete"].items() if n == 0]
    apart = f", none of them from {' or '.join(none)}" if none else ""
    share = 1.0 - held["cells", "of complete"] / held["cells", "observed"]
    whole = f"{held['subjects', 'complete']} of {held['subjects', 'used']}{apart}"
    return f"""Rows with empty cells count here as well; PCA learns from the complete ones alone, {whole}.
  The others hold {share:.0%} of the observed cells."""
