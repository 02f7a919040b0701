"""``vedute paper privacy``: what the paper's policy costs and gives, and ours beside it."""

from __future__ import annotations

import os
from pathlib import Path

import click

from vedute.cli.options import FilePath
from vedute.cli.paper_options import shared_options, shown


@click.command()
@shared_options
@click.option("--data", type=FilePath, metavar="FOLDER", help="Run on the open data set cnp instead of synthetic data.")
def privacy(repeats: int, out: Path, jobs: int | None, data: Path | None) -> None:
    """Accuracy against eps, the clip constant and the true total; global parameters by round.

    Writes NAME.md, NAME.csv (one line for each point and fold), NAME-rounds.csv (over folds) and the figures NAME,
    NAME-total, NAME-spread and NAME-rounds (PNG and SVG); NAME is "privacy", or "privacy-cnp" with --data.
    """
    from vedute.evaluation.experiments import FixedStudy, SyntheticStudy
    from vedute.evaluation.privacy_results import write
    from vedute.evaluation.privacy_runs import run
    from vedute.evaluation.runner import Source
    from vedute.evaluation.studies import CNP, complete_rows, read_folder

    name, paper, about, q = "privacy", "SD_2", "SD", 5
    source: Source = SyntheticStudy()
    if data is not None:
        name, paper, about, q = "privacy-cnp", "ADNI_2", "cnp (not ADNI)", CNP.n_components
        source = FixedStudy(complete_rows(read_folder(data, CNP)))
    points, rounds = run(name, source, q, repeats, out, jobs=jobs or os.cpu_count() or 1, on_fold=shown())
    for path in write(name, points, rounds, out, paper, about):
        click.echo(str(path))
