"""The part of the page on reproduction about the number of components."""

from __future__ import annotations

from pathlib import Path

import pandas as pd

from vedute.evaluation.page_parts import times
from vedute.evaluation.selection import markdown, summary


def files() -> list[str]:
    """The results that the section needs, without their endings."""
    return ["selection"]


def section(folder: Path) -> str:
    """Figure, table, and how often the truth was found."""
    lines = pd.read_csv(folder / "selection.csv")
    table = summary(lines)
    right = lines[lines["recommended"] & (lines["components"] == 5)].groupby("preset").size()
    folds = int(lines.groupby(["preset", "components"]).size().iloc[0])
    return f"""## The number of components (table Latent_space), {times(lines)}

![WAIC, its standardised steps, and errors against the number of components](reproduction/selection.png)

SD has 5 components. The fewest within two standard errors of the best WAIC were 5 in {right.get("default", 0)} of
{folds} folds with the default preset and one scale for each view, and in {right.get("paper", 0)} with the paper preset
and each center scaled by itself. The paper's WAIC has its least at 5 as well and jumps at 7. Ours does not jump: it
draws parameters from the posterior of each center, the paper from the global prior. The values themselves cannot be
compared: ours are in the units of the data and sums over all centers, the paper's are in scaled units and look like a
mean over centers. Errors can: they are the paper's up to 5 components; beyond, ours go on falling a little.

"step" is the difference to one component fewer, over its standard error with a plus under the root; "recommended"
counts folds.

{markdown(table)}"""
