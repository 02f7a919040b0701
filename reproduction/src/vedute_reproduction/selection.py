"""How many components does WAIC ask for, and what error comes with them? The paper's table Latent_space."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path

import numpy as np
import pandas as pd

from vedute import select_components
from vedute.model.parameters import Array
from vedute.run.fitted_model import Model
from vedute_reproduction.arms import ends_of
from vedute_reproduction.canvas import COLOURS, canvas, finished, tidy
from vedute_reproduction.comparison import rings
from vedute_reproduction.folds import Dataset, Fold, dealt, seed_of
from vedute_reproduction.keeping import How, Line, each_part
from vedute_reproduction.methods import Views, end_of, quietly
from vedute_reproduction.prose import about, rows, told
from vedute_reproduction.reading import Facts, Results
from vedute_reproduction.studies import Given
from vedute_reproduction.writing import csv, named, page, put

Ends = Mapping[str, tuple[Array, Array]]
N_CENTERS = 3
PAPERS = "center-minmax"
TRUTH = 5  # components of SD
CLOSE = 6  # up to which the paper looks closely


@dataclass(frozen=True)
class Trial:
    """One fold with every number of components."""

    name: str
    components: tuple[int, ...]
    scaling: str  # of the default preset; the paper's has the paper's
    repeat: int
    fold: int

    @property
    def file(self) -> str:
        """Where its result is kept."""
        tried = f"{self.components[0]}-{self.components[-1]}"
        return f"{self.name}-{tried}-r{self.repeat:03d}-f{self.fold}.json"

    def compute(self, data: Dataset) -> list[Line]:
        """A line for each preset and number of components."""
        fold, seed = dealt(data, self.repeat, self.fold, "IID", N_CENTERS), seed_of(self.repeat, self.fold)
        variants = {"paper": PAPERS, "default": self.scaling}
        return [line for variant in variants.items() for line in _lines(*variant, fold, self, seed)]


def run(given: Given, components: Sequence[int], how: How) -> pd.DataFrame:
    """WAIC and errors for each number of components on each fold (scenario IID, three centers)."""
    asked = given.named("selection"), tuple(components), given.scaling
    return each_part([Trial(*asked, *place) for place in how.places], given.source, how)


def _lines(preset: str, scaling: str, fold: Fold, trial: Trial, seed: int) -> list[Line]:
    with quietly():
        rounds, tol = end_of(preset)
        found = select_components(
            fold.centers,
            trial.components,
            scalings=(scaling,),
            jobs=1,
            seed=seed,
            preset=preset,
            rounds=rounds,
            tol=tol,
        )
    centers, test = list(fold.centers.values()), list(fold.test.values())
    common = None if preset == "paper" else ends_of(centers)
    lines = []
    for i, (choice, model) in enumerate(zip(found.choices, found.models, strict=True)):
        about = {"preset": preset, "components": choice.components, "repeat": trial.repeat, "fold": trial.fold}
        lines.append(
            about
            | {"waic": choice.waic, "p_waic": choice.p_waic, "recommended": i == found.recommended}
            | {"train_mae": _error(model, centers, common), "test_mae": _error(model, test, common)}
        )
    return lines


def _error(model: Model, tables: Sequence[Views], common: Ends | None) -> float:
    """Mean over tables of the mean absolute error in min-max units: common ones, or those of each table."""
    errors = []
    for views in tables:
        ends, seen = common or ends_of([views]), model.reconstruct(views)
        widths = {name: high - low for name, (low, high) in ends.items()}
        gaps = [
            np.abs(rows - seen[name]) / np.where(widths[name] > 0, widths[name], 1.0) for name, rows in views.items()
        ]
        errors.append(np.concatenate([gap.ravel() for gap in gaps]).mean())
    return float(np.mean(errors))


def summary(lines: pd.DataFrame, paper: str = "SD") -> pd.DataFrame:
    """Means over folds, how often each number was recommended, and the standardised difference to one fewer.

    That difference is told twice: as the paper means it, with the sum of both variances under its root (it prints their
    difference), and paired by folds, which both share. ``paper`` names the half of its table to stand beside.
    """
    grouped = lines.groupby(["preset", "components"], sort=False)
    found = grouped[["waic", "train_mae", "test_mae"]].mean().join(grouped["recommended"].sum())
    found["folds"] = grouped.size()
    spread = grouped["waic"].var() / grouped.size()
    own = found.index.to_frame()
    fewer = pd.MultiIndex.from_arrays([own["preset"], own["components"] - 1])
    step = found["waic"].to_numpy() - found["waic"].reindex(fewer).to_numpy()
    found["waic_step"] = step / np.sqrt(spread.to_numpy() + spread.reindex(fewer).to_numpy())
    paired = _paired(lines)
    found["waic_paired"] = [paired.at[preset, q] for preset, q in found.index]
    with files("vedute_reproduction").joinpath("paper_latent_space.csv").open(encoding="utf-8") as file:
        whole = pd.read_csv(file).assign(preset="paper")
    printed = whole[whole["data"] == paper].drop(columns="data")
    return found.reset_index().merge(printed, on=["preset", "components"], how="left", suffixes=("", "_paper"))


def _paired(lines: pd.DataFrame) -> pd.DataFrame:
    """Mean step of WAIC, from one component fewer on the same fold, over its standard error: presets by numbers."""
    wide = lines.pivot(index=["preset", "repeat", "fold"], columns="components", values="waic")
    tried = [int(q) for q in lines["components"].unique()]
    steps = pd.DataFrame({q: wide[q] - wide[q - 1] if q - 1 in wide else np.nan for q in tried}, wide.index)
    grouped = steps.groupby("preset")
    return grouped.mean() / grouped.sem()


def markdown(table: pd.DataFrame, paper: str = "paper") -> str:
    """The summary as Markdown; ``paper`` heads its values.

    WAIC is in the units of the data here and in scaled units in the paper.
    """
    head = ["preset", "components", "WAIC", paper, "step", "paired", "recommended"]
    head += ["MAE train", paper, "MAE test", paper]
    body = []
    for row in table.to_dict("records"):
        cells = [str(row["preset"]), str(row["components"]), f"{row['waic']:.0f}", told(row["waic_paper"], ".0f")]
        cells += [told(row["waic_step"], "+.1f"), told(row["waic_paired"], "+.1f")]
        cells.append(f"{row['recommended']} of {row['folds']}")
        for metric in ("train_mae", "test_mae"):
            cells += [f"{row[metric]:.4f}", told(row[f"{metric}_paper"], ".4f")]
        body.append(cells)
    return rows(head, body)


def figure(lines: pd.DataFrame, table: pd.DataFrame, title: str) -> dict[str, bytes]:
    """PNG and SVG: a row of three panels for each preset."""
    presets = list(dict.fromkeys(lines["preset"]))
    with canvas(2.9 * len(presets) + 0.4) as drawn:
        panels = drawn.subplots(len(presets), 3, squeeze=False)
        for (boxes, steps, errors), preset in zip(panels, presets, strict=True):
            own, mean = lines[lines["preset"] == preset], table[table["preset"] == preset]
            q = mean["components"].to_numpy()
            boxes.boxplot(
                [own.loc[own["components"] == n, "waic"] for n in q], positions=q, medianprops={"color": "0.3"}
            )
            boxes.set_ylabel(f"WAIC over folds, {preset} preset")
            steps.plot(q, mean["waic_step"], color=COLOURS[0], marker="o")
            steps.axhline(0.0, color="0.7", linewidth=1.0)
            steps.set_ylabel("standardised step of WAIC\n(with a plus under the root)")
            for colour, metric in zip((COLOURS[0], COLOURS[2]), ("train_mae", "test_mae"), strict=True):
                errors.plot(q, mean[metric], color=colour, marker="o", label=metric.replace("_mae", ""))
                errors.plot(q, mean[f"{metric}_paper"], color=colour, marker="o", fillstyle="none", markersize=9,
                            linestyle="none")  # fmt: skip
            errors.set_ylabel("MAE")
            errors.legend(frameon=False)
            for axes in (boxes, steps, errors):
                axes.set_xlabel("components")
                axes.set_xticks(q)
                axes.tick_params(axis="x", labelsize=6.5)
                tidy(axes)
        return finished(drawn, title)


def write(lines: pd.DataFrame, out: Path, given: Given) -> list[Path]:
    """Write all files; their paths, the table first."""
    name, table, times = (
        given.named("selection"),
        summary(lines, given.printed),
        f"{lines['repeat'].nunique()} x 3-fold",
    )
    title = f"{given.about}, scenario IID, 3 centers, {times}{rings(given.printed)}"
    text = page(f"{name}: {times}", [*given.remarks, about("selection")], markdown(table))
    found = {f"{name}.md": text, f"{name}.csv": csv(lines)}
    return put(found | named({name: figure(lines, table, title)}), out)


def facts(results: Results) -> Facts:
    """How often the truth was found on SD, and what cnp asks for."""
    lines, real = results["selection"], results["selection-cnp"]
    table, other = summary(lines), summary(real, "ADNI")
    right, folds = recovered(lines)
    views = results["sd-data"].query("what == 'view'")
    return {
        "lines": lines,
        "truth": TRUTH,
        "right": {preset: right.get(preset, 0) for preset in ("default", "paper")},
        "folds": folds,
        "least": {preset: _least(table, preset) for preset in ("default", "paper")},
        "papers": _least(table, "paper", "waic_paper"),
        "apart": {
            metric: float((table[metric] / table[f"{metric}_paper"] - 1.0).abs().max())
            for metric in ("train_mae", "test_mae")
        },
        "risen": {
            preset: (own.iloc[-1] - own[preset, TRUTH]) / (own[preset, TRUTH - 1] - own[preset, TRUTH])
            for preset, own in table.set_index(["preset", "components"])["waic"].groupby("preset")
        },
        "narrowest": int(views["count"].min()),
        "steady": _steady(lines),
        "table": markdown(table),
        "real": real,
        "tried": (other["components"].min(), other["components"].max()),
        "asked": {preset: _least(other, preset) for preset in ("default", "paper")},
        "chosen": real[real["recommended"]].groupby("preset")["components"].median(),
        "real_steady": _steady(real),
        "real_table": markdown(other, "the paper, on ADNI"),
    }


def recovered(lines: pd.DataFrame) -> tuple[pd.Series[int], int]:
    """In how many folds each preset recommends the true number of components of SD, and of how many."""
    right = lines[lines["recommended"] & (lines["components"] == TRUTH)].groupby("preset").size()
    return right, int(lines.groupby(["preset", "components"]).size().iloc[0])


def _least(table: pd.DataFrame, preset: str, column: str = "waic") -> int:
    """The number of components with the least WAIC."""
    own = table[table["preset"] == preset].dropna(subset=[column])
    return int(own["components"].to_numpy()[own[column].to_numpy().argmin()])


def _steady(lines: pd.DataFrame) -> Facts:
    """Whether many components make WAIC less stable, as the paper says: its sd over folds."""
    spread, last = lines.groupby(["preset", "components"])["waic"].std(), int(lines["components"].max())
    ends = {preset: (spread[preset, CLOSE], spread[preset, last]) for preset in ("paper", "default")}
    return {"from": CLOSE, "to": last, "sd": ends}
