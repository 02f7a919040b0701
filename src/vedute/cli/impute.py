"""``vedute impute``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from vedute.cli.options import force_option, json_option, out_option, run_argument, study_argument, using_option

if TYPE_CHECKING:
    from vedute.cli.applying import Part, Sheet
    from vedute.model.parameters import Array


@click.command()
@run_argument
@study_argument
@out_option("Table to write (.csv, .tsv, .parquet), or a folder with a table for each center and view.")
@using_option
@force_option
@json_option
def command(run: Path, study: Path, out: Path, using: str, force: bool, as_json: bool) -> None:
    """Fill the empty cells and missing views of STUDY by the model in RUN.

    Observed cells stay as they are. Beside each value stands its standard deviation, 0 where it was observed: in
    columns VIEW.column.sd of one table, or in the tables below sd/ of a folder.
    """
    from vedute.cli.applying import as_sheets, ready, sheets_of, write_views

    application = ready(run, study, out, using, force)
    model = application.model

    def filled(part: Part) -> dict[Sheet, Array]:
        values, sd = model.impute(part.views, part.who)
        return as_sheets(values, model.columns) | as_sheets(sd, model.columns, sd=True)

    sheets = sheets_of(model.columns) + sheets_of(model.columns, sd=True)
    write_views(application, out, sheets, filled, as_json)
