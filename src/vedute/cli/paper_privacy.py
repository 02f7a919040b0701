"""``vedute paper privacy``: what the paper's policy costs and gives, and ours beside it."""

from __future__ import annotations

import os
from pathlib import Path

import click

from vedute.cli.paper_options import data_option, named_source, shared_options, shown


@click.command()
@shared_options
@data_option
def privacy(repeats: int, out: Path, jobs: int | None, data: Path | None) -> None:
    """Accuracy against eps, the clip constant and the true total; global parameters by round.

    Writes NAME.md, NAME.csv (one line for each point and fold), NAME-rounds.csv (over folds) and the figures NAME,
    NAME-total, NAME-spread and NAME-rounds (PNG and SVG); NAME is "privacy", or "privacy-cnp" with --data.
    """
    from vedute.evaluation.privacy_results import write
    from vedute.evaluation.privacy_runs import run

    name, source, about, q = named_source("privacy", data)
    paper, about = ("SD_2", about) if data is None else ("ADNI_2", f"{about} (not ADNI)")
    points, rounds = run(name, source, q, repeats, out, jobs=jobs or os.cpu_count() or 1, on_fold=shown())
    for path in write(name, points, rounds, out, paper, about):
        click.echo(str(path))
