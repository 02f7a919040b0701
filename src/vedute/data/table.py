"""One file of a study: how it is written, its header, its rows in checked batches, and where in the file they stand."""

from __future__ import annotations

import os
import queue
import threading
from collections import Counter
from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import islice, starmap
from pathlib import Path
from types import ModuleType
from typing import Any, TypeVar

import numpy as np

from vedute.data import csv_reader, mudata_reader, parquet_reader
from vedute.data.csv_reader import bad_cell, find_delimiter, lines_of, numbered_rows, take_sample
from vedute.errors import UserError
from vedute.model.parameters import Array

SUFFIXES = {
    ".csv": "text", ".tsv": "text", ".tab": "text", ".txt": "text",
    ".parquet": "parquet", ".pq": "parquet", ".h5mu": "mudata",
}  # fmt: skip
Piece = tuple[Any, Array, Mapping[str, Any]]  # what a reader of one kind of file gives: the fields of a batch
Stamp = tuple[int, int, int] | None
T = TypeVar("T")
READERS: dict[str, ModuleType] = {"text": csv_reader, "parquet": parquet_reader, "mudata": mudata_reader}
AHEAD = 2  # batches that the reader prepares while the last one is folded


@dataclass(frozen=True)
class TableFile:
    """A table on disk. ``delimiter`` and ``decimal`` are None where the file itself shall tell."""

    path: Path
    label: str  # as the study file writes it: what messages say
    id: str = "id"
    delimiter: str | None = None
    decimal: str | None = None
    modality: str | None = None  # of a MuData file

    @property
    def kind(self) -> str:
        """``text``, ``parquet`` or ``mudata``, by the suffix."""
        suffixes = [suffix.lower() for suffix in self.path.suffixes]
        last = suffixes[-1] if suffixes else ""
        if last == ".gz" and len(suffixes) > 1 and SUFFIXES.get(suffixes[-2]) == "text":
            return "text"
        if last in SUFFIXES:
            return SUFFIXES[last]
        raise UserError(
            f"{self.label}: cannot tell the kind of file from its name; "
            "use .csv, .tsv, .txt (also with .gz), .parquet or .h5mu"
        )


@dataclass(frozen=True)
class Batch:
    """Some consecutive rows of a table: ids as a pyarrow string array, numbers, and columns kept as text."""

    labels: Any
    block: Array
    text: Mapping[str, Any] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.labels)


def require_file(table: TableFile) -> None:
    """Refuse a path that cannot be read as a file, or that is empty."""
    label = table.label
    try:
        if table.path.is_dir():
            raise UserError(f"{label}: is a directory; name the file inside it")
        if not table.path.exists():
            raise UserError(f"{label}: there is no such file (looked at {table.path}); correct the path")
        if not table.path.is_file():
            raise UserError(f"{label}: is not a regular file; copy its content into one")
        if table.path.stat().st_size == 0:
            raise UserError(f"{label}: the file is empty; export it again, or take it out of the study")
        with table.path.open("rb"):
            pass
    except PermissionError:
        raise UserError(f"{label}: no permission to read the file; ask for read access") from None
    except (OSError, ValueError) as error:
        if isinstance(error, UserError):
            raise
        raise UserError(f"{label}: cannot be read ({_reason(error)}); correct the path") from None


def _reason(error: Exception) -> str:
    return (error.strerror if isinstance(error, OSError) else None) or str(error)


def stamp(path: Path) -> Stamp:
    """What changes when a file does: inode, size and time of the last change."""
    try:
        status = os.stat(path)
    except (OSError, ValueError):
        return None
    return status.st_ino, status.st_size, status.st_mtime_ns


@contextmanager
def unchanged(tables: Iterable[TableFile], since: Mapping[Path, Stamp] | None = None) -> Iterator[None]:
    """Refuse what was read if a file changed meanwhile, or since it was read before."""
    files = {table.path: table for table in tables}
    before = {path: (since or {}).get(path, stamp(path)) for path in files}

    def check() -> None:
        for path, table in files.items():
            if stamp(path) != before[path]:
                raise UserError(
                    f"{table.label}: the file changed while it was read; wait until its export has ended, "
                    "or work on a copy, and run again"
                ) from None

    try:
        yield
    except Exception:
        check()  # a half-written file breaks in many ways: the change is the cause to name
        raise
    check()


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


def places_of(table: TableFile, labels: Sequence[str], limit: int) -> dict[str, str]:
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
