"""The rows of one center in memory, several tables about the same subjects; DataFrames in and DataFrames out."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from vedute.errors import UserError
from vedute.model.parameters import Array, Schema

Labels = NDArray[np.object_]
Columns = Mapping[str, tuple[str, ...]]


@dataclass(frozen=True)
class MultiView:
    """The views of one center, rows aligned: row ``i`` of every view is subject ``ids[i]``; NaN is a missing cell.

    A view that the center lacks is absent. ``groups`` only colours plots and serves checks; no fit reads it.
    """

    ids: Labels
    views: Mapping[str, Array]
    columns: Mapping[str, tuple[str, ...]]
    groups: Labels | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "views", dict(self.views))
        object.__setattr__(self, "columns", {name: tuple(self.columns[name]) for name in self.views})

    @classmethod
    def from_mapping(
        cls,
        views: Mapping[str, Any] | MultiView,
        center: str | None = None,
        *,
        ids: Iterable[Any] | None = None,
        groups: Iterable[Any] | None = None,
    ) -> MultiView:
        """Check the views of a center and bring them to float64; float64 arrays are taken as they are, not copied.

        Columns are named by the DataFrame, or ``<view>_0, <view>_1, ...``; ids by the first DataFrame whose index
        is not a plain count, or by row numbers.
        """
        if isinstance(views, MultiView):
            return views
        where = f"center {center!r}" if center is not None else "the data"
        if not isinstance(views, Mapping):
            raise UserError(
                f"{where}: expected a mapping from view name to array or DataFrame, got {type(views).__name__}; "
                'write {"VIEW": X}'
            )
        if not views:
            raise UserError(f"{where}: there is no view; give at least one, or leave the center out")
        names: list[Any] = list(views)
        for name in names:
            if not isinstance(name, str) or not name:
                raise UserError(f"{where}: {name!r} cannot name a view; use a text that is not empty")
        arrays = {name: as_matrix(table, f"{where}, view {name!r}") for name, table in views.items()}
        columns = {name: _column_names(table, name, where) for name, table in views.items()}
        n = _common_length(arrays, where)
        _check_frame_order(views, where)
        return cls(
            _labels(ids, n, f"{where}: ids", unique=True) if ids is not None else _index_of(views, n, where),
            arrays,
            columns,
            _labels(groups, n, f"{where}: groups") if groups is not None else None,
        )

    def __len__(self) -> int:
        return len(self.ids)

    @property
    def sizes(self) -> dict[str, int]:
        """Number of features of each view."""
        return {name: array.shape[1] for name, array in self.views.items()}

    def frame(self, view: str) -> pd.DataFrame:
        """One view as a DataFrame, indexed by subject."""
        return pd.DataFrame(self.views[view], index=pd.Index(self.ids, name="id"), columns=list(self.columns[view]))

    def take(self, rows: NDArray[Any] | Sequence[int] | slice) -> MultiView:
        """Some of the subjects (row numbers, or a mask)."""
        chosen = {name: array[rows] for name, array in self.views.items()}
        return MultiView(self.ids[rows], chosen, self.columns, None if self.groups is None else self.groups[rows])


def as_matrix(table: Any, where: str) -> Array:
    """A table as an (n, d) float64 array; complaints begin with ``where``."""
    shape = np.shape(table)
    if len(shape) != 2:
        raise UserError(
            f"{where}: expected a table with two dimensions, subjects x features, got {len(shape)}; "
            "for a single feature use X.reshape(-1, 1), for a single subject X.reshape(1, -1)"
        )
    if shape[1] == 0:
        raise UserError(f"{where}: the table has no columns; leave the view out instead")
    array = _numbers(table, where)
    with np.errstate(over="ignore", invalid="ignore"):
        total = array.sum()  # spares a mask when all is well
    if not np.isfinite(total) and np.isinf(array).any():
        row, column = (int(i) for i in np.argwhere(np.isinf(array))[0])
        raise UserError(
            f"{where}: row {row}, column {_column_label(table, column)} is infinite; "
            "mark missing cells by NaN and correct the others"
        )
    return array


def _numbers(table: Any, where: str) -> Array:
    if isinstance(table, pd.DataFrame):
        for position, name in enumerate(table.columns):
            column = table.iloc[:, position]
            if not (pd.api.types.is_numeric_dtype(column.dtype) or column.dtype == object):
                raise UserError(f"{where}: column {name!r} holds {column.dtype}; code it as numbers or leave it out")
    try:
        if isinstance(table, pd.DataFrame):
            return np.asarray(table.to_numpy(dtype=np.float64, na_value=np.nan))
        array = np.asarray(table)
        if array.dtype.kind not in "bfiuO":
            raise TypeError(f"the values are {array.dtype}")
        return np.asarray(array, dtype=np.float64)
    except (TypeError, ValueError, OverflowError) as error:
        raise UserError(f"{where}: {_first_text(table, str(error))}; code it as a number, or NaN if missing") from None


def _first_text(table: Any, otherwise: str) -> str:
    """Where the first cell stands that is not a number."""
    frame = table if isinstance(table, pd.DataFrame) else pd.DataFrame(np.asarray(table, dtype=object))
    for column in range(frame.shape[1]):
        for row, value in enumerate(frame.iloc[:, column]):
            try:
                np.float64(value if value is not pd.NA else np.nan)
            except (TypeError, ValueError, OverflowError):
                return f"row {row}, column {_column_label(table, column)} holds {value!r}, which is not a number"
    return f"the values are not numbers ({otherwise})"


def _column_label(table: Any, column: int) -> str:
    return repr(table.columns[column]) if isinstance(table, pd.DataFrame) else str(column)


def _column_names(table: Any, view: str, where: str) -> tuple[str, ...]:
    index: Any = getattr(table, "columns", None)
    if not isinstance(table, pd.DataFrame) or isinstance(index, pd.RangeIndex):
        return tuple(f"{view}_{j}" for j in range(np.shape(table)[1]))
    names: list[Any] = list(index)
    for name in names:
        if not isinstance(name, str):
            raise UserError(f"{where}, view {view!r}: column name {name!r} is not text; rename the columns")
    twice = [name for name, count in Counter(names).items() if count > 1]
    if twice:
        raise UserError(f"{where}, view {view!r}: column {twice[0]!r} occurs twice; rename or drop one")
    return tuple(names)


def _common_length(arrays: Mapping[str, Array], where: str) -> int:
    lengths = {name: len(array) for name, array in arrays.items()}
    if len(set(lengths.values())) > 1:
        counts = ", ".join(f"{name} {n}" for name, n in lengths.items())
        raise UserError(
            f"{where}: views have different numbers of rows ({counts}); rows are the same subjects in the same "
            "order, so give a subject who lacks a view a row of NaN"
        )
    n = next(iter(lengths.values()))
    if n == 0:
        raise UserError(f"{where}: there are no rows; leave the center out")
    return n


def _named_index(table: Any) -> pd.Index[Any] | None:
    if isinstance(table, pd.DataFrame) and not isinstance(table.index, pd.RangeIndex):
        return table.index
    return None


def _check_frame_order(views: Mapping[str, Any], where: str) -> None:
    """DataFrames that list the same subjects in another order would be mixed up without a word."""
    indexed = [(name, index) for name, table in views.items() if (index := _named_index(table)) is not None]
    for name, index in indexed[1:]:
        first, reference = indexed[0]
        if not index.equals(reference):
            raise UserError(
                f"{where}: the rows of views {first!r} and {name!r} have different index labels; rows must be the "
                f"same subjects in the same order: use .reindex(), or .reset_index(drop=True) if they already are"
            )


def _index_of(views: Mapping[str, Any], n: int, where: str) -> Labels:
    for name, table in views.items():
        index = _named_index(table)
        if index is not None:
            return _labels(index, n, f"{where}, view {name!r}: index", unique=False)
    return np.asarray(np.frompyfunc(str, 1, 1)(np.arange(n)), dtype=object)


def _labels(values: Iterable[Any], n: int, where: str, unique: bool = False) -> Labels:
    listed = [value if isinstance(value, str) else str(value) for value in values]
    if len(listed) != n:
        raise UserError(f"{where}: {len(listed)} labels for {n} rows; give one for each row")
    if unique:
        twice = [name for name, count in Counter(listed).items() if count > 1]
        if twice:
            raise UserError(f"{where}: {twice[0]!r} occurs twice; a subject has one row")
    labels = np.empty(n, dtype=object)
    labels[:] = listed
    return labels


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
