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

from vedute.progress import Tell, change_in_words, progress_bar, tell_round

if TYPE_CHECKING:
    from vedute.run.protocol import Progress
    from vedute.run.settings import Settings
    from vedute.run.study_fit import Watch

QUIET_SECONDS = 10.0  # a log gets a line at rounds 1, 2, 5, 10, 20, ..., and whenever nothing was said for so long


@contextmanager
def watch_rounds(as_json: bool) -> Iterator[Watch]:
    """The watch that suits where the output goes."""
    if as_json:
        yield _json_lines()
        return
    with progress_bar("reading", shown=sys.stderr.isatty()) as tell:
        yield _plain_lines() if tell is None else _bar(tell)


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
