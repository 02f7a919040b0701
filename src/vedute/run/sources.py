"""Where the rows of a fit come from, in memory or in the files of a study: folded once, and read again if asked."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

from vedute.data.study import Folding, Study
from vedute.data.views import MultiView, common_layout
from vedute.errors import UserError
from vedute.model.schema import Layout
from vedute.run.fitting import Folded, fold, read_study
from vedute.run.inspection import inspect_centers
from vedute.run.private import StudyRows
from vedute.run.settings import Settings

F = TypeVar("F", bound=Folding)


@dataclass(frozen=True)
class TableRows:
    """The rows of centers whose tables are in memory."""

    layout: Layout
    columns: dict[str, tuple[str, ...]]
    tables: Mapping[str, MultiView]

    @property
    def held(self) -> dict[str, tuple[str, ...]]:
        """The views that each center gave."""
        return {name: tuple(table.views) for name, table in self.tables.items()}

    def feed(self, make: Callable[[str], F]) -> dict[str, F]:
        """Give the tables of each center to its own ``make(center)``."""
        found = {}
        for name, table in self.tables.items():
            found[name] = make(name)
            found[name].add(table.views)
        return found


def open_rows(centers: Mapping[str, Any] | Study, *, clipped: bool = False) -> StudyRows | TableRows:
    """Where the rows are and how they are laid out; nothing is read yet."""
    if isinstance(centers, Study):
        return StudyRows(centers, clipped)
    tables = _centers(centers)
    return TableRows(*common_layout(tables), tables)


@dataclass(frozen=True)
class Source:
    """The data of all centers, folded; the rows themselves stay where they were."""

    layout: Layout
    columns: dict[str, tuple[str, ...]]
    read: dict[str, Folded]
    ranges: Any
    rows: StudyRows | TableRows

    def again(self, make: Callable[[str], F]) -> dict[str, F]:
        """Read all rows once more and feed those of each center to its own ``make(center)``."""
        return self.rows.feed(make)


def open_source(centers: Mapping[str, Any] | Study, settings: Settings, ranges: Any = None) -> Source:
    """Read all centers once and refuse what no fit survives."""
    rows = open_rows(centers)
    layout, columns = rows.layout, rows.columns
    if isinstance(rows, StudyRows):
        ranges = rows.study.ranges if ranges is None else ranges
        read = read_study(rows.study, settings)[2]
    else:
        read = fold(layout, {name: table.views for name, table in rows.tables.items()}, settings)
    inspect_centers(layout, {name: part.statistics for name, part in read.items()}, columns)
    return Source(layout, columns, read, ranges, rows)


def _centers(centers: Any) -> dict[str, MultiView]:
    if not isinstance(centers, Mapping):
        raise UserError(
            f"expected a mapping from center name to its views, got {type(centers).__name__}; "
            'write {"center": {"VIEW": X}}'
        )
    if not centers:
        raise UserError("there is no center; give at least one")
    for name in centers:
        if not isinstance(name, str) or not name:
            raise UserError(f"{name!r} cannot name a center; use a text that is not empty")
    return {name: MultiView.from_mapping(views, center=name) for name, views in centers.items()}
