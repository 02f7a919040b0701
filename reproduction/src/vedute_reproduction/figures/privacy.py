"""The figures of the privacy experiment: sweeps as the paper draws them, true totals, and rounds."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from vedute_reproduction.figures.canvas import canvas, files, logarithmic, tidy
from vedute_reproduction.tables.privacy import EXPLODES
from vedute_reproduction.tables.significance import MARKS, mark

if TYPE_CHECKING:
    from matplotlib.axes import Axes

BLUE, ORANGE, GREEN, BLACK = "#0072b2", "#d55e00", "#009e73", "#000000"  # Okabe and Ito
RUNS = {
    "none": (BLACK, "without privacy"),
    "raw": (BLUE, "paper's policy, round 1 raw (as we read the paper)"),
    "public": (ORANGE, "paper's policy, round 1 from a public prior"),
}
VIEW_COLOURS = (BLUE, ORANGE, GREEN, "#cc79a7")
STYLES = {"mu": "-", "W": "--", "sigma2": ":"}
SIGNS = {"mu": r"$\mu$", "W": "$W$", "sigma2": r"$\sigma^2$"}
SCALE_ENDS = 1.0  # errors beyond the whole range of the data are told as numbers, not drawn
METRICS = {"accuracy": "accuracy (LDA on latent means)", "test_mae": "test MAE (min-max units)"}


def sweeps(lines: pd.DataFrame, table: pd.DataFrame, title: str) -> dict[str, bytes]:
    """Box plots over folds against eps (left) and the clip constant (right), with the marks of the test."""
    with canvas(6.4) as drawn:
        panels = drawn.subplots(2, 2, sharex="col", sharey="row")
        texts = {
            "eps": (r"$\varepsilon$ of each mechanism", "clip constant 1"),
            "clip": ("clip constant", r"$\varepsilon = 1$"),
        }
        for column, (sweep, (label, fixed)) in enumerate(texts.items()):
            for row, (metric, name) in enumerate(METRICS.items()):
                axes = panels[row, column]
                _boxes(axes, lines, table, sweep, metric)
                tidy(axes)
                if column == 0:
                    axes.set_ylabel(name)
            panels[0, column].set_title(rf"$\delta = 0.01$, {fixed}")
            panels[1, column].set_xlabel(label)
        low = min(float(axes.get_ylim()[0]) for axes in panels[0])
        panels[0, 0].set_ylim(max(0.0, low), 1.0 + 0.25 * (1.0 - max(0.0, low)))  # room for the marks
        panels[0, 0].set_yticks([tick for tick in panels[0, 0].get_yticks() if low <= tick <= 1.0 + 1e-9])
        logarithmic(panels[1, 0])
        drawn_ = lines[lines["sweep"].isin(["none", *texts, "mean"]) & (lines["scaling"] == "per center")]["test_mae"]
        panels[1, 0].set_ylim(0.8 * drawn_.min(), 5.0 * drawn_[drawn_ < SCALE_ENDS].max())  # room for marks and numbers
        drawn.suptitle(title, parse_math=False)
        panels[0, 0].plot([], [], color="0.3", marker="$*$", linestyle="none", label=_marks())
        handles, labels = panels[0, 0].get_legend_handles_labels()
        drawn.legend(handles, labels, loc="outside lower center", ncols=2, frameon=False)
        return files(drawn)


def _marks() -> str:
    """What the stars over the boxes say."""
    told = ", ".join(f"{limit:g} ({len(stars)})" for limit, stars in sorted(MARKS.items(), reverse=True))
    return f"differs from no privacy: p at most {told}"


def _boxes(axes: Axes, lines: pd.DataFrame, table: pd.DataFrame, sweep: str, metric: str) -> None:
    what = {"eps": "epsilon", "clip": "clip"}[sweep]
    own = lines[lines["sweep"] == sweep]
    at = sorted(own[what].unique())
    plain = lines[(lines["sweep"] == "none") & (lines["scaling"] == "per center")]
    _box(axes, plain[metric], 0.0, "none")
    for shift, first in ((-0.19, "raw"), (0.19, "public")):
        for i, value in enumerate(at, start=1):
            part = own[(own[what] == value) & (own["first_round"] == first)]
            if metric == "test_mae" and part[metric].median() > SCALE_ENDS:
                axes.annotate(
                    f"{part[metric].median():.0e}", (i + shift, 0.86), xycoords=("data", "axes fraction"), ha="center",
                    va="top", rotation=90, color=RUNS[first][0], fontsize=8,
                )  # fmt: skip
            else:
                _box(axes, part[metric], i + shift, first, labelled=i == 1)
            row = table[(table["sweep"] == sweep) & (table["first_round"] == first) & (table[what] == value)].iloc[0]
            axes.annotate(
                mark(row[f"{metric}_p"]), (i + shift, 1.0), xycoords=("data", "axes fraction"), ha="center",
                va="top", rotation=90, color=RUNS[first][0], fontsize=8,
            )  # fmt: skip
    if metric == "test_mae":
        alone = lines[(lines["sweep"] == "mean") & (lines["scaling"] == "per center")]["test_mae"].mean()
        axes.axhline(alone, color="0.5", linestyle=":", label="the mean alone")
        axes.annotate(
            "the mean alone", (0.0, alone), xytext=(0, 2), textcoords="offset points", color="0.4", fontsize=8
        )
    bad = own[own["rho"] >= EXPLODES][what]
    if len(bad):
        ends = (0.5, at.index(bad.max()) + 1.5) if sweep == "eps" else (at.index(bad.min()) + 0.5, len(at) + 0.5)
        axes.axvspan(
            *ends, color="#f5e6d3", zorder=0, label=r"$\rho \geq 1$: the clip bound explodes (numbers: median errors)"
        )
    axes.set_xticks(range(len(at) + 1), ["not DP", *(f"{value:g}" for value in at)])


def _box(axes: Axes, values: pd.Series[float], x: float, run: str, *, labelled: bool = True) -> None:
    colour, label = RUNS[run]
    axes.boxplot(
        values.to_numpy(), positions=[x], widths=0.3, patch_artist=True, label=label if labelled else None,
        boxprops={"facecolor": "white" if run == "none" else colour, "alpha": 0.55, "edgecolor": colour},
        medianprops={"color": BLACK}, whiskerprops={"color": colour}, capprops={"color": colour},
        flierprops={"marker": ".", "markersize": 3, "markeredgecolor": colour}, manage_ticks=False,
    )  # fmt: skip


def totals(lines: pd.DataFrame, title: str) -> dict[str, bytes]:
    """Against the true total of the whole run, all in the same units: the paper's policy and ours."""
    shared = lines[lines["scaling"] == "shared"]
    rho = shared.loc[(shared["sweep"] == "total") & (shared["policy"] == "paper"), "rho"].max()
    with canvas(3.9) as drawn:
        panels = drawn.subplots(1, 2)
        for axes, (metric, name) in zip(panels, METRICS.items(), strict=True):
            for policy, colour, marker, label in (
                ("paper", ORANGE, "s", rf"paper's policy, public prior, $\rho$ = {rho:.2f}: hides a center"),
                ("subject", GREEN, "o", "policy subject, one release: hides a subject"),
            ):
                grouped = shared[(shared["sweep"] == "total") & (shared["policy"] == policy)].groupby("total")[metric]
                mean, sd = grouped.mean(), grouped.std(ddof=0)
                up = sd.clip(upper=1.0 - mean) if metric == "accuracy" else sd
                axes.errorbar(mean.index, mean, yerr=(sd, up), color=colour, marker=marker, capsize=3, label=label)
            for sweep, style, label in (("none", "-", "without privacy"), ("mean", ":", "the mean alone")):
                level = shared.loc[shared["sweep"] == sweep, metric].mean()
                if level == level:
                    axes.axhline(level, color="0.3", linestyle=style, linewidth=1.0, label=label)
            axes.set_xscale("log")
            axes.set_xlabel(r"true total $\varepsilon$ of the whole run, at $\delta = 10^{-5}$")
            axes.set_ylabel(name)
            tidy(axes)
        panels[1].set_ylim(bottom=0.0)
        drawn.suptitle(title, parse_math=False)
        handles, labels = panels[1].get_legend_handles_labels()
        drawn.legend(handles, labels, loc="outside lower center", ncols=2, frameon=False)
        return files(drawn)


