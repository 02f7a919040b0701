"""The page on what of the paper we found again: a template, and values computed from the experiments' CSV files."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd
from pandas.errors import EmptyDataError

from vedute.errors import UserError
from vedute_reproduction import (
    adni,
    corrections,
    encoders,
    fedprox,
    heart4,
    missing,
    privacy,
    sd,
    selection,
    variability,
)
from vedute_reproduction.collapse import lost
from vedute_reproduction.comparison import gaps, markdown, printed, summary
from vedute_reproduction.contenders import CORRECTED, DEFAULT, PAPER, SUMS, VAE, YARDSTICK
from vedute_reproduction.methods import LONGEST, ROUNDS
from vedute_reproduction.private import MAIN
from vedute_reproduction.prose import environment, filled, rows
from vedute_reproduction.reading import Facts, Results, against, at_sites, means, ratios
from vedute_reproduction.studies import CNP, SYNTHETIC

FULL = 10  # repetitions that the words of the page are about
STUDIES = {
    "sd": ("SD, synthetic", SYNTHETIC.n_components),
    "adni-cnp": ("cnp, in place of ADNI", CNP.n_components),
    "heart4": ("heart4", heart4.HEART4.n_components),
}
TABLES = {"sd": "SD_2", "adni-cnp": "ADNI_2", "heart4": None, "fedprox-cnp": "ADNI_fedprox"}  # that stand at the end


@dataclass(frozen=True)
class Section:
    """A part of the page: the files that it needs, without their endings, and what it computes from them."""

    files: tuple[str, ...]
    facts: Callable[[Results], Any]


def studies(results: Results) -> str:
    """Who and what is in each study."""
    body = [[about, *_counted(results[f"{name}-data"]), str(q)] for name, (about, q) in STUDIES.items()]
    return rows(["data", "subjects", "left out", "features by view", "groups", "true centers", "components"], body)


def _counted(table: pd.DataFrame) -> list[str]:
    counts = {str(what): part.set_index("name")["count"] for what, part in table.groupby("what", sort=False)}
    told = [", ".join(f"{name} {n}" for name, n in counts[what].items()) for what in ("view", "group")]
    centers = ", ".join(f"{name} {n}" for name, n in counts["center"].items()) if "center" in counts else ""
    return [str(counts["subjects"]["used"]), str(counts["subjects"]["left out"]), *told, centers]


def slips(results: Results) -> dict[tuple[str, str], pd.Series[bool]]:
    """In which scenarios of a table of the paper the error lost to privacy falls from 3 to 6 centers."""
    found = {}
    for table in ("SD_2", "ADNI_2"):
        for metric in ("test_mae", "train_mae"):
            error = printed(table, metric)
            gap = (error["DP-Fed-mv-PPCA"] - error["Fed-mv-PPCA"]).dropna().unstack("centers")
            found[table.partition("_")[0], metric] = gap[6] < gap[3]
    return found


def tables(results: Results) -> dict[str, str]:
    """Those of the experiments that compare methods."""
    heads = {"SD_2": "paper", None: ""}
    return {
        name: markdown(summary(results[name], paper), heads.get(paper, "the paper, on ADNI"))
        for name, paper in TABLES.items()
    }


def short(results: Results) -> Facts:
    """What came out, in a few lines."""
    lines, cnp, hearts = (results[name] for name in ("sd", "adni-cnp", "heart4"))
    table, draws = summary(lines, "SD_2"), results["collapse"]
    trained = {how: means(lines, "train_mae", how)[PAPER]["IID"] for how in ("per center", "shared")}
    right = {how: means(lines, "accuracy", how)[PAPER]["G/K"] for how in ("per center", "per center, test as one")}
    mended = ratios(results["corrections"], YARDSTICK).max()
    ends = draws[(draws["round"] == draws["round"].max()) & (draws["parameter"] == "W") & (draws["method"] == DEFAULT)]
    gone, sums = lost(draws), against(cnp, DEFAULT, SUMS).loc[["K", "G/K"]]
    own, paper = means(lines, "test_mae", "per center"), printed("SD_2", "test_mae")
    _, variances, mix, *_ = CORRECTED
    chosen = results["selection-cnp"]
    found, folds = selection.recovered(results["selection"])
    return {
        "apart": gaps(table[table["method"] == PAPER])[["train_mae", "test_mae"]].abs().to_numpy().max(),
        "inside": sd.inside(lines, PAPER),
        "trained": {how: [float(values[n]) for n in (1, 3, 6)] for how, values in trained.items()},
        "theirs": printed("SD_2", "accuracy")["Fed-mv-PPCA"]["G/K"],
        "right": list(right.values()),
        "uneven": ratios(lines, YARDSTICK)[PAPER].max(),
        "default": ratios(lines, YARDSTICK)[DEFAULT],
        "mended": {"mix": mended[mix], "variances": mended[variances]},
        "lost": (gone[PAPER], gone[DEFAULT]),
        "kept": ends.groupby(["centers", "case_mix"])["ratio"].median(),
        "pooled": against(cnp, DEFAULT, YARDSTICK).drop("known sites", level="scenario", errors="ignore"),
        "preset": against(cnp, DEFAULT, PAPER).drop("known sites", level="scenario", errors="ignore"),
        "hearts": ratios(hearts, YARDSTICK)[DEFAULT],
        "hearts_sites": at_sites(ratios(hearts, YARDSTICK)[DEFAULT]),
        "sums": sums,
        "vae": paper[VAE] / paper["Fed-mv-PPCA"],
        "here": [own[VAE + how] / own[PAPER] for how in ("", *encoders.startings())],
        "private": _private(results),
        "truth": selection.TRUTH,
        "found": {preset: found.get(preset, 0) for preset in ("default", "paper")},
        "folds": folds,
        "tried": chosen["components"].max(),
        "asked": chosen[chosen["recommended"]].groupby("preset")["components"].median(),
    }


def _private(results: Results) -> Facts:
    """What the paper's privacy costs and is."""
    lines, cnp = privacy.summary(results["privacy"], "SD_2"), privacy.summary(results["privacy-cnp"], "ADNI_2")
    views = [int((results[f"{name}-data"]["what"] == "view").sum()) for name in ("sd", "adni-cnp")]
    asked = {"sweep": "eps", "epsilon": MAIN.epsilon}
    ours, theirs = (table[table["policy"] == "subject"] for table in (lines, cnp))
    flat = privacy.point(cnp, sweep="mean", scaling="shared")["test_mae"]
    return {
        "raw": privacy.point(lines, **asked, first_round="raw"),
        "public": privacy.point(lines, **asked, first_round="public"),
        "real": privacy.point(cnp, **asked, first_round="public"),
        "alone": [privacy.point(lines, sweep="mean", scaling=how)["test_mae"] for how in ("per center", "shared")],
        "plain": privacy.point(lines, sweep="none", scaling="shared")["test_mae"],
        "views": views,
        "claims": [MAIN.claim(n)[0] for n in views],
        "ten": ours.iloc[(ours["total"] - 10.0).abs().argmin()],
        "useless": sorted(theirs.loc[theirs["test_mae"] > flat, "total"]),
    }


