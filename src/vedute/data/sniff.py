"""How a text table is written: compression, delimiter, decimal sign, header. Guessed only where no doubt remains."""

from __future__ import annotations

import csv
import gzip
import io
import re
import zlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import IO, TYPE_CHECKING

from vedute.data.problems import some
from vedute.errors import UserError

if TYPE_CHECKING:
    from vedute.data.table import TableFile

SAMPLE_BYTES = 256 << 10
LONGEST_LINE = 256 << 20
DELIMITERS = ",;\t|"
WITH_COMMA = re.compile(r"[+-]?\d+,\d+(?:[eE][+-]?\d+)?", re.ASCII)
WITH_POINT = re.compile(r"[+-]?\d*\.\d+(?:[eE][+-]?\d+)?", re.ASCII)
THOUSANDS = re.compile(r"[+-]?[1-9]\d{0,2}(?:,\d{3})+", re.ASCII)


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
