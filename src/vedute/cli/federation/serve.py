"""``vedute federation serve``."""

from __future__ import annotations

from pathlib import Path

import click

from vedute.cli.federation.service import running, unit_option
from vedute.cli.options import FilePath


@click.command()
@click.argument("kit", type=FilePath)
@unit_option
def command(kit: Path, print_unit: bool) -> None:
    """Be the server of a federation, with the server's KIT, until stopped."""
    from vedute.federation.nvflare.kits import open_kit
    from vedute.federation.nvflare.processes import serve, unit

    opened = open_kit(kit, "server")
    if print_unit:
        click.echo(unit(opened), nl=False)
        return
    with running():
        serve(opened, click.echo)
