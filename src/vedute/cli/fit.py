"""``vedute fit`` and ``vedute federation run``: a model fitted into a run folder, here or by hospitals that joined."""

from __future__ import annotations

import json
import shlex
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from vedute.cli.options import (
    FilePath,
    default_of,
    force_option,
    given_settings,
    json_option,
    settings_options,
    study_argument,
)
from vedute.data.scaling import SCALINGS
from vedute.data.study_file import POLICIES
from vedute.progress import watch_rounds

if TYPE_CHECKING:
    from vedute.data.study import Study
    from vedute.federation.nvflare.kits import Kit
    from vedute.run.run_folder import Run
    from vedute.run.study_fit import Watch


@click.command()
@study_argument
@click.option("--out", type=FilePath, required=True, metavar="RUN", help="The run folder to write.")
@settings_options
@click.option("--scaling", type=click.Choice([*SCALINGS, "none"]), help=f"Scaling of features. {default_of('scaling')}")
@click.option("--privacy", type=click.Choice(POLICIES), help="Policy. [default: the study's]")
@click.option("--epsilon", type=float, metavar="E", help="Privacy budget: the total, or (paper) that of one mechanism.")
@click.option("--delta", type=float, metavar="D", help="Its delta, well below 1 / number of subjects.")
@click.option("--clip", type=float, metavar="C", help="Clip constant of the policies center and paper. [default: 1]")
@click.option(
    "--first-round",
    type=click.Choice(["raw", "public"]),
    help="Round 1 of the policy paper. [default: raw, as published]",
)
@click.option(
    "--ledgers", type=FilePath, metavar="DIR", help="Where the ledgers are. [default: ledgers/ beside the study]"
)
@click.option("--resume", is_flag=True, help="Go on with an interrupted run; its options need not be repeated.")
@force_option
@json_option
@click.pass_context
def command(
    ctx: click.Context,
    /,
    study: Path,
    out: Path,
    ledgers: Path | None,
    resume: bool,
    force: bool,
    as_json: bool,
    **options: Any,
) -> None:
    """Fit a model to STUDY and write it to the run folder RUN.

    A run that was interrupted or killed goes on with --resume and ends with exactly the same model.

    Under a privacy policy every release is in the ledger of the center's data before it leaves; a ledger belongs to
    the data, so a second run, also into another RUN, continues it.
    """
    from vedute.data.study import Study
    from vedute.run.study_fit import Request, fit_study

    if resume and force:
        raise click.UsageError("--resume continues a run and --force replaces it; choose one")
    asked = {name: options.pop(name) for name in ("privacy", "epsilon", "delta", "clip", "first_round")}
    given = given_settings(options)
    with stopped_by_signals() as stopped:
        try:
            with seen_as_interrupts(stopped), watch_rounds(as_json) as watch:
                found = Study.load(study)
                policy = wanted_policy(found, asked)
                if policy is not None or asked["privacy"] is not None:
                    given["privacy"] = policy
                run = fit_study(found, out, Request(given, resume, force, ledgers), watch)
        except KeyboardInterrupt:  # told when the bar is off the screen
            again = shlex.join(["vedute", "fit", str(study), "--out", str(out), "--resume"])
            click.echo(f"vedute: interrupted; continue with\n  {again}", err=True)
            ctx.exit(128 + stopped[-1])
    tell(run, out, as_json)


def wanted_policy(study: Study, asked: dict[str, Any]) -> dict[str, Any] | None:
    """The policy as a table: options on the command line before the study's [privacy]; None for exact values."""
    from vedute.privacy.policies import make_policy

    own = study.privacy
    options = {name: value for name, value in asked.items() if value is not None and name != "privacy"}
    kind = asked["privacy"] or own.policy
    if kind == "none":
        if options:
            raise click.UsageError(
                f"--{next(iter(options)).replace('_', '-')} needs --privacy, or [privacy] in the study"
            )
        return None
    table: dict[str, Any] = {"policy": kind, **options}
    if kind == own.policy:
        table = {"policy": kind, "epsilon": own.epsilon, "delta": own.delta, **own.options, **options}
    return make_policy({name: value for name, value in table.items() if value is not None}).table()


