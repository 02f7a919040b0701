"""How many components does WAIC ask for, and what error comes with them? The paper's table Latent_space."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd

from vedute.choice import select_components
from vedute.core.params import Array
from vedute.federation.model import Model
from vedute_reproduction.arms import ends_of
from vedute_reproduction.folds import Dataset, Fold, dealt, seed_of
from vedute_reproduction.keeping import Line, Source, Told, each_part, places
from vedute_reproduction.methods import Views, end_of, quietly

Ends = Mapping[str, tuple[Array, Array]]
N_CENTERS = 3
PAPERS = "center-minmax"


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
