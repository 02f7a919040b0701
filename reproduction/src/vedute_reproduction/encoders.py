"""Auto-encoders beside ours on the page: who is ahead, and what their training decides."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd

from vedute_reproduction.comparison import printed
from vedute_reproduction.contenders import (
    CORRECTED,
    DEFAULT,
    ENCODERS,
    LONGER,
    MCVAE,
    PAPER,
    PRIVATE,
    SCHEDULE,
    STARTED,
    STARTS,
    UNTUNED,
    VAE,
    YARDSTICK,
)
from vedute_reproduction.prose import placed, rows
from vedute_reproduction.reading import Facts, Results, means, value

DATA = {"sd": ("SD", "SD_2"), "adni-cnp": ("cnp", "ADNI_2")}
CODES = (VAE, MCVAE, VAE + UNTUNED, MCVAE + UNTUNED)
HOWS = ("", UNTUNED)


def facts(results: Results) -> Facts:
    """What the training decides, and errors with the scaling of the paper and with one for all."""
    return {
        "schedule": SCHEDULE,
        "start": STARTED_FROM[0],
        "arrival": _arrival(results["sd"]),
        "longer": _longer(results["sd"], results["adni-cnp"]),
        "data": [_data("sd", results["sd"], results["corrections"]), _data("adni-cnp", results["adni-cnp"])],
    }


STARTED_FROM = [f"{np.exp(start):.2g}" for start in STARTS]  # variances from which noise is learnt


def startings() -> list[str]:
    """What an untuned auto-encoder is called, by where its noise begins."""
    return [UNTUNED, *(f"{UNTUNED}{STARTED}{variance}" for variance in STARTED_FROM[1:])]


def _arrival(sd: pd.DataFrame) -> Facts:
    """What comes of other starts of the noise, beside what the paper prints."""
    own, paper = means(sd, "test_mae", "per center"), printed("SD_2", "test_mae")
    body, inside = [], 0
    for name in ENCODERS:
        for n in (1, 3, 6):
            found = [value(own, "IID", n, name + how) for how in startings()]
            theirs = value(paper, "IID", n, name)
            inside += min(found) <= theirs <= max(found)
            cells = [value(own, "IID", n, name), *found, theirs, value(own, "IID", n, PAPER)]
            body.append([name, str(n), *(f"{cell:.4f}" for cell in cells)])
    head = ["", "centers", "noise at its optimum", *(f"untuned, from {variance}" for variance in STARTED_FROM)]
    return {
        "table": rows([*head, "the paper", "Fed-mv-PPCA, paper preset"], body),
        "inside": inside,
        "all": len(body),
        "printed": (paper[VAE] / paper["Fed-mv-PPCA"]).dropna(),
        "here": [own[VAE + how] / own[PAPER] for how in ("", *startings())],
    }


def _longer(sd: pd.DataFrame, cnp: pd.DataFrame) -> Facts:
    """Whether the rounds are enough."""
    shared, own, real = means(sd, "test_mae"), means(sd, "test_mae", "per center"), means(cnp, "test_mae")
    best = value(shared, "IID", 1, DEFAULT)
    return {
        "linear": (shared[VAE] / best).dropna(),
        "crossed": [value(shared, "IID", 6, name) / best for name in (MCVAE, MCVAE + LONGER)],
        "late": [value(real, "IID", 3, name) / value(real, "IID", 3, YARDSTICK) for name in (MCVAE, MCVAE + LONGER)],
        "slow": [value(own, "IID", 3, name + UNTUNED + more) for name in (VAE, MCVAE) for more in ("", LONGER)],
    }


def ahead(lines: pd.DataFrame, scaling: str, ours: str, rivals: Sequence[str]) -> pd.Series[float]:
    """By how much our error exceeds that of the best rival, where by more than two standard errors over repetitions."""
    by = _by_repetition(lines, "test_mae", scaling, [ours, *rivals])
    found = {}
    for place, errors in by.dropna(subset=rivals, how="all").groupby(["scenario", "centers"]):
        best = errors[errors[list(rivals)].mean().idxmin()]
        if _beyond_chance(errors[ours] - best):
            found[place] = float(errors[ours].mean() / best.mean() - 1.0)
    return pd.Series(found, dtype=float)


def _by_repetition(lines: pd.DataFrame, metric: str, scaling: str, methods: Sequence[str]) -> pd.DataFrame:
    """Means over folds: scenarios, centers and repetitions by methods."""
    own = lines[(lines["scaling"] == scaling) & lines["method"].isin(methods)]
    return own.groupby(["scenario", "centers", "repeat", "method"])[metric].mean().unstack("method")


def _beyond_chance(gaps: pd.Series[float]) -> bool:
    """Whether a mean is above 0 by more than two standard errors; one repetition cannot tell."""
    return len(gaps) > 1 and bool(gaps.mean() > 2.0 * gaps.std() / np.sqrt(len(gaps)))


def _data(name: str, lines: pd.DataFrame, corrected: pd.DataFrame | None = None) -> Facts:
    """``corrected``: the lines of the experiment on corrections, where it was made with these data."""
    about, table = DATA[name]
    error, paper = means(lines, "test_mae", "per center")[[PAPER, DEFAULT, *CODES]], printed(table, "test_mae")
    any_ahead, still = (ahead(lines, "per center", ours, CODES) for ours in (PAPER, DEFAULT))
    shared = means(lines, "test_mae")[[DEFAULT, VAE, MCVAE]].dropna(subset=[MCVAE])
    own, beside = error.loc[list(any_ahead.index)], f"the paper on {table.split('_')[0]}"
    return {
        "about": about,
        "lines": lines,
        "rows": len(error),
        "tuned_ahead": ahead(lines, "per center", PAPER, [VAE, MCVAE]),
        "untuned_ahead": ahead(lines, "per center", PAPER, [VAE + UNTUNED, MCVAE + UNTUNED]),
        "errors": error.assign(
            **{f"{method}, {beside}": paper[method].reindex(error.index) for method in ("Fed-mv-PPCA", VAE, MCVAE)}
        ),
        "caught": (own[PAPER] - own[DEFAULT]) / (own[PAPER] - own[list(CODES)].min(axis=1)),
        "still": still,
        "which": None if corrected is None or any_ahead.empty else _which(corrected, any_ahead),
        "noised": _noised(lines, paper),
        "accuracy": _accuracy(lines, printed(table, "accuracy"), beside),
        "shared": shared,
        "better": ahead(lines, "shared", DEFAULT, [VAE, MCVAE]),
    }


def _which(corrected: pd.DataFrame, behind: pd.Series[float]) -> Facts:
    """Which correction makes up for it: each added to the paper preset, each center scaled by itself."""
    error = means(corrected, "test_mae", "per center")
    found = error.loc[[place for place in error.index if place in behind.index]]
    _, variances, mix, *_ = CORRECTED
    gain = found[PAPER] - found[DEFAULT]
    head = [str(name).removeprefix(f"{PAPER}, ") for name in found.columns]
    return {
        "alone": [(found[PAPER] - found[name]) / gain for name in (variances, mix)],
        "table": placed(found.set_axis(head, axis=1), ".4f"),
    }


def _noised(lines: pd.DataFrame, paper: pd.DataFrame) -> Facts:
    """Where the paper's private runs stand among the auto-encoders, there and here."""
    own = means(lines, "test_mae", "per center")
    both = [place for place in own.index if place in paper[VAE].dropna().index and own[PRIVATE].notna()[place]]

    def worse(table: pd.DataFrame, private: str, rival: str) -> int:
        return int((table[private] > table[rival]).loc[both].sum())

    return {
        "rows": len(both),
        "theirs": [worse(paper, "DP-Fed-mv-PPCA", rival) for rival in (VAE, MCVAE)],
        "ours": [worse(own, PRIVATE, rival + how) for how in HOWS for rival in (VAE, MCVAE)],
    }


