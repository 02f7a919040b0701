"""The page on what of the paper we found again: every number on it is computed from the experiments' CSV files."""

from __future__ import annotations

from pathlib import Path
from types import ModuleType

import pandas as pd
from pandas.errors import EmptyDataError

from vedute.errors import UserError
from vedute.evaluation.methods import LONGEST, ROUNDS
from vedute.evaluation.page import (
    corrections,
    hospitals,
    privacy,
    rivals,
    selection,
    stand_in,
    studies,
    synthetic,
    variability,
)
from vedute.evaluation.page.parts import filled, times
from vedute.evaluation.tables.comparison import markdown, summary

HEAD = f"""# What of the paper's tables we find again

Generated from the CSV files beside this page by `vedute paper page`; no result here is typed by hand. The files are
written by `vedute paper sd`, `vedute paper adni --data cnp`, `vedute paper heart4 --data heart4` and the further
commands named below (`vedute paper fedprox`, `collapse`, `corrections`, `selection`, `privacy`, `variability`,
`missing`; with `--data cnp` where the name of a file ends so). `vedute paper all --data FOLDER`, where the folder has
the data sets cnp and heart4, runs all of them and writes this page. Other machines give other last digits, and
auto-encoders train on a GPU where there is one.

Errors are mean absolute errors of reconstruction by the global parameters, in min-max scaled units, over observed
cells, as a plain mean over centers (train) or over the parts of the test rows (test). Accuracy is that of a linear
discriminant analysis fitted on train latent means and scored on test latent means. In scaling "per center, test as one"
all parts of the test rows are scaled by the smallest and largest values of them all. ± is one standard deviation over
folds; each repetition of SD draws parameters anew as well, while the paper has one draw of them.

"PCA, pooled" and "factor analysis, pooled" learn from all complete train rows with all views, also in K and G/K, where
the others have what the centers hold; their units are those of all other methods, and their train errors there are over
cells that no other method has. "PCA, from sums" is the PCA of the sums that centers can send, with features that nobody
has together taken as uncorrelated; "MOFA, pooled" sees in one place what the centers hold. "PPCA, each center alone" is
measured on the views that the center has, and its accuracy is a mean over centers that have both groups: where views or
groups are dealt unevenly it is no like for like.

The paper preset runs the paper's {ROUNDS} rounds, or as one center its 800 iterations. The default preset ends when a
round changes its parameters by less than a part in 10,000, or after {LONGEST} rounds; `collapse` looks
at all presets after {ROUNDS} rounds."""

PARTS = (
    studies,
    synthetic,
    stand_in,
    hospitals,
    rivals,
    corrections,
    selection,
    privacy,
    variability,
)

FULL = 10  # repetitions that the words of the page are about
REPEATED = tuple(
    name for part in PARTS for name in part.files() if not name.endswith(("-rounds", "-data"))
)  # experiments with a line for each fold

SLIPS = """## Slips in the paper to know of

* The standardised difference of WAIC has a minus under its root; variances of independent values add, so it must be a
  plus, and folds that are shared ask for a paired difference.
* The rows with lambda = 0 of the FedProx table repeat the rows of scenario IID, not those of G.
* The formula of the computational cost multiplies the dimensions of the views where they add.
* Those on privacy (a budget that counts one round of many, a first round that is raw, a constant) are told in
  `privacy.md`, under "Policy `paper`"."""


def page(folder: Path) -> str:
    """The whole page, from the CSV files in a folder."""
    for part in PARTS:
        for name in part.files():
            _lines(folder / f"{name}.csv")
    parts = [HEAD, _short(folder), *(_section(part, folder) for part in PARTS), SLIPS, _whole(folder)]
    return filled("\n\n".join(part.strip("\n") for part in parts if part)) + "\n"


def _short(folder: Path) -> str:
    """A warning where the words of the page, which are tested against the full run, stand beside fewer repetitions."""
    found = {name: pd.read_csv(folder / f"{name}.csv", usecols=["repeat"])["repeat"].nunique() for name in REPEATED}
    few = [f"{name} ({n})" for name, n in found.items() if n < FULL]
    if not few:
        return ""
    return f"""**This is a short run.** The words between the numbers were written about {FULL} repetitions of each
experiment and tested against those; here are fewer of {", ".join(few)}. Where words and numbers disagree, believe the
numbers, and those with caution."""


def _section(part: ModuleType, folder: Path) -> str:
    """One part; files that were written by a run without rivals, or cut, do not have what it tells of."""
    try:
        return str(part.section(folder))
    except (KeyError, IndexError, ValueError) as error:
        names = " or ".join(f"{name}.csv" for name in part.files())
        raise UserError(
            f"{folder}: {names} lacks lines that the page tells of ({error}); write it again, with all rivals"
        ) from error


def _lines(path: Path) -> pd.DataFrame:
    if not path.exists():
        name, _, data = path.stem.removesuffix("-rounds").removesuffix("-data").partition("-")
        given = f" --data {data or name}" if data or name == "heart4" else ""
        raise UserError(
            f"{path}: there is no such file; write it with 'vedute paper {name}{given} --out {path.parent}'"
        )
    try:
        return pd.read_csv(path)
    except EmptyDataError:
        raise UserError(f"{path}: is empty; write it again") from None


def _whole(folder: Path) -> str:
    sd, adni, heart = (_lines(folder / f"{name}.csv") for name in ("sd", "adni-cnp", "heart4"))
    return f"""## Full tables

### sd, {times(sd)}

{markdown(summary(sd, "SD_2"))}
### adni, on cnp, {times(adni)}

{markdown(summary(adni, "ADNI_2"), "the paper, on ADNI")}
### heart4, {times(heart)}

{markdown(summary(heart))}"""
