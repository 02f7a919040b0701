"""What the commands of ``vedute paper`` have in common."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import click

from vedute.cli.options import FilePath
from vedute.errors import UserError

if TYPE_CHECKING:
    from vedute_reproduction.studies import Given

F = TypeVar("F", bound=Callable[..., None])


def real_rows_options(function: F) -> F:
    """Which real rows to run on; the names of the files then end in "-cnp" or "-study"."""
    return _rows_options(function, "")


def rows_options(function: F) -> F:
    """The same where synthetic rows do as well."""
    return _rows_options(function, " With neither, on synthetic data (SD).")


def _rows_options(function: F, otherwise: str) -> F:
    study = "Run on a study file with four views, such as ADNI itself."
    cnp = "Run on the open data set cnp, which stands in for ADNI."
    function = click.option("--study", type=FilePath, metavar="FILE", help=study + otherwise)(function)
    return click.option("--data", type=FilePath, metavar="FOLDER", help=cnp)(function)


def need(*packages: str, otherwise: str = "") -> None:
    """Refuse before anything is computed where a package of the rivals is not there."""
    lacking = [name for name in packages if importlib.util.find_spec(name) is None]
    if lacking:
        raise UserError(f"needs {' and '.join(lacking)}: pip install {' '.join(lacking)}{otherwise}")


def without_mofa() -> None:
    """Say that MOFA is left out, where its package is not there."""
    if importlib.util.find_spec("mofapy2") is None:
        click.echo("without MOFA, which needs mofapy2: pip install mofapy2", err=True)


def shared_options(function: F) -> F:
    """What all experiments take."""
    for option in reversed(
        (
            click.option(
                "--repeats",
                type=click.IntRange(1),
                default=10,
                show_default=True,
                help="How often, on 3 folds each time.",
            ),
            click.option("--out", type=FilePath, required=True, metavar="DIR", help="Folder for tables and figures."),
            click.option(
                "--jobs",
                type=click.IntRange(1),
                default=_cores,
                show_default="one for each core",
                help="Processes at once.",
            ),
        )
    ):
        function = option(function)
    return function


def _cores() -> int:
    """Those that this process may use."""
    from joblib import cpu_count

    return int(cpu_count())


def shown() -> Callable[[int, int], None] | None:
    """Counts parts on a terminal, nothing in a pipe."""
    return _counted if sys.stderr.isatty() else None


def _counted(done: int, total: int) -> None:
    click.echo(f"\rpart {done}/{total}", nl=done == total, err=True)


def tell(paths: Iterable[Path]) -> None:
    """Where results are."""
    for path in paths:
        click.echo(str(path))


def rows_given(data: Path | None, study: Path | None, out: Path) -> Given:
    """The rows that an experiment is to run on; what has to be said of them is said before it runs."""
    from vedute_reproduction.results.writing import claim
    from vedute_reproduction.studies import SYNTHETIC, counted, from_folder, from_study

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