def _accuracy(lines: pd.DataFrame, paper: pd.DataFrame, beside: str) -> Facts:
    """Accuracy beside the paper's, and whether its two findings hold here."""
    found = means(lines, "accuracy", "per center")[[PAPER, DEFAULT, PRIVATE, *CODES]]
    by = _by_repetition(lines, "accuracy", "per center", [PAPER, *CODES])
    gaps = by[list(CODES)].sub(by[PAPER], axis=0) * 100
    even = gaps.xs("IID", level="scenario").groupby("centers").mean()
    for method in ("Fed-mv-PPCA", "DP-Fed-mv-PPCA", VAE, MCVAE):
        found[f"{method}, {beside}"] = paper[method].reindex(found.index)
    in_g = {n: gaps.xs(("G", n), level=("scenario", "centers")) for n in (3, 6)}
    leads = [
        (str(method), float(own.mean()), n)
        for n, by_method in in_g.items()
        for method, own in by_method.items()
        if _beyond_chance(own)
    ]
    return {
        "ahead": leads,
        "untuned_ahead": any(method.endswith(UNTUNED) for method, *_ in leads),
        "even": [even[MCVAE + how] for how in HOWS],
        "theirs": (paper[MCVAE] - paper["Fed-mv-PPCA"]).loc["IID"] * 100,
        "table": placed(found),
    }
