"""``vedute federation join``."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from vedute.cli.federation.service import running, unit_option
from vedute.cli.options import FilePath
from vedute.errors import UserError

if TYPE_CHECKING:
    from vedute.data.study import Study
    from vedute.federation.nvflare.kits import Kit


@click.command()
@click.argument("kit", type=FilePath)
@click.option("--data", type=FilePath, required=True, metavar="NODE.TOML", help="Which files this center has.")
@click.option("--home", type=FilePath, help="For ledgers and models. [default: vedute-home/ beside NODE.TOML]")
@click.option("--yes", is_flag=True, help="Agree without being asked, for services.")
@unit_option
def command(kit: Path, data: Path, home: Path | None, yes: bool, print_unit: bool) -> None:
    """Take part in a federation with this center's KIT.

    Reads all data and compares them with the study, tells what will leave this hospital, asks, and then stays
    connected until stopped. Nothing is sent before you agree.
    """
    from vedute.federation.agreement import disclosure
    from vedute.federation.nvflare.kits import open_kit
    from vedute.federation.nvflare.processes import join, settle, unit

    opened = open_kit(kit, "center")
    home = (home or data.absolute().parent / "vedute-home").absolute()
    if print_unit:
        click.echo(unit(opened, data.absolute(), home), nl=False)
        return
    study = checked(opened, data)
    for paragraph in disclosure(study):
        click.echo(paragraph + "\n")
    agree(yes)
    settle(opened, data.absolute(), home)
    with running():
        join(opened, click.echo)


def checked(kit: Kit, data: Path) -> Study:
    """The shared study with the files of this center, all of them read."""
    from vedute.data.problems import listed
    from vedute.data.study import Study

    study = Study.load_node(kit.study, data)
    (name,) = study.centers
    if name != kit.file.name:
        raise UserError(
            f"{data}: is about center {name!r}, but {kit.path} is the kit of {kit.file.name!r}; "
            "take the kit of this center, or correct the name"
        )
    report = study.check()
    if report.problems:
        raise UserError(listed(str(data), list(report.problems)))
    views = ", ".join(f"{view} ({found.subjects})" for view, found in report.centers[0].views.items())
    click.echo(f"center {name!r}, {report.subjects} subjects; with each view: {views}\n")
    return study


def agree(yes: bool) -> None:
    """Go on only with somebody's consent."""
    if yes:
        return
    if not sys.stdin.isatty():
        raise UserError(
            "nobody is here to agree: read the above at a terminal first, then start the service with --yes"
        )
    if not click.confirm("Let this leave the hospital?"):
        raise UserError("not agreed; nothing was sent")
