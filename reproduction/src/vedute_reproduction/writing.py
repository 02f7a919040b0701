"""The files of results: how they are named and written, the same for all experiments."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import pandas as pd

from vedute.data.files import read_whole, said_plainly, write_whole
from vedute.errors import UserError
from vedute_reproduction.prose import filled

Drawn = dict[str, bytes]  # a figure: what stands in its files, by their endings


def csv(lines: pd.DataFrame) -> bytes:
    """Tidy lines; six digits, or the noise of the last bits would change the file on every machine."""
    return lines.to_csv(index=False, float_format="%.6g", lineterminator="\n").encode()


def page(title: str, said: Sequence[str], table: str) -> bytes:
    """A Markdown table under its title, with what a reader has to know."""
    return (filled("\n\n".join([f"# {title}", *said, table])) + "\n").encode()


def named(drawn: Mapping[str, Drawn]) -> Drawn:
    """The files of several figures, by their names."""
    return {f"{name}.{kind}": data for name, kinds in drawn.items() for kind, data in kinds.items()}


def put(found: Mapping[str, bytes], out: Path) -> list[Path]:
    """Write files into a folder; their paths, in the same order."""
    for file, data in found.items():
        write_whole(out / file, data)
    return [out / file for file in found]


def claim(out: Path, study: str) -> None:
    """A folder holds the results of one study of one's own: those of another would replace them file by file."""
    note = out / "study.txt"
    if note.exists() and (found := read_whole(note).decode(errors="replace")) != study:
        raise UserError(f"{out}: has results of the study {found!r}; give {study!r} a folder of its own with --out")
    with said_plainly(out):
        out.mkdir(parents=True, exist_ok=True)
    write_whole(note, study.encode())
