"""Subjects: their ids as 64-bit keys, and the table that tells the center and the group of each.

A key takes eight bytes, whatever the ids look like, so that millions fit in memory. Two different ids share a key
with probability n^2 / 2^65 (7e-7 for five million subjects). Where equal keys mean an error of the user (a duplicate)
the ids themselves are compared before anyone is blamed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from vedute.data.problems import Problems, name_problems, nearest, some
from vedute.data.study_file import PoolText
from vedute.data.table import Stamp, TableFile, header, place, places_of, read, stamp, unchanged
from vedute.errors import UserError

Keys = NDArray[np.uint64]
Positions = NDArray[np.intp]
_ODD_1 = np.uint64(0xBF58476D1CE4E5B9)
_ODD_2 = np.uint64(0x94D049BB133111EB)
_GOLDEN = np.uint64(0x9E3779B97F4A7C15)
NEAR = 1 << 12  # keys looked up together in a window that stays in the cache
FAR = 1 << 18  # keys looked up together anywhere
Codes = NDArray[np.int32]


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


def fit_in(spine: Keys, keys: Keys) -> tuple[Keys, Positions, Positions, bool]:
    """Fit ``keys`` into ``spine``: the new spine, where the old one was opened (as for ``np.insert``), the places of
    ``keys`` in the new spine, and whether they run along it.

    New keys go right behind the one they follow in their own list, so that two lists with different gaps stay in
    order; if the lists disagree, new keys go to the end.
    """
    if not len(spine) or np.array_equal(spine, keys):
        return keys, np.empty(0, dtype=np.intp), np.arange(len(keys)), True
    at = KeyIndex(spine).find(keys)
    known = at >= 0
    ordered = bool(np.all(np.diff(at[known]) > 0))
    if known.all():
        return spine, np.empty(0, dtype=np.intp), at, ordered
    if ordered:
        behind = np.maximum.accumulate(at) + 1  # absent keys are -1, so this is the last known one before them
        added = behind[~known]
        at[~known] = added
        at += np.cumsum(~known)
        at[~known] -= 1
    else:
        added = np.full(int((~known).sum()), len(spine))
        at[~known] = len(spine) + np.arange(len(added))
    grown = np.insert(spine, added, keys[~known])
    return grown, added, at, ordered


@dataclass(frozen=True)
class SubjectTable:
    """Keys of the subjects in the order of the file, with the codes of their centers and groups."""

    table: TableFile
    keys: Keys
    center: Codes | None
    centers: tuple[str, ...]
    group: Codes | None
    groups: tuple[str, ...]
    stamp: Stamp

    def __len__(self) -> int:
        return len(self.keys)


def read_subjects(table: TableFile, center: str | None, group: str | None) -> SubjectTable:
    """Read the ids with the columns ``center`` and ``group``; an id may stand there once only."""
    text = [name for name in dict.fromkeys((center, group)) if name is not None]
    coders = {name: _Coder() for name in text}
    keys: list[Keys] = []
    with unchanged([table]):
        before = stamp(table.path)
        for batch in read(table, text=text):
            keys.append(hash_ids(batch.labels))
            for name in text:
                coders[name].add(batch.text[name])
    together = np.concatenate(keys) if keys else np.empty(0, dtype=np.uint64)
    if not len(together):
        raise UserError(f"{table.label}: lists no subject; export it again")
    refuse_repeated(table, repeated(together.copy()))
    codes = {name: coder.finish() for name, coder in coders.items()}
    if center is not None:
        _refuse_no_center(table, center, codes[center])
    return SubjectTable(
        table,
        together,
        codes[center][0] if center is not None else None,
        codes[center][1] if center is not None else (),
        codes[group][0] if group is not None else None,
        codes[group][1] if group is not None else (),
        before,
    )


def subjects_of(pool: PoolText, problems: Problems) -> SubjectTable | None:
    """The table of subjects of some files read, with every complaint about it noted; None if there is none."""
    said = pool.subjects
    if said is None:
        return None
    try:
        names = header(said.table)
        wanted = [column for column in (said.center, said.group) if column is not None]
        missing = [column for column in wanted if column not in names]
        for column in missing:
            problems.add(
                f"{said.table.label}: no column {column!r} among {some(names)}{nearest(column, names)}; "
                "correct [subjects] in the study file"
            )
        if missing or (pool.center is None and said.center is None):
            return None
        subjects = read_subjects(said.table, said.center if pool.center is None else None, said.group)
    except UserError as error:
        problems.catch(error)
        return None
    problems.add(*name_problems(subjects.centers, "center", f"{said.table.label}: column {said.center!r}"))
    return subjects


class _Coder:
    """Texts to small numbers, batch by batch; the codes follow the sorted texts, not the order of the rows."""

    def __init__(self) -> None:
        self._known: dict[str, int] = {}
        self._codes: list[Codes] = []

    def add(self, column: Any) -> None:
        encoded = column.dictionary_encode()
        names = [name.strip() for name in encoded.dictionary.to_pylist()]
        translate = np.array([self._known.setdefault(name, len(self._known)) for name in names], dtype=np.int32)
        self._codes.append(translate[encoded.indices.to_numpy()])

    def finish(self) -> tuple[Codes, tuple[str, ...]]:
        names = tuple(sorted(self._known))
        rank = np.empty(len(names), dtype=np.int32)
        rank[[self._known[name] for name in names]] = np.arange(len(names))
        return rank[np.concatenate(self._codes)], names


def _refuse_no_center(table: TableFile, column: str, coded: tuple[Codes, tuple[str, ...]]) -> None:
    codes, names = coded
    if names[0] == "":  # the empty text sorts first
        row = int(np.flatnonzero(codes == 0)[0])
        raise UserError(
            f"{table.label}: {place(table, row)}, column {column!r}: the subject has no center; "
            "fill the cell or remove the row"
        )


def refuse_repeated(table: TableFile, keys: Keys) -> None:
    """Name the ids that occur more than once."""
    if not len(keys):
        return
    raise UserError(
        f"{table.label}: column {table.id!r}: ids occur more than once: {_placed(table, _labels_of(table, keys), 2)}; "
        "a subject has one row in a table"
    )


def refuse_strangers(table: TableFile, keys: Keys, subjects: TableFile) -> None:
    """Name the ids of a view that are among ``keys``, which the table of subjects does not list."""
    labels = _labels_of(table, keys)
    if not labels:
        return
    raise UserError(
        f"{table.label}: column {table.id!r}: ids that {subjects.label} does not list: {_placed(table, labels, 1)}; "
        "add them there, or remove the rows"
    )


def _placed(table: TableFile, labels: Sequence[str], each: int) -> str:
    """The first few ids, with the first ``each`` places where one stands."""
    lines = places_of(table, labels[:5], each)
    more = f" and {len(labels) - 5} more" if len(labels) > 5 else ""
    return ", ".join(f"{label!r} ({lines[label]})" for label in labels[:5]) + more


def _labels_of(table: TableFile, keys: Keys) -> Sequence[str]:
    """The ids behind some keys, by another look at the id column."""
    found: dict[str, None] = {}
    for batch in read(table):
        rows = np.flatnonzero(np.isin(hash_ids(batch.labels), keys))
        found.update(dict.fromkeys(batch.labels.take(rows).to_pylist()))
    return list(found)
