"""``vedute paper variability`` and ``missing``: centers side by side, and views that are not there."""

from __future__ import annotations

from pathlib import Path

import click

from vedute_reproduction.paper_options import rows_given, rows_options, shared_options, shown, tell, without_mofa


@click.command()
@shared_options
@rows_options
def variability(repeats: int, out: Path, jobs: int, data: Path | None, study: Path | None) -> None:
    """Latent space by center, missing views imputed.

    Scenario G/K; predicted against observed.

    Writes NAME.md, NAME.csv, NAME-features.csv and the figures NAME and NAME-VIEW of both missing views (PNG and SVG);
    NAME is "variability", "variability-cnp" with --data or "variability-study" with --study.
    """
    from vedute_reproduction.results.variability import write
    from vedute_reproduction.variability import fit, run

    given = rows_given(data, study, out)
    name, q = f"variability{given.suffix}", given.n_components
    lines = run(name, given.source, q, repeats, out, jobs=jobs, on_fold=shown())
    tell(write(name, lines, fit(given.source.draw(0), q, "default", 0, 0), out, given))


@click.command()
@shared_options
@rows_options
def missing(repeats: int, out: Path, jobs: int, data: Path | None, study: Path | None) -> None:
    """A view hidden in a third of the centers.

    It is predicted by us, by regression and by MOFA.

    Writes NAME.md, NAME.csv, NAME.png and NAME.svg; NAME is "missing", "missing-cnp" with --data or "missing-study"
    with --study. Without mofapy2 it leaves out MOFA.
    """
    from vedute_reproduction.missing import run
    from vedute_reproduction.results.missing import write

    without_mofa()
    given = rows_given(data, study, out)
    name = f"missing{given.suffix}"
    lines = run(name, given.source, given.n_components, repeats, out, jobs=jobs, on_fold=shown())
    tell(write(name, lines, out, given))
