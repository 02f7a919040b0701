"""A hash of the rows of a center, to notice that a run is resumed with other data.

It does not depend on the order of the rows, the size of the chunks or the format of the files, and is gathered
while the rows stream by. It guards against accidents, not against forgers, and it is made of patients' values: it
stays at the center.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence

import numpy as np

from vedute.data.subjects import Keys, mix
from vedute.model.parameters import Array

_NAN_BITS = np.array([np.nan]).view(np.uint64)  # subtracted: a missing cell adds nothing, like an absent view
_TWEAK = np.uint64(0xD6E8FEB86659FD93)


class Fingerprint:
    """Sums over the subjects of a hash of id and numbers; every cell is weighted by its view and column."""

    def __init__(self, columns: Mapping[str, Sequence[str]]) -> None:
        self._weights = {view: _weights(view, names) for view, names in columns.items()}
        self._sums = np.zeros(2, dtype=np.uint64)
        self.n = 0

    def add(self, keys: Keys, views: Mapping[str, Array]) -> None:
        """Fold in some subjects."""
        rows = keys.copy()
        for name, block in views.items():
            weights = self._weights[name]
            bits = np.ascontiguousarray(block).view(np.uint64)
            rows += np.einsum("ij,j->i", bits, weights) - _NAN_BITS * weights.sum()
        rows = mix(rows)
        self._sums += np.array([rows.sum(), mix(rows ^ _TWEAK).sum()], dtype=np.uint64)
        self.n += len(keys)

    def hexdigest(self) -> str:
        """The fingerprint of all subjects so far."""
        return hashlib.sha256(self._sums.tobytes() + self.n.to_bytes(8, "little")).hexdigest()


def _weights(view: str, names: Sequence[str]) -> Keys:
    """An odd number for each column: multiplying by it loses no bit of the cell."""
    digests = (hashlib.blake2b(f"{view}\0{name}".encode(), digest_size=8).digest() for name in names)
    return np.array([int.from_bytes(digest, "little") | 1 for digest in digests], dtype=np.uint64)
