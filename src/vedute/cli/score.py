"""``vedute score``."""

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
    """Write the log density of each subject of STUDY under the model in RUN: low ones are unusual."""
    from vedute.cli.applying import ready, write_subjects

    application = ready(run, study, out, using, force)
    model = application.model
    write_subjects(
        application, out, ["log_density"], lambda part: model.log_density(part.views, part.who)[:, None], as_json
    )
