"""``vedute report``."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

import click

from vedute.cli.options import FilePath, force_option, refuse_existing, run_argument

PAGE = "report.html"


@click.command()
@run_argument
@click.option("--out", type=FilePath, metavar="FILE", help=f"The page to write. [default: RUN/{PAGE}]")
@click.option("--ids", is_flag=True, help="Show the names of subjects when the mouse points at them.")
@click.option("--watch", is_flag=True, help="Serve the page on this machine; it follows a running fit. Ctrl-C ends it.")
@click.option("--port", type=click.IntRange(0, 65535), default=0, help="Port of --watch. [default: any free one]")
@force_option
def command(run: Path, out: Path | None, ids: bool, watch: bool, port: int, force: bool) -> None:
    """Write one HTML page about the model in RUN: how centers differ, what components mean, what privacy cost.

    The page needs nothing else: it opens from disk, sends nothing and loads nothing. Made where the rows are, it shows
    single subjects as points; made elsewhere it says what is missing and why.
    """
    if watch:
        if out is not None:
            raise click.UsageError("--watch serves the page and --out writes it; choose one")
        _watch(run, port, ids)
        return
    from vedute.data.files import write_whole
    from vedute.report.page import render
    from vedute.report.reading import read_folder

    folder = read_folder(run)
    page = out or run / PAGE
    if out is not None:
        refuse_existing(page, force)
    write_whole(page, render(folder, ids=ids).encode())
    click.echo(f"report: {page}")


def _watch(run: Path, port: int, ids: bool) -> None:
    from vedute.report.live import make_server
    from vedute.run.run_folder import stage

    stage(run)  # refuses a folder that is no run folder
    server, address = make_server(run, port, ids=ids)
    click.echo(f"{address}\nopen it in a browser on this machine; it follows the fit; end with Ctrl-C")
    with server, suppress(KeyboardInterrupt):  # Ctrl-C is how it is meant to end
        server.serve_forever()
