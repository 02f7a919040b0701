"""A study: its views, its centers, and its rows as a stream."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass, replace
from functools import cached_property
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Generic, Protocol, TypeVar

import numpy as np

from vedute.data.check import CheckReport, check
from vedute.data.identity import RowIdentity
from vedute.data.problems import SHOWN, Problems, nearest, some
from vedute.data.stream import Bounds, Chunk, Pool, ViewFile, stream
from vedute.data.study_file import (
    FederationSettings,
    PrivacySettings,
    StudyText,
    parse_node,
    parse_study,
    read_toml,
)
from vedute.data.study_views import View, resolve_views
from vedute.data.subjects import subjects_of
from vedute.errors import UserError
from vedute.model.parameters import Array, Schema

if TYPE_CHECKING:
    from vedute.data.views import MultiView


class Folding(Protocol):
    """What rows are folded into, such as :class:`vedute.model.statistics.Accumulator`."""

    def add(self, views: Mapping[str, Array]) -> None:
        """Take in some row-aligned views."""


F = TypeVar("F", bound=Folding)
EVERY = 10_000  # complaints to a center, which mends its files without the study's author beside it


@dataclass(frozen=True)
class Folded(Generic[F]):
    """One center after all its rows went by."""

    result: F
    subjects: int
    digest: str  # the identity of the rows, to be compared when they are read again; "" for tables in memory
    name: str = ""  # of their ledger, if its key was given


@dataclass(frozen=True)
class Study:
    """A study file with all that it names, compared with the headers of its files."""

    path: Path
    text: str
    name: str
    components: int | None
    views: Mapping[str, View]
    pools: tuple[Pool, ...]
    privacy: PrivacySettings
    federation: FederationSettings

    @classmethod
    def load(cls, path: str | PathLike[str]) -> Study:
        """Read a study file and the headers of its files; every problem found is told at once."""
        problems = Problems()
        said = _parse(Path(path), problems)
        if not said.pools and not problems.messages:
            problems.add(f"{said.path.name}: names no files; add [subjects] and [files], or [centers.NAME.files]")
        return _resolved(said, problems)

    @classmethod
    def load_shared(cls, path: str | PathLike[str]) -> Study:
        """Only what all centers of a federation share: no files are looked at, so views must name their columns."""
        problems = Problems()
        said = replace(_parse(Path(path), problems), pools=())
        _require_columns(said, problems)
        return _resolved(said, problems)

    @classmethod
    def load_for(cls, path: str | PathLike[str], shared: Path) -> Study:
        """A study file, or the node file of one center of a federation, which the ``shared`` study completes."""
        home = Path(path)
        if home.is_file() and shared.is_file() and "center" in read_toml(home)[1]:
            return cls.load_node(shared, home)
        return cls.load(home)

    @classmethod
    def load_node(cls, path: str | PathLike[str], node: str | PathLike[str]) -> Study:
        """The shared part of a study with the files of one center, as its ``node.toml`` tells; its [privacy] wins."""
        problems = Problems()
        shared = replace(_parse(Path(path), problems), pools=())
        said = parse_node(Path(node), shared, problems)
        return _resolved(said, problems, every_view=False, shown=EVERY)

    @property
    def centers(self) -> tuple[str, ...]:
        """Names of the centers, sorted."""
        return tuple(sorted(center for pool in self.pools for center in pool.centers))

    @property
    def columns(self) -> dict[str, tuple[str, ...]]:
        """The columns of each view."""
        return {name: view.columns for name, view in self.views.items()}

    @cached_property
    def schema(self) -> Schema:
        """Views and columns as models have them."""
        return Schema(self.columns)

    @property
    def ranges(self) -> dict[str, dict[str, tuple[float, float]]]:
        """Declared ranges, by view and column: as the estimator takes them."""
        return {name: dict(view.ranges) for name, view in self.views.items() if view.ranges}

    def chunks(self, center: str, *, enforce_ranges: bool = True) -> Iterator[Chunk]:
        """The rows of one center in chunks, rows aligned over the views, in bounded memory."""
        with closing(stream(self._pool(center), self._bounds(enforce_ranges))) as chunks:
            yield from (chunk for chunk in chunks if chunk.center == center)

    def fold(
        self, make: Callable[[str], F], *, key: Callable[[str], bytes] | None = None, enforce_ranges: bool = True
    ) -> dict[str, Folded[F]]:
        """Feed the rows of every center to its own ``make(center)``; every file is read once for all centers.

        With the ``key`` of a center its rows also get the name under which their ledger is kept.
        """
        results = {center: make(center) for center in self.centers}
        rows = {center: RowIdentity(self.columns, key(center) if key else None) for center in self.centers}
        for pool in self.pools:
            for chunk in stream(pool, self._bounds(enforce_ranges)):
                rows[chunk.center].add(chunk.views, chunk.keys)
                if chunk.views:
                    results[chunk.center].add(chunk.views)
        for center in self.centers:
            _require_rows(center, rows[center].subjects)
        return {
            center: Folded(results[center], read.subjects, read.digest(), read.name() if key else "")
            for center, read in rows.items()
        }

    def read(self, center: str) -> MultiView:
        """All rows of one center in memory; a view of which nobody has a row is absent."""
        from vedute.data.views import MultiView  # brings pandas, which the process of a federation's job does without

        chunks = list(self.chunks(center))
        _require_rows(center, sum(map(len, chunks)))
        held = [name for name in self.views if any(name in chunk.views for chunk in chunks)]
        views = {name: np.concatenate([self._block(chunk, name) for chunk in chunks]) for name in held}
        groups = [chunk.groups for chunk in chunks if chunk.groups is not None]
        return MultiView(
            np.concatenate([chunk.ids for chunk in chunks]),
            views,
            {name: self.views[name].columns for name in held},
            np.concatenate(groups) if groups else None,
        )

    def check(self) -> CheckReport:
        """Read everything and report views, subjects, missing cells, ranges and problems."""
        return check(self.name, self.pools, self.views)

    def _block(self, chunk: Chunk, view: str) -> Array:
        shape = len(chunk), len(self.views[view].columns)
        return chunk.views[view] if view in chunk.views else np.full(shape, np.nan, dtype=np.float64)

    def _pool(self, center: str) -> Pool:
        for pool in self.pools:
            if center in pool.centers:
                return pool
        raise UserError(
            f"{self.path.name}: there is no center {center!r}{nearest(center, self.centers)}; "
            f"known are {some(self.centers)}"
        )

    def _bounds(self, enforce: bool) -> Bounds:
        if not enforce:
            return {}
        return {name: view.bounds for name, view in self.views.items() if view.bounds is not None}


def _parse(path: Path, problems: Problems) -> StudyText:
    text, raw = read_toml(path)
    return parse_study(path, text, raw, problems)


def _require_columns(said: StudyText, problems: Problems) -> None:
    if not said.views:
        problems.add(f"{said.path.name}: has no [views.NAME]; a shared study names its views and their columns")
    for name, view in said.views.items():
        if view.columns is None:
            problems.add(f"{said.path.name}: [views.{name}] names no columns; a shared study must: columns = [...]")


def _resolved(said: StudyText, problems: Problems, every_view: bool = True, shown: int = SHOWN) -> Study:
    views = resolve_views(said, problems, every_view)
    pools = _resolve_pools(said, views, problems)
    if not any(pool.files for pool in pools) and said.pools and not problems.messages:
        problems.add(f"{said.path.name}: no view has a file; name them under [files]")
    problems.raise_if_any(str(said.path), shown)
    return Study(said.path, said.text, said.name, said.components, views, pools, said.privacy, said.federation)


def _resolve_pools(study: StudyText, views: Mapping[str, View], problems: Problems) -> tuple[Pool, ...]:
    """The files with their columns, and the table of subjects read."""
    pools = []
    for pool in study.pools:
        held = {name: view for name, view in views.items() if name in pool.files}
        files = {name: ViewFile(pool.files[name], view.columns) for name, view in held.items()}
        pools.append(Pool(files, pool.center, subjects_of(pool, problems)))
    return tuple(pools)


def _require_rows(center: str, n: int) -> None:
    if n == 0:
        raise UserError(f"center {center!r} has no rows in any view; add them, or take the center out of the study")
