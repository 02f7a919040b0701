"""``vedute federation init``."""

from __future__ import annotations

from pathlib import Path

import click

from vedute.cli.options import FilePath, study_argument
from vedute.errors import UserError


@click.command()
@study_argument
@click.option("--centers", metavar="A,B,C", help="The centers, as they will call themselves.")
@click.option("--server", metavar="HOST", help="Name or address under which all centers reach the server.")
@click.option("--port", type=int, default=8002, show_default=True, help="Its one port.")
@click.option("--days", type=int, default=365, show_default=True, help="How long the certificates are valid.")
@click.option("--out", type=FilePath, default=Path("kits"), show_default=True, metavar="DIR", help="Where to put them.")
@click.option("--add", metavar="CENTER", help="Only make a kit for one more center, in the folder of the others.")
def command(
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
