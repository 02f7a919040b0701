"""``vedute report``."""

from __future__ import annotations

from pathlib import Path

import click

from vedute.cli.options import FilePath, force_option, run_argument

PAGE = "report.html"


@click.command()
@run_argument
@click.option("--out", type=FilePath, metavar="FILE", help=f"The page to write. [default: RUN/{PAGE}]")
@click.option("--ids", is_flag=True, help="Show the names of subjects when the mouse points at them.")
@force_option
def command(run: Path, out: Path | None, ids: bool, force: bool) -> None:
    """Write one HTML page about the model in RUN: how centers differ, what components mean, what privacy cost.

    The page needs nothing else: it opens from disk, sends nothing and loads nothing. Made where the rows are, it shows
    single subjects as points; made elsewhere it says what is missing and why.
    """
    from vedute.cli.options import refuse_existing
    from vedute.data.files import write_whole
    from vedute.report.page import render
    from vedute.report.reading import read_folder

    folder = read_folder(run)
    page = out or run / PAGE
    if out is not None:
        refuse_existing(page, force)
    write_whole(page, render(folder, ids=ids).encode())
    click.echo(f"report: {page}")
