"""Does a fit find how much centers differ? Draws of the model itself, where that is known.

The paper plugs modes into variances: a mode is drawn towards the prior, so the variance between centers shrinks, so the
prior draws harder, round after round. Each correction of the default preset is added to the paper's in turn.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd

from vedute import FederatedPPCA
from vedute.datasets import make_hierarchical
from vedute.model.parameters import Spreads
from vedute.model.seeds import stream
from vedute_reproduction.canvas import canvas, finished, tidy
from vedute_reproduction.comparison import styles
from vedute_reproduction.contenders import CORRECTED, DEFAULT
from vedute_reproduction.keeping import How, Line, each, kept_or_computed, keyed
from vedute_reproduction.methods import quietly, unit_ranges
from vedute_reproduction.prose import about, rows
from vedute_reproduction.writing import csv, named, page, put

SD = {"mu": 0.3, "W": 0.1}  # the truth: how far means and loadings of centers lie apart
COUNTS, SUBJECTS, COMPONENTS, ROUNDS = (5, 20), 100, 3, 100
CASE_MIX = (0.0, 1.0)  # sd of the latent mean of a center's patients
LOST = 0.01  # of the truth: what is less stands on its floor
KEPT = (1, 2, 3, 4, 5, 7, 10, 15, 20, 30, 50, 70, 100)  # rounds to look at
SIGNS = {"mu": r"$\tilde\sigma_\mu$", "W": r"$\tilde\sigma_W$"}


@dataclass(frozen=True)
class ModelDraw:
    """One draw, fitted by each variant."""

    centers: int
    case_mix: float
    repeat: int

    @property
    def file(self) -> str:
        """Where its result is kept."""
        return f"collapse-{self.centers}-{self.case_mix:g}-r{self.repeat:03d}.json"


def compute(trial: ModelDraw) -> list[Line]:
    """A line for each variant, view, parameter and round: the sd found, over the truth."""
    tables, _ = make_hierarchical(
        trial.centers, SUBJECTS, n_components=COMPONENTS, sd_mu=SD["mu"], sd_W=SD["W"], tau=trial.case_mix,
        random_state=stream(trial.repeat, "collapse", trial.centers),
    )  # fmt: skip
    about = {"centers": trial.centers, "case_mix": trial.case_mix, "repeat": trial.repeat}
    found = []
    with quietly():
        for name, corrections in {**CORRECTED, DEFAULT: None}.items():
            ours = FederatedPPCA(COMPONENTS, rounds=ROUNDS, scaling="declared", tol=1e-4, random_state=trial.repeat)
            if corrections is not None:
                ours.set_params(preset="paper", tol=None, **dict.fromkeys(corrections, True))
            history = ours.fit(tables, ranges=unit_ranges(tables)).history_  # in the units of the truth
            for view in history[0]["spreads"]:
                for i, parameter in enumerate(SD):
                    for round_ in KEPT:
                        spreads: Spreads = history[min(round_, len(history)) - 1]["spreads"][view]
                        at = {"view": view, "parameter": parameter, "round": round_}
                        found.append(about | {"method": name} | at | {"ratio": spreads[i] / SD[parameter]})
    return found


def run(how: How) -> pd.DataFrame:
    """All draws: few and many centers, with the same patients or others."""
    trials = [ModelDraw(n, tau, repeat) for n in COUNTS for tau in CASE_MIX for repeat in range(how.repeats)]
    return each(trials, _done, how)


def _done(folder: Path, trial: ModelDraw) -> list[Line]:
    return kept_or_computed(folder / trial.file, keyed(trial, b"", compute), lambda: compute(trial))


def summary(lines: pd.DataFrame) -> pd.DataFrame:
    """After the last round: quartiles over draws and views of found over true, and how often it is lost."""
    last = lines[lines["round"] == lines["round"].max()]
    grouped = last.groupby(["centers", "case_mix", "method", "parameter"], sort=False)["ratio"]
    found = pd.DataFrame({"low": grouped.quantile(0.25), "median": grouped.median(), "high": grouped.quantile(0.75)})
    return found.assign(lost=grouped.agg(lambda ratio: (ratio < LOST).mean())).reset_index()


def lost(lines: pd.DataFrame) -> dict[str, float]:
    """In what share of draws and views each variant has lost the spread of W after the last round."""
    ends = lines[(lines["round"] == lines["round"].max()) & (lines["parameter"] == "W")]
    return {str(name): float((own["ratio"] < LOST).mean()) for name, own in ends.groupby("method", sort=False)}


def above(lines: pd.DataFrame, method: str) -> float:
    """Of the spreads of W that are not lost after the last round, the share that ends above twice the truth."""
    ends = lines[(lines["round"] == lines["round"].max()) & (lines["parameter"] == "W") & (lines["method"] == method)]
    left = ends[ends["ratio"] >= LOST]
    return float((left["ratio"] > 2.0).mean())


def moving(lines: pd.DataFrame) -> dict[str, Any]:
    """The median of another preset that moves most between the last two rounds that were looked at."""
    keys = ["method", "centers", "case_mix", "parameter"]
    by = lines.groupby([*keys, "round"])["ratio"].median().unstack("round")
    late, last = by.columns[-2], by.columns[-1]
    theirs = by.drop(DEFAULT, level="method")
    found = theirs.assign(change=(theirs[last] / theirs[late]).apply(math.log).abs()).sort_values("change").iloc[-1]
    names = dict(zip(keys, found.name, strict=True))  # type: ignore[call-overload]
    return names | {"late": late, "last": last, "before": found[late], "after": found[last]}


def markdown(table: pd.DataFrame) -> str:
    """One line for each number of centers, case mix and variant."""
    head = ["centers", "sd of the case mix", "method", *(f"sd of {name}, found / true" for name in SD), "W lost"]
    body = []
    for (n, tau, method), part in table.groupby(["centers", "case_mix", "method"], sort=False):
        own = part.set_index("parameter")
        cells = [str(n), f"{tau:g}", str(method)]
        cells += [f"{own.at[p, 'median']:.3f} ({own.at[p, 'low']:.3f} to {own.at[p, 'high']:.3f})" for p in SD]
        cells.append(f"{own.at['W', 'lost']:.0%}")
        body.append(cells)
    return rows(head, body)


def figure(lines: pd.DataFrame, title: str) -> dict[str, bytes]:
    """PNG and SVG: a row for each parameter, a column for each number of centers and case mix."""
    from matplotlib.ticker import LogLocator, NullFormatter

    columns = list(dict.fromkeys(zip(lines["centers"], lines["case_mix"], strict=True)))
    looks = styles(lines["method"])
    with canvas(5.6) as drawn:
        panels = drawn.subplots(len(SD), len(columns), squeeze=False, sharex=True, sharey="row")
        for own, (n, tau) in zip(panels.T, columns, strict=True):
            own[0].set_title(
                f"{n} centers,\n" + (f"case mix of sd {tau:g}" if tau else "the same patients"), fontsize=9
            )
            for axes, parameter in zip(own, SD, strict=True):
                part = lines[(lines["centers"] == n) & (lines["case_mix"] == tau) & (lines["parameter"] == parameter)]
                for method, (colour, _) in looks.items():
                    middle = part[part["method"] == method].groupby("round")["ratio"].median()
                    axes.loglog(middle.index, middle, color=colour, marker="o", markersize=3, label=method)
                axes.axhline(1.0, color="0.3", linestyle=":", linewidth=1.0)
                if parameter == "W" and part["ratio"].min() < LOST:
                    axes.axhspan(0.0, LOST, color="#f5e6d3", zorder=0, label="lost: on its floor")
                tidy(axes)
            own[-1].set_xlabel("round")
        medians = (
            lines[lines["parameter"] == "mu"].groupby(["method", "centers", "case_mix", "round"])["ratio"].median()
        )
        panels[0, 0].yaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 3.0, 5.0)))
        panels[0, 0].yaxis.set_major_formatter("{x:g}")
        panels[0, 0].yaxis.set_minor_formatter(NullFormatter())
        panels[0, 0].set_ylim(0.8 * medians.min(), 1.25 * medians.max())
        for axes, sign in zip(panels[:, 0], SIGNS.values(), strict=True):
            axes.set_ylabel(f"{sign}, found / true")
        return finished(drawn, title, panels[1, 0].get_legend_handles_labels())


def write(lines: pd.DataFrame, out: Path) -> list[Path]:
    """Write all files; their paths, the table first."""
    repeats = lines["repeat"].nunique()
    title = f"Spread between centers, median over draws of the model ({repeats} for each setting) and their views"
    found = {
        "collapse.md": page(title, [about("collapse", COUNTS, SUBJECTS, SD, ROUNDS, LOST)], markdown(summary(lines))),
        "collapse.csv": csv(lines),
    }
    return put(found | named({"collapse": figure(lines, title)}), out)