@contextmanager
def stopped_by_signals() -> Iterator[list[int]]:
    """Treat the polite kill of a batch system like Ctrl-C; the list tells which signals came."""
    stopped: list[int] = []

    def stop(number: int, frame: object) -> None:
        stopped.append(number)
        raise KeyboardInterrupt

    before = {number: signal.signal(number, stop) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield stopped
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@contextmanager
def seen_as_interrupts(stopped: list[int]) -> Iterator[None]:
    """What a signal broke is an interrupt, too: NumPy makes a TypeError of one that comes amid a comparison."""
    try:
        yield
    except Exception:
        if stopped:
            raise KeyboardInterrupt from None
        raise


def tell(run: Run, out: Path, as_json: bool) -> None:
    """The outcome in a line, or as JSON."""
    rounds, centers = len(run.history), sorted(run.model.scalers)
    if as_json:
        done = {"event": "done", "run": str(out), "rounds": rounds, "converged": run.converged, "centers": centers}
        click.echo(json.dumps(done, ensure_ascii=False))
        return
    ended = "converged after" if run.converged else "ran"
    click.echo(f"{len(centers)} centers, {run.model.prior.q} components, {ended} {rounds} rounds: {out}")


@click.command("run")
@study_argument
@click.option("--out", type=FilePath, required=True, metavar="RUN", help="The run folder to write.")
@click.option("--kit", type=FilePath, help="The lead's kit. [default: kits/lead beside STUDY]")
@settings_options
@click.option("--resume", is_flag=True, help="Go on with an interrupted run; its options need not be repeated.")
@force_option
@json_option
@click.pass_context
def federated(
    ctx: click.Context,
    /,
    study: Path,
    out: Path,
    kit: Path | None,
    resume: bool,
    force: bool,
    as_json: bool,
    **options: Any,
) -> None:
    """Fit a model to the shared STUDY with the centers that have joined, and write it to the run folder RUN.

    Scaling, privacy and the most rounds are those of STUDY, to which every center agreed. The run goes on when a
    center, the server or this command dies: it waits, and continues from the last complete round.
    """
    from vedute.data.study import Study
    from vedute.federation.nvflare.kits import open_kit

    if resume and force:
        raise click.UsageError("--resume continues a run and --force replaces it; choose one")
    place = kit or study.parent / "kits" / "lead"
    opened = open_kit(place, "lead", study)
    shared = Study.load_shared(opened.study)
    with stopped_by_signals() as stopped:
        try:
            with seen_as_interrupts(stopped), watch_rounds(as_json) as watch:
                run = led(opened, shared, out, given_settings(options), watch, resume=resume, force=force)
        except KeyboardInterrupt:  # told when the bar is off the screen
            again = ["vedute", "federation", "run", str(study), "--kit", str(place), "--out", str(out), "--resume"]
            click.echo(f"vedute: interrupted; the server goes on. Continue with\n  {shlex.join(again)}", err=True)
            ctx.exit(128 + stopped[-1])
    tell(run, out, as_json)


def led(kit: Kit, study: Study, out: Path, given: dict[str, Any], watch: Watch, *, resume: bool, force: bool) -> Run:
    """The finished run, new or resumed."""
    from vedute.federation.nvflare.lead import Following, follow, new_run, remembered
    from vedute.federation.nvflare.session import Line
    from vedute.run import run_folder
    from vedute.run.study_fit import same_settings, stage_to_go_on_from, wanted_settings

    asked = {"scaling": study.federation.scaling, "privacy": wanted_policy(study, dict.fromkeys(("privacy",)))}
    run_folder.stage(out)  # a folder of something else is not even locked
    with run_folder.opened(out):
        at = stage_to_go_on_from(out, resume=resume, force=force)
        if at is run_folder.Stage.FINISHED:
            return run_folder.load_run(out)
        if at is run_folder.Stage.NEW:
            most = {"rounds": min(100, study.federation.rounds)}
            settings, known = wanted_settings(study, {**most, **given, **asked}), {}
            run_folder.begin(out, study.text, settings)
        else:
            settings, known = same_settings(out, study, {**given, **asked}), remembered(out)
        line = Line(kit.path)
        lead = Following(
            line, study, settings, out, frozenset(kit.file.centers), watch,
            lambda message: click.echo(f"vedute: {message}", err=True), **{"run": new_run(), **known},
        )  # fmt: skip
        lead.remember()
        try:
            return follow(lead)
        finally:
            line.close()
