"""What privacy costs: the paper's sweeps over eps and the clip constant, and rounds with and without noise.

The paper's figures: accuracy against eps and against the clip constant; standard deviations of the global parameters by
round (scenario G/K); accuracy and sigma~2 by round (scenario IID). Beside its policy stands ours at the same total.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from vedute import PaperPrivacy, SubjectPrivacy
from vedute.model.parameters import GlobalPrior
from vedute.model.prediction import Emission
from vedute.privacy.policies.paper import noise_sd, ratio
from vedute_reproduction.arms import SCALINGS, Scaled, Scaling, mean_error, scaled, score
from vedute_reproduction.canvas import canvas, finished, logarithmic, tidy
from vedute_reproduction.comparison import printed
from vedute_reproduction.contenders import DEFAULT, PAPER
from vedute_reproduction.folds import N_FOLDS, Dataset, Dealing, Fold, dealt, seed_of
from vedute_reproduction.keeping import How, Line, each_part
from vedute_reproduction.methods import LONGEST, Projection, common_layout, side_by_side
from vedute_reproduction.private import DELTA, FIRST_ROUNDS, MAIN, Trail, Variant
from vedute_reproduction.prose import about, rows, told
from vedute_reproduction.reading import Facts, Results, means, value
from vedute_reproduction.significance import MARKS, holm, mark, paired_p, worse
from vedute_reproduction.studies import Given
from vedute_reproduction.writing import csv, named, page, put

if TYPE_CHECKING:
    from matplotlib.axes import Axes


N_CENTERS = 3
TOTAL_DELTA = 1e-5  # at which totals are told
EPSILONS = (1.0, 2.0, 5.0, 10.0, 20.0, 50.0)
CLIPS = (0.05, 0.1, 0.2, 0.3, 0.5)
TOTALS = (1.0, 3.0)  # that hospitals might sign, beside those that the paper's runs come to
SAME_TOTALS = (0.1, 1.0, 10.0)  # eps of a mechanism, clipped so that the bound moves as in the paper's main experiment
LOOKED_AT = (*range(1, 21), *range(25, 101, 5))
NONE = "none"
UNBOUNDED = float("nan")  # where exact values leave
# results -> the table of the paper beside them, and those of methods without privacy on the same folds
NAMES = {"privacy": ("SD_2", "sd"), "privacy-cnp": ("ADNI_2", "adni-cnp")}
POINT = ["sweep", "policy", "first_round", "epsilon", "clip", "scaling"]
SCORES = {"test_mae": "MAE test", "accuracy": "accuracy"}
EXPLODES = 1.0  # rho from which the clip bound grows
PAPER_NAMES = {("none", ""): "Fed-mv-PPCA", ("paper", "raw"): "DP-Fed-mv-PPCA"}
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
PANELS = {"accuracy": "accuracy (LDA on latent means)", "test_mae": "test MAE (min-max units)"}


@dataclass(frozen=True)
class Case:
    """One point of a figure: the sweep that it belongs to, what the policy is told, and what it comes to."""

    sweep: str
    variant: Variant
    total: float  # true eps of the whole run at TOTAL_DELTA; NaN: there is no bound

    @property
    def about(self) -> Line:
        """What a line says of it."""
        policy = self.variant.policy
        found: Line = {"sweep": self.sweep, "policy": NONE if policy is None else policy.name, "first_round": ""}
        found |= {"epsilon": float("nan"), "clip": float("nan"), "rho": float("nan"), "total": self.total}
        if policy is not None:
            found["epsilon"] = policy.epsilon
        if isinstance(policy, PaperPrivacy):
            rho = ratio(policy.clip, policy.epsilon, policy.delta, N_CENTERS)
            found |= {"first_round": policy.first_round, "clip": policy.clip, "rho": rho}
        return found | {"scaling": self.variant.scaling}


def cases(q: int, views: int, rounds: int = 100) -> list[Case]:
    """All points; in the last sweep everything is measured in the same units, with one scaling for all."""
    plain = Variant(q, rounds=rounds)
    found = [Case("none", plain, UNBOUNDED), Case("none", replace(plain, scaling="shared"), UNBOUNDED)]
    for first in FIRST_ROUNDS:
        wanted = [("eps", eps, 1.0) for eps in EPSILONS] + [("clip", 1.0, clip) for clip in CLIPS]
        for sweep, eps, clip in wanted:
            policy = PaperPrivacy(eps, DELTA, clip, first, allow_divergence=True)
            found.append(Case(sweep, replace(plain, policy=policy), honest(policy, views, rounds)))
    shared = replace(plain, scaling="shared")
    totals = list(TOTALS)
    for eps in SAME_TOTALS:
        clip = ratio(MAIN.clip, MAIN.epsilon, DELTA, N_CENTERS) / ratio(1.0, eps, DELTA, N_CENTERS)
        policy = PaperPrivacy(eps, DELTA, clip, "public")
        totals.append(honest(policy, views, rounds))
        found.append(Case("total", replace(shared, policy=policy), totals[-1]))
    ours = [SubjectPrivacy(total, TOTAL_DELTA) for total in totals]
    return found + [Case("total", replace(shared, policy=policy), policy.epsilon) for policy in ours]


def honest(policy: PaperPrivacy, views: int, rounds: int) -> float:
    """The true total, which is slow to compute and does not depend on the clip constant."""
    return _honest(policy.epsilon, policy.first_round, views, rounds)


@lru_cache
def _honest(epsilon: float, first_round: str, views: int, rounds: int) -> float:
    policy = PaperPrivacy(epsilon, DELTA, first_round="public")
    return UNBOUNDED if first_round == "raw" else policy.honest(views, rounds, TOTAL_DELTA)


@dataclass(frozen=True)
class Sweep:
    """All points of the sweeps on one fold (scenario IID)."""

    name: str
    components: int
    views: int
    rounds: int
    repeat: int
    fold: int

    @property
    def file(self) -> str:
        """Where its result is kept."""
        return f"{self.name}-r{self.repeat:03d}-f{self.fold}.json"

    def compute(self, data: Dataset) -> list[Line]:
        """One line for each point."""
        fold, seed = dealt(data, self.repeat, self.fold, "IID", N_CENTERS), seed_of(self.repeat, self.fold)
        place = {"repeat": self.repeat, "fold": self.fold}
        lines = [_mean_alone(fold, scaling) | place for scaling in SCALINGS]
        found = cases(self.components, self.views, self.rounds)
        return lines + [case.about | place | measured(case, fold, seed) for case in found]


def measured(case: Case, fold: Fold, seed: int) -> Line:
    """One point on one fold."""
    centers, test = scaled(fold.centers, fold.test, case.variant.scaling)
    trail = case.variant.fit(centers, seed)
    noise = trail.end.emission.noise
    about = {"rounds": len(trail.priors), "noise_ratio": float(noise.max() / noise.min())}
    return asdict(score(trail.end, centers, test, fold)) | about


def _mean_alone(fold: Fold, scaling: Scaling) -> Line:
    """What is known without any component: the plain mean of the centers' means."""
    centers, test = scaled(fold.centers, fold.test, scaling)
    layout = common_layout(centers)
    mean = np.mean([side_by_side(views, layout).mean(axis=0) for views in centers.values()], axis=0)
    flat = Projection(Emission(layout, mean, np.zeros((layout.total, 1)), np.ones(layout.total), np.zeros(1), 1.0))
    tables = {"train_mae": centers, "test_mae": test}
    found = {metric: mean_error(flat, tables[metric]) for metric in tables}
    return {"sweep": "mean", "policy": NONE, "scaling": scaling} | found


