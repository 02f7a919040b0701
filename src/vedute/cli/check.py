"""``vedute check``."""

from __future__ import annotations

import json
import math
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from vedute.cli.options import json_option, screen, study_argument
from vedute.errors import DataWarning, UserError

if TYPE_CHECKING:
    from vedute.data.check import CheckReport
    from vedute.data.study import Study

MOST_COLUMNS = 300


@click.command()
@study_argument
@json_option
@click.pass_context
def command(ctx: click.Context, study: Path, as_json: bool) -> None:
    """Read all files of STUDY and report views, subjects, missing cells, ranges and problems. Writes nothing."""
    from vedute.data.problems import listed
    from vedute.data.study import Study

    loaded = Study.load(study)
    report = loaded.check()
    problems = list(report.problems)
    notes: list[str] = []
    if not problems:
        notes, problems = inspected(loaded)
    if as_json:
        click.echo(json.dumps(as_data(report, notes, problems), indent=2, ensure_ascii=False, allow_nan=False))
    else:
        print_tables(report)
        for note in notes:
            click.echo(f"vedute: warning: {note}", err=True)
    if problems:
        raise UserError(listed(str(study), problems))
    if not as_json:
        click.echo(f"{len(report.centers)} centers, {report.subjects} subjects: no problems found")


def inspected(study: Study) -> tuple[list[str], list[str]]:
    """What a fit would warn of and what it would refuse: the same look at the statistics."""
    from vedute.data.rows import StudyRows
    from vedute.run.exchange import check_components, read_inspected
    from vedute.run.protocol import Job
    from vedute.run.settings import Settings

    settings = Settings(study.components or 1)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", DataWarning)
        problems = []
        try:
            check_components(study.schema.layout, settings)
            read_inspected(StudyRows(study), Job(study.schema, settings))
        except UserError as error:
            problems.append(str(error))
    return [str(item.message) for item in caught if issubclass(item.category, DataWarning)], problems


def print_tables(report: CheckReport) -> None:
    """One table of centers by views, one of columns."""
    from rich.table import Table

    console = screen()
    views = list(dict.fromkeys(view for center in report.centers for view in center.views))
    table = Table("center", "subjects", *views, title=f"{report.study}: subjects with each view (empty cells)")
    for center in report.centers:
        cells = [
            f"{center.views[view].subjects} ({center.views[view].missing:.1%})" if view in center.views else "-"
            for view in views
        ]
        table.add_row(center.name, str(center.subjects), *cells)
    console.print(table)
    if sum(len(_columns(report, view)) for view in views) > MOST_COLUMNS:
        console.print(f"more than {MOST_COLUMNS} columns: --json lists them")
        return
    columns = Table("view", "column", "observed", "lowest", "highest", title="columns over all centers")
    for view in views:
        for name, (observed, low, high) in _columns(report, view).items():
            columns.add_row(view, name, f"{observed:.0f}", f"{low:g}", f"{high:g}")
    console.print(columns)


def _columns(report: CheckReport, view: str) -> dict[str, tuple[float, float, float]]:
    """Observed cells, lowest and highest value of each column of a view."""
    import numpy as np

    parts = [center.views[view] for center in report.centers if view in center.views]
    observed = np.sum([part.observed for part in parts], axis=0)
    low = np.fmin.reduce([part.low for part in parts])
    high = np.fmax.reduce([part.high for part in parts])
    return dict(zip(parts[0].columns, zip(observed, low, high, strict=True), strict=True))


def as_data(report: CheckReport, notes: list[str], problems: list[str]) -> dict[str, Any]:
    """The report as JSON takes it."""
    return {
        "study": report.study,
        "ok": not problems,
        "problems": problems,
        "warnings": notes,
        "centers": {
            center.name: {
                "subjects": center.subjects,
                "views": {
                    name: {
                        "subjects": view.subjects,
                        "missing": view.missing,
                        "columns": {
                            column: {"observed": int(n), "low": _number(low), "high": _number(high)}
                            for column, n, low, high in zip(
                                view.columns, view.observed, view.low, view.high, strict=True
                            )
                        },
                    }
                    for name, view in center.views.items()
                },
            }
            for center in report.centers
        },
    }


def _number(value: float) -> float | None:
    return float(value) if math.isfinite(value) else None
