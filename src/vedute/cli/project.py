"""``vedute project``."""

from __future__ import annotations

from pathlib import Path

import click

from vedute.cli.options import force_option, json_option, out_option, run_argument, study_argument, using_option


@click.command()
@run_argument
@study_argument
@out_option("Table to write: .csv, .tsv or .parquet.")
@using_option
@force_option
@json_option
def command(run: Path, study: Path, out: Path, using: str, force: bool, as_json: bool) -> None:
    """Write where each subject of STUDY lies in the latent space of the model in RUN."""
    from vedute.cli.applying import ready, write_subjects
    from vedute.run.latent import components

    application = ready(run, study, out, using, force)
    model = application.model
    names = components(model.prior.q)
    write_subjects(application, out, names, lambda part: model.project(part.views, part.who).mean, as_json)
