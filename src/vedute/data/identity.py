"""The identity of a center's rows: gathered by the one fold, kept with the run, compared whenever rows are read again.

Neither the order of the rows nor the size of the chunks nor the format of the files matters. It is made of patients'
values, so the *digest* stays at the center; it guards against accidents, not against forgers. The *name* under which a
ledger is kept may be copied elsewhere, so it is a hash of values alone under a random key that stays at the center:
whoever has a copy cannot test guesses about rows.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from vedute.data.subjects import Keys, mix
from vedute.model.parameters import Array

KEY_BYTES = 32
_NAN_BITS = np.array([np.nan]).view(np.uint64)  # subtracted: a missing cell adds nothing, like an absent view
_TWEAK = np.uint64(0xD6E8FEB86659FD93)


class RowIdentity:
    """Adds up hashes of rows; with a ``key`` also the keyed ones that name a ledger, which take much longer."""

    def __init__(self, columns: Mapping[str, Sequence[str]], key: bytes | None = None) -> None:
        self.subjects = 0
        self._weights = {view: _weights(view, names) for view, names in columns.items()}
        self._sums = np.zeros(2, dtype=np.uint64)
        self._key = key
        self._keyed = self._keyed_rows = 0

    def add(self, views: Mapping[str, Array], keys: Keys) -> None:
        """Some subjects: their row-aligned views, and their ids as keys."""
        rows = keys.copy()
        for name, block in views.items():
            weights = self._weights[name]
            bits = np.ascontiguousarray(block).view(np.uint64)
            rows += np.einsum("ij,j->i", bits, weights) - _NAN_BITS * weights.sum()
        rows = mix(rows)
        self._sums += np.array([rows.sum(), mix(rows ^ _TWEAK).sum()], dtype=np.uint64)
        self.subjects += len(keys)
        if self._key is not None and views:
            self.add_keyed(views)

    def add_keyed(self, views: Mapping[str, Array]) -> None:
        """The same for the name of a ledger alone, which does not ask for ids."""
        assert self._key is not None
        names = sorted(views)
        prefix = "\0".join(f"{name}:{views[name].shape[1]}" for name in names).encode()
        block = np.hstack([np.asarray(views[name], dtype="<f8") for name in names]) + 0.0  # -0.0 becomes 0.0
        block[np.isnan(block)] = np.nan  # one kind of NaN
        for row in block:
            hashed = hashlib.blake2b(prefix + row.tobytes(), key=self._key, digest_size=32).digest()
            self._keyed = (self._keyed + int.from_bytes(hashed, "big")) % (1 << 256)
        self._keyed_rows += len(block)

    def digest(self) -> str:
        """Ids and values of all subjects so far; every cell is weighted by its view and column."""
        return hashlib.sha256(self._sums.tobytes() + self.subjects.to_bytes(8, "little")).hexdigest()

    def name(self) -> str:
        """Values of all subjects so far under the center's key."""
        assert self._key is not None
        total = self._keyed.to_bytes(32, "big") + self._keyed_rows.to_bytes(8, "big")
        return hashlib.blake2b(total, key=self._key, digest_size=32).hexdigest()


def key_of(home: Path) -> bytes:
    """The center's secret key, made on first use."""
    path = home / "salt"
    home.mkdir(parents=True, exist_ok=True)
    fresh = home / f"salt.{os.getpid()}"
    if not path.exists():
        with open(os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as file:
            file.write(os.urandom(KEY_BYTES))
            os.fsync(file.fileno())
        try:
            os.link(fresh, path)  # fails where another process was first: its key is the one
        except FileExistsError:
            pass
        finally:
            fresh.unlink()
    return path.read_bytes()


def _weights(view: str, names: Sequence[str]) -> Keys:
    """An odd number for each column: multiplying by it loses no bit of the cell."""
    digests = (hashlib.blake2b(f"{view}\0{name}".encode(), digest_size=8).digest() for name in names)
    return np.array([int.from_bytes(digest, "little") | 1 for digest in digests], dtype=np.uint64)
