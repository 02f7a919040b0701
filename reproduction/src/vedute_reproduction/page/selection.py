"""The part of the page on reproduction about the number of components."""

from __future__ import annotations

import pandas as pd

from vedute_reproduction.page.parts import Results, at_most, times
from vedute_reproduction.selection import ABOUT, markdown, summary

TRUTH = 5  # components of SD
PAPERS = 6  # up to which the paper looks closely


def files() -> list[str]:
    """The results that the section needs, without their endings."""
    return ["selection", "selection-cnp", "sd-data"]


def section(results: Results) -> str:
    """Figures, tables, and how often the truth was found."""
    lines, real = results["selection"], results["selection-cnp"]
    table, other = summary(lines), summary(real, "ADNI")
    right, folds = recovered(lines)
    chosen = real[real["recommended"]].groupby("preset")["components"].median()
    narrowest = int(results["sd-data"].query("what == 'view'")["count"].min())
    return f"""## The number of components (table Latent_space)

{ABOUT}

### SD, {times(lines)}

![WAIC, its standardised steps, and errors against the number of components](selection.png)

SD has {TRUTH} components. Recommended were {TRUTH} in {right.get("default", 0)} of {folds} folds with the default
preset and one scale for each view, and in {right.get("paper", 0)} with the paper preset and each center scaled by
itself. Mean WAIC is least at {_least(table, "default")} with the default preset and at {_least(table, "paper")} with
the paper preset; the paper's is least at {_least(table, "paper", "waic_paper")}. Train errors lie within
{at_most(_apart(table, "train_mae"))} of the paper's and test errors within {at_most(_apart(table, "test_mae"))}. Above
{TRUTH} components the paper's WAIC rises at once. From {TRUTH} to the last number tried ours rises by
{_risen(table, "default"):.1%} of what it fell from {TRUTH - 1} to {TRUTH} with the default preset, and by
{_risen(table, "paper"):.0%} of that with the paper preset. The paper does not say from which distribution it draws
parameters for its WAIC, so we cannot say why. Preset and scaling change together here; what each does to the choice is
not taken apart. Of the views of SD the narrowest has {narrowest} features, so that from {narrowest} components on the
paper's rule for narrow views is at work.

{_steady(lines, table)}

{markdown(table)}

### cnp, which is not ADNI, {times(real)}

![WAIC, its standardised steps, and errors against the number of components](selection-cnp.png)

Features of cnp have units of their own, so the default preset has each feature scaled by itself. Errors of the default
preset at 6 components are therefore not those of the table above, where all methods have min-max units. The paper's
table for ADNI ends at 6 components; of more it reports a mild further gain and less stable results. On cnp mean WAIC is
least at {_least(other, "default")} of {other["components"].min()} to {other["components"].max()} with the default
preset and at {_least(other, "paper")} with the paper preset; the number recommended, in the median over folds, is
{chosen["default"]:.0f} with the default preset and {chosen["paper"]:.0f} with the paper preset. {_open(other)}Why cnp
asks for so many is not known. {_steady(real, other)}

{markdown(other, "the paper, on ADNI")}"""


def recovered(lines: pd.DataFrame) -> tuple[pd.Series[int], int]:
    """In how many folds each preset recommends the true number of components of SD, and of how many."""
    right = lines[lines["recommended"] & (lines["components"] == TRUTH)].groupby("preset").size()
    return right, int(lines.groupby(["preset", "components"]).size().iloc[0])


def _least(table: pd.DataFrame, preset: str, column: str = "waic") -> int:
    """The number of components with the least WAIC."""
    own = table[table["preset"] == preset].dropna(subset=[column])
    return int(own["components"].to_numpy()[own[column].to_numpy().argmin()])


def _risen(table: pd.DataFrame, preset: str) -> float:
    """The rise of WAIC above the true number of components, as a share of the fall on the step to it."""
    waic = table[table["preset"] == preset].set_index("components")["waic"]
    return float((waic.iloc[-1] - waic[TRUTH]) / (waic[TRUTH - 1] - waic[TRUTH]))


def _open(table: pd.DataFrame) -> str:
    """Whether the least lies at the end of what was tried."""
    most = int(table["components"].max())
    if all(_least(table, preset) < most for preset in ("default", "paper")):
        return ""
    return f"WAIC still falls at {most}, the largest number tried: the least is not found. "


def _steady(lines: pd.DataFrame, table: pd.DataFrame) -> str:
    """Whether many components make WAIC less stable, as the paper says."""
    spread = lines.groupby(["preset", "components"])["waic"].std()
    last = int(table["components"].max())
    told = [
        f"from {spread[preset, PAPERS]:.0f} to {spread[preset, last]:.0f} ({preset} preset)"
        for preset in ("paper", "default")
    ]
    return f"""On ADNI the paper finds WAIC less stable with many components. Here, from {PAPERS} to {last} components
its standard deviation over folds goes {" and ".join(told)}."""


def _apart(table: pd.DataFrame, metric: str) -> float:
    """The largest relative distance of an error to the paper's."""
    return float((table[metric] / table[f"{metric}_paper"] - 1.0).abs().max())
