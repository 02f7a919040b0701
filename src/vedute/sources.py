"""Where the rows of a fit come from, in memory or in the files of a study: folded once, and read again if asked."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

from vedute.core.layout import Layout
from vedute.data.study import Folding, Study
from vedute.data.views import MultiView
from vedute.errors import UserError
from vedute.federation.fitting import Folded, fold, read_study
from vedute.federation.inspection import inspect_centers
from vedute.federation.settings import Settings
from vedute.tables import common_layout

F = TypeVar("F", bound=Folding)


@dataclass(frozen=True)
class Source:
    """The data of all centers, folded; the rows themselves stay where they were."""

    layout: Layout
    columns: dict[str, tuple[str, ...]]
    read: dict[str, Folded]
    ranges: Any
    rows: Study | Mapping[str, MultiView]

    def again(self, make: Callable[[str], F]) -> dict[str, F]:
        """Read all rows once more and feed those of each center to its own ``make(center)``."""
        if isinstance(self.rows, Study):
            return {name: part.result for name, part in self.rows.fold(make).items()}
        found = {}
        for name, table in self.rows.items():
            found[name] = make(name)
            found[name].add(table.views)
        return found


def open_source(centers: Mapping[str, Any] | Study, settings: Settings, ranges: Any = None) -> Source:
    """Read all centers once and refuse what no fit survives."""
    if isinstance(centers, Study):
        layout, columns, read = read_study(centers, settings)
        found = Source(layout, columns, read, centers.ranges if ranges is None else ranges, centers)
    else:
        tables = _centers(centers)
        layout, columns = common_layout(tables)
        read = {name: fold(layout.restrict(table.views), table.views, settings) for name, table in tables.items()}
        found = Source(layout, columns, read, ranges, tables)
    inspect_centers(layout, {name: part.statistics for name, part in read.items()}, columns)
    return found


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
