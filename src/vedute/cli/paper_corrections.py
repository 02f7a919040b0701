"""``vedute paper collapse``: whether a fit finds how much centers differ."""

from __future__ import annotations

import os
from pathlib import Path

import click

from vedute.cli.paper_options import shared_options, shown


@click.command()
@shared_options
def collapse(repeats: int, out: Path, jobs: int | None) -> None:
    """Spread between centers in draws of the model itself.

    It is known there; --repeats is the number of draws.
    """
    from vedute.data.files import write_whole
    from vedute.evaluation.collapse import markdown, run, summary
    from vedute.evaluation.figures.collapse import figure
    from vedute.evaluation.results import csv

    lines = run(repeats, out, jobs=jobs or os.cpu_count() or 1, on_fold=shown())
    title = f"Spread between centers, median over {repeats} draws of the model and their views"
    found = {"md": f"# {title}\n\n{markdown(summary(lines))}".encode(), "csv": csv(lines).encode()}
    for kind, content in (found | figure(lines, title)).items():
        write_whole(out / f"collapse.{kind}", content)
        click.echo(str(out / f"collapse.{kind}"))
