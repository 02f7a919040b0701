"""``vedute sample``."""

from __future__ import annotations

from pathlib import Path

import click

from vedute.cli.options import force_option, json_option, out_option, refuse_existing, run_argument
from vedute.errors import UserError


@click.command()
@run_argument
@click.option(
    "-n", "--number", "n", type=click.IntRange(min=1), default=100, show_default=True, help="Subjects to draw."
)
@out_option("Table to write (.csv, .tsv, .parquet), or a folder with a table for each view.")
@click.option("--center", metavar="NAME", help="Draw patients of this center. [default: each of a new center]")
@click.option("--seed", type=click.IntRange(min=0), default=0, show_default=True, help="Seed of the draws.")
@force_option
@json_option
def command(run: Path, n: int, out: Path, center: str | None, seed: int, force: bool, as_json: bool) -> None:
    """Draw new subjects from the model in RUN: nobody's data, but alike in their distribution."""
    import numpy as np

    from vedute.cli.applying import as_sheets, sheets_of, tell, write_drawn
    from vedute.data.problems import nearest, some
    from vedute.run.run_folder import load_run

    refuse_existing(out, force)
    model = load_run(run).model
    if center is not None and center not in model.centers:
        known = some(model.centers) or "none"
        raise UserError(f"center {center!r} is not in the model{nearest(center, model.centers)}; it knows {known}")
    values = as_sheets(model.sample(n, np.random.default_rng(seed), center), model.columns)
    write_drawn(out, sheets_of(model.columns), values, n)
    tell(n, out, as_json)
