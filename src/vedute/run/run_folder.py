"""The run folder: what a fit leaves behind, and how it is read again.

``checksums.json`` is written last and names every finished file, so a folder is at any moment one of three things:
not begun (no checksums), interrupted (checksums without a model), or finished. Nothing in it is a pickle, and nothing
in it outside ``local`` and ``checkpoint`` was made of single patients or tells of the machine.
"""

from __future__ import annotations

import fcntl
import json
import math
import os
import platform
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from enum import Enum
from pathlib import Path
from typing import Any

import numpy as np
import scipy

from vedute.data.files import (
    ASIDE,
    from_json,
    from_npz,
    read_whole,
    said_plainly,
    sha256,
    sha256_of,
    sweep,
    to_json,
    to_npz,
    write_whole,
)
from vedute.errors import UserError
from vedute.run.fitted_model import Model, build_model, describe_model, describe_settings, model_arrays
from vedute.run.protocol import Record
from vedute.run.settings import Settings
from vedute.version import __version__

FORMAT = 1
CHECKSUMS, RUN, STUDY = "checksums.json", "run.json", "study.toml"
NUMBERS, NAMES, HISTORY = "model.npz", "model.json", "history.jsonl"
LOCAL, CHECKPOINT = "local", "checkpoint"
BESIDE = ("ledger-*.jsonl", "report.html", "selection.csv", "selection.png")  # what commands add to a run


class Stage(Enum):
    """How far a run folder has come."""

    NEW = "new"
    INTERRUPTED = "interrupted"
    FINISHED = "finished"


@dataclass(frozen=True)
class Run:
    """A finished run."""

    model: Model
    history: tuple[Record, ...]
    converged: bool


def stage(folder: Path) -> Stage:
    """What ``folder`` is; refuses what is not a run folder."""
    if not folder.exists():
        return Stage.NEW
    if not folder.is_dir():
        raise UserError(f"{folder}: is a file; a run folder is a folder, choose another name")
    if (folder / CHECKSUMS).exists():
        return Stage.FINISHED if NUMBERS in read_checksums(folder) else Stage.INTERRUPTED
    beside = {path.name for pattern in BESIDE for path in folder.glob(pattern)}
    strangers = sorted(
        {path.name for path in folder.iterdir() if path.name[0] != "."} - {RUN, STUDY, LOCAL, CHECKPOINT} - beside
    )
    if strangers:
        raise UserError(
            f"{folder}: is not a run folder (there is no {CHECKSUMS}, but {strangers[0]!r}); "
            "choose another folder, or a new name"
        )
    return Stage.NEW


@contextmanager
def opened(folder: Path) -> Iterator[None]:
    """Make the folder if need be and keep other processes out; a folder that stays empty is removed again."""
    made = not folder.exists()
    with said_plainly(folder):
        folder.mkdir(parents=True, exist_ok=True)
        handle = os.open(folder, os.O_RDONLY)
    try:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)  # goes with the process, however it ends
        except OSError:
            raise UserError(
                f"{folder}: another process is fitting there; wait for it, or choose another --out"
            ) from None
        if not os.access(folder, os.W_OK | os.X_OK):
            raise UserError(f"{folder}: no permission to write there; choose another place with --out")
        yield
    finally:
        os.close(handle)
        if made and not any(folder.iterdir()):
            folder.rmdir()


def begin(folder: Path, study: str | None, settings: Settings) -> None:
    """Write down what is about to be fitted."""
    clear(folder)
    files = {RUN: to_json(describe_run(settings))} | ({STUDY: study.encode()} if study is not None else {})
    try:
        for name, data in files.items():
            write_whole(folder / name, data)
        write_checksums(folder, {name: sha256(data) for name, data in files.items()})
    except UserError:
        clear(folder)  # a full disk leaves no folder that looks begun
        raise


def clear(folder: Path) -> None:
    """Remove what an earlier run left; the checksums go first, so that a half-cleared folder counts as new."""
    with said_plainly(folder):
        for name in (CHECKSUMS, NUMBERS, NAMES, HISTORY, STUDY, RUN):
            (folder / name).unlink(missing_ok=True)
        for path in (path for pattern in BESIDE for path in folder.glob(pattern)):
            path.unlink(missing_ok=True)
        for name in (CHECKPOINT, LOCAL):
            if (folder / name).exists():
                shutil.rmtree(folder / name)


def finish(folder: Path, run: Run) -> None:
    """Write the model and, last, the checksums of everything; the checkpoint is then no longer needed."""
    for name, data in _model_files(run).items():
        write_whole(folder / name, data)
    wanted = [folder / name for name in (RUN, STUDY, NUMBERS, NAMES, HISTORY)] + sorted((folder / LOCAL).rglob("*"))
    found = [path for path in wanted if path.is_file() and not path.name.startswith(ASIDE)]
    write_checksums(folder, {path.relative_to(folder).as_posix(): sha256_of(path) for path in found})
    tidy(folder)


def tidy(folder: Path) -> None:
    """A finished run needs no checkpoint, which holds values of patients, and nothing that a kill left half-written."""
    sweep(folder)
    if (folder / CHECKPOINT).exists():
        shutil.rmtree(folder / CHECKPOINT, ignore_errors=True)


