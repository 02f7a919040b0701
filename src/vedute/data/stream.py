"""The rows of a study as a stream of chunks, each with the center that it belongs to, in bounded memory.

Files about the same subjects are put side by side by id. The ids alone are read first (a quarter of the cost of a scan)
and give the *spine*: all subjects in one order, eight bytes each. Files that run along the spine, with gaps or without,
are then streamed; only a file in another order waits on disk. A single file needs no spine.
"""

from __future__ import annotations

import tempfile
from collections.abc import Generator, Iterator, Mapping
from contextlib import ExitStack, closing
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from vedute.data.subjects import (
    Codes,
    KeyIndex,
    Keys,
    Positions,
    SubjectTable,
    fit_in,
    hash_ids,
    refuse_repeated,
    refuse_strangers,
    repeated,
)
from vedute.data.table import Batch, TableFile, places_of, prefetch, read, unchanged
from vedute.errors import UserError
from vedute.model.parameters import Array

Bounds = Mapping[str, Array]  # view -> (d, 2), infinite where nothing is declared
STEP_CELLS = 1 << 19  # numbers of a chunk: 4 MB
STEP_ROWS = 1 << 14
SPILL_CELLS = 1 << 22  # numbers gathered before they are sorted into buckets: 32 MB


@dataclass(frozen=True)
class Pool:
    """Files that are read together: those of one center, or those of all centers with a table of subjects."""

    files: Mapping[str, ViewFile]
    center: str | None = None
    subjects: SubjectTable | None = None

    @property
    def centers(self) -> tuple[str, ...]:
        """Whose rows are in these files."""
        if self.center is not None:
            return (self.center,)
        return self.subjects.centers if self.subjects is not None else ()

    @property
    def tables(self) -> list[TableFile]:
        """All files of the pool."""
        listed = [self.subjects.table] if self.subjects is not None else []
        return [file.table for file in self.files.values()] + listed


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
    since = {subjects.table.path: subjects.stamp} if subjects is not None else None
    with unchanged(pool.tables, since):
        index = KeyIndex(subjects.keys) if subjects is not None else None
        for rows in join(pool.files):
            if bounds:
                _refuse_outside(pool, rows, bounds)
            if subjects is None or index is None:
                yield Chunk(pool.centers[0], rows.keys, rows.labels, rows.views)
                continue
            at = index.find(rows.keys)
            if at.min() < 0:
                for file in pool.files.values():
                    refuse_strangers(file.table, rows.keys[at < 0], subjects.table)
            yield from _deal(pool, subjects, rows, at)


def _deal(pool: Pool, subjects: SubjectTable, rows: Joined, at: Positions) -> Iterator[Chunk]:
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


@dataclass(frozen=True)
class ViewFile:
    """A view in a file: the table and the columns to take."""

    table: TableFile
    columns: tuple[str, ...]

    def read(self) -> Iterator[Any]:
        """Batches of ids and numbers."""
        return read(self.table, self.columns)


@dataclass(frozen=True)
class Joined:
    """Some subjects with what each view knows of them; a view of which none has a row is absent."""

    keys: Keys
    labels: Any
    views: dict[str, Array]


@dataclass(frozen=True)
class Spine:
    """All subjects of some files in one order, and for each file who is in it and whether it runs along."""

    keys: Keys
    present: Mapping[str, NDArray[np.bool_]]
    ordered: Mapping[str, bool]


def join(files: Mapping[str, ViewFile], spine: Spine | None = None) -> Iterator[Joined]:
    """Row-aligned chunks of all subjects of ``files``; ``spine`` as made by :func:`read_spine`."""
    if len(files) == 1:
        return _single(*next(iter(files.items())))
    return _along(files, spine if spine is not None else read_spine(files))


def _single(name: str, file: ViewFile) -> Iterator[Joined]:
    seen: list[Keys] = []
    with closing(prefetch(file.read())) as batches:
        for batch in batches:
            if len(batch):
                seen.append(hash_ids(batch.labels))
                yield Joined(seen[-1], batch.labels, {name: batch.block})
    refuse_repeated(file.table, repeated(np.concatenate(seen)) if seen else np.empty(0, dtype=np.uint64))


def read_spine(files: Mapping[str, ViewFile]) -> Spine:
    """Read the ids of all files; the largest file sets the order, the others are fitted in."""
    by_size = sorted(files, key=lambda name: -files[name].table.path.stat().st_size)
    keys = np.empty(0, dtype=np.uint64)
    present: dict[str, NDArray[np.bool_]] = {}
    ordered: dict[str, bool] = {}
    for name in by_size:
        mine = _read_keys(files[name].table)
        keys, added, at, ordered[name] = fit_in(keys, mine)
        if len(added):
            present = {view: np.insert(there, added, False) for view, there in present.items()}
        present[name] = np.zeros(len(keys), dtype=bool)
        present[name][at] = True
    return Spine(keys, present, ordered)


def _read_keys(table: TableFile) -> Keys:
    with closing(prefetch(read(table))) as batches:
        parts = [hash_ids(batch.labels) for batch in batches]
    keys = np.concatenate(parts) if parts else np.empty(0, dtype=np.uint64)
    refuse_repeated(table, repeated(keys.copy()))
    return keys


