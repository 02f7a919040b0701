"""``vedute paper privacy``: what the paper's policy costs and gives, and ours beside it."""

from __future__ import annotations

from pathlib import Path

import click

from vedute_reproduction.paper_options import rows_given, rows_options, shared_options, shown, tell


@click.command()
@shared_options
@rows_options
def privacy(repeats: int, out: Path, jobs: int, data: Path | None, study: Path | None) -> None:
    """What the paper's policy costs and gives.

    Accuracy against eps, the clip constant and the true total; global parameters by round.

    Writes NAME.md, NAME.csv (one line for each point and fold), NAME-rounds.csv (over folds) and the figures NAME,
    NAME-total, NAME-spread and NAME-rounds (PNG and SVG); NAME is "privacy", "privacy-cnp" with
    --data or "privacy-study" with --study.
    """
    from vedute_reproduction.privacy_runs import run
    from vedute_reproduction.results.privacy import write

    given = rows_given(data, study, out)
    name = f"privacy{given.suffix}"
    points, rounds = run(name, given.source, given.n_components, repeats, out, jobs=jobs, on_fold=shown())
    tell(write(name, points, rounds, out, given))