def save_run(folder: Path, run: Run, *, overwrite: bool = False) -> None:
    """A run folder for a model that was fitted elsewhere, in Python say."""
    if stage(folder) is not Stage.NEW and not overwrite:
        raise UserError(f"{folder}: there is a run already; choose another path, or overwrite=True to replace it")
    with opened(folder):
        begin(folder, None, run.model.settings)
        finish(folder, run)


def load_run(folder: Path) -> Run:
    """The model and history of a finished run, every file compared with its checksum."""
    if not folder.is_dir():
        kind = "is a file" if folder.exists() else "there is no such folder"
        raise UserError(f"{folder}: {kind}; give the run folder that 'vedute fit --out' wrote")
    if not (folder / CHECKSUMS).exists():
        raise UserError(f"{folder}: is not a run folder (no {CHECKSUMS}); give the one that 'vedute fit --out' wrote")
    checked = verified(folder)
    if NUMBERS not in checked:
        raise UserError(f"{folder}: the run has not ended; continue it with 'vedute fit STUDY --out {folder} --resume'")
    names = from_json(read_whole(folder / NAMES), folder / NAMES)
    model = build_model(from_npz(read_whole(folder / NUMBERS), folder / NUMBERS), names)
    return Run(model, _history(folder), names["converged"])


def _history(folder: Path) -> tuple[Record, ...]:
    lines = read_whole(folder / HISTORY).decode().splitlines()
    return tuple(_record(json.loads(line)) for line in lines)


def verified(folder: Path) -> dict[str, str]:
    """The checksums of a run folder, all files compared with them and the format known."""
    checksums = read_checksums(folder)
    wrong = [name for name, digest in checksums.items() if sha256_of(folder / name) != digest]
    for name in (RUN, NAMES):
        if name in checksums:
            _refuse_future(folder / name, damaged=name in wrong)
    if wrong:
        raise UserError(
            f"{folder / wrong[0]}: its checksum is wrong, so the file was changed or damaged after it was written; "
            "restore it from a copy, or fit again with --force"
        )
    return checksums


def read_checksums(folder: Path) -> dict[str, str]:
    """The checksum of every finished file."""
    path = folder / CHECKSUMS
    data = read_whole(path)
    try:
        found = json.loads(data)
        files = dict(found["files"])
        sound = data == _listed(files)
    except (ValueError, TypeError, KeyError, RecursionError):
        found, sound = None, False
    _refuse_format(found, path, damaged=not sound)
    if not sound:
        raise UserError(f"{path}: its checksum is wrong, so the file was damaged; restore it from a copy, or fit again")
    return files


def write_checksums(folder: Path, files: dict[str, str]) -> None:
    """The list of finished files; it carries a checksum of its own."""
    write_whole(folder / CHECKSUMS, _listed(files))


def _listed(files: dict[str, str]) -> bytes:
    return to_json({"format": FORMAT, "files": files, "sha256": sha256(to_json(files))})


def describe_run(settings: Settings) -> dict[str, Any]:
    """With what a run was made: nothing that tells the machine, the user or the time."""
    return {
        "format": FORMAT,
        "versions": {
            "vedute": __version__,
            "python": platform.python_version(),
            "numpy": np.__version__,
            "scipy": scipy.__version__,
        },
        "seed": settings.seed,
        "settings": describe_settings(settings),
    }


def _model_files(run: Run) -> dict[str, bytes]:
    names = {"format": FORMAT, "converged": run.converged, "rounds": len(run.history), **describe_model(run.model)}
    return {NUMBERS: to_npz(model_arrays(run.model)), NAMES: to_json(names), HISTORY: _lines(run.history)}


def _lines(history: tuple[Record, ...]) -> bytes:
    return "".join(json.dumps(_line(r), ensure_ascii=False, allow_nan=False) + "\n" for r in history).encode()


def _line(record: Record) -> dict[str, Any]:
    """JSON knows no infinity: the change of round 1, which has nothing to compare with, is null."""
    spreads = {view: [_or_null(s) for s in found] for view, found in record.spreads.items()}
    return {**asdict(record), "change": _or_null(record.change), "spreads": spreads}


def _or_null(value: float) -> float | None:
    return value if math.isfinite(value) else None


def _record(line: dict[str, Any]) -> Record:
    """A round; the first run folders did not tell its spreads."""
    spreads = {view: tuple(map(_or_infinite, found)) for view, found in line.get("spreads", {}).items()}
    told = {"change": _or_infinite(line["change"]), "centers": tuple(line["centers"]), "spreads": spreads}
    return Record(**{**line, **told})


def _or_infinite(value: float | None) -> float:
    return math.inf if value is None else value


def _refuse_future(path: Path, damaged: bool) -> None:
    try:
        _refuse_format(json.loads(read_whole(path)), path, damaged)
    except (ValueError, RecursionError) as error:
        if isinstance(error, UserError):
            raise


def _refuse_format(found: Any, path: Path, damaged: bool) -> None:
    """A folder of a later format is refused, as its files may mean something else."""
    number = found.get("format") if isinstance(found, dict) else None
    if isinstance(number, int) and number > FORMAT:
        doubt = "; or the file was damaged: its checksum is wrong" if damaged else ""
        raise UserError(
            f"{path}: was written by a newer vedute (format {number}, this one reads up to {FORMAT}); "
            f"upgrade vedute{doubt}"
        )
