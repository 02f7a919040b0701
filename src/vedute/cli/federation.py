"""``vedute federation``: the same study between real machines."""

from __future__ import annotations

import json
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import click

from vedute.cli.options import FilePath, json_option, study_argument
from vedute.errors import UserError

if TYPE_CHECKING:
    from vedute.data.study import Study
    from vedute.federation.nvflare.kits import Kit

COMMANDS = ("init", "serve", "join", "run", "status")


class InOrder(click.Group):
    """The commands of a federation, in the order in which they are needed."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """All of them."""
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """One, or None; 'run' lives beside 'fit', whose options need NumPy, and is loaded when it is asked for."""
        if cmd_name == "run":
            from vedute.cli.fit import federated

            return federated
        return super().get_command(ctx, cmd_name)


@click.command(cls=InOrder)
def command() -> None:
    """Run a study across hospitals on NVIDIA FLARE, while each hospital's rows stay at home.

    The coordinator makes kits with 'init' and sends each hospital its own. The server runs 'serve', every hospital
    'join', and the lead 'run'; 'status' tells who is there.
    """


unit_option = click.option("--print-unit", is_flag=True, help="Print a systemd unit that runs this command, and end.")


@contextmanager
def running() -> Iterator[None]:
    """Ctrl-C, and what a service manager sends, end the command well."""

    def stop(number: int, frame: object) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGTERM, stop)
    try:
        yield
    except KeyboardInterrupt:
        click.echo("stopped")
    finally:
        signal.signal(signal.SIGTERM, before)


@command.command("init")
@study_argument
@click.option("--centers", metavar="A,B,C", help="The centers, as they will call themselves.")
@click.option("--server", metavar="HOST", help="Name or address under which all centers reach the server.")
@click.option("--port", type=int, default=8002, show_default=True, help="Its one port.")
@click.option("--days", type=int, default=365, show_default=True, help="How long the certificates are valid.")
@click.option("--out", type=FilePath, default=Path("kits"), show_default=True, metavar="DIR", help="Where to put them.")
@click.option("--add", metavar="CENTER", help="Only make a kit for one more center, in the folder of the others.")
def init(
    study: Path, centers: str | None, server: str | None, port: int, days: int, out: Path, add: str | None
) -> None:
    """Make a kit for each center, one for the server and one for the lead.

    A kit is a folder with a certificate, a private key, the shared part of STUDY and strict settings. Send each center
    its own, by a way that nobody else reads. DIR/authority can make further kits: keep it to yourself.
    """
    from vedute.data.study import Study
    from vedute.federation.nvflare.kits import add_kit, make_kits

    shared = Study.load_shared(study)
    if add is not None:
        click.echo(f"center {add!r}: {add_kit(shared, add, out)}")
        click.echo(f"the list of centers changed: {out / 'server/kit.json'} and {out / 'lead/kit.json'}")
        return
    if centers is None or server is None:
        raise UserError("name the centers and the server: --centers nice,paris --server fl.example.org")
    names = [name.strip() for name in centers.split(",") if name.strip()]
    kits = make_kits(shared, names, server, port, out, days)
    for name, path in kits.items():
        holder = f"the {name}" if name in ("server", "lead") else f"center {name!r}"
        click.echo(f"{holder}: {path}")
    click.echo(f"{out / 'authority'} signed them and can sign more: keep it where only you can read it")


@command.command("serve")
@click.argument("kit", type=FilePath)
@unit_option
def serve(kit: Path, print_unit: bool) -> None:
    """Be the server of a federation, with the server's KIT, until stopped."""
    from vedute.federation.nvflare.kits import open_kit
    from vedute.federation.nvflare.processes import serve, unit

    opened = open_kit(kit, "server")
    if print_unit:
        click.echo(unit(opened), nl=False)
        return
    with running():
        serve(opened, click.echo)


@command.command("join")
@click.argument("kit", type=FilePath)
@click.option("--data", type=FilePath, required=True, metavar="NODE.TOML", help="Which files this center has.")
@click.option("--home", type=FilePath, help="For ledgers and models. [default: vedute-home/ beside NODE.TOML]")
@click.option("--yes", is_flag=True, help="Agree without being asked, for services.")
@unit_option
def join(kit: Path, data: Path, home: Path | None, yes: bool, print_unit: bool) -> None:
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


@command.command("status")
@click.option("--kit", type=FilePath, default=Path("kits/lead"), show_default=True, help="The lead's kit.")
@json_option
def status(kit: Path, as_json: bool) -> None:
    """Tell which centers are connected, and how far the running job is."""
    from vedute.federation.nvflare.kits import open_kit
    from vedute.federation.nvflare.session import Line, Unreachable

    opened = open_kit(kit, "lead")
    line = Line(opened.path)
    try:
        sight = line.look()
        jobs = {job: line.progress(job) for job in sorted(sight.jobs)}
    except Unreachable:
        raise UserError(f"{opened.address} does not answer; is 'vedute federation serve' running there?") from None
    finally:
        line.close()
    there = {center: center in sight.centers for center in opened.file.centers}
    if as_json:
        click.echo(json.dumps({"server": opened.address, "centers": there, "jobs": jobs}))
        return
    click.echo(f"server {opened.address}")
    for center, connected in there.items():
        click.echo(f"  {center}: {'connected' if connected else 'not connected'}")
    for told in jobs.values():
        among = ", ".join(told.get("centers", [])) or "no answer yet"
        click.echo(f"a run is at round {told.get('round', 0)} ({among})")
        for message in told.get("said", []):
            click.echo(f"  {message}")
    if not jobs:
        click.echo("no run at the moment")
