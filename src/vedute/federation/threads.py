"""Work on threads of its own for each part, with a single BLAS thread in each: the bits do not depend on the cores."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from threadpoolctl import threadpool_limits

T = TypeVar("T")
R = TypeVar("R")


def in_threads(action: Callable[[T], R], parts: Iterable[T], threads: int | None = None) -> Iterator[R]:
    """``action`` of each part, in order."""
    # more workers than cores: three equal parts on two cores then take 1.5 times one of them, not twice
    workers = 2 * (threads or os.cpu_count() or 1)
    with threadpool_limits(1, user_api="blas"), ThreadPoolExecutor(workers) as pool:
        yield from pool.map(action, parts)
