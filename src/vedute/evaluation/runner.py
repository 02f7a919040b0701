"""Runs an experiment fold by fold on several processes; a fold that is done is kept, so a run can be interrupted."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, Protocol, TypeVar

import pandas as pd
from joblib import Parallel, delayed
from threadpoolctl import threadpool_limits

from vedute.data.files import read_whole, said_plainly, sha256, to_json, write_whole
from vedute.errors import UserError
from vedute.evaluation.arms import Arm, scores_of_folds
from vedute.evaluation.folds import N_FOLDS, Dataset, Dealing, deal, three_folds
from vedute.version import __version__

T = TypeVar("T")
Line = dict[str, Any]  # one line of a tidy table
FOLDS = "folds"  # the folder of finished folds, inside that of the results


class Source(Protocol):
    """Where the rows of an experiment come from."""

    def draw(self, repeat: int) -> Dataset:
        """The study of one repetition: always the same, or drawn anew."""


@dataclass(frozen=True)
class Setting:
    """One block of rows of a table: how the train rows are dealt, and what is compared there."""

    dealing: Dealing
    centers: int  # 0: as many as there are sites
    arms: tuple[Arm, ...]
    part: str = "ours"  # what its finished folds are filed under
    stacked: bool = False  # compute all folds at once, for methods that gain by it


@dataclass(frozen=True)
class Experiment:
    """Everything that a table needs."""

    name: str
    source: Source
    settings: tuple[Setting, ...]
    paper_table: str | None = None  # the table of the paper to stand beside
    remarks: tuple[str, ...] = field(default=())


@dataclass(frozen=True)
class Task:
    """One setting on one fold."""

    experiment: str
    setting: Setting
    repeat: int
    fold: int

    @property
    def file(self) -> str:
        """Where its result is kept."""
        dealing = self.setting.dealing.replace("/", "")
        where = f"{self.experiment}-{dealing}-{self.setting.centers}-{self.setting.part}"
        return f"{where}-r{self.repeat:03d}-f{self.fold}.json"

    def key(self, data: Dataset) -> str:
        """Changes with everything that the result depends on: the arms, the rows and the version of the code."""
        return fold_key(self, data)


def fold_key(task: object, data: Dataset) -> str:
    """A checksum of the version of the code, of what is to be done, and of the rows with their groups and sites."""
    shapes = {name: rows.shape for name, rows in data.views.items()}
    about = repr([shapes, data.groups.tolist(), None if data.sites is None else data.sites.tolist()])
    return keyed(task, b"".join(rows.tobytes() for rows in data.views.values()) + about.encode())


def keyed(task: object, rows: bytes = b"") -> str:
    """The same for what is to be done and the bytes of its rows, if it has any that the task does not name."""
    return sha256(f"{__version__} {task!r}".encode() + rows)


def run(
    experiment: Experiment,
    repeats: int,
    out: Path,
    *,
    jobs: int = 1,
    on_fold: Callable[[int, int], None] | None = None,
) -> pd.DataFrame:
    """All folds of all settings as a tidy table, one line for each arm and fold."""
    if repeats < 1:
        raise UserError(f"repeats={repeats}: must be at least 1")
    tasks = list(_tasks(experiment, repeats))
    return each_fold(tasks, partial(_done, experiment.source), out, jobs=jobs, on_fold=on_fold)


def each_fold(
    tasks: Sequence[T],
    work: Callable[[Path, T], list[Line]],
    out: Path,
    *,
    jobs: int = 1,
    on_fold: Callable[[int, int], None] | None = None,
) -> pd.DataFrame:
    """The lines of all tasks, in their order; ``work`` is given the folder where finished folds are kept."""
    with said_plainly(out):
        (out / FOLDS).mkdir(parents=True, exist_ok=True)
    lines: list[Line] = []
    calls = (delayed(work)(out / FOLDS, task) for task in tasks)
    for i, found in enumerate(Parallel(n_jobs=min(jobs, len(tasks)), return_as="generator")(calls)):
        lines.extend(found)
        if on_fold is not None:
            on_fold(i + 1, len(tasks))
    return pd.DataFrame(lines)


def _tasks(experiment: Experiment, repeats: int) -> Iterator[tuple[Task, ...]]:
    """Tasks that are computed together: all of a stacked setting, else one by one."""
    for setting in experiment.settings:
        own = [Task(experiment.name, setting, r, fold) for r in range(repeats) for fold in range(N_FOLDS)]
        yield from [tuple(own)] if setting.stacked else [(task,) for task in own]


def _done(source: Source, folder: Path, tasks: Sequence[Task]) -> list[Line]:
    """The lines of some tasks: as they were kept under the same key, or computed now and kept."""
    data = {task.repeat: source.draw(task.repeat) for task in tasks}
    files = {task: (folder / task.file, task.key(data[task.repeat])) for task in tasks}
    found = {task: _kept(*where) for task, where in files.items()}
    lacking = [task for task, lines in found.items() if lines is None]
    for task, lines in zip(lacking, compute([(data[task.repeat], task) for task in lacking]), strict=True):
        _keep(*files[task], lines)
        found[task] = lines
    return [line for lines in found.values() for line in lines or ()]


def kept_or_computed(path: Path, key: str, work: Callable[[], list[Line]]) -> list[Line]:
    """The lines of one fold: as they were kept under the same key, or computed now and kept."""
    kept = _kept(path, key)
    if kept is not None:
        return kept
    lines = work()
    _keep(path, key, lines)
    return lines


def compute(wanted: Sequence[tuple[Dataset, Task]]) -> list[list[Line]]:
    """The lines of each task, given its study; all tasks have the same arms."""
    if not wanted:
        return []
    folds = []
    for data, task in wanted:
        seed = N_FOLDS * task.repeat + task.fold
        rows = three_folds(data, task.repeat)[task.fold]
        folds.append((deal(data, *rows, task.setting.dealing, task.setting.centers, seed), seed))
    arms = wanted[0][1].setting.arms
    with threadpool_limits(1, user_api="blas"):
        scored = scores_of_folds(arms, folds)
    found = []
    for (_, task), (fold, _), each in zip(wanted, folds, scored, strict=True):
        about = {"scenario": task.setting.dealing, "centers": len(fold.centers)}
        at = {"repeat": task.repeat, "fold": task.fold}
        lines = [
            about | {"method": arm.name, "scaling": arm.scaling} | at | asdict(score)
            for arm, score in zip(arms, each, strict=True)
        ]
        found.append(lines)
    return found


def _kept(path: Path, key: str) -> list[Line] | None:
    """Lines of an earlier run, unless they belong to other data or arms, or the file is damaged."""
    if not path.exists():
        return None
    try:
        found = json.loads(read_whole(path))
    except ValueError:
        return None
    if not isinstance(found, dict) or found.get("key") != key:
        return None
    return [{k: float("nan") if v is None else v for k, v in line.items()} for line in found["lines"]]


def _keep(path: Path, key: str, lines: list[Line]) -> None:
    without_nan = [{k: None if v != v else v for k, v in line.items()} for line in lines]
    write_whole(path, to_json({"key": key, "lines": without_nan}))
