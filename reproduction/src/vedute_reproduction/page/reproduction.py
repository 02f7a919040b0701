"""The page on what of the paper we found again: every number on it is computed from the experiments' CSV files."""

from __future__ import annotations

import re
from pathlib import Path
from types import ModuleType

import pandas as pd
from pandas.errors import EmptyDataError

from vedute.errors import UserError
from vedute_reproduction.comparison import READING, markdown, summary
from vedute_reproduction.methods import ROUNDS
from vedute_reproduction.page import (
    corrections,
    hidden,
    hospitals,
    overview,
    privacy,
    rivals,
    selection,
    slips,
    stand_in,
    studies,
    synthetic,
    variability,
)
from vedute_reproduction.page.parts import Results, filled, times

HEAD = """# What of the paper's tables we find again

The paper is Balelli, Silva and Lorenzi (2022), *A Differentially Private Probabilistic Framework for Modeling the
Variability Across Federated Datasets of Heterogeneous Multi-View Observations*. This page is generated from CSV files
(`{place}/*.csv`); no result on it is typed by hand. One command runs everything and writes page, tables and figures:

    vedute paper all --data FOLDER --out DIR

FOLDER has the open data sets cnp and heart4. The command is a package of its own: `pip install ./reproduction` in the
source of vedute, which brings torch and mofapy2. It takes about two hours on two cores, and goes on where it was
interrupted. `vedute paper --help` lists the experiments one by one."""

READ = f"## How to read the tables\n\n{READING}\n\n`collapse` looks at all presets after {ROUNDS} rounds."

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
    hidden,
    slips,
)

FULL = 10  # repetitions that the words of the page are about
NAMES = tuple(dict.fromkeys(name for part in (*PARTS, overview) for name in part.files()))
REPEATED = tuple(name for name in NAMES if not name.endswith(("-rounds", "-data", "-features")))  # a line for each fold


def page(folder: Path, place: str = ".") -> str:
    """The whole page, from the CSV files in a folder; ``place`` is where that lies, seen from the page."""
    _check_there(folder)
    results = {name: _lines(folder / f"{name}.csv") for name in NAMES}
    told = [_section(part, results, folder) for part in PARTS]  # what a file lacks is told by the part that is about it
    first = _section(overview, results, folder)
    parts = [HEAD.format(place=place), _short(results), first, READ, *told, _whole(results)]
    text = filled("\n\n".join(part.strip("\n") for part in parts if part)) + "\n"
    return re.sub(r"\]\(([\w-]+\.png)\)", rf"]({place}/\1)", text)


def _short(results: Results) -> str:
    """A warning where the words of the page, which are tested against the full run, stand beside fewer repetitions."""
    found = {name: results[name]["repeat"].nunique() for name in REPEATED}
    few = [f"{name} ({n})" for name, n in found.items() if n < FULL]
    if not few:
        return ""
    return f"""**This is a short run.** The words between the numbers were written about {FULL} repetitions of each
experiment and tested against those; here are fewer of {", ".join(few)}. Where words and numbers disagree, believe the
numbers, and those with caution."""


def _section(part: ModuleType, results: Results, folder: Path) -> str:
    """One part; files that were written by a run without rivals, or cut, do not have what it tells of."""
    try:
        return str(part.section(results))
    except (KeyError, IndexError, ValueError) as error:
        names = " or ".join(f"{name}.csv" for name in part.files())
        raise UserError(
            f"{folder}: {names} lacks lines that the page tells of ({error}); write it again, with all rivals and MOFA"
        ) from error


def _check_there(folder: Path) -> None:
    """Name all files that are lacking at once, and what writes them."""
    if not folder.is_dir():
        raise UserError(f"{folder}: is no folder; give the one that 'vedute paper all' has written with --results")
    absent = [name for name in NAMES if not (folder / f"{name}.csv").exists()]
    if absent:
        told = ", ".join(f"{name}.csv" for name in absent)
        commands = "; ".join(dict.fromkeys(f"'vedute paper {_command(name)} --out {folder}'" for name in absent))
        raise UserError(f"{folder}: lacks {told}; write what is lacking with {commands}")


def _command(file: str) -> str:
    """What writes a file."""
    name, _, data = re.sub("-(rounds|data|features)$", "", file).partition("-")
    given = data or (name if name == "heart4" else "")
    return f"{name} --data FOLDER/{given}" if given else name


def _lines(path: Path) -> pd.DataFrame:
    try:
        return pd.read_csv(path)
    except EmptyDataError:
        raise UserError(f"{path}: is empty; write it again") from None
    except ValueError as error:  # cut, or no text
        raise UserError(f"{path}: is no CSV ({error}); write it again") from None


def _whole(results: Results) -> str:
    sd, adni, heart, swept = (results[name] for name in ("sd", "adni-cnp", "heart4", "fedprox-cnp"))
    return f"""## Full tables

### sd, {times(sd)}

{markdown(summary(sd, "SD_2"))}

### adni, on cnp, {times(adni)}

{markdown(summary(adni, "ADNI_2"), "the paper, on ADNI")}

### heart4, {times(heart)}

{markdown(summary(heart))}

### fedprox, on cnp, {times(swept)}

{markdown(summary(swept, "ADNI_fedprox"), "the paper, on ADNI")}"""
