"""What the commands of ``vedute paper`` have in common."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import TypeVar

import click

from vedute.cli.options import FilePath

F = TypeVar("F", bound=Callable[..., None])


def shared_options(function: F) -> F:
    """What all experiments take."""
    for option in reversed(
        (
            click.option("--repeats", type=click.IntRange(1), default=10, show_default=True, help="Times 3 folds."),
            click.option("--out", type=FilePath, required=True, metavar="DIR", help="Folder for tables and figures."),
            click.option("--jobs", type=click.IntRange(1), help="Processes at once. [default: one for each core]"),
        )
    ):
        function = option(function)
    return function


def shown() -> Callable[[int, int], None] | None:
    """Counts parts on a terminal, nothing in a pipe."""
    return _counted if sys.stderr.isatty() else None


def _counted(done: int, total: int) -> None:
    click.echo(f"\rpart {done}/{total}", nl=done == total, err=True)
