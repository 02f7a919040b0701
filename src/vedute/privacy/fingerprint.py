"""A name for a data set that tells nothing about it: a keyed hash of its rows, whatever their order.

The key is random and stays at the center, so a copy of a ledger cannot be used to test guesses about rows.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

SALT_BYTES = 32


def salt_of(home: Path) -> bytes:
    """The center's secret key, made on first use."""
    path = home / "salt"
    home.mkdir(parents=True, exist_ok=True)
    fresh = home / f"salt.{os.getpid()}"
    if not path.exists():
        with open(os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as file:
            file.write(os.urandom(SALT_BYTES))
            os.fsync(file.fileno())
        try:
            os.link(fresh, path)  # fails where another process was first: its key is the one
        except FileExistsError:
            pass
        finally:
            fresh.unlink()
    return path.read_bytes()


class Fingerprint:
    """Adds rows chunk by chunk; rows are summed as hashes, so neither order nor chunking matters."""

    def __init__(self, salt: bytes) -> None:
        self._salt = salt
        self._sum = 0
        self._rows = 0

    def add(self, views: Mapping[str, NDArray[np.float64]]) -> None:
        """Rows of the same subjects in all views; a view that is absent is one they lack."""
        names = sorted(views)
        prefix = "\0".join(f"{name}:{views[name].shape[1]}" for name in names).encode()
        block = np.hstack([np.asarray(views[name], dtype="<f8") for name in names]) + 0.0  # -0.0 becomes 0.0
        block[np.isnan(block)] = np.nan  # one kind of NaN
        for row in block:
            hashed = hashlib.blake2b(prefix + row.tobytes(), key=self._salt, digest_size=32).digest()
            self._sum = (self._sum + int.from_bytes(hashed, "big")) % (1 << 256)
        self._rows += len(block)

    def name(self) -> str:
        """The fingerprint of all rows so far."""
        total = self._sum.to_bytes(32, "big") + self._rows.to_bytes(8, "big")
        return hashlib.blake2b(total, key=self._salt, digest_size=32).hexdigest()