@dataclass(frozen=True)
class Walk:
    """Round by round on one fold: without privacy, and with the policy of the paper's main experiment."""

    name: str
    components: int
    dealing: Dealing
    rounds: int
    repeat: int
    fold: int

    @property
    def file(self) -> str:
        """Where its result is kept."""
        return f"{self.name}-rounds-{self.dealing.replace('/', '')}-r{self.repeat:03d}-f{self.fold}.json"

    def compute(self, data: Dataset) -> list[Line]:
        """One line for each round, quantity and view."""
        fold = dealt(data, self.repeat, self.fold, self.dealing, N_CENTERS)
        seed = seed_of(self.repeat, self.fold)
        centers, test = scaled(fold.centers, fold.test, "per center")
        plain = Variant(self.components, rounds=self.rounds)
        variants = {NONE: plain} | {
            first: replace(plain, policy=replace(MAIN, first_round=first)) for first in FIRST_ROUNDS
        }
        lines = []
        for name, variant in variants.items():
            trail = variant.fit(centers, seed)
            about = {"scenario": self.dealing, "run": name, "repeat": self.repeat, "fold": self.fold}
            lines += [about | line for line in _by_view(trail)]
            if self.dealing == "IID":
                lines += [about | line for line in _scored(trail, centers, test, fold)]
        return lines


