"""How work shows that it goes on: a bar on a terminal, plain lines in a pipe, JSON lines for machines."""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from time import monotonic
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from vedute.run.protocol import Progress as Rounds
    from vedute.run.protocol import Record
    from vedute.run.settings import Settings
    from vedute.run.study_fit import Watch

QUIET_SECONDS = 10.0  # a log gets a line at rounds 1, 2, 5, 10, 20, ..., and whenever nothing was said for so long


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


@contextmanager
def watch_rounds(as_json: bool) -> Iterator[Watch]:
    """The watch that suits where the output goes."""
    if as_json:
        yield _json_lines()
        return
    with progress_bar("reading", shown=sys.stderr.isatty()) as tell:
        yield _plain_lines() if tell is None else _bar(tell)


def _json_lines() -> Watch:
    import click

    from vedute.run.study_fit import Watch

    def begun(settings: Settings, done: int) -> None:
        click.echo(json.dumps({"event": "begin", "rounds": settings.rounds, "done": done}))

    def round_(progress: Rounds) -> None:
        last = progress.history[-1]
        change = last.change if math.isfinite(last.change) else None
        click.echo(json.dumps({"event": "round", "round": last.round, "change": change, "seconds": last.seconds}))

    return Watch(begun, round_)


def _plain_lines() -> Watch:
    import click

    from vedute.run.study_fit import Watch

    told = monotonic()

    def begun(settings: Settings, done: int) -> None:
        if done:
            click.echo(f"resumed after round {done}", err=True)

    def round_(progress: Rounds) -> None:
        nonlocal told
        last = progress.history[-1]
        if progress.converged or _round_number(last.round) or monotonic() - told > QUIET_SECONDS:
            told = monotonic()
            click.echo(f"round {last.round}: {change_in_words(last)}", err=True)

    return Watch(begun, round_)


def _round_number(n: int) -> bool:
    """1, 2, 5, 10, 20, 50, 100, ..."""
    return str(n).rstrip("0") in {"1", "2", "5"}


def _bar(tell: Tell) -> Watch:
    from vedute.run.study_fit import Watch

    rounds = 0

    def begun(settings: Settings, done: int) -> None:
        nonlocal rounds
        rounds = settings.rounds
        tell(f"round {done}/{rounds}", done, rounds)

    return Watch(begun, lambda progress: tell_round(tell, progress.history[-1], rounds))
