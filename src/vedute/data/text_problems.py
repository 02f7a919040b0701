"""What is wrong in a text table, and where: a second pass in plain Python, only when the fast reader has refused."""

from __future__ import annotations

import csv
import io
import re
import zlib
from collections.abc import Collection, Iterator, Sequence
from typing import TYPE_CHECKING

from vedute.data.problems import listed
from vedute.data.sniff import open_bytes

if TYPE_CHECKING:
    from vedute.data.table import TableFile

NUMBER = re.compile(r"[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?", re.ASCII)
SHOWN = 5  # cells named for one file


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