PARTS = {
    "studies": Section(tuple(f"{name}-data" for name in STUDIES), studies),
    "sd": Section(("sd",), sd.facts),
    "adni": Section(("adni-cnp",), adni.facts),
    "heart4": Section(("heart4", "heart4-data"), heart4.facts),
    "encoders": Section(("sd", "adni-cnp", "corrections"), encoders.facts),
    "fedprox": Section(("fedprox-cnp", "fedprox"), fedprox.facts),
    "corrections": Section(("collapse", "corrections"), corrections.facts),
    "selection": Section(("selection", "selection-cnp", "sd-data"), selection.facts),
    "privacy": Section(
        ("privacy", "privacy-rounds", "privacy-cnp", "privacy-cnp-rounds", "sd", "adni-cnp"), privacy.facts
    ),
    "variability": Section(
        ("variability", "variability-features", "variability-cnp", "variability-cnp-features"), variability.facts
    ),
    "missing": Section(("missing", "missing-cnp"), missing.facts),
    "slips": Section((), slips),
    "tables": Section(("sd", "adni-cnp", "heart4", "fedprox-cnp"), tables),
    "short": Section(("sd", "adni-cnp", "heart4", "collapse", "corrections"), short),
}
NAMES = tuple(dict.fromkeys(name for part in PARTS.values() for name in part.files))
REPEATED = tuple(name for name in NAMES if not name.endswith(("-rounds", "-data", "-features")))  # a line for each fold


def page(folder: Path, place: str = ".") -> str:
    """The whole page, from the CSV files in a folder; ``place`` is where that lies, seen from the page."""
    _check_there(folder)
    results = {name: _lines(folder / f"{name}.csv") for name in NAMES}
    found = {name: _computed(part, results, folder) for name, part in PARTS.items()}
    repeats = {name: results[name]["repeat"].nunique() for name in REPEATED}
    few = {name: n for name, n in repeats.items() if n < FULL}
    template = environment().get_template("reproduction.md")
    text = template.render(found, place=place, results=results, few=few, full=FULL, rounds=ROUNDS, longest=LONGEST)
    return re.sub(r"\]\(([\w-]+\.png)\)", rf"]({place}/\1)", filled(text)) + "\n"


def _computed(part: Section, results: Results, folder: Path) -> Any:
    """What a part tells; files that were written by a run without rivals, or cut, do not have it."""
    try:
        return part.facts(results)
    except (KeyError, IndexError, ValueError, StopIteration) as error:
        names = " or ".join(f"{name}.csv" for name in part.files)
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