def spread(rounds: pd.DataFrame, title: str) -> dict[str, bytes]:
    """The sd of every global parameter by round, without and with privacy (the paper's figure in scenario G/K)."""
    own = rounds[(rounds["scenario"] == "G/K") & rounds["quantity"].isin(list(STYLES))]
    views = list(dict.fromkeys(own["view"]))
    with canvas(4.0) as drawn:
        panels = drawn.subplots(1, len(RUNS), sharey=True)
        for axes, (run, (_, label)) in zip(panels, RUNS.items(), strict=True):
            for view, colour in zip(views, VIEW_COLOURS, strict=False):
                for quantity, style in STYLES.items():
                    part = own[(own["run"] == run) & (own["view"] == view) & (own["quantity"] == quantity)]
                    axes.semilogy(part["round"], part["median"], style, color=colour, linewidth=1.3,
                                  label=f"{SIGNS[quantity]}, {view}")  # fmt: skip
            axes.set_title(label.replace(", ", ",\n", 1), fontsize=9)
            axes.set_xlabel("round")
            tidy(axes)
        panels[0].set_ylabel("sd of the global parameter\n(median over folds)")
        drawn.suptitle(title, parse_math=False)
        handles, labels = panels[0].get_legend_handles_labels()
        drawn.legend(handles, labels, loc="outside lower center", ncols=len(views), frameon=False)
        return files(drawn)


