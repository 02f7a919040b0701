"""The views of a study: their columns as the files have them, and their public ranges as users and study files do."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from vedute.data.problems import Problems, nearest, some
from vedute.data.study_file import PoolText, StudyText, ViewText
from vedute.data.table import TableFile, header, read
from vedute.errors import UserError
from vedute.model.parameters import Array


@dataclass(frozen=True)
class View:
    """A view of a study: its columns, and the public range of each column that has one."""

    name: str
    columns: tuple[str, ...]
    ranges: Mapping[str, tuple[float, float]]

    @property
    def bounds(self) -> Array | None:
        """Ranges as a (d, 2) array, infinite where nothing is declared; None if none is."""
        if not self.ranges:
            return None
        return np.array([self.ranges.get(column, (-np.inf, np.inf)) for column in self.columns])


def resolve_views(study: StudyText, problems: Problems, every_view: bool = True) -> dict[str, View]:
    """Columns and ranges of all views, with every complaint about headers noted.

    In a study with files ``every_view`` needs one; a single center may lack some.
    """
    views = {}
    for name, said in study.views.items():
        columns = _columns(study, name, said, problems, every_view)
        if columns:
            views[name] = View(name, columns, _ranges(study, name, said, columns, problems))
    return views


def _columns(
    study: StudyText, view: str, said: ViewText, problems: Problems, every_view: bool
) -> tuple[str, ...] | None:
    chosen, first = said.columns, study.path.name
    for pool in study.pools:
        table = pool.files.get(view)
        if table is None:
            continue
        try:
            available = [name for name in header(table) if name != table.id]
        except UserError as error:
            problems.catch(error)
            continue
        if chosen is None:
            chosen, first = _default_columns(table, available, pool, problems), table.label
        for column in chosen or ():
            if column not in available:
                problems.add(
                    f"{table.label}: no column {column!r}, which {first} has for view {view}"
                    f"{nearest(column, available)}; "
                    f"correct it, or name the columns that all have: [views.{view}] columns = [...]"
                )
        if said.columns is None and chosen:
            for column in _default_columns(table, available, pool, problems) or ():
                if column not in chosen:
                    problems.add(
                        f"{table.label}: column {column!r} is not in {first}; name the columns to use: "
                        f"[views.{view}] columns = [...]"
                    )
    if every_view and study.pools and not any(view in pool.files for pool in study.pools):
        problems.add(f"{study.path.name}: view {view} has no file; name it under [files], or remove [views.{view}]")
    return chosen


def _default_columns(
    table: TableFile, available: list[str], pool: PoolText, problems: Problems
) -> tuple[str, ...] | None:
    """Every column but the id, and but center and group where the view lies in the table of subjects."""
    subjects = pool.subjects
    if subjects is not None and subjects.table.path == table.path:
        available = [name for name in available if name not in (subjects.center, subjects.group)]
    if any(not name.strip() for name in available):
        remedy = "name it, or name the columns to use: columns = [...]"
        problems.add(f"{table.label}: line 1: a column has no name; {remedy}")
        available = [name for name in available if name.strip()]
    if not available:
        problems.add(f"{table.label}: has no column but {table.id!r}; add some, or take the file out of the study")
        return None
    return tuple(available)


def _ranges(
    study: StudyText, view: str, said: ViewText, columns: tuple[str, ...], problems: Problems
) -> dict[str, tuple[float, float]]:
    if said.ranges is None:
        return {}
    if isinstance(said.ranges, str):
        where, declared = said.ranges, _ranges_from_csv(study, said.ranges, problems)
    else:
        where, declared = f"{study.path.name}: [views.{view}] ranges", dict(said.ranges)
    found = {}
    for column, limits in declared.items():
        if column not in columns:
            hint = nearest(column, columns)
            problems.add(f"{where}: view {view} has no column {column!r}{hint}; correct or remove it")
        elif not _is_range(limits):
            problems.add(f"{where}: column {column!r}: {limits!r} is not a range; write [low, high], low below high")
        else:
            found[column] = (float(limits[0]), float(limits[1]))
    return found


def _is_range(limits: Any) -> bool:
    numbers = isinstance(limits, list | tuple) and len(limits) == 2 and all(
        isinstance(x, int | float) and not isinstance(x, bool) and abs(x) < 1e300 for x in limits
    )  # fmt: skip
    return numbers and math.isfinite(limits[0]) and math.isfinite(limits[1]) and limits[0] < limits[1]


def _ranges_from_csv(study: StudyText, name: str, problems: Problems) -> dict[str, Any]:
    table = TableFile(study.path.parent / name, name, id="column")
    found: dict[str, Any] = {}
    try:
        names = header(table)
        missing = [column for column in ("low", "high") if column not in names]
        if missing:
            raise UserError(f"{name}: no column {some(missing)}; a table of ranges has the columns column, low, high")
        for batch in read(table, ("low", "high")):
            for column, limits in zip(batch.labels.to_pylist(), batch.block.tolist(), strict=True):
                if column in found:
                    problems.add(f"{name}: column {column!r} occurs twice; keep one range")
                found[column] = limits
    except UserError as error:
        problems.catch(error)
    return found
