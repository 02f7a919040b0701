"""``vedute fit``."""

from __future__ import annotations

import json
import shlex
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from vedute.cli.options import FilePath, force_option, json_option, study_argument
from vedute.cli.rounds import watch_rounds
from vedute.data.scaling import SCALINGS
from vedute.federation.settings import PRESETS, Settings

if TYPE_CHECKING:
    from vedute.federation.store import Run

DEFAULTS = Settings(1)


def _tolerance(ctx: click.Context, param: click.Parameter, value: str | None) -> float | str | None:
    """A number, or the word "none", which stays a word: None means that the option was not given."""
    if value is None or value.lower() == "none":
        return value and "none"
    try:
        return float(value)
    except ValueError:
        raise click.BadParameter(f"{value!r} is neither a number nor 'none'", ctx, param) from None


def _default(name: str) -> str:
    return f"[default: {getattr(DEFAULTS, name)}]"


@click.command()
@study_argument
@click.option("--out", type=FilePath, required=True, metavar="RUN", help="The run folder to write.")
@click.option("--components", "n_components", type=int, metavar="Q", help="Latent components. [default: the study's]")
@click.option("--rounds", type=int, metavar="R", help=f"Most rounds to run. {_default('rounds')}")
@click.option("--iterations", type=int, metavar="N", help=f"Local iterations a round. {_default('iterations')}")
@click.option(
    "--first-iterations", type=int, metavar="N", help=f"Local iterations in round 1. {_default('first_iterations')}"
)
@click.option("--preset", type=click.Choice(PRESETS), help=f"Variant of the algorithm. {_default('preset')}")
@click.option("--scaling", type=click.Choice([*SCALINGS, "none"]), help=f"Scaling of features. {_default('scaling')}")
@click.option(
    "--tol",
    callback=_tolerance,
    metavar="T",
    help=f"Stop when a round changes less; 'none': never. {_default('tol')}",
)
@click.option(
    "--seed", type=click.IntRange(min=0), metavar="S", help=f"Seed of the starting values. {_default('seed')}"
)
@click.option("--resume", is_flag=True, help="Go on with an interrupted run; its options need not be repeated.")
@force_option
@json_option
@click.pass_context
def command(
    ctx: click.Context, /, study: Path, out: Path, resume: bool, force: bool, as_json: bool, **options: Any
) -> None:
    """Fit a model to STUDY and write it to the run folder RUN.

    A run that was interrupted or killed goes on with --resume and ends with exactly the same model.
    """
    from vedute.data.study import Study
    from vedute.federation.resumable import Request, fit_study

    if resume and force:
        raise click.UsageError("--resume continues a run and --force replaces it; choose one")
    given = {name: None if value == "none" else value for name, value in options.items() if value is not None}
    with stopped_by_signals() as stopped, watch_rounds(as_json) as watch:
        try:
            run = fit_study(Study.load(study), out, Request(given, resume, force), watch)
        except KeyboardInterrupt:
            again = shlex.join(["vedute", "fit", str(study), "--out", str(out), "--resume"])
            click.echo(f"vedute: interrupted; continue with\n  {again}", err=True)
            ctx.exit(128 + stopped[0])
    tell(run, out, as_json)


@contextmanager
def stopped_by_signals() -> Iterator[list[int]]:
    """Treat the polite kill of a batch system like Ctrl-C; the list tells which signal it was."""
    stopped = [int(signal.SIGINT)]

    def stop(number: int, frame: object) -> None:
        stopped[0] = number
        raise KeyboardInterrupt

    before = {number: signal.signal(number, stop) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield stopped
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def tell(run: Run, out: Path, as_json: bool) -> None:
    """The outcome in a line, or as JSON."""
    rounds, centers = len(run.history), sorted(run.model.scalers)
    if as_json:
        done = {"event": "done", "run": str(out), "rounds": rounds, "converged": run.converged, "centers": centers}
        click.echo(json.dumps(done, ensure_ascii=False))
        return
    ended = "converged after" if run.converged else "ran"
    click.echo(f"{len(centers)} centers, {run.model.prior.q} components, {ended} {rounds} rounds: {out}")
