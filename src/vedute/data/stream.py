"""The rows of a study as a stream of chunks, each with the center that it belongs to."""

from __future__ import annotations

from collections.abc import Generator, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from vedute.data.ids import KeyIndex, Keys, Positions
from vedute.data.join import Joined, ViewFile, join
from vedute.data.readers import places_of
from vedute.data.subjects import Codes, Subjects, refuse_strangers
from vedute.data.table import TableFile, unchanged
from vedute.errors import UserError
from vedute.model.parameters import Array

Bounds = Mapping[str, Array]  # view -> (d, 2), infinite where nothing is declared


@dataclass(frozen=True)
class Pool:
    """Files that are read together: those of one center, or those of all centers with a table of subjects."""

    files: Mapping[str, ViewFile]
    center: str | None = None
    subjects: Subjects | None = None

    @property
    def centers(self) -> tuple[str, ...]:
        """Whose rows are in these files."""
        if self.center is not None:
            return (self.center,)
        return self.subjects.centers if self.subjects is not None else ()

    @property
    def tables(self) -> list[TableFile]:
        """All files of the pool."""
        return [file.table for file in self.files.values()] + ([self.subjects.table] if self.subjects else [])


@dataclass(frozen=True)
class Chunk:
    """Some subjects of one center, rows aligned over the views; a view of which none has a row is absent."""

    center: str
    keys: Keys
    labels: Any  # pyarrow: chosen by ``rows`` and turned into Python texts only if asked for
    views: Mapping[str, Array]
    group_codes: Codes | None = None
    group_names: tuple[str, ...] = ()
    rows: Positions | None = None  # which of the labels are meant; None is all

    def __len__(self) -> int:
        return len(self.keys)

    @property
    def ids(self) -> NDArray[np.object_]:
        """Ids of the subjects."""
        chosen = self.labels if self.rows is None else self.labels.take(self.rows)
        return np.array(chosen.to_pylist(), dtype=object)

    @property
    def groups(self) -> NDArray[np.object_] | None:
        """Groups of the subjects, an empty text where unknown; None if the study has no groups."""
        return None if self.group_codes is None else np.array(self.group_names, dtype=object)[self.group_codes]


def stream(pool: Pool, bounds: Bounds | None = None) -> Generator[Chunk]:
    """All rows of a pool in one scan, dealt to their centers; refuses values outside of ``bounds``."""
    subjects = pool.subjects
    index = KeyIndex(subjects.keys) if subjects is not None else None
    since = {subjects.table.path: subjects.stamp} if subjects is not None else None
    with unchanged(pool.tables, since):
        for rows in join(pool.files):
            if bounds:
                _refuse_outside(pool, rows, bounds)
            if subjects is None or index is None:
                yield Chunk(pool.centers[0], rows.keys, rows.labels, rows.views)
                continue
            at = index.find(rows.keys)
            if at.min() < 0:
                _refuse_strangers(pool, rows.keys[at < 0], subjects)
            yield from _deal(pool, subjects, rows, at)


def _deal(pool: Pool, subjects: Subjects, rows: Joined, at: Positions) -> Iterator[Chunk]:
    """The rows of a chunk, center by center."""
    groups = subjects.group[at] if subjects.group is not None else None
    if pool.center is not None or subjects.center is None:
        yield Chunk(pool.centers[0], rows.keys, rows.labels, rows.views, groups, subjects.groups)
        return
    codes = subjects.center[at]
    if (codes == codes[0]).all():
        center = subjects.centers[codes[0]]
        yield Chunk(center, rows.keys, rows.labels, rows.views, groups, subjects.groups)
        return
    for code in np.unique(codes):
        mine = np.flatnonzero(codes == code)
        views = {name: block[mine] for name, block in rows.views.items()}
        yield Chunk(
            subjects.centers[code],
            rows.keys[mine],
            rows.labels,
            {name: block for name, block in views.items() if len(rows.views) == 1 or not np.isnan(block).all()},
            None if groups is None else groups[mine],
            subjects.groups,
            mine,
        )


def _refuse_strangers(pool: Pool, keys: Keys, subjects: Subjects) -> None:
    for file in pool.files.values():
        refuse_strangers(file.table, keys, subjects.table)


def _refuse_outside(pool: Pool, rows: Joined, bounds: Bounds) -> None:
    for name, block in rows.views.items():
        if name not in bounds:
            continue
        low, high = bounds[name].T
        outside = (block < low) | (block > high)
        if outside.any():
            row, column = (int(i) for i in np.argwhere(outside)[0])
            table, label = pool.files[name].table, rows.labels[row].as_py()
            raise UserError(
                f"{table.label}: {places_of(table, [label], 1)[label]}, column {pool.files[name].columns[column]!r}: "
                f"{block[row, column]:g} lies outside the declared range [{low[column]:g}, {high[column]:g}]; "
                "correct the cell, or widen the range if such values are possible"
            )
