"""Runs an experiment fold by fold on several processes; a fold that is done is kept, so a run can be interrupted."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Protocol

import pandas as pd
from joblib import Parallel, delayed
from threadpoolctl import threadpool_limits

from vedute.data.files import read_whole, said_plainly, sha256, to_json, write_whole
from vedute.errors import UserError
from vedute.evaluation.arms import Arm, score
from vedute.evaluation.folds import N_FOLDS, Dataset, Dealing, deal, three_folds
from vedute.version import __version__

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
        return f"{self.experiment}-{dealing}-{self.setting.centers}-r{self.repeat:03d}-f{self.fold}.json"

    def key(self, data: Dataset) -> str:
        """Changes with everything that the result depends on: the arms, the rows and the version of the code."""
        rows = b"".join(view.tobytes() for view in data.views.values()) + "".join(map(str, data.groups)).encode()
        return sha256(f"{__version__} {self!r}".encode() + rows)


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
    with said_plainly(out):
        (out / FOLDS).mkdir(parents=True, exist_ok=True)
    tasks = list(_tasks(experiment, repeats))
    lines: list[dict[str, Any]] = []
    work = (delayed(_done)(experiment.source, task, out / FOLDS) for task in tasks)
    for i, found in enumerate(Parallel(n_jobs=min(jobs, len(tasks)), return_as="generator")(work)):
        lines.extend(found)
        if on_fold is not None:
            on_fold(i + 1, len(tasks))
    return pd.DataFrame(lines)


def _tasks(experiment: Experiment, repeats: int) -> Iterator[Task]:
    for setting in experiment.settings:
        for repeat in range(repeats):
            for fold in range(N_FOLDS):
                yield Task(experiment.name, setting, repeat, fold)


def _done(source: Source, task: Task, folder: Path) -> Sequence[dict[str, Any]]:
    """The lines of one task: as they were kept, or computed now."""
    data = source.draw(task.repeat)
    path, key = folder / task.file, task.key(data)
    if path.exists():
        kept = _kept(path, key)
        if kept is not None:
            return kept
    lines = compute(data, task)
    write_whole(path, to_json({"key": key, "lines": _without_nan(lines)}))
    return lines


def compute(data: Dataset, task: Task) -> list[dict[str, Any]]:
    """The lines of one task."""
    setting = task.setting
    train, test = three_folds(data, task.repeat)[task.fold]
    seed = N_FOLDS * task.repeat + task.fold
    fold = deal(data, train, test, setting.dealing, setting.centers, seed)
    lines = []
    with threadpool_limits(1, user_api="blas"):
        for arm in setting.arms:
            about = {"scenario": setting.dealing, "centers": len(fold.centers), "method": arm.name}
            about |= {"scaling": arm.scaling, "repeat": task.repeat, "fold": task.fold}
            lines.append(about | asdict(score(arm, fold, seed)))
    return lines


def _kept(path: Path, key: str) -> list[dict[str, Any]] | None:
    """Lines of an earlier run, unless they belong to other data or arms, or the file is damaged."""
    try:
        found = json.loads(read_whole(path))
    except ValueError:
        return None
    if not isinstance(found, dict) or found.get("key") != key:
        return None
    return [{k: float("nan") if v is None else v for k, v in line.items()} for line in found["lines"]]


def _without_nan(lines: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [{k: None if v != v else v for k, v in line.items()} for line in lines]
