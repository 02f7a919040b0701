"""``vedute paper``: the tables and figures of the paper, run again."""

from __future__ import annotations

import importlib.util
import os
import sys
from collections.abc import Callable, Iterable
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from vedute.cli.options import FilePath
from vedute.errors import UserError

if TYPE_CHECKING:
    from vedute_reproduction.comparison import Draw
    from vedute_reproduction.keeping import How
    from vedute_reproduction.runner import Experiment
    from vedute_reproduction.studies import Given

WITHOUT = ", or say --no-rivals"
rivals_option = click.option("--rivals/--no-rivals", default=True, show_default=True, help="Also run other methods.")


def _cores() -> int:
    """Those that this process may use."""
    from joblib import cpu_count

    return int(cpu_count())


def shared_options(function: Callable[..., None]) -> Callable[..., None]:
    """What all experiments take, which they are given as ``how``."""

    @wraps(function)
    def run(repeats: int, out: Path, jobs: int, **given: Any) -> None:
        from vedute_reproduction.keeping import How

        function(How(repeats, out, jobs, _counted if sys.stderr.isatty() else None), **given)

    for option in (
        click.option(
            "--jobs",
            type=click.IntRange(1),
            default=_cores,
            show_default="one for each core",
            help="Processes at once.",
        ),
        click.option("--out", type=FilePath, required=True, metavar="DIR", help="Folder for tables and figures."),
        click.option(
            "--repeats", type=click.IntRange(1), default=10, show_default=True, help="How often, on 3 folds each time."
        ),
    ):
        run = option(run)
    return run


def _counted(done: int, total: int) -> None:
    """Counts parts on a terminal; in a pipe nothing does."""
    click.echo(f"\rpart {done}/{total}", nl=done == total, err=True)


