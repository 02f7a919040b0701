"""Where results go: one table for all subjects, or a folder with a table for each center and view."""

from __future__ import annotations

import json
import secrets
import shutil
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from vedute.data.files import ASIDE, said_plainly, write_whole
from vedute.data.problems import why_unsafe
from vedute.data.writers import SUFFIXES, TableWriter, table_writer
from vedute.errors import UserError
from vedute.model.parameters import Array

STUDY, SUBJECTS = "study.toml", "subjects.csv"
Labels = NDArray[np.object_]


@dataclass(frozen=True)
class Sheet:
    """The columns of one view: its values or, if ``sd``, their standard deviations."""

    view: str
    columns: tuple[str, ...]
    sd: bool = False

    @property
    def file(self) -> str:
        """Its name inside the folder of a center."""
        return f"sd/{self.view}.csv" if self.sd else f"{self.view}.csv"

    @property
    def wide(self) -> list[str]:
        """Names of its columns beside those of other sheets."""
        return [f"{self.view}.{name}{'.sd' if self.sd else ''}" for name in self.columns]


def is_table(out: Path) -> bool:
    """Whether ``--out`` names a table; a folder has no suffix."""
    if out.suffix.lower() in SUFFIXES:
        return True
    if out.suffix and not out.is_dir():
        raise UserError(f"{out}: end the name in {', '.join(SUFFIXES)} for one table, or in nothing for a folder")
    return False


def side_by_side(sheets: Sequence[Sheet], values: Mapping[Sheet, Array], n: int) -> Array:
    """All sheets in a row, NaN where one is absent."""
    blocks = [values[sheet] if sheet in values else np.full((n, len(sheet.columns)), np.nan) for sheet in sheets]
    return np.concatenate(blocks, axis=1)


class FolderWriter:
    """Tables of some centers inside a folder; a subject without any value in a view has no row in its table."""

    def __init__(self, folder: Path, stack: ExitStack) -> None:
        self.held: dict[str, dict[Sheet, None]] = {}  # what each center has, in order
        self._folder = folder
        self._stack = stack
        self._open: dict[Path, TableWriter] = {}

    def write(self, center: str, ids: Labels, groups: Labels | None, values: Mapping[Sheet, Array]) -> None:
        """Some subjects of a center."""
        if groups is not None:
            subjects = self._writer(self._folder / center / SUBJECTS, ("id", "group"), ())
            subjects.write([ids, groups], np.empty((len(ids), 0)))
        held = self.held.setdefault(center, {})
        for sheet, block in values.items():
            rows = ~np.isnan(block).all(axis=1)
            if rows.any():
                held[sheet] = None
                path = self._folder / center / sheet.file
                self._writer(path, ("id",), sheet.columns).write([ids[rows]], block[rows])

    def _writer(self, path: Path, labels: Sequence[str], numbers: Sequence[str]) -> TableWriter:
        if path not in self._open:
            path.parent.mkdir(parents=True, exist_ok=True)
            self._open[path] = self._stack.enter_context(table_writer(path, labels, numbers))
        return self._open[path]


@contextmanager
def whole_folder(out: Path, sheets: Iterable[Sheet]) -> Iterator[Path]:
    """A folder to fill, which appears at ``out`` when all of it is written; an earlier result is then replaced."""
    for sheet in sheets:
        if (reason := why_unsafe(sheet.view)) is not None:
            raise UserError(f"view {sheet.view!r} cannot name a file ({reason}); write one table with --out NAME.csv")
    if out.exists() and not (out.is_dir() and ((out / STUDY).exists() or not any(out.iterdir()))):
        raise UserError(f"{out}: was not written by this command, so it is not replaced; choose another --out")
    aside, old = (out.with_name(f"{ASIDE}{secrets.token_hex(6)}") for _ in range(2))
    try:
        with said_plainly(out):
            aside.mkdir()
            yield aside
            if out.exists():
                out.rename(old)
            aside.rename(out)
    except UserError as error:
        raise UserError(str(error).replace(str(aside), str(out))) from None  # the name that the user gave
    finally:
        for left in (aside, old):
            shutil.rmtree(left, ignore_errors=True)


def write_study(folder: Path, name: str, held: Mapping[str, Iterable[Sheet]]) -> None:
    """A study file for the tables of a folder, so that they can be checked, fitted and projected in turn."""
    centers = {center: [sheet for sheet in sheets if not sheet.sd] for center, sheets in held.items()}
    lines = ["[study]", f"name = {_quoted(name)}", ""]
    for sheet in dict.fromkeys(sheet for sheets in centers.values() for sheet in sheets):
        lines += [f"[views.{_quoted(sheet.view)}]", f"columns = [{', '.join(map(_quoted, sheet.columns))}]", ""]
    for center, sheets in centers.items():
        if (folder / center / SUBJECTS).exists():
            lines += [f"[centers.{_quoted(center)}.subjects]", f"file = {_quoted(f'{center}/{SUBJECTS}')}"]
            lines += ['group = "group"', ""]
        lines += [f"[centers.{_quoted(center)}.files]"]
        lines += [f"{_quoted(sheet.view)} = {_quoted(f'{center}/{sheet.file}')}" for sheet in sheets] + [""]
    write_whole(folder / STUDY, "\n".join(lines).encode())


def _quoted(text: str) -> str:
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")
