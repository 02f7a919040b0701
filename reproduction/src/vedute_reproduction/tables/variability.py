"""From the lines on imputed views to their table."""

from __future__ import annotations

import pandas as pd

from vedute_reproduction.tables.cells import rows


def markdown(lines: pd.DataFrame) -> str:
    """Means over folds for each preset, way to part the test rows, and view that was taken away."""
    columns = ["mae", "mae_mean", "coverage", "distance", "distance_global", "distance_chance"]
    head = ["preset", "test rows parted by", "missing view", "MAE, imputed", "MAE, the mean", "90 % intervals cover",
            "distance, imputed", "distance, global", "distance by chance"]  # fmt: skip
    body = []
    means = lines.groupby(["preset", "parted_by", "view"], sort=False)[columns].mean().reset_index()
    for row in means.to_dict("records"):
        cells = [row["preset"], row["parted_by"], row["view"], f"{row['mae']:.3f}", f"{row['mae_mean']:.3f}"]
        cells += [f"{row['coverage']:.1%}", *(f"{row[column]:.3f}" for column in columns[3:])]
        body.append([str(cell) for cell in cells])
    return rows(head, body)
