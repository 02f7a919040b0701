"""How a fit shows that it goes on: a bar on a terminal, plain lines in a pipe, JSON lines for machines."""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from time import monotonic
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from vedute.run.protocol import Progress, Record
    from vedute.run.settings import Settings
    from vedute.run.study_fit import Watch

QUIET_SECONDS = 10.0  # a log gets a line at rounds 1, 2, 5, 10, 20, ..., and whenever nothing was said for so long


@contextmanager
def watch_rounds(as_json: bool) -> Iterator[Watch]:
    """The watch that suits where the output goes."""
    if as_json:
        yield _json_lines()
    elif sys.stderr.isatty():
        with _bar() as watch:
            yield watch
    else:
        yield _plain_lines()


def _json_lines() -> Watch:
    from vedute.run.study_fit import Watch

    def begun(settings: Settings, done: int) -> None:
        click.echo(json.dumps({"event": "begin", "rounds": settings.rounds, "done": done}))

    def round_(progress: Progress) -> None:
        last = progress.history[-1]
        change = last.change if math.isfinite(last.change) else None
        click.echo(json.dumps({"event": "round", "round": last.round, "change": change, "seconds": last.seconds}))

    return Watch(begun, round_)


def _plain_lines() -> Watch:
    from vedute.run.study_fit import Watch

    told = monotonic()

    def begun(settings: Settings, done: int) -> None:
        if done:
            click.echo(f"resumed after round {done}", err=True)

    def round_(progress: Progress) -> None:
        nonlocal told
        last = progress.history[-1]
        if progress.converged or _round_number(last.round) or monotonic() - told > QUIET_SECONDS:
            told = monotonic()
            click.echo(f"round {last.round}: {_change(last)}", err=True)

    return Watch(begun, round_)


def _change(last: Record) -> str:
    return f"change {last.change:.1e}" if math.isfinite(last.change) else "first"


def _round_number(n: int) -> bool:
    """1, 2, 5, 10, 20, 50, 100, ..."""
    return str(n).rstrip("0") in {"1", "2", "5"}


@contextmanager
def _bar() -> Iterator[Watch]:
    from rich.console import Console
    from rich.progress import BarColumn, SpinnerColumn, TaskID, TextColumn, TimeRemainingColumn
    from rich.progress import Progress as Bar

    from vedute.run.study_fit import Watch

    parts = (SpinnerColumn(), TextColumn("{task.description}"), BarColumn(), TextColumn("{task.fields[change]}"))
    with Bar(*parts, TimeRemainingColumn(), console=Console(stderr=True), transient=True) as bar:
        task: TaskID = bar.add_task("reading", total=None, change="")

        def begun(settings: Settings, done: int) -> None:
            bar.reset(task, total=settings.rounds, completed=done, description=f"round {done}/{settings.rounds}")

        def round_(progress: Progress) -> None:
            last = progress.history[-1]
            total = int(bar.tasks[0].total or 0)
            text = f"round {last.round}/{total}"
            bar.update(task, completed=last.round, description=text, change=_change(last))

        yield Watch(begun, round_)
