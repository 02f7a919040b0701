"""Parquet in chunks."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from vedute.data.csv_reader import matrix
from vedute.errors import UserError

if TYPE_CHECKING:
    from vedute.data.table import Piece, TableFile

CELLS = 1 << 18  # of a batch


def header(table: TableFile) -> tuple[str, ...]:
    """Names of all columns."""
    with _open(table) as file:
        names = tuple(file.schema_arrow.names)
    if table.id not in names:
        raise UserError(f"{table.label}: no id column {table.id!r}; correct id = ..., or reset the index before export")
    return names


def read(table: TableFile, numbers: Sequence[str], text: Sequence[str]) -> Iterator[Piece]:
    """Batches of the id column, ``numbers`` as float64 with NaN for missing, and ``text`` as strings."""
    import pyarrow as pa

    with _open(table) as file:
        fields = {field.name: field.type for field in file.schema_arrow}
        for name in numbers:
            _require_numbers(table, name, fields[name])
        wanted = list(dict.fromkeys((table.id, *numbers, *text)))
        try:
            for batch in file.iter_batches(max(256, CELLS // len(wanted)), columns=wanted):
                columns = [batch.column(name).cast(pa.float64(), safe=False) for name in numbers]
                block = (
                    matrix(pa.RecordBatch.from_arrays(columns, [str(j) for j in range(len(columns))]))
                    if columns
                    else np.empty((batch.num_rows, 0))
                )
                labels = as_text(batch.column(table.id))
                yield labels, block, {name: as_text(batch.column(name)) for name in text}
        except (pa.ArrowException, OSError) as error:
            raise UserError(f"{table.label}: damaged ({_first_line(error)}); export it again") from None


def _open(table: TableFile) -> Any:
    import pyarrow as pa
    from pyarrow import parquet

    try:
        return parquet.ParquetFile(pa.OSFile(str(table.path)), buffer_size=1 << 20)
    except (pa.ArrowException, OSError, ValueError) as error:
        reason = f"not a Parquet file, or truncated ({_first_line(error)})"
        raise UserError(f"{table.label}: {reason}; export it again") from None


def _first_line(error: Exception) -> str:
    return (str(error).splitlines() or ["unknown"])[0]


def _require_numbers(table: TableFile, name: str, kind: Any) -> None:
    from pyarrow import types

    tests = (types.is_integer, types.is_floating, types.is_boolean, types.is_decimal, types.is_null)
    if not any(test(kind) for test in tests):
        raise UserError(
            f"{table.label}: column {name!r} holds {kind}, not numbers; convert it, or name the columns to use: "
            "columns = [...]"
        )


def as_text(column: Any) -> Any:
    """A column as strings, whole numbers without a decimal point, empty where missing."""
    import pyarrow as pa
    from pyarrow import compute, types

    if types.is_dictionary(column.type):
        column = column.dictionary_decode()
    texts = compute.fill_null(column.cast(pa.string()), "")
    texts.validate(full=True)  # Parquet does not promise that its texts are UTF-8
    return texts