def rows_options(otherwise: str) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Which rows to run on; the names of the files then end in "-cnp" or "-study"."""

    def add(function: Callable[..., None]) -> Callable[..., None]:
        study = "Run on a study file with four views, such as ADNI itself."
        cnp = "Run on the open data set cnp, which stands in for ADNI."
        function = click.option("--study", type=FilePath, metavar="FILE", help=study + otherwise)(function)
        return click.option("--data", type=FilePath, metavar="FOLDER", help=cnp)(function)

    return add


any_rows = rows_options(" With neither, on synthetic data (SD).")


def rows_given(data: Path | None, study: Path | None, out: Path) -> Given:
    """The rows that an experiment is to run on; what has to be said of them is said before it runs."""
    from vedute_reproduction.studies import SYNTHETIC, counted, from_folder, from_study
    from vedute_reproduction.writing import claim

    if data is not None and study is not None:
        raise UserError("give --data FOLDER or --study FILE, not both")
    given = SYNTHETIC
    if data is not None:
        given = from_folder(data)
    if study is not None:
        given = from_study(study)
        claim(out, given.about)
    for remark in (*given.remarks, *([] if given is SYNTHETIC else [counted(given)])):
        click.echo(remark, err=True)
    return given


def need(*packages: str, otherwise: str = "") -> None:
    """Refuse before anything is computed where a package of the rivals is not there."""
    lacking = [name for name in packages if importlib.util.find_spec(name) is None]
    if lacking:
        raise UserError(f"needs {' and '.join(lacking)}: pip install {' '.join(lacking)}{otherwise}")


def without_mofa() -> None:
    """Say that MOFA is left out, where its package is not there."""
    if importlib.util.find_spec("mofapy2") is None:
        click.echo("without MOFA, which needs mofapy2: pip install mofapy2", err=True)


def rivals_there(rivals: bool) -> None:
    """Refuse rivals that cannot run; only MOFA may be left out of them."""
    if rivals:
        need("torch", otherwise=WITHOUT)
        without_mofa()


def tell(paths: Iterable[Path]) -> None:
    """Where results are."""
    for path in paths:
        click.echo(str(path))


def conduct(experiment: Experiment, how: How, draw: Draw | None = None) -> None:
    """Run, write, and tell where."""
    from vedute_reproduction.comparison import write
    from vedute_reproduction.runner import run

    tell(write(experiment, run(experiment, how), how.out, draw))


@click.group()
def command() -> None:
    """Run the paper's experiments again, its own numbers beside ours.

    Each experiment writes NAME.csv (one line for each fold), NAME.md, NAME.png and NAME.svg; NAME is that of the
    command, and ends in "-cnp" with --data and in "-study" with --study. Folds that are done are kept in DIR/folds: an
    interrupted run continues where it stopped. Auto-encoders of one setting train five repetitions together, and are
    kept when these are done. Rivals need torch, and MOFA mofapy2. Ten repeats take from minutes to half an hour on two
    cores; --repeats 1 is a quick look.
    """


@command.command()
@shared_options
@rivals_option
def sd(how: How, rivals: bool) -> None:
    """Synthetic data in all scenarios (table SD_2).

    IID, G, K and G/K over 1, 3 and 6 centers.
    """
    from vedute_reproduction.sd import experiment

    rivals_there(rivals)
    conduct(experiment(rivals=rivals), how)


@command.command()
@shared_options
@rivals_option
@rows_options("")
def adni(how: How, rivals: bool, data: Path | None, study: Path | None) -> None:
    """Real data of four views (table ADNI_2).

    The same scenarios, and the true centers. The paper's values beside them are those of ADNI.
    """
    from vedute_reproduction.adni import experiment

    if data is None and study is None:
        raise UserError("give either --data FOLDER (cnp, which stands in for ADNI) or --study FILE (docs/adni.md)")
    rivals_there(rivals)
    conduct(experiment(rows_given(data, study, how.out), rivals=rivals), how)


@command.command()
@shared_options
@rivals_option
@click.option("--data", type=FilePath, required=True, metavar="FOLDER", help="The open data set heart4.")
def heart4(how: How, rivals: bool, data: Path) -> None:
    """Heart disease: random centers, and four true hospitals."""
    from vedute_reproduction.heart4 import experiment

    if rivals:
        without_mofa()
    asked = experiment(data, rivals=rivals)
    for remark in asked.remarks:
        click.echo(remark, err=True)
    conduct(asked, how)


@command.command()
@shared_options
@any_rows
def fedprox(how: How, data: Path | None, study: Path | None) -> None:
    """Auto-encoders by FedAvg and FedProx (table ADNI_fedprox).

    Scenario G, lambda up to 0.5; two layers.
    """
    from vedute_reproduction.fedprox import experiment, figure

    need("torch")
    conduct(experiment(rows_given(data, study, how.out)), how, figure)


@command.command()
@shared_options
def corrections(how: How) -> None:
    """What each correction of the default preset buys."""
    from vedute_reproduction.corrections import experiment

    conduct(experiment(), how)


@command.command()
@click.option("--components", default="2-15", show_default=True, metavar="RANGE", help="Numbers to try.")
@shared_options
@any_rows
def selection(how: How, components: str, data: Path | None, study: Path | None) -> None:
    """WAIC and errors by components (table Latent_space)."""
    from vedute.cli.select import parse_components
    from vedute_reproduction.selection import run, write

    given, tried = rows_given(data, study, how.out), parse_components(components)
    tell(write(run(given, tried, how), how.out, given))


@command.command()
@shared_options
@any_rows
def privacy(how: How, data: Path | None, study: Path | None) -> None:
    """What the paper's policy costs and gives.

    Accuracy against eps, the clip constant and the true total; global parameters by round.

    Writes NAME.md, NAME.csv (one line for each point and fold), NAME-rounds.csv (over folds) and the figures NAME,
    NAME-total, NAME-spread and NAME-rounds (PNG and SVG); NAME is "privacy", "privacy-cnp" with
    --data or "privacy-study" with --study.
    """
    from vedute_reproduction.privacy import run, write

    given = rows_given(data, study, how.out)
    tell(write(*run(given, how), how.out, given))


@command.command()
@shared_options
@any_rows
def variability(how: How, data: Path | None, study: Path | None) -> None:
    """Latent space by center, missing views imputed.

    Scenario G/K; predicted against observed.

    Writes NAME.md, NAME.csv, NAME-features.csv and the figures NAME and NAME-VIEW of both missing views (PNG and SVG);
    NAME is "variability", "variability-cnp" with --data or "variability-study" with --study.
    """
    from vedute_reproduction.variability import fit, run, write

    given = rows_given(data, study, how.out)
    lines = run(given, how)
    tell(write(lines, fit(given.source.draw(0), given.n_components, "default", 0, 0), how.out, given))


@command.command()
@shared_options
@any_rows
def missing(how: How, data: Path | None, study: Path | None) -> None:
    """A view hidden in a third of the centers.

    It is predicted by us, by regression and by MOFA.

    Writes NAME.md, NAME.csv, NAME.png and NAME.svg; NAME is "missing", "missing-cnp" with --data or "missing-study"
    with --study. Without mofapy2 it leaves out MOFA.
    """
    from vedute_reproduction.missing import run, write

    without_mofa()
    given = rows_given(data, study, how.out)
    tell(write(run(given, how), how.out, given))


@command.command()
@shared_options
def collapse(how: How) -> None:
    """Spread between centers in draws of the model itself.

    It is known there; --repeats is the number of draws.
    """
    from vedute_reproduction.collapse import run, write

    tell(write(run(how), how.out))


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
    from vedute_reproduction.page import page as text

    place = os.path.relpath(results, out.parent).replace(os.sep, "/")
    write_whole(out, text(results, place).encode())
    click.echo(str(out))


@command.command(name="all")
@shared_options
@rivals_option
@click.option("--data", type=FilePath, required=True, metavar="FOLDER", help="Has the open data sets cnp and heart4.")
@click.pass_context
def everything(context: click.Context, how: How, rivals: bool, data: Path) -> None:
    """All experiments, one after the other, and the page.

    Without rivals there is no page, which is about them as well.
    """
    from vedute_reproduction.heart4 import experiment as hospitals
    from vedute_reproduction.studies import from_folder

    asked: dict[str, Any] = {"repeats": how.repeats, "out": how.out, "jobs": how.jobs}
    cnp = data / "cnp"
    if rivals:
        need("torch", "mofapy2", otherwise=WITHOUT)
    from_folder(cnp)  # what is wrong with a folder is told before hours of work
    hospitals(data / "heart4")
    context.invoke(sd, rivals=rivals, **asked)
    context.invoke(adni, rivals=rivals, data=cnp, study=None, **asked)
    context.invoke(heart4, rivals=rivals, data=data / "heart4", **asked)
    for experiment in (collapse, corrections):
        context.invoke(experiment, **asked)
    for rows in (None, cnp):
        context.invoke(selection, components="2-15", data=rows, study=None, **asked)
        for experiment in (privacy, variability, *((missing, fedprox) if rivals else ())):
            context.invoke(experiment, data=rows, study=None, **asked)
    if rivals:
        context.invoke(page, results=how.out, out=how.out / "reproduction.md")
