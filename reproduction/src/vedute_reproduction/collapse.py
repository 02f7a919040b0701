"""Does a fit find how much centers differ? Draws of the model itself, where that is known.

The paper plugs modes into variances: a mode is drawn towards the prior, so the variance between centers shrinks, so the
prior draws harder, round after round. Each correction of the default preset is added to the paper's in turn.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import pandas as pd

from vedute.core.params import Spreads
from vedute.core.streams import stream
from vedute.data.synthetic import make_hierarchical
from vedute.estimator import FederatedPPCA
from vedute_reproduction.experiments import CORRECTED, DEFAULT
from vedute_reproduction.keeping import Line, Told, counted, each, kept_or_computed, keyed
from vedute_reproduction.methods import quietly, unit_ranges

SD = {"mu": 0.3, "W": 0.1}  # the truth: how far means and loadings of centers lie apart
COUNTS, SUBJECTS, COMPONENTS, ROUNDS = (5, 20), 100, 3, 100
CASE_MIX = (0.0, 1.0)  # sd of the latent mean of a center's patients
LOST = 0.01  # of the truth: what is less stands on its floor
KEPT = (1, 2, 3, 4, 5, 7, 10, 15, 20, 30, 50, 70, 100)  # rounds to look at


@dataclass(frozen=True)
class Trial:
    """One draw, fitted by each variant."""

    centers: int
    case_mix: float
    repeat: int

    @property
    def file(self) -> str:
        """Where its result is kept."""
        return f"collapse-{self.centers}-{self.case_mix:g}-r{self.repeat:03d}.json"


def compute(trial: Trial) -> list[Line]:
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


def run(repeats: int, out: Path, *, jobs: int = 1, on_fold: Told | None = None) -> pd.DataFrame:
    """All draws: few and many centers, with the same patients or others."""
    trials = [Trial(n, tau, repeat) for n in COUNTS for tau in CASE_MIX for repeat in counted(repeats)]
    return each(trials, _done, out, jobs=jobs, on_fold=on_fold)


def _done(folder: Path, trial: Trial) -> list[Line]:
    return kept_or_computed(folder / trial.file, keyed(trial), lambda: compute(trial))
