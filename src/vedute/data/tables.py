"""Between the tables of users and the arrays of the model: names, orders, DataFrames in and DataFrames out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd

from vedute.data.views import MultiView
from vedute.errors import UserError
from vedute.model.parameters import Array
from vedute.model.schema import Schema

Columns = Mapping[str, tuple[str, ...]]


def common_schema(centers: Mapping[str, MultiView]) -> Schema:
    """The views of all centers and their columns; the same view must look the same everywhere."""
    columns: dict[str, tuple[str, ...]] = {}
    origin: dict[str, str] = {}
    for center, table in centers.items():
        for view, names in table.columns.items():
            if view not in columns:
                columns[view], origin[view] = names, center
            elif columns[view] != names:
                raise UserError(_mismatch(view, center, names, origin[view], columns[view]))
    return Schema(columns)


def _mismatch(view: str, center: str, names: Sequence[str], other: str, expected: Sequence[str]) -> str:
    if len(names) != len(expected):
        detail = f"has {len(names)} columns in center {center!r} but {len(expected)} in center {other!r}"
    elif set(names) == set(expected):
        detail = f"lists its columns in another order in center {center!r} than in center {other!r}"
    else:
        odd = next(name for name in names if name not in set(expected))
        detail = f"has a column {odd!r} in center {center!r} that center {other!r} does not have"
    return f"view {view!r} {detail}; a view must have the same columns everywhere"


def as_views(views: Any, columns: Columns) -> MultiView:
    """New rows for a fitted model: known views only, columns as they were when it was fitted."""
    table = MultiView.from_mapping(views)
    for name, array in table.views.items():
        if name not in columns:
            raise UserError(f"view {name!r} is not in the model; known are {', '.join(map(repr, columns))}")
        if array.shape[1] != len(columns[name]):
            raise UserError(
                f"view {name!r} has {array.shape[1]} columns, but was fitted with {len(columns[name])}; give the same"
            )
        named = isinstance(views, MultiView) or isinstance(views[name], pd.DataFrame)
        if named and not _unnamed(table.columns[name], name) and table.columns[name] != columns[name]:
            raise UserError(_mismatch(name, "of these rows", table.columns[name], "of the fit", columns[name]))
    return table


def _unnamed(names: Sequence[str], view: str) -> bool:
    return list(names) == [f"{view}_{j}" for j in range(len(names))]


def tabulate(given: Any, table: MultiView, rows: Array, columns: Sequence[str]) -> Any:
    """A result as a DataFrame where the user gave DataFrames or named subjects, and as an array otherwise."""
    if isinstance(given, MultiView):
        return pd.DataFrame(rows, index=pd.Index(given.ids, name="id"), columns=list(columns))
    frames = [value for value in given.values() if isinstance(value, pd.DataFrame)]
    return pd.DataFrame(rows, index=frames[0].index, columns=list(columns)) if frames else rows
