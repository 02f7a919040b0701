"""``vedute federation run``."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from vedute.cli.fit import seen_as_interrupts, stopped_by_signals, tell, wanted_policy
from vedute.cli.options import FilePath, force_option, json_option, study_argument
from vedute.cli.rounds import watch_rounds
from vedute.cli.settings_options import given_settings, settings_options

if TYPE_CHECKING:
    from vedute.data.study import Study
    from vedute.federation.nvflare.kits import Kit
    from vedute.run.run_folder import Run
    from vedute.run.study_fit import Watch


@click.command()
@study_argument
@click.option("--out", type=FilePath, required=True, metavar="RUN", help="The run folder to write.")
@click.option("--kit", type=FilePath, help="The lead's kit. [default: kits/lead beside STUDY]")
@settings_options
@click.option("--resume", is_flag=True, help="Go on with an interrupted run; its options need not be repeated.")
@force_option
@json_option
@click.pass_context
def command(
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
