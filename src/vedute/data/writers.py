"""Tables out, in chunks, as CSV, TSV or Parquet by the suffix of the file; whole or not at all."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from numpy.typing import NDArray

from vedute.data.files import placed
from vedute.errors import UserError
from vedute.model.parameters import Array

SUFFIXES = (".csv", ".tsv", ".parquet")


def table_suffix(path: Path) -> str:
    """The suffix of a table to write; refuses others."""
    suffix = path.suffix.lower()
    if suffix not in SUFFIXES:
        raise UserError(f"{path}: end the name in {', '.join(SUFFIXES[:-1])} or {SUFFIXES[-1]}, which says the format")
    return suffix


class TableWriter:
    """Takes chunks of labels (texts) and numbers; NaN becomes an empty cell."""

    def __init__(self, sink: Any, schema: Any) -> None:
        self._sink = sink
        self._schema = schema

    def write(self, labels: Sequence[NDArray[Any]], numbers: Array) -> None:
        """Some rows: one array for each column of labels, and a matrix of numbers."""
        import pyarrow as pa

        columns = [pa.array(values, pa.string()) for values in labels]
        columns += [pa.array(numbers[:, j], pa.float64(), from_pandas=True) for j in range(numbers.shape[1])]
        self._sink.write_table(pa.table(columns, schema=self._schema))


@contextmanager
def table_writer(path: Path, labels: Sequence[str], numbers: Sequence[str]) -> Iterator[TableWriter]:
    """A table that appears at ``path`` when all of it is written."""
    import pyarrow as pa

    suffix = table_suffix(path)
    schema = pa.schema([(name, pa.string()) for name in labels] + [(name, pa.float64()) for name in numbers])
    with placed(path) as aside, _sink(aside, suffix, schema) as sink:
        yield TableWriter(sink, schema)


def _sink(path: Path, suffix: str, schema: Any) -> Any:
    if suffix == ".parquet":
        from pyarrow import parquet

        return parquet.ParquetWriter(path, schema)
    from pyarrow import csv

    return csv.CSVWriter(path, schema, write_options=csv.WriteOptions(delimiter="\t" if suffix == ".tsv" else ","))