def spreads(priors: Sequence[GlobalPrior], view: str) -> dict[str, list[float]]:
    """The sd of mu, W and sigma2 of a view under the prior after each round, without rounds of a flat prior."""
    known = [p.views[view] for p in priors if math.isfinite(p.views[view].sigma2_W) and p.views[view].alpha > 0]
    return {
        "mu": [math.sqrt(v.sigma2_mu) for v in known],
        "W": [math.sqrt(v.sigma2_W) for v in known],
        "sigma2": [noise_sd(v) for v in known],
    }


def _by_view(trail: Trail) -> Iterator[Line]:
    """The sd between centers of each parameter, and sigma~2, of every view."""
    for view in trail.layout.names:
        found = spreads(trail.priors, view) | {"noise variance": [p.views[view].sigma2 for p in trail.priors]}
        for quantity, values in found.items():
            unknown = len(trail.priors) - len(values)  # rounds that had no spread yet
            for r in LOOKED_AT:
                if unknown < r <= len(trail.priors):
                    yield {"round": r, "view": view, "quantity": quantity, "value": values[r - 1 - unknown]}


def _scored(trail: Trail, centers: Scaled, test: Scaled, fold: Fold) -> Iterator[Line]:
    for r in LOOKED_AT:
        if r <= len(trail.priors):
            found = score(trail.after(r), centers, test, fold)
            for quantity, value in (("accuracy", found.accuracy), ("test_mae", found.test_mae)):
                yield {"round": r, "view": "", "quantity": quantity, "value": value}


def run(given: Given, how: How, rounds: int = 100) -> tuple[pd.DataFrame, pd.DataFrame]:
    """The lines of all points, and those of all rounds."""
    name, q, views = given.named("privacy"), given.n_components, len(given.source.draw(0).views)
    sweeps = [Sweep(name, q, views, rounds, *place) for place in how.places]
    dealings: tuple[Dealing, ...] = ("IID", "G/K")
    walks = [Walk(name, q, dealing, rounds, *place) for dealing in dealings for place in how.places]
    return each_part(sweeps, given.source, how), each_part(walks, given.source, how)


def summary(lines: pd.DataFrame, table: str) -> pd.DataFrame:
    """One row for each point: medians, means and spreads over folds, marks, and what the paper prints."""
    found = []
    lines = lines.fillna({"first_round": ""})
    for point, own in lines.groupby(POINT, sort=False, dropna=False):
        about = dict(zip(POINT, point, strict=True))
        folds = own.set_index(["repeat", "fold"])
        about |= {"rho": folds["rho"].iloc[0], "total": folds["total"].iloc[0], "folds": len(folds)}
        about["noise_ratio"] = folds["noise_ratio"].quantile(0.5)
        plain = _plain(lines, str(about["scaling"]))
        for metric in SCORES:
            values = folds[metric]
            about |= {
                metric: values.mean(),
                f"{metric}_sd": values.std(ddof=0),
                f"{metric}_median": values.quantile(0.5),
            }
            if about["sweep"] not in ("none", "mean"):
                about[f"{metric}_p"] = paired_p(values.to_list(), plain[metric].loc[values.index].to_list())
                about[f"{metric}_worse"] = worse(values, plain[metric], larger=metric == "test_mae")
            about[f"{metric}_paper"] = _printed(about, metric, table)
        found.append(about)
    whole = pd.DataFrame(found)
    for metric in SCORES:
        for _, part in whole.groupby("sweep", sort=False):
            asked = part[f"{metric}_p"].dropna()
            whole.loc[asked.index, f"{metric}_p"] = holm(asked.to_list())
    return whole


