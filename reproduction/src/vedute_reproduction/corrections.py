"""What each correction of the default preset buys, on synthetic data."""

from __future__ import annotations

import math

import pandas as pd

from vedute_reproduction import collapse
from vedute_reproduction.arms import SCALINGS, Arm
from vedute_reproduction.baselines.linear import PCA
from vedute_reproduction.collapse import above, lost, moving
from vedute_reproduction.collapse import summary as spreads
from vedute_reproduction.contenders import CORRECTED, DEFAULT, PAPER, SCATTERED, SCENARIOS, YARDSTICK
from vedute_reproduction.methods import FedMvPPCA
from vedute_reproduction.reading import Facts, Results, means, ratios
from vedute_reproduction.runner import Experiment, Setting
from vedute_reproduction.studies import SyntheticStudy


def experiment() -> Experiment:
    """SD: what each correction buys."""
    methods = {name: FedMvPPCA(5, "paper", corrections=added) for name, added in CORRECTED.items()}
    methods[DEFAULT] = FedMvPPCA(5)
    arms = [Arm(name, method, scaling) for scaling in SCALINGS for name, method in methods.items()]
    arms.append(Arm(YARDSTICK, PCA(5), "shared", "whole"))
    blocks = [Setting(dealing, n, tuple(arms)) for dealing, n in SCENARIOS if n > 1]
    return Experiment("corrections", "SD", SyntheticStudy(), tuple(blocks))


def facts(results: Results) -> Facts:
    """How much of a known spread is found, and what that costs in errors on SD."""
    draws, lines = results["collapse"], results["corrections"]
    table, ratio, gone = spreads(draws), ratios(lines, YARDSTICK), lost(draws)
    names = {"paper": PAPER, **dict(zip(("variances", "mix", "both", "all"), list(CORRECTED)[1:], strict=True))}
    names["default"] = DEFAULT

    def medians(parameter: str, name: str, least: float = 0.0) -> pd.Series[float]:
        asked = (table["parameter"] == parameter) & (table["method"] == name) & (table["case_mix"] >= least)
        return table.loc[asked, "median"]

    error = means(lines, "test_mae", "per center").loc[list(SCATTERED)]
    gain = error[PAPER] - error[DEFAULT]
    return {
        "draws": draws,
        "lines": lines,
        "truth": collapse,
        "expected": [math.sqrt(1 - 1 / n) for n in collapse.COUNTS],
        "lost": {short: gone[name] for short, name in names.items()},
        "wide": {short: above(draws, name) for short, name in names.items()},
        "found": {parameter: medians(parameter, DEFAULT) for parameter in collapse.SD},
        "shifted": {short: medians("mu", name, min(filter(None, collapse.CASE_MIX))) for short, name in names.items()},
        "carried": medians("W", names["all"]),
        "moving": moving(draws),
        "table": collapse.markdown(table),
        "ratio": ratio,
        "worst": {short: ratio[name].max() for short, name in names.items()},
        "alone": {short: (error[PAPER] - error[names[short]]) / gain for short in ("variances", "mix")},
    }
