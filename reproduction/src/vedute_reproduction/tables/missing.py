"""From the lines on hidden views to their table."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from typing import Any

import pandas as pd

from vedute_reproduction.missing import GLOBAL, HOLDERS, OURS
from vedute_reproduction.tables.cells import rows, told


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