def _plain(lines: pd.DataFrame, scaling: str) -> pd.DataFrame:
    own = lines[(lines["sweep"] == "none") & (lines["scaling"] == scaling)]
    return own.set_index(["repeat", "fold"])


def _printed(about: dict[str, object], metric: str, table: str) -> float:
    """The paper prints its sweeps as pictures; only the points of its tables have numbers: no privacy, and eps = 10."""
    method = PAPER_NAMES.get((str(about["policy"]), str(about["first_round"])))
    shown = about["sweep"] == "none" or (about["sweep"] == "eps" and about["epsilon"] == MAIN.epsilon)
    if method is None or not shown or about["scaling"] != "per center":
        return float("nan")
    return float(printed(table, metric)[method]["IID", 3])


def markdown(table: pd.DataFrame, paper: str = "paper") -> str:
    """One line for each point; ``paper`` heads its values."""
    head = ["policy", "round 1", "eps of a mechanism", "clip", "rho", "true total eps", "units"]
    for title in SCORES.values():
        head += [title, paper, "worse in"]
    body = []
    repeats = int(table["folds"].max()) // N_FOLDS
    for row in table.to_dict("records"):
        subject = row["policy"] == "subject"
        cells = ["the mean alone" if row["sweep"] == "mean" else str(row["policy"]), str(row["first_round"])]
        cells += [
            "" if subject else told(row["epsilon"], ".3g"),
            told(row["clip"], ".3g"),
            told(row["rho"], ".3g"),
            _total(row),
        ]
        cells.append(str(row["scaling"]))
        for metric in SCORES:
            cells += [_measured(row, metric), told(row[f"{metric}_paper"], ".4g"), _worse(row, metric, repeats)]
        body.append(cells)
    return rows(head, body)


def _total(row: Mapping[Any, Any]) -> str:
    if str(row["sweep"]) == "mean":
        return ""
    return "infinite" if row["total"] != row["total"] else f"{row['total']:,.0f}"


def _measured(row: Mapping[Any, Any], metric: str) -> str:
    if row[metric] != row[metric]:
        return ""
    stars = mark(row.get(f"{metric}_p", float("nan"))).replace("*", r"\*")
    if metric == "test_mae" and row["rho"] >= EXPLODES:
        return f"{row['test_mae_median']:.1e}, diverged {stars}".strip()
    return f"{row[metric]:.4f} ± {row[f'{metric}_sd']:.4f} {stars}".strip()


def _worse(row: Mapping[Any, Any], metric: str, repeats: int) -> str:
    found = row.get(f"{metric}_worse", float("nan"))
    return "" if found != found or row[metric] != row[metric] else f"{found:.0f} of {repeats}"


def by_round(lines: pd.DataFrame) -> pd.DataFrame:
    """Mean, standard deviation and median over folds of each quantity after each round."""
    keys = ["scenario", "run", "quantity", "view", "round"]
    grouped = lines.groupby(keys, sort=False)["value"]
    found = pd.DataFrame({"mean": grouped.mean(), "sd": grouped.std(ddof=0), "median": grouped.median()})
    return found.join(grouped.size().rename("folds")).reset_index()


