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


NEAR = 1 << 12  # keys looked up together in a window that stays in the cache
FAR = 1 << 18  # keys looked up together anywhere


class KeyIndex:
    """Finds keys in a list: at once where both run in the same order, nearby where gaps differ, else by bisection."""

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
        found = np.empty(len(wanted), dtype=np.intp)
        for start in range(0, len(wanted), NEAR):
            found[start : start + NEAR] = self._near(wanted[start : start + NEAR])
        far = np.flatnonzero(found < 0)
        for start in range(0, len(far), FAR):
            piece = far[start : start + FAR]
            found[piece] = self._anywhere(wanted[piece])
        if len(far) and found[-1] >= 0:
            self._next = int(found[-1]) + 1
        return found

    def _near(self, wanted: Keys) -> Positions:
        """Look only where the last search ended, and a little ahead."""
        window = self.keys[self._next : self._next + 2 * NEAR]
        order = np.argsort(window)
        found = _bisect(window[order], order, wanted)
        place = np.where(found >= 0, found + self._next, -1)
        self._next = max(self._next, int(place.max(initial=-1)) + 1)
        return place

    def _anywhere(self, wanted: Keys) -> Positions:
        if self._order is None or self._sorted is None:
            self._order = np.argsort(self.keys)
            self._sorted = self.keys[self._order]
        ascending = np.argsort(wanted)  # neighbours are then found on the same page of memory
        found = np.empty(len(wanted), dtype=np.intp)
        found[ascending] = _bisect(self._sorted, self._order, wanted[ascending])
        return found


def _bisect(ordered: Keys, order: Positions, wanted: Keys) -> Positions:
    if not len(ordered):
        return np.full(len(wanted), -1, dtype=np.intp)
    at = np.minimum(np.searchsorted(ordered, wanted), len(ordered) - 1)
    return np.where(ordered[at] == wanted, order[at], -1)