def _along(files: Mapping[str, ViewFile], spine: Spine) -> Iterator[Joined]:
    import pyarrow as pa

    width = sum(len(file.columns) for file in files.values())
    step = int(np.clip(STEP_CELLS // width, 16, STEP_ROWS))
    with ExitStack() as stack:
        streams: dict[str, Cursor] = {}
        spills: dict[str, Spill] = {}
        index = KeyIndex(spine.keys)
        for name, file in files.items():
            if spine.ordered[name]:
                streams[name] = Cursor(file.table, stack.enter_context(closing(prefetch(file.read()))))
            else:
                spills[name] = stack.enter_context(closing(Spill(file.read(), index, step)))
        for start in range(0, len(spine.keys), step):
            end = min(start + step, len(spine.keys))
            views: dict[str, Array] = {}
            parts: list[Any] = []
            source = np.full(end - start, -1, dtype=np.intp)  # of each id, its place among the labels gathered
            gathered = 0
            for name, file in files.items():
                rows = np.flatnonzero(spine.present[name][start:end])
                if not len(rows):
                    continue
                if name in streams:
                    labels, block = streams[name].take(len(rows))
                else:
                    _, labels, block = spills[name].take(start // step)
                views[name] = _spread(block, rows, end - start, len(file.columns))
                source[rows] = gathered + np.arange(len(rows))
                parts.append(labels)
                gathered += len(rows)
            yield Joined(spine.keys[start:end], pa.concat_arrays(parts).take(pa.array(source)), views)


def _spread(block: Array, rows: Positions, n: int, d: int) -> Array:
    if len(rows) == n:
        return block
    whole = np.full((n, d), np.nan)
    whole[rows] = block
    return whole


class Cursor:
    """A table read by demand: the next so many rows, whatever the sizes of the reader's batches."""

    def __init__(self, table: TableFile, batches: Iterator[Batch]) -> None:
        self._table = table
        self._batches = batches
        self._labels: list[Any] = []
        self._blocks: list[Array] = []
        self._held = 0

    def take(self, n: int) -> tuple[Any, Array]:
        """Ids and numbers of the next ``n`` rows."""
        import pyarrow as pa

        while self._held < n:
            batch = next(self._batches, None)
            if batch is None:
                raise UserError(f"{self._table.label}: has fewer rows than at the first look; run again on a copy")
            self._labels.append(batch.labels)
            self._blocks.append(batch.block)
            self._held += len(batch)
        labels = pa.concat_arrays(self._labels) if len(self._labels) > 1 else self._labels[0]
        block = np.concatenate(self._blocks) if len(self._blocks) > 1 else self._blocks[0]
        self._labels, self._blocks, self._held = [labels[n:]], [block[n:]], self._held - n
        return labels[:n], block[:n]


class Spill:
    """The rows of one file in buckets of ``step`` consecutive places of the join.

    The file on disk has no name (nothing is left behind, whatever happens) and only this process can read it.
    """

    def __init__(self, batches: Iterator[Batch], index: KeyIndex, step: int) -> None:
        self._step = step
        self._file = tempfile.TemporaryFile(prefix="vedute-")  # noqa: SIM115 - close() closes it
        self._segments: dict[int, list[tuple[int, int]]] = {}
        self._schema: Any = None
        gathered: list[Batch] = []
        for batch in batches:
            gathered.append(batch)
            if sum(part.block.size for part in gathered) >= SPILL_CELLS:
                self._write(gathered, index)
                gathered = []
        if gathered:
            self._write(gathered, index)

    def _write(self, batches: list[Batch], index: KeyIndex) -> None:
        import pyarrow as pa

        labels = pa.concat_arrays([batch.labels for batch in batches])
        places = index.find(hash_ids(labels))
        order = np.argsort(places, kind="stable")
        block = np.concatenate([batch.block for batch in batches])[order]
        places = places[order]
        values = pa.FixedSizeListArray.from_arrays(pa.array(block.ravel()), block.shape[1])
        rows = pa.record_batch([pa.array(places), labels.take(pa.array(order)), values], ["place", "id", "values"])
        self._schema = rows.schema
        buckets = places // self._step
        starts = np.flatnonzero(np.diff(buckets, prepend=-1))
        for start, end in zip(starts, [*starts[1:], len(places)], strict=True):
            data = rows.slice(start, end - start).serialize()
            self._segments.setdefault(int(buckets[start]), []).append((self._file.tell(), data.size))
            self._file.write(data)

    def take(self, bucket: int) -> tuple[Positions, Any, Array]:
        """Places, ids and numbers of the rows of one bucket, by place."""
        import pyarrow as pa

        parts = []
        for offset, size in self._segments[bucket]:
            self._file.seek(offset)
            parts.append(pa.ipc.read_record_batch(pa.py_buffer(self._file.read(size)), self._schema))
        places = np.concatenate([part.column("place").to_numpy() for part in parts])
        labels = pa.concat_arrays([part.column("id") for part in parts])
        width = self._schema.field("values").type.list_size
        block = np.concatenate([part.column("values").flatten().to_numpy().reshape(-1, width) for part in parts])
        order = np.argsort(places)
        return places[order], labels.take(pa.array(order)), block[order]

    def close(self) -> None:
        """Give the disk back."""
        self._file.close()
