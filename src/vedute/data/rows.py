"""The rows of all centers, in memory or in the files of a study: read by one fold, and read again only if the same.

Parts are read on threads of their own with a single BLAS thread in each: the bits do not depend on the number of cores.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from threadpoolctl import ThreadpoolController

from vedute.data.identity import RowIdentity
from vedute.data.stream import Chunk, Pool, stream
from vedute.data.study import Folded, Folding, Study
from vedute.errors import UserError
from vedute.model.parameters import Array, Schema

if TYPE_CHECKING:
    from vedute.data.views import MultiView

F = TypeVar("F", bound=Folding)
Key = Callable[[str], bytes]  # of a center: its secret, under which its ledger is named
PIECE_ROWS = 1 << 15  # rows in memory that one thread folds at a time


class DataChanged(UserError):
    """The rows of a center are not those that its run began with."""

    def __init__(self, center: str) -> None:
        self.center = center
        super().__init__(
            f"center {center!r}: its data changed while the model was fitted; "
            "fit again with --force when they are at rest"
        )


class Rows(Protocol):
    """The rows of all centers, wherever they are."""

    @property
    def schema(self) -> Schema:
        """Views and columns."""

    @property
    def held(self) -> Mapping[str, tuple[str, ...]]:
        """The views of each center, which is public."""

    @property
    def ranges(self) -> Any:
        """The public ranges that were declared with the rows; None if there are none."""

    def fold(self, make: Callable[[str], F], key: Key | None = None) -> dict[str, Folded[F]]:
        """Read all rows and feed those of each center to its own ``make(center)``."""


@dataclass(frozen=True)
class TableRows:
    """The rows of centers whose tables are in memory."""

    schema: Schema
    tables: Mapping[str, MultiView]
    ranges: Any = None

    @property
    def held(self) -> dict[str, tuple[str, ...]]:
        """The views that each center gave."""
        return {name: tuple(table.views) for name, table in self.tables.items()}

    def fold(self, make: Callable[[str], F], key: Key | None = None) -> dict[str, Folded[F]]:
        """Feed the tables to their centers: in pieces on several threads where what they become adds up."""
        pieces: list[tuple[str, int, Any]] = []
        for name, table in self.tables.items():
            sink = make(name)
            whole = range(0, len(table), PIECE_ROWS if hasattr(sink, "absorb") else len(table))
            pieces += [(name, start, make(name) if start else sink) for start in whole]

        def read(piece: tuple[str, int, Any]) -> None:
            name, start, sink = piece
            views = self.tables[name].views
            stop = start + PIECE_ROWS if hasattr(sink, "absorb") else None
            sink.add({view: rows[start:stop] for view, rows in views.items()})

        list(in_threads(read, pieces))
        found = {name: sink for name, start, sink in pieces if start == 0}
        for name, start, sink in pieces:
            if start:
                found[name].absorb(sink)
        return {name: Folded(sink, len(self.tables[name]), "", self._named(name, key)) for name, sink in found.items()}

    def _named(self, center: str, key: Key | None) -> str:
        """Tables in memory are at rest, so only a ledger asks whose rows they are."""
        if key is None:
            return ""
        identity = RowIdentity(self.schema.columns, key(center))
        identity.add_keyed(self.tables[center].views)
        return identity.name()


class StudyRows:
    """The rows of a study, in its files; ``digests`` are those of the reading that a run began with, if there was one.

    ``clipped``: a policy will clip what lies beyond the declared ranges, which is then no reason to refuse it.
    """

    def __init__(
        self, study: Study, *, ranges: Any = None, clipped: bool = False, digests: Mapping[str, str] | None = None
    ) -> None:
        self.study, self.clipped = study, clipped
        self.ranges: Any = study.ranges if ranges is None else ranges
        self.digests = dict(digests or {})

    @property
    def schema(self) -> Schema:
        """Views and columns."""
        return self.study.schema

    @property
    def held(self) -> dict[str, tuple[str, ...]]:
        """The views that each center has a file of; in a pooled file every center is taken to hold all of them."""
        return {center: tuple(sorted(pool.files)) for pool in self.study.pools for center in pool.centers}

    def fold(self, make: Callable[[str], F], key: Key | None = None) -> dict[str, Folded[F]]:
        """Read every file once; if rows were read before, refuse others."""
        found = self.study.fold(make, key=key, enforce_ranges=not self.clipped)
        for center, part in found.items():
            self.compare(center, part.digest)
        return found

    def stream(self, pool: Pool, centers: Sequence[str]) -> Iterator[Chunk]:
        """Some centers' rows of a pool once more; at their end, refuse others than were read before."""
        seen = {center: RowIdentity(self.schema.columns) for center in centers}
        for chunk in stream(pool):
            if chunk.center in seen:
                seen[chunk.center].add(chunk.views, chunk.keys)
                yield chunk
        for center, identity in seen.items():
            self.compare(center, identity.digest())

    def compare(self, center: str, digest: str) -> None:
        """The rows of a center must be those of the first reading, which is remembered."""
        if self.digests.setdefault(center, digest) != digest:
            raise DataChanged(center)


class Nothing:
    """Keeps nothing of the rows, where their identity alone is asked."""

    def add(self, views: Mapping[str, Array]) -> None:
        """Forget them."""


def open_rows(centers: Mapping[str, Any] | Study, *, ranges: Any = None, clipped: bool = False) -> Rows:
    """Where the rows are and how they are laid out; nothing is read yet."""
    if isinstance(centers, Study):
        return StudyRows(centers, ranges=ranges, clipped=clipped)
    from vedute.data.views import common_schema  # pandas, which no center of a federation needs

    tables = _tables(centers)
    return TableRows(common_schema(tables), tables, ranges)


def _tables(centers: Any) -> dict[str, MultiView]:
    from vedute.data.views import MultiView

    if not isinstance(centers, Mapping):
        raise UserError(
            f"expected a mapping from center name to its views, got {type(centers).__name__}; "
            'write {"center": {"VIEW": X}}'
        )
    if not centers:
        raise UserError("there is no center; give at least one")
    for name in centers:
        if not isinstance(name, str) or not name:
            raise UserError(f"{name!r} cannot name a center; use a text that is not empty")
    return {name: MultiView.from_mapping(views, center=name) for name, views in centers.items()}


T = TypeVar("T")
R = TypeVar("R")


def one_blas_thread() -> AbstractContextManager[Any]:
    """While this is held, BLAS computes on the thread that called it."""
    limit: AbstractContextManager[Any] = _controller().limit(limits=1, user_api="blas")
    return limit


@cache
def _controller() -> ThreadpoolController:
    return ThreadpoolController()  # looks for the libraries of the process, which takes longer than a small fit


def workers(threads: int) -> int:
    """More workers than cores: three equal parts on two cores then take 1.5 times one of them, not twice."""
    return 2 * threads


def in_threads(action: Callable[[T], R], parts: Iterable[T]) -> Iterator[R]:
    """``action`` of each part, in order."""
    with one_blas_thread(), ThreadPoolExecutor(workers(os.cpu_count() or 1)) as pool:
        yield from pool.map(action, parts)