def course(rounds: pd.DataFrame, title: str) -> dict[str, bytes]:
    """Accuracy, test error and sigma~2 of every view by round (scenario IID): mean and sd over folds."""
    own = rounds[rounds["scenario"] == "IID"]
    views = [view for view in dict.fromkeys(own["view"]) if view]
    wanted = [("accuracy", "", "accuracy (LDA)"), ("test_mae", "", "test MAE (min-max units)")]
    wanted += [("noise variance", view, rf"$\tilde\sigma^2$ of {view}") for view in views]
    columns = 3
    with canvas(2.7 * int(np.ceil(len(wanted) / columns)) + 0.6) as drawn:
        panels = drawn.subplots(int(np.ceil(len(wanted) / columns)), columns, sharex=True)
        for axes in panels.flat[len(wanted) :]:
            axes.set_visible(False)
        for axes, (quantity, view, name) in zip(panels.flat, wanted, strict=False):
            for run, (colour, label) in RUNS.items():
                part = own[(own["run"] == run) & (own["quantity"] == quantity) & (own["view"] == view)]
                axes.plot(part["round"], part["mean"], color=colour, label=label)
                ends = part["mean"] - part["sd"], part["mean"] + part["sd"]
                axes.fill_between(part["round"], *ends, color=colour, alpha=0.18, linewidth=0)
            axes.set_ylim(**({"top": 1.0} if quantity == "accuracy" else {"bottom": 0.0}))
            axes.set_ylabel(name)
            axes.set_xlabel("round")
            axes.tick_params(labelbottom=True)
            tidy(axes)
        drawn.suptitle(title, parse_math=False)
        handles, labels = panels.flat[0].get_legend_handles_labels()
        drawn.legend(handles, labels, loc="outside lower center", ncols=2, frameon=False)
        return files(drawn)
