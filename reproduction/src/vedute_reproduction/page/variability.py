"""The part of the page on reproduction that shows variability, and missing views imputed."""

from __future__ import annotations

import pandas as pd

from vedute_reproduction.page.parts import Results, span
from vedute_reproduction.variability import ABOUT, PARTED, markdown

DATA = {"": ("SD", ("view2", "view3")), "-cnp": ("cnp, which is not ADNI", ("QUEST", "T1W"))}


def files() -> list[str]:
    """The results that the section needs, without their endings."""
    return [f"variability{end}{part}" for end in DATA for part in ("", "-features")]


def section(results: Results) -> str:
    """Figures and tables of both data sets."""
    shown = [_variability(end, results[f"variability{end}"], results[f"variability{end}-features"]) for end in DATA]
    return "\n\n".join(
        [
            f"""## Variability of centers, and missing views imputed (the paper's section 4.3.2)

Written by `vedute paper variability` and, with `--data cnp`, on cnp. {ABOUT}""",
            *shown,
        ]
    )


def _variability(end: str, lines: pd.DataFrame, features: pd.DataFrame) -> str:
    about, views = DATA[end]
    figures = "\n\n".join(
        f"![All features of {view}: truth, imputed and global distribution](variability{end}-{view}.png)"
        for view in views
    )
    return f"""### {about}, {lines["repeat"].nunique()} x 3-fold

![Centers in latent and original space](variability{end}.png)

The first panel has one posterior sample of each train subject; the others the first two features of each view as
observed, and what is predicted of them, at two standard deviations: for each center, also where it lacks the view, and
for all.

{figures}

{_described(lines)}

{_by_feature(features) if end else ""}{_corrected(lines)}

{markdown(lines)}"""


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


def _corrected(lines: pd.DataFrame) -> str:
    """What the paper preset imputes, beside the default preset."""
    by = lines.groupby(["preset", "parted_by", "view"])[["mae", "coverage"]].mean()
    paper, default = (by.loc[preset] for preset in ("paper", "default"))
    return f"""With the paper preset the intervals cover {span(paper["coverage"], ".0%")} and the error is
{span(paper["mae"] / default["mae"], ".1f")} times that of the default preset."""


def _by_feature(features: pd.DataFrame) -> str:
    """How unlike the features of a view are, on the fold that is drawn."""
    own = features[features["parted_by"] == "views"]
    told = [
        f"{view} {part['coverage'].min():.0%} to {part['coverage'].max():.0%}"
        for view, part in own.groupby("view", sort=False)
    ]
    return f"""These are means over features. Feature by feature, in one fold whose test rows are parted by views alone,
coverage is {", ".join(told)}: one noise for a view is too much for some of its features and too little for others. """


def _imputed(own: pd.DataFrame, how: str) -> str:
    """How what is imputed compares with the mean of those who have the view."""
    worse = [str(view) for view in own.index[own["mae"] > own["mae_mean"]]]
    where = f"further from the truth than the mean in {' and '.join(worse)}"
    told = where if worse else "nearer to the truth than the mean"
    covered = f"{own['coverage'].min():.1%} to {own['coverage'].max():.1%}"
    return f"{how}, what the default preset imputes is {told}, and the 90 % intervals cover {covered}."


def _hint(own: pd.DataFrame) -> str:
    return " The section on hidden views tells what helps." if (own["mae"] > own["mae_mean"]).any() else ""
