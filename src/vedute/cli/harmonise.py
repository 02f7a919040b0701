"""``vedute harmonise``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from vedute.cli.options import force_option, json_option, out_option, run_argument, study_argument

if TYPE_CHECKING:
    from vedute.cli.applying import Part, Sheet
    from vedute.model.parameters import Array


@click.command()
@run_argument
@study_argument
@out_option("Table to write (.csv, .tsv, .parquet), or a folder with a table for each center and view.")
@click.option(
    "--using",
    type=click.Choice(["own", "adapt"]),
    default="own",
    show_default=True,
    help="Parameters for each center: its own; or the same, but a center that is not in the model first fits itself "
    "under the global distribution.",
)
@force_option
@json_option
def command(run: Path, study: Path, out: Path, using: str, force: bool, as_json: bool) -> None:
    """Write STUDY as the typical center would have measured it.

    What is peculiar to a center's measurements goes; who its patients are stays, and so do empty cells.
    """
    from vedute.cli.applying import as_sheets, ready, sheets_of, write_views

    application = ready(run, study, out, using, force)
    model = application.model
    columns = {view: model.columns[view] for view in application.study.columns}

    def harmonised(part: Part) -> dict[Sheet, Array]:
        assert part.who is not None
        return as_sheets(model.harmonise(part.views, part.who), columns)

    write_views(application, out, sheets_of(columns), harmonised, as_json)
