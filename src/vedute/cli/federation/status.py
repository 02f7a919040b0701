"""``vedute federation status``."""

from __future__ import annotations

import json
from pathlib import Path

import click

from vedute.cli.options import FilePath, json_option
from vedute.errors import UserError


@click.command()
@click.option("--kit", type=FilePath, default=Path("kits/lead"), show_default=True, help="The lead's kit.")
@json_option
def command(kit: Path, as_json: bool) -> None:
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
