"""Rows of a file in another order than the rest wait on disk until their turn comes."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from typing import Any

import numpy as np

from vedute.data.ids import KeyIndex, Positions, hash_ids
from vedute.data.table import Batch
from vedute.model.parameters import Array

CELLS = 1 << 22  # numbers gathered before they are sorted into buckets: 32 MB


class Spill:
    """The rows of one file in buckets of ``step`` consecutive places of the join.

    The file on disk has no name (nothing is left behind, whatever happens) and only this process can read it.
    """

    def __init__(self, batches: Iterator[Batch], index: KeyIndex, step: int) -> None:
        self._step = step
        self._file = tempfile.TemporaryFile(prefix="vedute-")  # noqa: SIM115 - close() closes it
        self._segments: dict[int, list[tuple[int, int]]] = {}
        self._schema: Any = None
        gathered: list[Batch] = []
        for batch in batches:
            gathered.append(batch)
            if sum(part.block.size for part in gathered) >= CELLS:
                self._write(gathered, index)
                gathered = []
        if gathered:
            self._write(gathered, index)

    def _write(self, batches: list[Batch], index: KeyIndex) -> None:
        import pyarrow as pa

        labels = pa.concat_arrays([batch.labels for batch in batches])
        places = index.find(hash_ids(labels))
        order = np.argsort(places, kind="stable")
        block = np.concatenate([batch.block for batch in batches])[order]
        places = places[order]
        values = pa.FixedSizeListArray.from_arrays(pa.array(block.ravel()), block.shape[1])
        rows = pa.record_batch([pa.array(places), labels.take(pa.array(order)), values], ["place", "id", "values"])
        self._schema = rows.schema
        buckets = places // self._step
        starts = np.flatnonzero(np.diff(buckets, prepend=-1))
        for start, end in zip(starts, [*starts[1:], len(places)], strict=True):
            data = rows.slice(start, end - start).serialize()
            self._segments.setdefault(int(buckets[start]), []).append((self._file.tell(), data.size))
            self._file.write(data)

    def take(self, bucket: int) -> tuple[Positions, Any, Array]:
        """Places, ids and numbers of the rows of one bucket, by place."""
        import pyarrow as pa

        parts = []
        for offset, size in self._segments[bucket]:
            self._file.seek(offset)
            parts.append(pa.ipc.read_record_batch(pa.py_buffer(self._file.read(size)), self._schema))
        places = np.concatenate([part.column("place").to_numpy() for part in parts])
        labels = pa.concat_arrays([part.column("id") for part in parts])
        width = self._schema.field("values").type.list_size
        block = np.concatenate([part.column("values").flatten().to_numpy().reshape(-1, width) for part in parts])
        order = np.argsort(places)
        return places[order], labels.take(pa.array(order)), block[order]

    def close(self) -> None:
        """Give the disk back."""
        self._file.close()
