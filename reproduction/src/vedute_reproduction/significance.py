"""Is a difference over folds more than chance? A paired test, corrected for how often it was asked."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd

MARKS = {1e-4: "****", 1e-3: "***", 1e-2: "**"}  # the paper's


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
