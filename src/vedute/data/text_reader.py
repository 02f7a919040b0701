"""CSV and TSV in chunks, by pyarrow's streaming reader."""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from vedute.data.sniff import Sample, find_decimal, find_delimiter, find_header, take_sample
from vedute.data.text_problems import explain
from vedute.errors import DataWarning, UserError
from vedute.model.parameters import Array

if TYPE_CHECKING:
    from vedute.data.table import Piece, TableFile

BLOCK_BYTES = 1 << 20  # larger blocks are no faster and the reader keeps many of them
MISSING = (
    "", " ", "NA", "N/A", "n/a", "na", "<NA>", "#N/A", "NaN", "nan", "NAN", "-NaN", "-nan",
    "null", "NULL", "Null", "None", "none", "NONE", ".", "?",
)  # fmt: skip


def header(table: TableFile) -> tuple[str, ...]:
    """Names of all columns."""
    sample = take_sample(table)
    if not (sample.compressed or _ends(table.path)):
        warnings.warn(
            f"{table.label}: the last line does not end; if the file was cut off there, in the middle of a number, "
            "nothing else will show it: compare it with its source",
            DataWarning,
            stacklevel=2,
        )
    return find_header(sample, table)


def _ends(path: Path) -> bool:
    """Whether the last line of a text file ends as lines do."""
    with path.open("rb") as file:
        file.seek(-1, os.SEEK_END)
        return file.read(1) in b"\r\n"


def read(table: TableFile, numbers: Sequence[str], text: Sequence[str]) -> Iterator[Piece]:
    """Batches of the id column, ``numbers`` as float64 with NaN for missing, and ``text`` as strings."""
    import pyarrow as pa

    sample = take_sample(table)
    delimiter, decimal = find_delimiter(sample, table), find_decimal(sample, table, numbers)
    try:
        with _open(table, sample, delimiter, decimal, numbers, text) as reader:
            for batch in reader:
                yield _batch(batch, len(numbers), text)
    except (pa.ArrowException, OSError, ValueError) as error:
        if isinstance(error, UserError):
            raise
        raise UserError(explain(table, numbers, delimiter, decimal, MISSING, str(error))) from None


def _open(
    table: TableFile, sample: Sample, delimiter: str, decimal: str, numbers: Sequence[str], text: Sequence[str]
) -> Any:
    import pyarrow as pa
    from pyarrow import csv

    types = {name: pa.float64() for name in numbers} | {name: pa.string() for name in (table.id, *text)}
    file = pa.OSFile(str(table.path))
    return csv.open_csv(
        pa.CompressedInputStream(file, "gzip") if sample.compressed else file,
        read_options=csv.ReadOptions(block_size=max(BLOCK_BYTES, 4 * sample.longest)),
        parse_options=csv.ParseOptions(delimiter=delimiter, newlines_in_values=sample.quoted_newlines),
        convert_options=csv.ConvertOptions(
            include_columns=list(dict.fromkeys((table.id, *numbers, *text))),
            column_types=types,
            null_values=list(MISSING),
            decimal_point=decimal,
        ),
    )


def _batch(batch: Any, d: int, text: Sequence[str]) -> Piece:
    block = matrix(batch.select(range(1, d + 1))) if d else np.empty((batch.num_rows, 0))
    return batch.column(0), block, {name: batch.column(name) for name in text}


def matrix(batch: Any) -> Array:
    """The float64 columns of a record batch side by side, NaN for null."""
    if not batch.num_rows:
        return np.empty((0, batch.num_columns))
    return np.asarray(batch.to_tensor(null_to_nan=True).to_numpy())
