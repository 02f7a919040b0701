"""The progress bar: of rounds, of fits that are compared, of subjects that are counted."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from vedute.run.protocol import Progress as Rounds
    from vedute.run.protocol import Record


class Tell(Protocol):
    """Tells a bar how far the work has come."""

    def __call__(self, words: str, done: int, total: int | None = None, note: str = "") -> None:
        """``done`` of ``total``, in ``words`` before the bar and a ``note`` behind it."""


@contextmanager
def progress_bar(words: str, *, shown: bool, kept: bool = False, ends: bool = True) -> Iterator[Tell | None]:
    """What moves a bar on standard error while it lasts, or None where none is ``shown``.

    A bar that is ``kept`` stays on the screen; work of which nobody knows where it ``ends`` has a clock instead of one.
    """
    if not shown:
        yield None
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn, TimeRemainingColumn

    before, behind = TextColumn("{task.description}"), TextColumn("{task.fields[note]}")
    parts = (BarColumn(), behind, TimeRemainingColumn()) if ends else (TimeElapsedColumn(),)
    with Progress(SpinnerColumn(), before, *parts, console=Console(stderr=True), transient=not kept) as bar:
        task = bar.add_task(words, total=None, note="")

        def tell(words: str, done: int, total: int | None = None, note: str = "") -> None:
            bar.update(task, description=words, completed=done, total=total, note=note)

        yield tell


@contextmanager
def rounds_bar(rounds: int, *, shown: bool) -> Iterator[Callable[[Rounds], None] | None]:
    """What to call after each round of a fit in memory, or None."""
    with progress_bar(f"round 0/{rounds}", shown=shown, kept=True) as tell:
        yield None if tell is None else lambda done: tell_round(tell, done.history[-1], rounds)


def tell_round(tell: Tell, last: Record, rounds: int) -> None:
    """Show a round that was finished."""
    tell(f"round {last.round}/{rounds}", last.round, rounds, change_in_words(last))


def change_in_words(last: Record) -> str:
    """How much a round changed the model; the first has nothing to compare with."""
    return f"change {last.change:.1e}" if math.isfinite(last.change) else "first"
