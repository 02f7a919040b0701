"""From the lines on spreads that collapse to their table."""

from __future__ import annotations

import pandas as pd

from vedute_reproduction.collapse import LOST, SD
from vedute_reproduction.tables.cells import rows


def summary(lines: pd.DataFrame) -> pd.DataFrame:
    """After the last round: quartiles over draws and views of found over true, and how often it is lost."""
    last = lines[lines["round"] == lines["round"].max()]
    grouped = last.groupby(["centers", "case_mix", "method", "parameter"], sort=False)["ratio"]
    found = pd.DataFrame({"low": grouped.quantile(0.25), "median": grouped.median(), "high": grouped.quantile(0.75)})
    return found.assign(lost=grouped.agg(lambda ratio: (ratio < LOST).mean())).reset_index()


def lost(lines: pd.DataFrame) -> dict[str, float]:
    """In what share of draws and views each variant has lost the spread of W after the last round."""
    ends = lines[(lines["round"] == lines["round"].max()) & (lines["parameter"] == "W")]
    return {str(name): float((own["ratio"] < LOST).mean()) for name, own in ends.groupby("method", sort=False)}


def markdown(table: pd.DataFrame) -> str:
    """One line for each number of centers, case mix and variant."""
    head = ["centers", "sd of the case mix", "method", *(f"sd of {name}, found / true" for name in SD), "W lost"]
    body = []
    for (n, tau, method), part in table.groupby(["centers", "case_mix", "method"], sort=False):
        own = part.set_index("parameter")
        cells = [str(n), f"{tau:g}", str(method)]
        cells += [f"{own.at[p, 'median']:.3f} ({own.at[p, 'low']:.3f} to {own.at[p, 'high']:.3f})" for p in SD]
        cells.append(f"{own.at['W', 'lost']:.0%}")
        body.append(cells)
    return rows(head, body)
