"""Files that are either whole or absent: written aside, flushed to disk, renamed into place, and known by checksum."""

from __future__ import annotations

import hashlib
import io
import json
import os
import secrets
import zipfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from vedute.errors import UserError

Arrays = Mapping[str, NDArray[Any]]
ASIDE = ".tmp-"  # how names of unfinished files begin


def sha256(data: bytes) -> str:
    """The checksum of some bytes."""
    return hashlib.sha256(data).hexdigest()


def sha256_of(path: Path) -> str:
    """The checksum of a file of any size."""
    with _read_plainly(path), path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def write_whole(path: Path, data: bytes) -> None:
    """Put a file in place in one step; after a crash or a full disk the old one, if any, is still there."""
    with placed(path) as aside:
        aside.write_bytes(data)


def write_private(path: Path, content: bytes) -> None:
    """A file that only its owner may read, from its first moment on."""
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as file:
        file.write(content)


@contextmanager
def placed(path: Path) -> Iterator[Path]:
    """A name beside ``path`` to write to; what stands there at the end is flushed and renamed into place."""
    aside = path.with_name(f"{ASIDE}{secrets.token_hex(6)}{path.suffix}")
    try:
        with said_plainly(path):
            yield aside
            put_in_place(aside, path)
    finally:
        with suppress(OSError):
            aside.unlink()


def put_in_place(aside: Path, path: Path) -> None:
    """Flush a file that is written and give it its name, in one step."""
    with aside.open("rb") as file:
        os.fsync(file.fileno())
    os.replace(aside, path)
    flush_folder(path.parent)


def sweep(folder: Path) -> None:
    """Remove what a kill left half-written."""
    for path in folder.rglob(f"{ASIDE}*"):
        path.unlink(missing_ok=True)


@contextmanager
def said_plainly(path: Path) -> Iterator[None]:
    """Turn what the operating system refuses into a message that tells the remedy."""
    try:
        yield
    except OSError as error:
        reason = error.strerror or str(error)
        raise UserError(
            f"{path}: cannot be written ({reason}); mend that, or choose another place with --out"
        ) from None


def flush_folder(folder: Path) -> None:
    """New names must be on disk as well as the content behind them."""
    try:
        handle = os.open(folder, os.O_RDONLY)
    except OSError:
        return  # some systems cannot open folders; they also do not need it
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def read_whole(path: Path) -> bytes:
    """The bytes of a file of a run folder."""
    with _read_plainly(path):
        return path.read_bytes()


@contextmanager
def _read_plainly(path: Path) -> Iterator[None]:
    try:
        yield
    except FileNotFoundError:
        raise UserError(f"{path}: the file is missing; restore it from a copy, or fit again") from None
    except OSError as error:
        raise UserError(f"{path}: cannot be read ({error.strerror}); mend that, or restore a copy") from None


def to_json(value: object) -> bytes:
    """JSON for people: indented, any script as it is, NaN refused."""
    return (json.dumps(value, indent=2, ensure_ascii=False, allow_nan=False) + "\n").encode()


def from_json(data: bytes, path: Path) -> dict[str, Any]:
    """A JSON object."""
    try:
        found = json.loads(data)
    except (ValueError, RecursionError):
        found = None
    if not isinstance(found, dict):
        raise UserError(f"{path}: is not what vedute writes there; restore it from a copy, or fit again")
    return found


def to_npz(arrays: Arrays) -> bytes:
    """Named arrays as bytes that depend on nothing but them."""
    buffer = io.BytesIO()
    np.savez(buffer, allow_pickle=False, **arrays)
    return buffer.getvalue()


def from_npz(data: bytes, path: Path) -> dict[str, NDArray[Any]]:
    """Named arrays; never a pickle."""
    try:
        with np.load(io.BytesIO(data), allow_pickle=False) as found:
            return {name: found[name] for name in found.files}
    except (ValueError, OSError, KeyError, EOFError, zipfile.BadZipFile):
        raise UserError(f"{path}: is not what vedute writes there; restore it from a copy, or fit again") from None
