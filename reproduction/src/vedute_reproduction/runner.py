"""The tables of the paper: an experiment is settings, a setting is arms, each scored on every fold."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path

import pandas as pd
from threadpoolctl import threadpool_limits

from vedute_reproduction.arms import Arm, scores_of_folds
from vedute_reproduction.baselines.autoencoders import device
from vedute_reproduction.folds import N_FOLDS, Dataset, Dealing, dealt, seed_of
from vedute_reproduction.keeping import How, Line, Source, each, fold_key, keep, kept

STACK = 5  # repetitions that train together: more gain little, and what is interrupted is lost


@dataclass(frozen=True)
class Setting:
    """One block of rows of a table: how the train rows are dealt, and what is compared there."""

    dealing: Dealing
    centers: int  # 0: as many as there are sites
    arms: tuple[Arm, ...]
    part: str = "ours"  # what its finished folds are filed under
    stacked: bool = False  # compute many folds at once, for methods that gain by it


@dataclass(frozen=True)
class Experiment:
    """Everything that a table needs."""

    name: str
    about: str  # the data, and whatever else a title must say
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


def run(experiment: Experiment, how: How) -> pd.DataFrame:
    """All folds of all settings as a tidy table, one line for each arm and fold."""
    return each(list(_tasks(experiment, how)), partial(_done, experiment.source), how)


def _tasks(experiment: Experiment, how: How) -> Iterator[tuple[Task, ...]]:
    """Tasks that are computed together: some repetitions of a stacked setting, else one by one."""
    for setting in experiment.settings:
        own = [Task(experiment.name, setting, *place) for place in how.places]
        size = STACK * N_FOLDS if setting.stacked else 1
        yield from (tuple(own[i : i + size]) for i in range(0, len(own), size))


def _done(source: Source, folder: Path, tasks: Sequence[Task]) -> list[Line]:
    """The lines of some tasks: as they were kept under the same key, or computed now and kept."""
    data = {task.repeat: source.draw(task.repeat) for task in tasks}
    files = {task: (folder / task.file, key(task, data[task.repeat])) for task in tasks}
    found = {task: kept(*where) for task, where in files.items()}
    lacking = [task for task, lines in found.items() if lines is None]
    for task, lines in zip(lacking, compute([(data[task.repeat], task) for task in lacking]), strict=True):
        keep(*files[task], lines)
        found[task] = lines
    return [line for lines in found.values() for line in lines or ()]


def key(task: Task, data: Dataset) -> str:
    """Changes with all that a result depends on; what trains on another device gives other last digits."""
    return fold_key((task, device()) if task.setting.stacked else task, data, compute)


def compute(wanted: Sequence[tuple[Dataset, Task]]) -> list[list[Line]]:
    """The lines of each task, given its study; all tasks have the same arms."""
    if not wanted:
        return []
    arms, folds = wanted[0][1].setting.arms, []
    for data, task in wanted:
        place, how = (task.repeat, task.fold), (task.setting.dealing, task.setting.centers)
        folds.append(({arm.parting: dealt(data, *place, *how, arm.parting) for arm in arms}, seed_of(*place)))
    with threadpool_limits(1, user_api="blas"):
        scored = scores_of_folds(arms, folds)
    found = []
    for (_, task), (parted, _), own in zip(wanted, folds, scored, strict=True):
        about = {"scenario": task.setting.dealing, "centers": len(parted[arms[0].parting].centers)}
        at = {"repeat": task.repeat, "fold": task.fold}
        lines = [
            about | {"method": arm.name, "scaling": arm.scaling} | at | asdict(score)
            for arm, score in zip(arms, own, strict=True)
        ]
        found.append(lines)
    return found
