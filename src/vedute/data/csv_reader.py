"""CSV and TSV: how a file is written, its rows in chunks by pyarrow's streaming reader, and what is wrong in it."""

from __future__ import annotations

import csv
import gzip
import io
import os
import re
import warnings
import zlib
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

import numpy as np

from vedute.data.problems import listed, some
from vedute.errors import DataWarning, UserError
from vedute.model.parameters import Array

if TYPE_CHECKING:
    from vedute.data.table import Piece, TableFile

BLOCK_BYTES = 1 << 20  # larger blocks are no faster and the reader keeps many of them
MISSING = (
    "", " ", "NA", "N/A", "n/a", "na", "<NA>", "#N/A", "NaN", "nan", "NAN", "-NaN", "-nan",
    "null", "NULL", "Null", "None", "none", "NONE", ".", "?",
)  # fmt: skip
SAMPLE_BYTES = 256 << 10
LONGEST_LINE = 256 << 20
DELIMITERS = ",;\t|"
WITH_COMMA = re.compile(r"[+-]?\d+,\d+(?:[eE][+-]?\d+)?", re.ASCII)
WITH_POINT = re.compile(r"[+-]?\d*\.\d+(?:[eE][+-]?\d+)?", re.ASCII)
THOUSANDS = re.compile(r"[+-]?[1-9]\d{0,2}(?:,\d{3})+", re.ASCII)
NUMBER = re.compile(r"[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?", re.ASCII)
SHOWN = 5  # cells named for one file


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


@dataclass(frozen=True)
class Sample:
    """The beginning of a text table, as lines, and what it tells for certain."""

    text: str
    compressed: bool
    longest: int  # bytes of the longest line seen

    def rows(self, delimiter: str) -> list[list[str]]:
        """The cells of the sample under a delimiter."""
        try:
            return [row for row in csv.reader(io.StringIO(self.text, newline=""), delimiter=delimiter) if row]
        except csv.Error:
            return []

    @property
    def quoted_newlines(self) -> bool:
        """Whether a quoted cell of the sample runs over several lines."""
        reader = csv.reader(io.StringIO(self.text, newline=""))
        try:
            return sum(1 for _ in reader) < reader.line_num
        except csv.Error:
            return False


def open_bytes(table: TableFile) -> IO[bytes]:
    """The bytes of a text table, decompressed."""
    with table.path.open("rb") as file:
        start = file.read(2)
    return gzip.open(table.path, "rb") if start == b"\x1f\x8b" else table.path.open("rb")  # type: ignore[return-value]


def take_sample(table: TableFile) -> Sample:
    """Read the first lines; refuse what is not a text table."""
    try:
        with open_bytes(table) as file:
            compressed = isinstance(file, gzip.GzipFile)
            raw = file.read(SAMPLE_BYTES)
            ended = len(raw) < SAMPLE_BYTES
            while not ended and raw.count(b"\n") + raw.count(b"\r") < 2 and len(raw) < LONGEST_LINE:
                more = file.read(len(raw))
                ended = not more
                raw += more
    except (OSError, EOFError, zlib.error) as error:
        raise UserError(f"{table.label}: cannot be read ({error}); it may be truncated: copy it again") from None
    _refuse_other_kinds(raw, table)
    if not ended:
        raw = raw[: max(raw.rfind(b"\n"), raw.rfind(b"\r")) + 1]
    try:
        text = raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = raw.count(b"\n", 0, error.start) + 1
        raise UserError(f"{table.label}: line {line} is not UTF-8 text; save the file again in UTF-8") from None
    if not text.strip():
        raise UserError(f"{table.label}: the file holds no rows; export it again, or take it out of the study")
    return Sample(text, compressed, max(map(len, raw.splitlines())))


def _refuse_other_kinds(raw: bytes, table: TableFile) -> None:
    if raw.startswith((b"\xff\xfe", b"\xfe\xff")) or (b"\x00" in raw[:4096] and b"\n\x00" in raw[:4096]):
        raise UserError(f"{table.label}: the text is UTF-16; save the file again in UTF-8")
    if raw.startswith((b"PK\x03\x04", b"\xd0\xcf\x11\xe0")):
        raise UserError(f"{table.label}: is a workbook or archive, not text; export the sheet as CSV")
    if raw.startswith((b"PAR1", b"\x89HDF")):
        kind = ".parquet" if raw.startswith(b"PAR1") else ".h5mu"
        raise UserError(f"{table.label}: is not text; name it with the suffix {kind}")


def find_delimiter(sample: Sample, table: TableFile) -> str:
    """The declared delimiter, or the one under which the header holds the id column."""
    if table.delimiter is not None:
        return table.delimiter
    headers = {delimiter: (sample.rows(delimiter) or [[]])[0] for delimiter in DELIMITERS}
    fitting = [delimiter for delimiter, header in headers.items() if table.id in header and len(header) > 1]
    if len(fitting) == 1:
        return fitting[0]
    if len(fitting) > 1:
        raise UserError(
            f"{table.label}: line 1: cannot tell which of {some(fitting)} separates the columns; "
            "declare it: delimiter = ..."
        )
    likely = max(DELIMITERS, key=lambda delimiter: len(headers[delimiter]))
    if table.id in headers[likely]:
        raise UserError(
            f"{table.label}: line 1: the header holds the id {table.id!r} alone; "
            "declare the delimiter if there are more columns: delimiter = ..."
        )
    return likely  # the id is not in the header: who looks for it says so


