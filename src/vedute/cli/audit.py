"""``vedute audit``."""

from __future__ import annotations

import json
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Any

import click

from vedute.cli.options import FilePath, json_option
from vedute.progress import progress_bar

REFUTED = 2


@click.command()
@click.argument("policy", type=click.Choice(["subject", "center", "paper"]))
@click.option("--epsilon", type=float, default=1.0, show_default=True, metavar="E", help="The budget to audit.")
@click.option("--delta", type=float, default=1e-5, show_default=True, metavar="D", help="Its delta.")
@click.option("--clip", type=float, default=1.0, show_default=True, metavar="C", help="Clip constant (center, paper).")
@click.option("--rounds", type=click.IntRange(min=1), default=10, show_default=True, help="Rounds (center, paper).")
@click.option("--trials", type=click.IntRange(min=40), default=2000, show_default=True, help="Runs on each neighbour.")
@click.option("--out", type=FilePath, metavar="PNG", help="A picture of what the attacker saw.")
@json_option
@click.pass_context
def command(
    ctx: click.Context, /, policy: str, rounds: int, trials: int, out: Path | None, as_json: bool, **options: Any
) -> None:
    """Measure the privacy that POLICY really gives.

    Whole runs on worst-case data and on their neighbours are attacked by someone who knows all but which is which;
    what the attack proves is compared with what is claimed. Exit status 2 if a claim is refuted. For the policy paper
    both the honest total and the paper's own Theorem 4 stand trial.
    """
    from vedute.privacy.audit import plot
    from vedute.privacy.mechanisms import SecretNoise
    from vedute.privacy.policies import make_policy

    table: dict[str, Any] = {"policy": policy, **options}
    if policy == "subject":
        del table["clip"]
    if policy == "paper":
        table["first_round"] = "public"
    asked = make_policy(table)
    noise = SecretNoise()
    with progress_bar("runs", shown=sys.stderr.isatty()) as tell:
        each = None if tell is None else lambda done, of: tell(f"run {done}/{of}", done, of)
        verdict = asked.audit(trials, noise, rounds, progress=each)
    if out is not None:
        plot(verdict.found, str(out))
    if as_json:
        told = {"found": asdict(verdict.found), "against": dict(verdict.against), "refuted": verdict.refuted}
        click.echo(json.dumps(told, default=lambda value: value.tolist()))
    else:
        found = verdict.found
        click.echo(f"the attack shows eps >= {found.epsilon:.3g} at delta {found.delta:g}, mu >= {found.mu:.3g}")
        for claim, reason in verdict.against.items():
            click.echo(f"{claim}: {'not refuted' if reason is None else f'REFUTED: {reason}'}")
    if verdict.refuted:
        ctx.exit(REFUTED)
