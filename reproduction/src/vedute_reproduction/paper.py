"""``vedute paper``: the tables and figures of the paper, run again."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from vedute.cli.options import FilePath
from vedute.errors import UserError
from vedute_reproduction.paper_collapse import collapse
from vedute_reproduction.paper_options import (
    need,
    real_rows_options,
    rows_given,
    rows_options,
    shared_options,
    shown,
    tell,
    without_mofa,
)
from vedute_reproduction.paper_privacy import privacy
from vedute_reproduction.paper_variability import missing, variability

if TYPE_CHECKING:
    from vedute_reproduction.results.comparison import Draw
    from vedute_reproduction.runner import Experiment

WITHOUT = ", or say --no-rivals"
rivals_option = click.option("--rivals/--no-rivals", default=True, show_default=True, help="Also run other methods.")


@click.group()
def command() -> None:
    """Run the paper's experiments again, its own numbers beside ours.

    Each experiment writes NAME.csv (one line for each fold), NAME.md, NAME.png and NAME.svg; NAME is that of the
    command, and ends in "-cnp" with --data and in "-study" with --study. Folds that are done are kept in DIR/folds:
    an interrupted run continues where it stopped. Auto-encoders of one setting train five repetitions together, and
    are kept when these are done. Rivals need torch, and MOFA mofapy2. Ten repeats take from minutes to half an hour
    on two cores; --repeats 1 is a quick look.
    """


@command.command()
@shared_options
@rivals_option
def sd(repeats: int, out: Path, jobs: int, rivals: bool) -> None:
    """Synthetic data in all scenarios (table SD_2).

    IID, G, K and G/K over 1, 3 and 6 centers.
    """
    from vedute_reproduction.experiments import sd as experiment

    rivals_there(rivals)
    conduct(experiment(rivals=rivals), repeats, out, jobs)


@command.command()
@shared_options
@rivals_option
@real_rows_options
def adni(repeats: int, out: Path, jobs: int, rivals: bool, data: Path | None, study: Path | None) -> None:
    """Real data of four views (table ADNI_2).

    The same scenarios, and the true centers. The paper's values beside them are those of ADNI.
    """
    from vedute_reproduction.studies import adni as experiment

    if data is None and study is None:
        raise UserError("give either --data FOLDER (cnp, which stands in for ADNI) or --study FILE (docs/adni.md)")
    rivals_there(rivals)
    conduct(experiment(rows_given(data, study, out), rivals=rivals), repeats, out, jobs)


@command.command()
@shared_options
@rivals_option
@click.option("--data", type=FilePath, required=True, metavar="FOLDER", help="The open data set heart4.")
def heart4(repeats: int, out: Path, jobs: int, rivals: bool, data: Path) -> None:
    """Heart disease: random centers, and four true hospitals."""
    from vedute_reproduction.studies import heart4 as experiment

    if rivals:
        without_mofa()
    asked = experiment(data, rivals=rivals)
    for remark in asked.remarks:
        click.echo(remark, err=True)
    conduct(asked, repeats, out, jobs)


@command.command()
@shared_options
@rows_options
def fedprox(repeats: int, out: Path, jobs: int, data: Path | None, study: Path | None) -> None:
    """Auto-encoders by FedAvg and FedProx (table ADNI_fedprox).

    Scenario G, lambda up to 0.5; two layers.
    """
    from vedute_reproduction.experiments import fedprox as experiment
    from vedute_reproduction.figures.fedprox import figure

    need("torch")
    given = rows_given(data, study, out)
    beside = "ADNI_fedprox" if given.printed == "ADNI" else None
    name = f"fedprox{given.suffix}"
    asked = experiment(name, given.about, given.source, given.n_components, beside, given.remarks)
    conduct(asked, repeats, out, jobs, figure)


@command.command()
@shared_options
def corrections(repeats: int, out: Path, jobs: int) -> None:
    """What each correction of the default preset buys."""
    from vedute_reproduction.experiments import corrections as experiment

    conduct(experiment(), repeats, out, jobs)


@command.command()
@click.option("--components", default="2-15", show_default=True, metavar="RANGE", help="Numbers to try.")
@shared_options
@rows_options
def selection(components: str, repeats: int, out: Path, jobs: int, data: Path | None, study: Path | None) -> None:
    """WAIC and errors by components (table Latent_space)."""
    from vedute.cli.select import parse_components
    from vedute_reproduction.results.selection import write
    from vedute_reproduction.selection import run

    given, tried = rows_given(data, study, out), parse_components(components)
    name = f"selection{given.suffix}"
    lines = run(name, given.source, tried, given.scaling, repeats, out, jobs=jobs, on_fold=shown())
    tell(write(name, lines, out, given))


for added in (privacy, variability, missing, collapse):
    command.add_command(added)


@command.command()
@click.option(
    "--results", type=FilePath, required=True, metavar="DIR", help="Folder with the CSV files of all experiments."
)
@click.option("--out", type=FilePath, required=True, metavar="FILE", help="The Markdown page to write.")
def page(results: Path, out: Path) -> None:
    """Write the page about all results.

    It sets them, with rivals, beside the paper and explains the differences.
    """
    from vedute.data.files import write_whole
    from vedute_reproduction.page.reproduction import page as text

    place = os.path.relpath(results, out.parent).replace(os.sep, "/")
    write_whole(out, text(results, place).encode())
    click.echo(str(out))


@command.command(name="all")
@shared_options
@rivals_option
@click.option("--data", type=FilePath, required=True, metavar="FOLDER", help="Has the open data sets cnp and heart4.")
@click.pass_context
def everything(context: click.Context, repeats: int, out: Path, jobs: int, rivals: bool, data: Path) -> None:
    """All experiments, one after the other, and the page.

    Without rivals there is no page, which is about them as well.
    """
    from vedute_reproduction.studies import from_folder
    from vedute_reproduction.studies import heart4 as hospitals

    how: dict[str, Any] = {"repeats": repeats, "out": out, "jobs": jobs}
    cnp = data / "cnp"
    if rivals:
        need("torch", "mofapy2", otherwise=WITHOUT)
    from_folder(cnp)  # what is wrong with a folder is told before hours of work
    hospitals(data / "heart4")
    context.invoke(sd, rivals=rivals, **how)
    context.invoke(adni, rivals=rivals, data=cnp, study=None, **how)
    context.invoke(heart4, rivals=rivals, data=data / "heart4", **how)
    for experiment in (collapse, corrections):
        context.invoke(experiment, **how)
    for rows in (None, cnp):
        context.invoke(selection, components="2-15", data=rows, study=None, **how)
        for experiment in (privacy, variability, *((missing, fedprox) if rivals else ())):
            context.invoke(experiment, data=rows, study=None, **how)
    if rivals:
        context.invoke(page, results=out, out=out / "reproduction.md")


def rivals_there(rivals: bool) -> None:
    """Refuse rivals that cannot run; only MOFA may be left out of them."""
    if rivals:
        need("torch", otherwise=WITHOUT)
        without_mofa()


def conduct(experiment: Experiment, repeats: int, out: Path, jobs: int, draw: Draw | None = None) -> None:
    """Run, write, and tell where."""
    from vedute_reproduction.figures.comparison import figure
    from vedute_reproduction.results.comparison import write
    from vedute_reproduction.runner import run

    tell(write(experiment, run(experiment, repeats, out, jobs=jobs, on_fold=shown()), out, draw or figure))
