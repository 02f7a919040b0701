"""Files about the same subjects side by side, joined by id, in bounded memory.

The ids alone are read first (a quarter of the cost of a scan) and give the *spine*: all subjects in one order, eight
bytes each. Files that run along the spine, with gaps or without, are then streamed; only a file in another order
waits on disk (:mod:`vedute.data.spill`). A single file needs no spine.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import ExitStack, closing
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from vedute.data.ids import KeyIndex, Keys, Positions, hash_ids, repeated
from vedute.data.readers import Rows, prefetch, read
from vedute.data.spill import Spill
from vedute.data.subjects import refuse_repeated
from vedute.data.table import TableFile
from vedute.model.parameters import Array

STEP_CELLS = 1 << 19  # numbers of a chunk: 4 MB
STEP_ROWS = 1 << 14


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


def fit_in(spine: Keys, keys: Keys) -> tuple[Keys, Positions, Positions, bool]:
    """Fit ``keys`` into ``spine``: the new spine, where the old one was opened (as for ``np.insert``), the places of
    ``keys`` in the new spine, and whether they run along it.

    New keys go right behind the one they follow in their own list, so that two lists with different gaps stay in
    order; if the lists disagree, new keys go to the end.
    """
    if not len(spine) or np.array_equal(spine, keys):
        return keys, np.empty(0, dtype=np.intp), np.arange(len(keys)), True
    at = KeyIndex(spine).find(keys)
    known = at >= 0
    ordered = bool(np.all(np.diff(at[known]) > 0))
    if known.all():
        return spine, np.empty(0, dtype=np.intp), at, ordered
    if ordered:
        behind = np.maximum.accumulate(at) + 1  # absent keys are -1, so this is the last known one before them
        added = behind[~known]
        at[~known] = added
        at += np.cumsum(~known)
        at[~known] -= 1
    else:
        added = np.full(int((~known).sum()), len(spine))
        at[~known] = len(spine) + np.arange(len(added))
    grown = np.insert(spine, added, keys[~known])
    return grown, added, at, ordered


def _along(files: Mapping[str, ViewFile], spine: Spine) -> Iterator[Joined]:
    import pyarrow as pa

    width = sum(len(file.columns) for file in files.values())
    step = int(np.clip(STEP_CELLS // width, 16, STEP_ROWS))
    with ExitStack() as stack:
        streams: dict[str, Rows] = {}
        spills: dict[str, Spill] = {}
        index = KeyIndex(spine.keys)
        for name, file in files.items():
            if spine.ordered[name]:
                streams[name] = Rows(file.table, stack.enter_context(closing(prefetch(file.read()))))
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
