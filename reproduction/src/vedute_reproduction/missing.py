"""A third of the centers lack a view that the others have: who predicts it best?

All methods see the same rows in units of the holders' mean and sd. The mean of the holders and ours move no rows;
neither does regression in each center: every holder fits a ridge from the other views to the hidden one, the
coefficients travel, and the predictions are averaged. Ridge on pooled rows and MOFA see all rows in one place.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import NormalDist
from typing import Any

import numpy as np
import pandas as pd

from vedute import FederatedPPCA
from vedute.model.parameters import Array
from vedute.model.seeds import stream
from vedute.scenarios import split
from vedute_reproduction.baselines.mofa import MOFA, installed
from vedute_reproduction.canvas import canvas, finished, tidy
from vedute_reproduction.folds import Dataset
from vedute_reproduction.keeping import How, Line, each_part
from vedute_reproduction.methods import Views, end_of, quietly
from vedute_reproduction.prose import about, rows, told
from vedute_reproduction.reading import Facts, Results
from vedute_reproduction.studies import Given
from vedute_reproduction.writing import csv, named, page, put

LEVEL = 0.90
N_CENTERS = 6
FEW = (1, 2, 3)  # components to try besides the number of the tables
UNTOLD = float("nan")
ALPHAS = tuple(np.logspace(-2.0, 5.0, 15))
OURS, MEAN = "Fed-mv-PPCA", "mean of the others"
GLOBAL, HOLDERS, BY_HIDING = f"{OURS}, global parameters", f"{OURS}, holders alone", ", q chosen by hiding"
CHOSEN, CHOSEN_HOLDERS = OURS + BY_HIDING, HOLDERS + BY_HIDING
MOFAS, MOFA_HOLDERS = "MOFA, pooled rows", "MOFA, pooled rows of holders"
RIDGE = "ridge, each center alone"
Predict = Callable[["Hidden", int, int], tuple[Array, Array | None]]  # values and sds, from components and a seed
BLUES = ("#56b4e9", "#3a9bd9", "#0072b2", "#004d80")  # ours with q fixed, the largest last
OTHERS = (
    "#cc79a7", "#999999", "#000000", "#882255", "#e69f00", "#d55e00", "#009e73", "#66c2a5", "#999933",
)  # in the order of the table, which MOFA ends  # fmt: skip


@dataclass(frozen=True)
class Hidden:
    """What each method is given, and the truth: views of the lacking centers side by side, in one order."""

    centers: dict[str, dict[str, Array]]  # the lacking ones without the view
    lacking: tuple[str, ...]
    view: str
    truth: Array

    @property
    def holders(self) -> dict[str, dict[str, Array]]:
        """The centers that have the view."""
        return {name: views for name, views in self.centers.items() if self.view in views}


def hide(data: Dataset, view: str, third: int, seed: int) -> Hidden:
    """Deal the rows evenly, take a view from one third of the centers, and measure all in the holders' sd."""
    dealt, _ = split(data.views, data.groups, N_CENTERS, "IID", stream(seed, "missing"))
    size = N_CENTERS // 3
    lacking = tuple(list(dealt)[third * size : (third + 1) * size])
    held = [views for name, views in dealt.items() if name not in lacking]
    units = {}
    for name in data.views:
        rows = np.concatenate([views[name] for views in held])
        sd = rows.std(axis=0)
        units[name] = rows.mean(axis=0), np.where(sd > 0, sd, 1.0)
    scaled = {
        center: {name: (rows - units[name][0]) / units[name][1] for name, rows in views.items()}
        for center, views in dealt.items()
    }
    truth = np.concatenate([scaled[name][view] for name in lacking])
    given = {
        center: {name: rows for name, rows in views.items() if center not in lacking or name != view}
        for center, views in scaled.items()
    }
    return Hidden(given, lacking, view, truth)


def by_ridge(hidden: Hidden) -> Array:
    """A ridge in each holder by itself, penalty chosen there by leave-one-out; the mean of their predictions."""
    return np.asarray(np.mean([_ridge(hidden, [views]) for views in hidden.holders.values()], axis=0))


def by_pooled_ridge(hidden: Hidden) -> Array:
    """One ridge on the rows of all holders."""
    return _ridge(hidden, list(hidden.holders.values()))


