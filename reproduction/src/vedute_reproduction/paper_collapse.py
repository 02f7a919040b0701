"""``vedute paper collapse``: whether a fit finds how much centers differ."""

from __future__ import annotations

from pathlib import Path

import click

from vedute_reproduction.paper_options import shared_options, shown, tell


@click.command()
@shared_options
def collapse(repeats: int, out: Path, jobs: int) -> None:
    """Spread between centers in draws of the model itself.

    It is known there; --repeats is the number of draws.
    """
    from vedute_reproduction.collapse import run
    from vedute_reproduction.results.collapse import write

    tell(write(run(repeats, out, jobs=jobs, on_fold=shown()), out))
