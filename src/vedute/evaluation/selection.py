"""How many components does WAIC ask for, and what error comes with them? The paper's table Latent_space."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path

import numpy as np
import pandas as pd

from vedute.choice import select_components
from vedute.core.params import Array
from vedute.evaluation.arms import ends_of
from vedute.evaluation.folds import Dataset, Fold, dealt, seed_of
from vedute.evaluation.keeping import Line, Source, Told, each_part, places
from vedute.evaluation.methods import Views, end_of, quietly
from vedute.federation.model import Model

Ends = Mapping[str, tuple[Array, Array]]
N_CENTERS = 3
PAPERS = "center-minmax"
ABOUT = (
    "Scenario IID, 3 centers. 'step' is the difference of WAIC to one component fewer, over its standard error by the "
    "paper's formula, with a plus under the root where it has a minus; 'paired' takes the difference on each fold, "
    "which both share, first; 'recommended' counts the folds, of those in which a number could be fitted, in which it "
    "is the least within two standard errors of the best. WAIC cannot be compared with the paper's: ours is a sum over "
    "all centers in the units of the data, the paper's is in scaled units and looks like a mean over centers; ours "
    "draws parameters from the posterior of each center, from what the paper draws it does not say. Standard errors "
    "are over folds, which share rows (on a data set all of them the same subjects): they are too small, for the paper "
    "as for us. Errors of the paper preset are in units of each center and of the test rows, those of the default "
    "preset in units of all train rows."
)


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
        tried = "-".join(map(str, self.components))
        return f"{self.name}-{tried}-r{self.repeat:03d}-f{self.fold}.json"

    def compute(self, data: Dataset) -> list[Line]:
        """A line for each preset and number of components."""
        fold, seed = dealt(data, self.repeat, self.fold, "IID", N_CENTERS), seed_of(self.repeat, self.fold)
        variants = {"paper": PAPERS, "default": self.scaling}
        return [line for variant in variants.items() for line in _lines(*variant, fold, self, seed)]


def run(
    name: str,
    source: Source,
    components: Sequence[int],
    scaling: str,
    repeats: int,
    out: Path,
    *,
    jobs: int = 1,
    on_fold: Told | None = None,
) -> pd.DataFrame:
    """WAIC and errors for each number of components on each fold (scenario IID, three centers)."""
    trials = [Trial(name, tuple(components), scaling, *place) for place in places(repeats)]
    return each_part(trials, source, out, jobs=jobs, on_fold=on_fold)


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
    with files("vedute.evaluation").joinpath("paper_latent_space.csv").open(encoding="utf-8") as file:
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
    lines = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    for row in table.to_dict("records"):
        cells = [str(row["preset"]), str(row["components"]), f"{row['waic']:.0f}", _cell(row["waic_paper"], ".0f")]
        cells += [_cell(row["waic_step"], "+.1f"), _cell(row["waic_paired"], "+.1f")]
        cells.append(f"{row['recommended']} of {row['folds']}")
        for metric in ("train_mae", "test_mae"):
            cells += [f"{row[metric]:.4f}", _cell(row[f"{metric}_paper"], ".4f")]
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines) + "\n"


def _cell(value: float, form: str) -> str:
    return "" if value != value else format(value, form)
