"""``vedute federation``: the same study between real machines."""

from __future__ import annotations

import click

from vedute.cli.lazy import Lazy

COMMANDS = ("init", "serve", "join", "run", "status")


@click.command(cls=Lazy, package="vedute.cli.federation", names=COMMANDS)
def command() -> None:
    """Run a study across hospitals on NVIDIA FLARE, while each hospital's rows stay at home.

    The coordinator makes kits with 'init' and sends each hospital its own. The server runs 'serve', every hospital
    'join', and the lead 'run'; 'status' tells who is there.
    """
