"""Subject ids as 64-bit keys: eight bytes a subject, whatever the ids look like, so that millions fit in memory.

Two different ids share a key with probability n^2 / 2^65 (7e-7 for five million subjects). Where equal keys mean an
error of the user (a duplicate) the ids themselves are compared before anyone is blamed.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

Keys = NDArray[np.uint64]
Positions = NDArray[np.intp]

_ODD_1 = np.uint64(0xBF58476D1CE4E5B9)
_ODD_2 = np.uint64(0x94D049BB133111EB)
_GOLDEN = np.uint64(0x9E3779B97F4A7C15)


def mix(values: Keys) -> Keys:
    """The finaliser of splitmix64 (Steele et al. 2014): a bijection that spreads every bit over all bits."""
    values = (values ^ (values >> np.uint64(30))) * _ODD_1
    values = (values ^ (values >> np.uint64(27))) * _ODD_2
    return values ^ (values >> np.uint64(31))


def hash_ids(ids: Any) -> Keys:
    """Keys of a pyarrow string array without nulls, from its buffers: eight bytes of all ids at a time."""
    n = len(ids)
    if n == 0:
        return np.empty(0, dtype=np.uint64)
    _, offset_buffer, data = ids.buffers()
    offsets = np.frombuffer(offset_buffer, dtype=np.int32)[ids.offset : ids.offset + n + 1].astype(np.int64)
    low, high = int(offsets[0]), int(offsets[-1])
    padded = np.zeros(high - low + 8, dtype=np.uint8)  # eight spare bytes: the last word may reach beyond the end
    if high > low:
        padded[:-8] = np.frombuffer(data, dtype=np.uint8)[low:high]
    words = np.ndarray((len(padded) - 7,), dtype="<u8", buffer=padded.data, strides=(1,))
    start, length = offsets[:-1] - low, np.diff(offsets)
    keys = mix(length.astype(np.uint64) * _GOLDEN + _GOLDEN)
    step = 0
    while True:
        active = slice(None) if (length > step).all() else np.flatnonzero(length > step)
        if isinstance(active, np.ndarray) and not len(active):
            return keys
        word = words[start[active] + step].astype(np.uint64)
        spare = np.uint64(8) * np.clip(8 - (length[active] - step), 0, 7).astype(np.uint64)
        keys[active] = mix(keys[active] ^ (word << spare))
        step += 8


def repeated(keys: Keys) -> Keys:
    """The keys that occur more than once. Sorts ``keys`` in place: there may be many, and a copy would double them."""
    keys.sort()
    return np.unique(keys[1:][keys[1:] == keys[:-1]])


class KeyIndex:
    """Finds keys in a list: at once where both run in the same order, else by bisection."""

    def __init__(self, keys: Keys) -> None:
        self.keys = keys
        self._next = 0
        self._order: Positions | None = None
        self._sorted: Keys | None = None

    def find(self, wanted: Keys) -> Positions:
        """Positions of ``wanted`` in the list, -1 where absent."""
        end = self._next + len(wanted)
        if np.array_equal(self.keys[self._next : end], wanted):
            self._next = end
            return np.arange(end - len(wanted), end)
        found = self._bisect(wanted)
        self._next = int(found[-1]) + 1 if len(found) else self._next
        return found

    def _bisect(self, wanted: Keys) -> Positions:
        if self._order is None or self._sorted is None:
            self._order = np.argsort(self.keys, kind="stable")
            self._sorted = self.keys[self._order]
        if not len(self.keys):
            return np.full(len(wanted), -1, dtype=np.intp)
        at = np.minimum(np.searchsorted(self._sorted, wanted), len(self.keys) - 1)
        return np.where(self._sorted[at] == wanted, self._order[at], -1)
