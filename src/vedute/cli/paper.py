"""``vedute paper``: the tables and figures of the paper, run again."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import click

from vedute.cli.options import FilePath

if TYPE_CHECKING:
    from vedute.evaluation.runner import Experiment

F = TypeVar("F", bound=Callable[..., None])


def shared_options(function: F) -> F:
    """What all experiments take."""
    for option in reversed(
        (
            click.option("--repeats", type=click.IntRange(1), default=10, show_default=True, help="Times 3 folds."),
            click.option("--out", type=FilePath, required=True, metavar="DIR", help="Folder for tables and figures."),
            click.option("--jobs", type=click.IntRange(1), help="Processes at once. [default: one for each core]"),
            click.option("--rivals/--no-rivals", default=True, show_default=True, help="Also run other methods."),
        )
    ):
        function = option(function)
    return function


@click.group()
def command() -> None:
    """Run the paper's experiments again, its own numbers beside ours.

    Each writes NAME.csv (one line for each fold), NAME.md, NAME.png and NAME.svg. Folds that are done are kept in
    DIR/folds: an interrupted run continues where it stopped.
    """


@command.command()
@shared_options
def sd(repeats: int, out: Path, jobs: int | None, rivals: bool) -> None:
    """Synthetic data: scenarios IID, G, K and G/K over 1, 3 and 6 centers (table SD_2)."""
    from vedute.evaluation.experiments import sd as experiment

    conduct(experiment(rivals=rivals), repeats, out, jobs)


def conduct(experiment: Experiment, repeats: int, out: Path, jobs: int | None) -> None:
    """Run, write, and tell where."""
    from vedute.evaluation.results import write
    from vedute.evaluation.runner import run

    shown = _counted if sys.stderr.isatty() else None
    lines = run(experiment, repeats, out, jobs=jobs or os.cpu_count() or 1, on_fold=shown)
    for remark in experiment.remarks:
        click.echo(remark)
    for path in write(experiment, lines, out):
        click.echo(str(path))


def _counted(done: int, total: int) -> None:
    click.echo(f"\rfold {done}/{total}", nl=done == total, err=True)
