"""Tables of any kind in chunks: one door for CSV, Parquet and MuData, with the checks that all of them need."""

from __future__ import annotations

import queue
import threading
from collections import Counter
from collections.abc import Generator, Iterator, Sequence
from itertools import islice, starmap
from types import ModuleType
from typing import Any, TypeVar

import numpy as np

from vedute.data import mudata_reader, parquet_reader, text_reader
from vedute.data.sniff import find_delimiter, take_sample
from vedute.data.table import Batch, TableFile, require_file
from vedute.data.text_problems import bad_cell, lines_of, numbered_rows
from vedute.errors import UserError
from vedute.model.parameters import Array

T = TypeVar("T")
READERS: dict[str, ModuleType] = {"text": text_reader, "parquet": parquet_reader, "mudata": mudata_reader}
AHEAD = 2  # batches that the reader prepares while the last one is folded


def header(table: TableFile) -> tuple[str, ...]:
    """Names of all columns of a table, the id among them."""
    reader = READERS[table.kind]
    require_file(table)
    names: tuple[str, ...] = reader.header(table)
    twice = [name for name, count in Counter(names).items() if count > 1 and name]
    if twice:
        raise UserError(f"{table.label}: column {twice[0]!r} occurs twice; rename one of them")
    return names


def read(table: TableFile, numbers: Sequence[str] = (), text: Sequence[str] = ()) -> Iterator[Batch]:
    """Checked batches: every row has an id, every number is finite or NaN."""
    reader, start = READERS[table.kind], 0
    require_file(table)
    for batch in starmap(Batch, reader.read(table, numbers, text)):
        _check_ids(table, batch, start)
        _check_finite(table, batch.block, numbers, start)
        yield batch
        start += len(batch)


def _check_ids(table: TableFile, batch: Batch, start: int) -> None:
    from pyarrow import compute

    if len(batch) and compute.min(compute.binary_length(batch.labels)).as_py() == 0:
        row = compute.index(compute.binary_length(batch.labels), 0).as_py()
        raise UserError(
            f"{table.label}: {place(table, start + row)}, column {table.id!r}: the id is empty; "
            "give the subject an id or remove the row"
        )


def _check_finite(table: TableFile, block: Array, numbers: Sequence[str], start: int) -> None:
    with np.errstate(invalid="ignore", over="ignore"):
        if np.isfinite(block.sum()) or not np.isinf(block).any():  # the sum spares a mask when all is well
            return
    row, column = (int(i) for i in np.argwhere(np.isinf(block))[0])
    reason = bad_cell(str(block[row, column]), ".")
    raise UserError(f"{table.label}: {place(table, start + row)}, column {numbers[column]!r}: {reason}")


def place(table: TableFile, row: int) -> str:
    """Where a row (counted from 0) stands: its line in a text file, its number elsewhere."""
    if table.kind == "text":
        rows = numbered_rows(table, find_delimiter(take_sample(table), table))
        line, _ = next(islice(rows, row + 1, None), (row + 2, []))
        return f"line {line}"
    return f"row {row + 1}"


def places_of(table: TableFile, labels: Sequence[str], limit: int = 2) -> dict[str, str]:
    """Where given ids stand in a table, in words."""
    if table.kind == "text":
        found = lines_of(table, find_delimiter(take_sample(table), table), labels, limit)
        word = "line"
    else:
        found, word = {label: [] for label in labels}, "row"
        for row, label in enumerate(label for batch in read(table) for label in batch.labels.to_pylist()):
            if label in found and len(found[label]) < limit:
                found[label].append(row + 1)
    return {
        label: (f"{word} " if len(rows) < 2 else f"{word}s ") + " and ".join(map(str, rows))
        for label, rows in found.items()
    }


def prefetch(items: Iterator[T]) -> Generator[T]:
    """The same items, made by a thread a little ahead of their use, so that parsing and folding overlap."""
    ready: queue.Queue[Any] = queue.Queue(AHEAD)
    end = object()
    stop = threading.Event()

    def work() -> None:
        try:
            for item in items:
                ready.put((item, None))
                if stop.is_set():
                    return
            ready.put((end, None))
        except BaseException as error:  # handed over, whatever it is
            ready.put((end, error))

    thread = threading.Thread(target=work, name="vedute-reader", daemon=True)
    thread.start()
    try:
        while True:
            item, error = ready.get()
            if error is not None:
                raise error
            if item is end:
                return
            yield item
    finally:
        stop.set()
        while thread.is_alive():  # make room, so that a thread waiting to hand over can leave
            try:
                ready.get(timeout=0.01)
            except queue.Empty:
                continue
        thread.join()


class Rows:
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
