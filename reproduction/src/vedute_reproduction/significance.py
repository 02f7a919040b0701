"""Is a difference over folds more than chance? A paired test, corrected for how often it was asked."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd

MARKS = {1e-4: "****", 1e-3: "***", 1e-2: "**"}  # the paper's
TEST = (
    r"Marks: \*\* p <= 1e-2, \*\*\* p <= 1e-3, \*\*\*\* p <= 1e-4, two-sided Wilcoxon test of paired folds against the "
    "run without privacy in the same units, Holm-corrected within each sweep and metric; the paper does not name its "
    "test. With one scaling for all, every run is compared with the default preset without privacy, also where it is "
    "of the paper preset: marks there tell of policy and preset together. A mark tells that a value differs; whether "
    "it is worse tells the column beside it. Folds of one repetition share rows, so these p are too small; that is "
    "why the number of repetitions that are worse stands beside them. On SD repetitions are independent draws. On a "
    "data set they are the same subjects, dealt again: marks there tell of dealing and noise, not of other subjects."
)


def paired_p(values: Sequence[float], reference: Sequence[float]) -> float:
    """Two-sided Wilcoxon signed-rank test; 1 where nothing differs."""
    from scipy.stats import wilcoxon

    gaps = np.asarray(values, dtype=float) - np.asarray(reference, dtype=float)
    return float(wilcoxon(gaps).pvalue) if gaps.any() else 1.0


def holm(p_values: Sequence[float]) -> list[float]:
    """Holm's correction: the smallest times their number, the next times one fewer, never decreasing."""
    order = np.argsort(p_values, kind="stable")
    factors = len(order) - np.arange(len(order))
    raised = np.minimum(np.maximum.accumulate(np.asarray(p_values, dtype=float)[order] * factors), 1.0)
    found = np.empty(len(order))
    found[order] = raised
    return [float(p) for p in found]


def mark(p: float) -> str:
    """The paper's stars."""
    return next((stars for limit, stars in MARKS.items() if p <= limit), "")


def worse(values: pd.Series[float], reference: pd.Series[float], *, larger: bool) -> int:
    """In how many repetitions the mean over folds is worse than the reference's; both are indexed by repeat and fold.

    ``larger``: larger values are worse.
    """
    gap = (values - reference).groupby(level="repeat").mean()
    return int(((gap if larger else -gap) > 0).sum())
