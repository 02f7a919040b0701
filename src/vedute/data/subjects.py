"""The table of subjects: which center and which group each belongs to, in a few bytes a subject."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from vedute.data.ids import Keys, hash_ids, repeated
from vedute.data.readers import place, places_of, read
from vedute.data.table import Stamp, TableFile, stamp, unchanged
from vedute.errors import UserError

Codes = NDArray[np.int32]


@dataclass(frozen=True)
class Subjects:
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


def read_subjects(table: TableFile, center: str | None, group: str | None) -> Subjects:
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
    return Subjects(
        table,
        together,
        codes[center][0] if center is not None else None,
        codes[center][1] if center is not None else (),
        codes[group][0] if group is not None else None,
        codes[group][1] if group is not None else (),
        before,
    )


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
    labels = _labels_of(table, keys)
    lines = places_of(table, labels[:5])
    listed = ", ".join(f"{label!r} ({lines[label]})" for label in labels[:5])
    more = f" and {len(labels) - 5} more" if len(labels) > 5 else ""
    raise UserError(
        f"{table.label}: column {table.id!r}: ids occur more than once: {listed}{more}; "
        "a subject has one row in a table"
    )


def refuse_strangers(table: TableFile, keys: Keys, subjects: TableFile) -> None:
    """Name the ids of a view that are among ``keys``, which the table of subjects does not list."""
    labels = _labels_of(table, keys)
    if not labels:
        return
    lines = places_of(table, labels[:5], 1)
    listed = ", ".join(f"{label!r} ({lines[label]})" for label in labels[:5])
    more = f" and {len(labels) - 5} more" if len(labels) > 5 else ""
    raise UserError(
        f"{table.label}: column {table.id!r}: ids that {subjects.label} does not list: {listed}{more}; "
        f"add them there, or remove the rows"
    )


def _labels_of(table: TableFile, keys: Keys) -> Sequence[str]:
    """The ids behind some keys, by another look at the id column."""
    found: dict[str, None] = {}
    for batch in read(table):
        rows = np.flatnonzero(np.isin(hash_ids(batch.labels), keys))
        found.update(dict.fromkeys(batch.labels.take(rows).to_pylist()))
    return list(found)