def after_all(rounds: pd.DataFrame, quantity: str, run: str) -> dict[str, float]:
    """The mean of one quantity after the last round (scenario IID), for each view."""
    asked = (rounds["quantity"] == quantity) & (rounds["run"] == run) & (rounds["scenario"] == "IID")
    last = rounds[asked & (rounds["round"] == rounds.loc[asked, "round"].max())]
    return dict(zip(last["view"], last["mean"], strict=True))


def floored(rounds: pd.DataFrame, run: str) -> float:
    """The first kept round (G/K) from which on the median sd of W of every view stands where it ends."""
    own = rounds[(rounds["scenario"] == "G/K") & (rounds["run"] == run) & (rounds["quantity"] == "W")]
    wide = own.pivot(index="round", columns="view", values="median")
    return float((wide <= 1.01 * wide.iloc[-1]).all(axis=1).idxmax())


def fallen(rounds: pd.DataFrame, run: str, share: float) -> dict[str, float]:
    """The first kept round (G/K) after which the median sd of W of each view is below a share of its first."""
    own = rounds[(rounds["scenario"] == "G/K") & (rounds["run"] == run) & (rounds["quantity"] == "W")]
    wide = own.pivot(index="round", columns="view", values="median")
    below = wide < share * wide.iloc[0]
    return {str(view): float(low.idxmax()) if low.any() else float(np.nan) for view, low in below.items()}


def sweeps(lines: pd.DataFrame, table: pd.DataFrame, title: str) -> dict[str, bytes]:
    """Box plots over folds against eps (left) and the clip constant (right), with the marks of the test."""
    with canvas(6.4) as drawn:
        panels = drawn.subplots(2, 2, sharex="col", sharey="row")
        texts = {
            "eps": (r"$\varepsilon$ of each mechanism", "clip constant 1"),
            "clip": ("clip constant", r"$\varepsilon = 1$"),
        }
        for column, (sweep, (label, fixed)) in enumerate(texts.items()):
            for row, (metric, name) in enumerate(PANELS.items()):
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
        panels[0, 0].plot([], [], color="0.3", marker="$*$", linestyle="none", label=_marks())
        return finished(drawn, title, panels[0, 0].get_legend_handles_labels())


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
        for i, setting in enumerate(at, start=1):
            part = own[(own[what] == setting) & (own["first_round"] == first)]
            if metric == "test_mae" and part[metric].median() > SCALE_ENDS:
                axes.annotate(
                    f"{part[metric].median():.0e}", (i + shift, 0.86), xycoords=("data", "axes fraction"), ha="center",
                    va="top", rotation=90, color=RUNS[first][0], fontsize=8,
                )  # fmt: skip
            else:
                _box(axes, part[metric], i + shift, first, labelled=i == 1)
            row = table[(table["sweep"] == sweep) & (table["first_round"] == first) & (table[what] == setting)].iloc[0]
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
        for axes, (metric, name) in zip(panels, PANELS.items(), strict=True):
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
        return finished(drawn, title, panels[1].get_legend_handles_labels())


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
        return finished(drawn, title, panels[0].get_legend_handles_labels(), len(views))


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
        return finished(drawn, title, panels.flat[0].get_legend_handles_labels())


def write(points: pd.DataFrame, rounds: pd.DataFrame, out: Path, given: Given) -> list[Path]:
    """Write tables and figures; their paths, the table first."""
    table, walked = summary(points, f"{given.printed}_2"), by_round(rounds)
    name, times = given.named("privacy"), f"{points['repeat'].nunique()} x 3-fold"
    said = [f"Data: {given.about}.", *given.remarks, *map(about, ("privacy", "ranges", "significance"))]
    found = {
        f"{name}.md": page(f"{name}: {times}", said, markdown(table)),
        f"{name}.csv": csv(points),
        f"{name}-rounds.csv": csv(walked),
    }
    drawn = {
        name: sweeps(points, table, f"{given.about}, scenario IID, 3 centers, {times}"),
        f"{name}-total": totals(points, f"{given.about}, scenario IID, 3 centers, {times}; bars: one sd"),
        f"{name}-spread": spread(walked, f"{given.about}, scenario G/K, 3 centers, {times}"),
        f"{name}-rounds": course(walked, f"{given.about}, scenario IID, 3 centers, {times}; bands: one sd"),
    }
    return put(found | named(drawn), out)


