"""A file of JSON lines that forgets nothing: each line carries the hash of the one before it.

A line is on disk before ``append`` returns, and so is the *head*, a small file beside it with the number and
hash of the last line. A value is sent only afterwards. Hence, after a kill or a power cut at any moment:

* a line that is not whole and not counted in the head: its value never left, and the line is dropped;
* a whole line not yet counted in the head: it stands, as if it had been sent;
* fewer lines than the head counts, or a counted line that does not fit its hash: the file was cut or edited.
  That is an error, because spending would be forgotten otherwise.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from vedute.errors import UserError

Record = dict[str, Any]


@dataclass(frozen=True)
class Chain:
    """Verified records, and where in the file they end, if they are in one."""

    records: tuple[Record, ...] = ()
    end: int = 0

    @property
    def last(self) -> str:
        """The hash that the next record must carry."""
        return str(self.records[-1]["hash"]) if self.records else ""

    def sealed(self, record: Record) -> Record:
        """The record as the next link."""
        linked = {**record, "previous": self.last}
        return {**linked, "hash": _hash(linked)}


def line(record: Record) -> bytes:
    """The record as it stands in the file."""
    return json.dumps(record, allow_nan=False).encode() + b"\n"


def read(path: Path, copy: bool = False) -> Chain:
    """The chain in a file; a copy elsewhere has no head, and all its lines must be whole."""
    lines = path.read_bytes().splitlines(keepends=True) if path.exists() else []
    count, head = (len(lines), None) if copy else _read_head(path, len(lines))
    records: list[Record] = []
    end = 0
    for number, text in enumerate(lines, start=1):
        record = _verified(text, str(records[-1]["hash"]) if records else "")
        if record is None and number > count:
            break
        if record is None:
            raise _damaged(path, number, "is damaged or was edited, or a line before it was removed")
        records.append(record)
        end += len(text)
    if len(records) < count:
        raise _damaged(path, len(records) + 1, "is missing: the file was cut")
    if head and records[count - 1]["hash"] != head:
        raise _damaged(path, count, f"is not the one that {_head(path).name} knows")
    return Chain(tuple(records), end)


@contextmanager
def exclusive(path: Path) -> Iterator[None]:
    """Hold the file against other processes; a process that dies lets go of it."""
    try:
        import fcntl
    except ImportError as error:
        raise UserError("ledgers on disk need the file locks of Linux or macOS; on Windows use WSL") from error
    path.parent.mkdir(parents=True, exist_ok=True)
    with open(path.with_suffix(".lock"), "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def append(path: Path, chain: Chain, record: Record) -> Chain:
    """Add one record, on disk when this returns; call it within ``exclusive``."""
    sealed = chain.sealed(record)
    text = line(sealed)
    with open(path, "ab") as file:
        file.truncate(chain.end)
        file.write(text)
        _to_disk(file)
    longer = Chain((*chain.records, sealed), chain.end + len(text))
    _write_head(path, longer)
    return longer


def _hash(record: Record) -> str:
    return hashlib.sha256(json.dumps(record, sort_keys=True, allow_nan=False).encode()).hexdigest()


def _verified(text: bytes, previous: str) -> Record | None:
    """The record on a line; None where the line is not whole, was changed, or does not follow."""
    try:
        record = json.loads(text)
        content = {name: value for name, value in record.items() if name != "hash"}
        whole = text == line(record) and record["hash"] == _hash(content) and record["previous"] == previous
    except (ValueError, KeyError, AttributeError, TypeError):
        return None
    return dict(record) if whole else None


def _head(path: Path) -> Path:
    return path.with_suffix(".head")


def _read_head(path: Path, lines: int) -> tuple[int, str | None]:
    """How many lines the head counts, and the hash of the last of them."""
    head = _head(path)
    if not head.exists():
        if lines > 1:  # the first line may lack its head after a kill, later ones cannot
            raise _damaged(path, lines, f"cannot be checked: {head.name} is missing")
        return 0, None
    try:
        record = json.loads(head.read_bytes())
        return int(record["lines"]), str(record["hash"])
    except (ValueError, KeyError, TypeError) as error:
        raise _damaged(path, lines, f"cannot be checked: {head.name} is damaged") from error


def _write_head(path: Path, chain: Chain) -> None:
    fresh = path.with_suffix(".head.new")
    with open(fresh, "wb") as file:
        file.write(line({"lines": len(chain.records), "hash": chain.last}))
        _to_disk(file)
    os.replace(fresh, _head(path))
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(folder)  # the names of new files must be on disk as well as their content
    finally:
        os.close(folder)


def _to_disk(file: Any) -> None:
    file.flush()
    os.fsync(file.fileno())


def _damaged(path: Path, number: int, what: str) -> UserError:
    return UserError(
        f"{path}, line {number} {what}. Spending may have been forgotten, so nothing is released: put the "
        "file and its .head back from a backup (run folders hold copies of the file)"
    )
