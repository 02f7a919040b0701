"""One file of a study: where it lies, how it is written, and whether it stays the same while we read."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from vedute.errors import UserError
from vedute.model.parameters import Array

SUFFIXES = {
    ".csv": "text", ".tsv": "text", ".tab": "text", ".txt": "text",
    ".parquet": "parquet", ".pq": "parquet", ".h5mu": "mudata",
}  # fmt: skip


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


Piece = tuple[Any, Array, Mapping[str, Any]]  # what a reader of one kind of file gives: the fields of a batch


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


Stamp = tuple[int, int, int] | None


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