def find_header(sample: Sample, table: TableFile) -> tuple[str, ...]:
    """The names of the columns; refuses a header without the id."""
    delimiter = find_delimiter(sample, table)
    rows = sample.rows(delimiter)
    header = tuple(rows[0]) if rows else ()
    if table.id not in header:
        other = next((d for d in DELIMITERS if table.id in (sample.rows(d) or [[]])[0]), None)
        remedy = (
            f"it seems to be separated by {other!r}, not {delimiter!r}: correct delimiter = ..."
            if other is not None and table.delimiter is not None
            else "correct id = ..., or declare delimiter = ..."
        )
        raise UserError(f"{table.label}: line 1: no id column {table.id!r} among {some(header)}; {remedy}")
    return header


def find_decimal(sample: Sample, table: TableFile, columns: Sequence[str]) -> str:
    """The declared decimal sign, or the only one that the sample shows."""
    if table.decimal is not None:
        return table.decimal
    cells = list(_cells_of(sample, table, columns))
    commas = [cell for cell in cells if WITH_COMMA.fullmatch(cell) or THOUSANDS.fullmatch(cell)]
    if not commas or any(WITH_POINT.fullmatch(cell) for cell in cells):
        return "."
    if all(THOUSANDS.fullmatch(cell) for cell in commas):
        raise UserError(
            f"{table.label}: cannot tell whether {commas[0]!r} has a decimal comma or separates thousands; "
            'declare decimal = "," , or export the numbers without separators'
        )
    return ","


def _cells_of(sample: Sample, table: TableFile, columns: Sequence[str]) -> Iterable[str]:
    delimiter = find_delimiter(sample, table)
    header, *rows = sample.rows(delimiter)
    wanted = set(columns)
    places = [place for place, name in enumerate(header) if name in wanted]
    return (row[place].strip() for row in rows for place in places if place < len(row))


def numbered_rows(table: TableFile, delimiter: str) -> Iterator[tuple[int, list[str]]]:
    """The rows of a table as text, each with the number of its first line."""
    with open_bytes(table) as raw, io.TextIOWrapper(raw, "utf-8-sig", "surrogateescape", newline="") as text:
        reader = csv.reader(text, delimiter=delimiter)
        line = 1
        for row in reader:
            if row:
                yield line, row
            line = reader.line_num + 1


def explain(
    table: TableFile, numbers: Sequence[str], delimiter: str, decimal: str, missing: Collection[str], error: str
) -> str:
    """The first faults of a table that pyarrow refused with ``error``."""
    found: list[str] = []
    try:
        for message in _faults(table, numbers, delimiter, decimal, frozenset(missing)):
            found.append(f"{table.label}: {message}")
            if len(found) == SHOWN:
                break
    except (OSError, EOFError, zlib.error):
        return f"{table.label}: the compressed file is damaged or truncated; copy or export it again"
    except csv.Error:
        return f"{table.label}: a cell never ends: a quotation mark may lack its partner; correct it and run again"
    if not found:
        return f"{table.label}: cannot be read ({error.splitlines()[0]}); correct the file and run again"
    return listed(table.label, found)


def _faults(
    table: TableFile, numbers: Sequence[str], delimiter: str, decimal: str, missing: frozenset[str]
) -> Iterator[str]:
    rows = numbered_rows(table, delimiter)
    _, header = next(rows)
    id_place = header.index(table.id)
    places = [(header.index(name), name) for name in numbers]
    for line, row in rows:
        if len(row) != len(header):
            yield (
                f"line {line}: {len(row)} cells where the header has {len(header)}; complete the row, "
                "put quotation marks around cells that contain the delimiter, or export the file again"
            )
            continue
        if not _is_text(row[id_place]):
            yield f"line {line}, column {table.id!r}: not UTF-8 text; save the file again in UTF-8"
        for place, name in places:
            if row[place] not in missing and not is_number(row[place], decimal):
                yield f"line {line}, column {name!r}: {bad_cell(row[place], decimal)}"


def is_number(cell: str, decimal: str) -> bool:
    """Whether a cell is a finite number."""
    plain = cell.strip(" \t")
    if decimal != ".":
        plain = plain.replace(".", "x").replace(decimal, ".")
    return NUMBER.fullmatch(plain) is not None and abs(float(plain)) < float("inf")


def bad_cell(cell: str, decimal: str) -> str:
    """What is wrong with a cell that should be a number, and the remedy."""
    shown = repr(cell if len(cell) <= 40 else cell[:40] + "...")
    for other, word in ((",", "comma"), (".", "point")):
        if other != decimal and is_number(cell, other):
            return (
                f"{shown} has a decimal {word} in a file with {decimal!r}; correct the cell, "
                f'or declare decimal = "{other}" if the whole file is so'
            )
    number = re.match(r"\s*[+-]?[\d.,]*\d\s*(\D+)$", cell)
    if number and number[1].strip().lower() not in {"", "e"}:
        return f"{shown} is a number with {number[1].strip()!r} after it; keep the number alone"
    if cell.strip().lower().lstrip("+-") in {"inf", "infinity"} or NUMBER.fullmatch(cell.strip()):
        return f"{shown} is infinite; correct it, or leave the cell empty if it is missing"
    return (
        f"{shown} is not a number; correct it, leave it empty if it is missing, "
        "or name the columns to use: columns = [...]"
    )


def _is_text(cell: str) -> bool:
    return not any("\udc80" <= c <= "\udcff" for c in cell)


def lines_of(table: TableFile, delimiter: str, wanted: Collection[str], limit: int) -> dict[str, list[int]]:
    """For each of the ids ``wanted`` the lines on which it stands, the first few."""
    found: dict[str, list[int]] = {label: [] for label in wanted}
    rows = numbered_rows(table, delimiter)
    _, header = next(rows)
    place = header.index(table.id)
    for line, row in rows:
        if place < len(row) and row[place] in found and len(found[row[place]]) < limit:
            found[row[place]].append(line)
            if all(len(lines) == limit for lines in found.values()):
                break
    return found
