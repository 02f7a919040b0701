"""What the commands of ``vedute paper`` have in common."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import click

from vedute.cli.options import FilePath
from vedute.errors import UserError

if TYPE_CHECKING:
    from vedute.evaluation.studies import Given

F = TypeVar("F", bound=Callable[..., None])


def rows_options(function: F) -> F:
    """Real rows in place of synthetic ones; the names of the files then end in "-cnp" or "-study"."""
    function = click.option(
        "--study", type=FilePath, metavar="FILE", help="Run on a study file with four views, such as ADNI itself."
    )(function)
    return click.option(
        "--data", type=FilePath, metavar="FOLDER", help="Run on the open data set cnp, which stands in for ADNI."
    )(function)


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


def rows_given(data: Path | None, study: Path | None) -> Given:
    """The rows that an experiment is to run on."""
    from vedute.evaluation.studies import SYNTHETIC, from_folder, from_study

    if data is not None and study is not None:
        raise UserError("give --data FOLDER or --study FILE, not both")
    if data is not None:
        return from_folder(data)
    return SYNTHETIC if study is None else from_study(study)
