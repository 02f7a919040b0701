"""What the commands of ``vedute paper`` have in common."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import click

from vedute.cli.options import FilePath

if TYPE_CHECKING:
    from vedute.evaluation.keeping import Source

F = TypeVar("F", bound=Callable[..., None])

data_option = click.option(
    "--data", type=FilePath, metavar="FOLDER", help="Run on the open data set cnp instead of synthetic data."
)


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


def named_source(name: str, data: Path | None) -> tuple[str, Source, str, int]:
    """The name of the experiment, its rows, how to call them, and the number of components."""
    from vedute.evaluation.experiments import FixedStudy, SyntheticStudy
    from vedute.evaluation.studies import CNP, complete_rows, read_folder

    if data is None:
        return name, SyntheticStudy(), "SD", 5
    return f"{name}-cnp", FixedStudy(complete_rows(read_folder(data, CNP))), "cnp", CNP.n_components