def _ridge(hidden: Hidden, tables: list[dict[str, Array]]) -> Array:
    from sklearn.linear_model import RidgeCV

    def others(views: Views) -> Array:
        return np.concatenate([views[name] for name in sorted(views) if name != hidden.view], axis=1)

    x, y = np.concatenate([others(t) for t in tables]), np.concatenate([t[hidden.view] for t in tables])
    asked = np.concatenate([others(hidden.centers[name]) for name in hidden.lacking])
    return np.asarray(RidgeCV(ALPHAS).fit(x, y).predict(asked))


def by_mofa(hidden: Hidden, q: int, seed: int) -> tuple[Array, None]:
    """Factors of all rows, the lacking centers' included."""
    return _by_factors(hidden.centers, hidden, q, seed), None


def by_mofa_of_holders(hidden: Hidden, q: int, seed: int) -> tuple[Array, None]:
    """Factors of the holders' rows, found again in those of the others."""
    return _by_factors(hidden.holders, hidden, q, seed), None


def _by_factors(centers: Mapping[str, Views], hidden: Hidden, q: int, seed: int) -> Array:
    fitted = MOFA(q).fit(centers, seed)
    whole = np.concatenate([fitted.everything(hidden.centers[name]) for name in hidden.lacking])
    return whole[:, fitted.emission.layout.slices[hidden.view]]


def by_ours(hidden: Hidden, q: int, seed: int) -> tuple[Array, Array]:
    """Imputed values and their sd; each lacking center took part with the views that it has."""
    return _imputed(_fitted(hidden.centers, q, seed), hidden, known=True)


def by_global(hidden: Hidden, q: int, seed: int) -> tuple[Array, Array]:
    """The same fit, but rows placed as if their center had not taken part."""
    return _imputed(_fitted(hidden.centers, q, seed), hidden, known=False)


def by_holders(hidden: Hidden, q: int, seed: int) -> tuple[Array, Array]:
    """The same by a model of the holders alone, to which the lacking centers are unknown.

    Rows without the view cannot bend its components: where few components have to serve many views, a fit with such
    rows uses for something else the components that the view has in the holders.
    """
    return _imputed(_fitted(hidden.holders, q, seed), hidden, known=False)


def _fitted(centers: Mapping[str, Views], q: int, seed: int) -> FederatedPPCA:
    rounds, tol = end_of("default")
    with quietly():
        return FederatedPPCA(q, rounds=rounds, scaling=None, tol=tol, random_state=seed).fit(centers)


def _imputed(fitted: FederatedPPCA, hidden: Hidden, *, known: bool) -> tuple[Array, Array]:
    found = [
        fitted.impute(hidden.centers[name], center=name if known else None, return_std=True) for name in hidden.lacking
    ]
    values, sd = (np.concatenate([part[i][hidden.view] for part in found]) for i in (0, 1))
    return values, sd


def chosen(hidden: Hidden, tried: Sequence[int], seed: int, predict: Predict = by_ours) -> int:
    """The number of components that best predicts the view in one holder from whom it is hidden as well.

    That holder can tell the error at home: no row moves.
    """
    test = next(iter(hidden.holders))
    without = {name: rows for name, rows in hidden.centers[test].items() if name != hidden.view}
    inner = Hidden(hidden.centers | {test: without}, (test,), hidden.view, hidden.centers[test][hidden.view])
    errors = {q: float(((inner.truth - predict(inner, q, seed)[0]) ** 2).mean()) for q in tried}
    return min(errors, key=lambda q: errors[q])