def facts(results: Results) -> list[Facts]:
    """What the figures show, in numbers, and the full table, for both data sets."""
    return [
        _facts(name, paper, results[name], results[f"{name}-rounds"].fillna({"view": ""}), results[beside])
        for name, (paper, beside) in NAMES.items()
    ]


def _facts(name: str, paper: str, lines: pd.DataFrame, rounds: pd.DataFrame, compared: pd.DataFrame) -> Facts:
    """``compared``: lines of methods without privacy on the same folds."""
    table, views = summary(lines, paper), rounds.loc[rounds["view"] != "", "view"].nunique()
    plain, mean = (point(table, sweep=sweep, scaling="per center") for sweep in ("none", "mean"))
    runs = {first: point(table, sweep="eps", first_round=first, epsilon=MAIN.epsilon) for first in FIRST_ROUNDS}
    tried = table[(table["sweep"] == "clip") & (table["first_round"] == "raw")]
    totals = table[table["sweep"] == "total"].sort_values("total")
    ours, theirs = (totals[totals["policy"] == policy].set_index("total") for policy in ("subject", "paper"))
    alone = point(table, sweep="mean", scaling="shared")["test_mae"]
    gone = table[table["sweep"].isin(["eps", "clip"]) & (table["rho"] >= EXPLODES)]
    asked = rounds[(rounds["scenario"] == "IID") & (rounds["quantity"] == "test_mae")]
    last_round = (lines["sweep"] == "total") & (lines["policy"] == "subject")
    ended = {run: fallen(rounds, run, 1e-3) for run in (NONE, *FIRST_ROUNDS)}
    noise = {run: after_all(rounds, "noise variance", run) for run in (NONE, *FIRST_ROUNDS)}
    without = [value(means(compared, "test_mae"), "IID", 3, method) for method in (PAPER, DEFAULT)]
    return {
        "name": name,
        "lines": lines,
        "on": " for ADNI" if paper.startswith("ADNI") else "",
        "runs": runs,
        "plain": plain,
        "mean": mean,
        "diverged": gone["accuracy"],
        "claim": MAIN.claim(views)[0],
        "error": asked.pivot(index="round", columns="run", values="mean"),
        "clipped": point(tried, clip=tried.loc[tried["rho"] < EXPLODES, "clip"].max()),
        "repeats": int(table["folds"].max()) // N_FOLDS,
        "ours": ours,
        "theirs": theirs,
        "unhidden": point(table, sweep="none", scaling="shared"),
        "without": without,
        "alone": alone,
        "worse": {policy: own.index[own["test_mae"] > alone] for policy, own in (("paper", theirs), ("subject", ours))},
        "longest": LONGEST,
        "limited": (lines["rounds"] >= LONGEST)[last_round].groupby(lines["total"]).mean(),
        "latest": {
            run: told(max(ended[run].values(), key=lambda r: (r != r, r)), ".0f") or "none" for run in FIRST_ROUNDS
        },
        "fallen": {view: round_ for view, round_ in ended[NONE].items() if round_ == round_},
        "sooner": all(round_ < ended["raw"][view] for view, round_ in ended[NONE].items()),
        "floored": {run: floored(rounds, run) for run in FIRST_ROUNDS},
        "noise": noise,
        "larger": {
            run: sum(noise[run][view] > plain_ for view, plain_ in noise["none"].items()) for run in FIRST_ROUNDS
        },
        "table": markdown(table, f"the paper, on {paper.split('_')[0]}"),
    }


def point(table: pd.DataFrame, **asked: object) -> dict[str, float]:
    """The one row with these values."""
    for column, wanted in asked.items():
        table = table[table[column] == wanted]
    return {str(key): found for key, found in table.iloc[0].items()}
