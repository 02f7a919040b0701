"""``vedute demo``."""

from __future__ import annotations

import json
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from vedute.cli.options import FilePath, json_option, screen

if TYPE_CHECKING:
    from rich.table import Table

    from vedute.cli.demonstration import Demonstrated

FIGURE = "latent.png"


@click.command()
@click.option(
    "--out", type=FilePath, default=Path("demo-out"), show_default=True, help="Folder for the figure and the reports."
)
@json_option
def command(out: Path, as_json: bool) -> None:
    """Fit a synthetic and a real study over three centers each: a table, a figure of the latent spaces, reports."""
    from vedute.cli.demonstration import breast_cancer, draw, synthetic
    from vedute.data.files import placed, said_plainly

    with said_plainly(out):
        out.mkdir(parents=True, exist_ok=True)
    outcomes = [synthetic(), breast_cancer()]
    with placed(out / FIGURE) as aside:
        draw(outcomes, aside)
    told = _reports(outcomes, out)
    if as_json:
        click.echo(json.dumps([as_data(outcome) for outcome in outcomes], indent=2))
        return
    screen().print(table(outcomes))
    click.echo(f"figure: {out / FIGURE}")
    click.echo(f"reports: {told}")


def _reports(outcomes: list[Demonstrated], out: Path) -> str:
    """Write a report of each study; says where, or what they would need."""
    from vedute.cli.demonstration import file_name, report
    from vedute.data.files import write_whole

    if find_spec("plotly") is None or find_spec("jinja2") is None:
        return "not written; pip install 'vedute[report]' for them"
    for outcome in outcomes:
        write_whole(out / file_name(outcome), report(outcome).encode())
    return ", ".join(str(out / file_name(outcome)) for outcome in outcomes)


def table(outcomes: list[Demonstrated]) -> Table:
    """Errors, accuracies and deviations of all studies."""
    from rich.table import Table

    found = Table(
        "study", "view", "train MAE", "test MAE", "1st center", "2nd center", "3rd center",
        title="Errors in standard deviations of the data; centers: distance from the typical one, "
        "in standard deviations between centers",
    )  # fmt: skip
    for outcome in outcomes:
        apart, mix = outcome.deviations(), outcome.case_mix()
        names = list(outcome.centers)
        rounds = f"{outcome.estimator.n_rounds_} rounds"
        for i, view in enumerate(outcome.test_error):
            study = (outcome.title, f"({rounds})", "")[min(i, 2)]
            found.add_row(
                study, view, f"{outcome.train_error[view]:.3f}", f"{outcome.test_error[view]:.3f}",
                *(_cell(apart[name][view]) for name in names),
            )  # fmt: skip
        accuracy = (f"{outcome.train_accuracy:.1%}", f"{outcome.test_accuracy:.1%}")
        found.add_row("", "group told (LDA); case mix", *accuracy, *(_cell(mix[name]) for name in names))
        found.add_section()
    return found


def _cell(value: float) -> str:
    return "no view" if value != value else f"{value:.2f}"


def as_data(outcome: Demonstrated) -> dict[str, Any]:
    """One study as JSON takes it."""
    apart = outcome.deviations()
    return {
        "study": outcome.title,
        "rounds": outcome.estimator.n_rounds_,
        "converged": outcome.estimator.converged_,
        "train_mae": dict(outcome.train_error),
        "test_mae": dict(outcome.test_error),
        "train_accuracy": outcome.train_accuracy,
        "test_accuracy": outcome.test_accuracy,
        "deviation": {
            view: {center: None if value != value else float(value) for center, value in row.items()}
            for view, row in apart.iterrows()
        },
        "case_mix": {center: float(value) for center, value in outcome.case_mix().items()},
    }
