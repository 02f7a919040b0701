"""Work on a thread for each part, with a single BLAS thread in each: the bits do not depend on the number of cores."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager
from functools import cache
from typing import Any, TypeVar

from threadpoolctl import ThreadpoolController

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