@dataclass(frozen=True)
class Hiding:
    """One view hidden in one third of the centers."""

    name: str
    components: int
    view: str
    repeat: int
    fold: int  # which third

    @property
    def file(self) -> str:
        """Where its result is kept."""
        return f"{self.name}-{self.view}-r{self.repeat:03d}-f{self.fold}.json"

    def compute(self, data: Dataset) -> list[Line]:
        """One line for each method; ours with several numbers of components."""
        hidden, seed = hide(data, self.view, self.fold, self.repeat), self.repeat
        few = [q for q in FEW if q < self.components] + [self.components]
        ours = {q: by_ours(hidden, q, seed) for q in few}
        best, held = chosen(hidden, few, seed), chosen(hidden, few, seed, by_holders)
        found: list[tuple[str, float, Array, Array | None]] = [(OURS, q, *guess) for q, guess in ours.items()]
        found += [
            (CHOSEN, best, *ours[best]),
            (GLOBAL, self.components, *by_global(hidden, self.components, seed)),
            (HOLDERS, self.components, *by_holders(hidden, self.components, seed)),
            (CHOSEN_HOLDERS, held, *by_holders(hidden, held, seed)),
            (MEAN, UNTOLD, np.zeros_like(hidden.truth), None),  # 0 in these units
            (RIDGE, UNTOLD, by_ridge(hidden), None),
            ("ridge, pooled rows", UNTOLD, by_pooled_ridge(hidden), None),
        ]
        if installed():
            both = (by_mofa, by_mofa_of_holders)
            mofa, mofa_held = (chosen(hidden, few, seed, predict) for predict in both)
            found += [
                (MOFAS, self.components, *by_mofa(hidden, self.components, seed)),
                (MOFAS + BY_HIDING, mofa, *by_mofa(hidden, mofa, seed)),
                (MOFA_HOLDERS + BY_HIDING, mofa_held, *by_mofa_of_holders(hidden, mofa_held, seed)),
            ]
        about = {"view": self.view, "repeat": self.repeat, "fold": self.fold}
        return [about | {"method": name, "q": q} | _judged(hidden.truth, guess, sd) for name, q, guess, sd in found]


def _judged(truth: Array, guess: Array, sd: Array | None) -> Line:
    """Mean error; the share of the squared distance to the holders' mean that is explained; coverage."""
    gaps = np.abs(truth - guess)
    inside = UNTOLD if sd is None else float(np.mean(gaps <= NormalDist().inv_cdf(0.5 + LEVEL / 2) * sd))
    explained = float(1.0 - (gaps**2).sum() / (truth**2).sum())
    return {"mae": float(gaps.mean()), "explained": explained, "coverage": inside}


def run(given: Given, how: How) -> pd.DataFrame:
    """All views, each hidden in each third of the centers."""
    views, asked = list(given.source.draw(0).views), (given.named("missing"), given.n_components)
    tasks = [Hiding(*asked, view, *place) for place in how.places for view in views]
    return each_part(tasks, given.source, how)


def summary(lines: pd.DataFrame) -> pd.DataFrame:
    """Means and sds over thirds and repetitions; q is a mean where it was chosen."""
    named = lines.assign(method=[_named(row) for row in lines.to_dict("records")])
    grouped = named.groupby(["view", "method"], sort=False)
    metrics = grouped[["mae", "explained", "coverage"]]
    found = metrics.mean().join(metrics.std(ddof=0).add_suffix("_sd")).join(grouped["q"].mean())
    return found.reset_index()


def _named(row: Mapping[Hashable, Any]) -> str:
    return f"{row['method']}, q = {row['q']:.0f}" if row["method"] in (OURS, GLOBAL, HOLDERS) else str(row["method"])


def markdown(table: pd.DataFrame) -> str:
    """One line for each hidden view and method."""
    head = ["hidden view", "method", "q", "MAE (sd of the feature)", "variance explained", "90 % intervals cover"]
    body = [
        [
            str(row["view"]),
            str(row["method"]),
            told(row["q"], ".1f"),
            f"{row['mae']:.3f} ± {row['mae_sd']:.3f}",
            f"{row['explained']:+.1%}",
            told(row["coverage"], ".1%"),
        ]
        for row in table.to_dict("records")
    ]
    return rows(head, body)


