"""Public ranges of the features, as users and study files write them, in the order of the model."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from vedute.data.scaling import Ranges
from vedute.errors import UserError
from vedute.model.schema import Schema


def named_ranges(ranges: Any, schema: Schema, *, partial: bool = False) -> Ranges | None:
    """Public ranges as (d, 2) arrays, from arrays or from ``{column: (low, high)}``.

    With ``partial`` columns may lack one (NaN), for those who can tell which columns they need.
    """
    if ranges is None:
        return None
    columns = schema.columns
    found = {}
    for view, given in ranges.items():
        if view not in columns:
            raise UserError(f"ranges: view {view!r} is not in the data; known are {', '.join(map(repr, columns))}")
        if isinstance(given, Mapping):
            lacking = [name for name in columns[view] if name not in given]
            if lacking and not partial:
                raise UserError(f"ranges of view {view!r}: columns without one: {', '.join(lacking)}")
            given = [given.get(name, (np.nan, np.nan)) for name in columns[view]]
        bounds = np.asarray(given, dtype=float)
        if bounds.shape != (len(columns[view]), 2):
            raise UserError(f"ranges of view {view!r} must be {len(columns[view])} pairs (low, high)")
        good = np.isfinite(bounds).all(axis=1) & (bounds[:, 0] < bounds[:, 1])
        if partial:
            good |= np.isnan(bounds).all(axis=1)
        if not good.all():
            j = int(np.argmin(good))
            raise UserError(
                f"ranges of view {view!r}, column {columns[view][j]!r}: low must be below high, both finite"
            )
        found[view] = bounds
    return found
