"""Parts of an experiment, computed on several processes; what is done is kept, so that a run can be interrupted."""

from __future__ import annotations

import importlib.util
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache, partial
from importlib.metadata import version
from pathlib import Path
from typing import Any, Protocol, TypeVar

import pandas as pd
from joblib import Parallel, delayed
from threadpoolctl import threadpool_limits

from vedute.data.files import read_whole, said_plainly, sha256, write_whole
from vedute.errors import UserError
from vedute_reproduction.closure import code_of
from vedute_reproduction.folds import N_FOLDS, Dataset

T = TypeVar("T")
Line = dict[str, Any]  # one line of a tidy table
Told = Callable[[int, int], None]  # is told how many parts are done, and of how many
COMPUTES = ("numpy", "scipy", "scikit-learn", "pandas", "torch", "mofapy2")
IMPORTED = {"scikit-learn": "sklearn"}
FOLDS = "folds"  # the folder of finished parts, inside that of the results


class Source(Protocol):
    """Where the rows of an experiment come from."""

    def draw(self, repeat: int) -> Dataset:
        """The study of one repetition: always the same, or drawn anew."""


class Part(Protocol):
    """A part of an experiment, on the study of one repetition."""

    @property
    def repeat(self) -> int:
        """Which repetition."""

    @property
    def file(self) -> str:
        """Where its result is kept."""

    def compute(self, data: Dataset) -> list[Line]:
        """Its lines, given the study."""


@dataclass(frozen=True)
class How:
    """How often an experiment is done, where its files go, and on how many processes."""

    repeats: int
    out: Path
    jobs: int = 1
    on_fold: Told | None = None

    def __post_init__(self) -> None:
        if self.repeats < 1:
            raise UserError(f"repeats={self.repeats}: must be at least 1")

    @property
    def places(self) -> list[tuple[int, int]]:
        """Repetition and fold of everything that is done once for each fold."""
        return [(repeat, fold) for repeat in range(self.repeats) for fold in range(N_FOLDS)]


def each_part(parts: Sequence[Part], source: Source, how: How) -> pd.DataFrame:
    """The lines of all parts, in their order."""
    return each(parts, partial(_done, source), how)


def each(tasks: Sequence[T], work: Callable[[Path, T], list[Line]], how: How) -> pd.DataFrame:
    """The lines of all tasks, in their order; ``work`` is given the folder where finished ones are kept."""
    with said_plainly(how.out):
        (how.out / FOLDS).mkdir(parents=True, exist_ok=True)
    lines: list[Line] = []
    calls = (delayed(work)(how.out / FOLDS, task) for task in tasks)
    for i, found in enumerate(Parallel(n_jobs=min(how.jobs, len(tasks)), return_as="generator")(calls)):
        lines.extend(found)
        if how.on_fold is not None:
            how.on_fold(i + 1, len(tasks))
    return pd.DataFrame(lines)


def _done(source: Source, folder: Path, part: Part) -> list[Line]:
    data = source.draw(part.repeat)
    return kept_or_computed(folder / part.file, fold_key(part, data), lambda: part.compute(data))


def fold_key(task: object, data: Dataset, *computing: object) -> str:
    """A checksum of what is to be done, of all that computes it, and of the rows with their groups and sites.

    What computes it is the task itself, the methods in it, and functions that are given the task (``computing``).
    """
    shapes = {name: rows.shape for name, rows in data.views.items()}
    about = repr([shapes, data.groups.tolist(), None if data.sites is None else data.sites.tolist()])
    return keyed(task, b"".join(rows.tobytes() for rows in data.views.values()) + about.encode(), *computing)


def keyed(task: object, rows: bytes = b"", *computing: object) -> str:
    """The same for the bytes of its rows, if it has any that the task does not name."""
    return sha256(f"{_versions()} {task!r}".encode() + code_of(task, *computing) + rows)


@cache
def _versions() -> dict[str, str]:
    """Of the packages that it is computed with."""
    return {name: version(name) for name in COMPUTES if importlib.util.find_spec(IMPORTED.get(name, name))}


def kept_or_computed(path: Path, key: str, work: Callable[[], list[Line]]) -> list[Line]:
    """Lines as they were kept under the same key, or computed now, by one thread, and kept."""
    found = kept(path, key)
    if found is None:
        with threadpool_limits(1, user_api="blas"):
            found = work()
        keep(path, key, found)
    return found


def kept(path: Path, key: str) -> list[Line] | None:
    """Lines of an earlier run, unless they belong to something else or the file is damaged."""
    if not path.exists():
        return None
    try:
        found = json.loads(read_whole(path))
        if found["key"] != key:
            return None
        return [dict(line) for line in found["lines"]]
    except (ValueError, KeyError, TypeError, RecursionError):  # no file of ours, or not whole
        return None


def keep(path: Path, key: str, lines: list[Line]) -> None:
    """Write lines for :func:`kept` to find; what cannot be told is NaN, what diverged may be infinite."""
    write_whole(path, json.dumps({"key": key, "lines": lines}).encode())