def figure(table: pd.DataFrame, title: str) -> dict[str, bytes]:
    """One group of bars for each hidden view: above what is explained, below how often the intervals hold."""
    views = list(dict.fromkeys(table["view"]))
    methods = [name for name in dict.fromkeys(table["method"]) if name != MEAN]
    step = 0.84 / len(methods)
    with canvas(7.0) as drawn:
        explained, covered = drawn.subplots(2, 1, sharex=True, height_ratios=(1.5, 1.0))
        for i, (method, colour) in enumerate(zip(methods, _colours(methods), strict=True)):
            own = table[table["method"] == method].set_index("view").loc[views]
            x = [k - 0.42 + step * (i + 0.5) for k in range(len(views))]
            explained.bar(x, own["explained"], step * 0.92, yerr=own["explained_sd"], color=colour, label=method,
                          error_kw={"linewidth": 0.8})  # fmt: skip
            for place, share in zip(x, own["explained"], strict=True):
                if share < -1.0:  # a bar that is cut off
                    explained.annotate(f"{share:.0%}", (place + step, -0.98), ha="center", fontsize=7, rotation=90)
            if own["coverage"].notna().any():
                covered.errorbar(x, own["coverage"], own["coverage_sd"], color=colour, fmt="o", capsize=2)
        explained.axhline(0.0, color="0.3", linewidth=1.0)
        low, high = explained.get_ylim()
        explained.set_ylim(max(-1.0, low), min(1.0, high))  # whiskers are cut off, lest one method hide all others
        explained.set_ylabel("share of the variance explained\n(0: the mean of the others)")
        covered.axhline(LEVEL, color="0.3", linewidth=1.0, linestyle=":")
        covered.set_ylabel(f"{LEVEL:.0%} intervals cover")
        covered.set_xticks(range(len(views)), views)
        covered.set_xlabel("hidden view")
        for axes in (explained, covered):
            tidy(axes)
        return finished(drawn, title, explained.get_legend_handles_labels())


def _colours(methods: Sequence[str]) -> list[str]:
    """A method keeps its colour whichever others are there."""
    fixed = sum(method.startswith(f"{OURS}, q =") for method in methods)
    return [*BLUES[len(BLUES) - fixed :], *OTHERS[: len(methods) - fixed]]


def write(lines: pd.DataFrame, out: Path, given: Given) -> list[Path]:
    """Table, tidy lines and figure."""
    name, table, times = given.named("missing"), summary(lines), f"{lines['repeat'].nunique()} x 3 thirds"
    title = f"{given.about}: a view hidden in a third of {N_CENTERS} centers, {times}"
    found = {
        f"{name}.md": page(
            f"{name}: {times}", [f"Data: {given.about}.", *given.remarks, about("missing")], markdown(table)
        ),
        f"{name}.csv": csv(lines),
    }
    return put(found | named({name: figure(table, f"{title}\nbars: one sd over both, cut off at ±100%")}), out)


def facts(results: Results) -> list[Facts]:
    """Who predicts hidden views, and how well, on both data sets."""
    return [_facts(name, results[name]) for name in ("missing", "missing-cnp")]


def _facts(name: str, lines: pd.DataFrame) -> Facts:
    table = summary(lines)
    names = list(dict.fromkeys(map(str, table["method"])))
    explained, covered = (
        table.pivot(index="method", columns="view", values=what).mean(axis=1).to_dict()
        for what in ("explained", "coverage")
    )
    fixed = [one for one in names if one.startswith(f"{OURS}, q =")]
    held, placed = (next(one for one in names if one.startswith(f"{start}, q =")) for start in (HOLDERS, GLOBAL))
    methods = {
        "few": fixed[0], "ours": fixed[-1], "ridge": RIDGE, "pooled": "ridge, pooled rows", "mofa": MOFAS,
        "held": held, "placed": placed, "chosen": CHOSEN, "chosen_held": CHOSEN_HOLDERS,
        "mofa_chosen": MOFAS + BY_HIDING, "mofa_held": MOFA_HOLDERS + BY_HIDING,
    }  # fmt: skip
    return {
        "name": name,
        "lines": lines,
        "explained": {short: explained[one] for short, one in methods.items()},
        "covered": {short: covered[one] for short, one in methods.items()},
        "coverage": table.loc[table["method"] == fixed[-1], "coverage"],
        "steps": {one.rsplit(" ", 1)[-1]: explained[one] for one in fixed},
        "medians": {short: _median(lines, one) for short, one in (("mofa", MOFAS), ("ours", OURS))},
        "mean": MEAN,
        "table": markdown(table),
    }


def _median(lines: pd.DataFrame, method: str) -> float:
    """What is explained by medians, which a few fits that fail do not move; with most components that were tried."""
    own = lines[lines["method"] == method]
    own = own[own["q"] == own["q"].max()]
    return float(own.groupby("view")["explained"].median().mean())
