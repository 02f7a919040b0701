"""What `vedute check` tells: views, subjects, missing cells, ranges and problems, without writing anything."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from vedute.data.problems import Problems
from vedute.data.stream import Chunk, Pool, stream
from vedute.data.study_views import View
from vedute.data.subjects import SubjectTable
from vedute.data.table import read
from vedute.errors import UserError
from vedute.model.parameters import Array


@dataclass(frozen=True)
class ViewReport:
    """One view at one center; arrays have an entry for each column."""

    columns: tuple[str, ...]
    subjects: int  # with at least one cell
    observed: Array
    low: Array  # NaN where nothing is observed
    high: Array
    outside: Array  # cells beyond the declared range

    @property
    def missing(self) -> float:
        """Share of empty cells among the subjects who have the view."""
        return float(1 - self.observed.sum() / max(1, self.subjects * len(self.columns)))


@dataclass(frozen=True)
class CenterReport:
    """One center: its subjects, and the views that it has."""

    name: str
    subjects: int
    views: Mapping[str, ViewReport]
    listed: int | None = None  # in the table of subjects, if there is one


@dataclass(frozen=True)
class CheckReport:
    """The whole study."""

    study: str
    centers: tuple[CenterReport, ...]
    problems: tuple[str, ...]

    @property
    def ok(self) -> bool:
        """Whether a fit can begin."""
        return not self.problems

    @property
    def subjects(self) -> int:
        """Number of subjects of all centers."""
        return sum(center.subjects for center in self.centers)


class _Tally:
    """Counts of one center, chunk by chunk."""

    def __init__(self, views: Mapping[str, View]) -> None:
        self.subjects = 0
        self.views = views
        self.rows = dict.fromkeys(views, 0)
        self.observed = {name: np.zeros(len(view.columns)) for name, view in views.items()}
        self.low = {name: np.full(len(view.columns), np.inf) for name, view in views.items()}
        self.high = {name: np.full(len(view.columns), -np.inf) for name, view in views.items()}
        self.outside = {name: np.zeros(len(view.columns)) for name, view in views.items()}

    def add(self, chunk: Chunk) -> None:
        self.subjects += len(chunk)
        for name, block in chunk.views.items():
            seen = ~np.isnan(block)
            self.rows[name] += int(seen.any(axis=1).sum())
            self.observed[name] += seen.sum(axis=0)
            self.low[name] = np.fmin(self.low[name], np.fmin.reduce(block, axis=0))
            self.high[name] = np.fmax(self.high[name], np.fmax.reduce(block, axis=0))
            bounds = self.views[name].bounds
            if bounds is not None:
                self.outside[name] += ((block < bounds[:, 0]) | (block > bounds[:, 1])).sum(axis=0)

    def report(self, center: str, listed: int | None) -> CenterReport:
        views = {
            name: ViewReport(
                view.columns, self.rows[name], self.observed[name],
                np.where(self.observed[name] > 0, self.low[name], np.nan),
                np.where(self.observed[name] > 0, self.high[name], np.nan), self.outside[name],
            )
            for name, view in self.views.items() if self.rows[name]
        }  # fmt: skip
        return CenterReport(center, self.subjects, views, listed)


def check(study: str, pools: tuple[Pool, ...], views: Mapping[str, View]) -> CheckReport:
    """Read everything once and report; a file that cannot be read spares the others."""
    problems = Problems()
    reports: list[CenterReport] = []
    for pool in pools:
        tallies = {center: _Tally(views) for center in pool.centers}
        try:
            for chunk in stream(pool):
                tallies[chunk.center].add(chunk)
        except UserError as error:
            problems.catch(error)
            _survey(pool, problems)
            continue
        for center, tally in tallies.items():
            report = tally.report(center, _listed(pool.subjects, center))
            reports.append(report)
            problems.add(*_center_problems(report, views))
    return CheckReport(study, tuple(sorted(reports, key=lambda report: report.name)), tuple(problems.messages))


def _survey(pool: Pool, problems: Problems) -> None:
    """When a pool cannot be joined, each of its files may have faults of its own: name them all."""
    for file in pool.files.values():
        try:
            for _ in read(file.table, file.columns):
                pass
        except UserError as error:
            problems.catch(error)


def _listed(subjects: SubjectTable | None, center: str) -> int | None:
    if subjects is None:
        return None
    if subjects.center is None:
        return len(subjects)
    return int((subjects.center == subjects.centers.index(center)).sum())


def _center_problems(report: CenterReport, views: Mapping[str, View]) -> list[str]:
    problems = []
    if not report.views:
        problems.append(f"center {report.name!r} has no data in any view; add its rows, or remove its subjects")
    for name, view in report.views.items():
        for column, count, low, high in zip(view.columns, view.outside, view.low, view.high, strict=True):
            if count:
                declared = views[name].ranges[column]
                problems.append(
                    f"center {report.name!r}, view {name}, column {column!r}: {count:.0f} values outside the declared "
                    f"range [{declared[0]:g}, {declared[1]:g}] (they run from {low:g} to {high:g}); "
                    "correct the cells, or widen the range if such values are possible"
                )
    return problems
