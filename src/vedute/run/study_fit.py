"""Fit a study into a run folder, so that a run that was killed goes on where it stood and ends with the same bits."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote

from vedute.data.files import from_json, read_whole, sweep, to_json, write_whole
from vedute.data.rows import DataChanged, Nothing, StudyRows
from vedute.data.study import Study
from vedute.errors import DataWarning, UserError
from vedute.model.parameters import Schema
from vedute.model.stacked import State
from vedute.run import run_folder
from vedute.run.checkpoint import Checkpoints, load_data, save_data
from vedute.run.exchange import Ledgers, Participant, make_job, read_inspected, told_at_home
from vedute.run.fitted_model import build_settings
from vedute.run.latent import DATA, write_latent
from vedute.run.protocol import Job, Progress
from vedute.run.run_folder import Run, Stage
from vedute.run.server import Fitted, fit_participants
from vedute.run.settings import Settings


@dataclass(frozen=True)
class Request:
    """What the user asked for: settings named on the way, and what may happen to a folder that is there already."""

    given: Mapping[str, Any]
    resume: bool = False
    force: bool = False
    ledgers: Path | None = None  # where the ledgers are; beside the study if not said


@dataclass(frozen=True)
class Watch:
    """Whom to tell how the run goes on; ``begun`` hears the settings and after how many rounds the run goes on."""

    begun: Callable[[Settings, int], None]
    round: Callable[[Progress], None]


def fit_study(study: Study, folder: Path, request: Request, watch: Watch) -> Run:
    """Fit ``study`` into ``folder``; a finished run that is resumed is only looked at.

    Exact values are fitted with checkpoints. Under a policy nothing is in the folder before the fit has succeeded, so
    that a refused release leaves no trace there; killed and resumed it begins again, and the ledgers repeat what they
    released, at no cost.
    """
    run_folder.stage(folder)  # a folder of something else is not even locked
    with run_folder.opened(folder):
        sweep(folder)
        at = stage_to_go_on_from(folder, resume=request.resume, force=request.force)
        new = at is Stage.NEW
        settings = wanted_settings(study, request.given) if new else same_settings(folder, study, request.given)
        if at is Stage.FINISHED:
            _same_files(study, folder)
            run_folder.tidy(folder)
            return run_folder.load_run(folder)
        rows, checkpoint = StudyRows(study, clipped=settings.policy.once), folder / run_folder.CHECKPOINT
        job = make_job(rows, settings)
        if not settings.policy.exact:
            watch.begun(settings, 0)
            participants = read_inspected(rows, job, Ledgers(request.ledgers or study.path.parent / "ledgers"))
            fitted = fit_participants(job, participants, threads=os.cpu_count() or 1, on_round=watch.round)
            run_folder.begin(folder, study.text, settings)
        else:
            participants = _read_or_remembered(rows, job, folder, new=new)
            fitted = _fit_with_checkpoints(job, participants, checkpoint, watch)
        return _finish(rows, participants, fitted, folder)


def _read_or_remembered(rows: StudyRows, job: Job, folder: Path, *, new: bool) -> list[Participant]:
    """The centers with what they know of their rows: from the checkpoint, if the files are still the same."""
    checkpoint = folder / run_folder.CHECKPOINT
    saved = None if new else load_data(checkpoint)
    if saved is not None:
        schema, data, since = saved
        rows.digests = {name: part.digest for name, part in data.items()}
        if origin(rows.study) != since:
            _same_data(rows, schema)
        return [Participant(name, part) for name, part in data.items()]
    participants = read_inspected(rows, job)
    if new:  # else it was killed while the first checkpoint was written
        run_folder.begin(folder, rows.study.text, job.settings)
    save_data(checkpoint, job.schema, {one.name: one.data for one in participants}, origin(rows.study))
    return participants


def _fit_with_checkpoints(job: Job, participants: list[Participant], folder: Path, watch: Watch) -> Fitted:
    """The rounds, from wherever they stand."""

    def states() -> dict[str, State]:
        fits = {one.name: one.center.state for one in participants if one.center is not None}
        return {name: state for name, state in fits.items() if state is not None}

    checkpoints = Checkpoints(folder, job.schema.layout, states)
    if checkpoints.begun is not None:
        for one in participants:
            one.state = checkpoints.begun.states[one.name]
    progress = checkpoints.progress()
    watch.begun(job.settings, 0 if progress is None else len(progress.history))
    try:
        return fit_participants(
            job, participants, threads=os.cpu_count() or 1, keeper=checkpoints, on_round=watch.round
        )
    finally:
        checkpoints.close()


def _finish(rows: StudyRows, participants: list[Participant], fitted: Fitted, folder: Path) -> Run:
    """Write what stays at each center, the copies of the ledgers and the model."""
    finished = Run(fitted.model, fitted.progress.history, fitted.progress.converged)
    write_latent(rows, finished.model, folder / run_folder.LOCAL)
    for one in participants:
        if one.ledger is not None:
            one.ledger.copy_to(folder / f"ledger-{quote(one.name, safe='')}.jsonl")
    for center, told in told_at_home(participants).items():
        write_whole(folder / run_folder.LOCAL / center / "clipped.json", to_json(asdict(told)))
    run_folder.finish(folder, finished)
    return finished


def stage_to_go_on_from(folder: Path, *, resume: bool, force: bool) -> Stage:
    """What the folder is to this run: new also if it is to be replaced; a run that is there is never lost by chance."""
    at = run_folder.stage(folder)
    if at is not Stage.NEW and not (resume or force):
        raise UserError(
            f"{folder}: there is {'an interrupted' if at is Stage.INTERRUPTED else 'a finished'} run already; "
            "continue it with --resume, replace it with --force, or choose another --out"
        )
    return Stage.NEW if force else at


def wanted_settings(study: Study, given: Mapping[str, Any]) -> Settings:
    """Settings of a new run: those given, the study's number of components, and defaults for the rest."""
    components = given.get("n_components", study.components)
    if components is None:
        raise UserError(
            f"{study.path.name}: the number of components is not said; "
            "give --components Q, or components = Q under [study]"
        )
    return Settings(**{**given, "n_components": components})


def origin(study: Study) -> list[list[Any]]:
    """Size, times and inode of every file of a study: while they are the same, so are the data."""
    found = []
    for table in (table for pool in study.pools for table in pool.tables):
        status = os.stat(table.path)
        found.append([table.label, status.st_size, status.st_mtime_ns, status.st_ctime_ns, status.st_ino])
    return found


def _same_files(study: Study, folder: Path) -> None:
    """A finished run against the data: by the identities that were kept at home."""
    digests = {
        path.parent.name: from_json(read_whole(path), path)["fingerprint"]
        for path in sorted((folder / run_folder.LOCAL).glob(f"*/{DATA}"))
    }
    clipped = build_settings(from_json(read_whole(folder / run_folder.RUN), folder / run_folder.RUN)["settings"])
    rows = StudyRows(study, clipped=clipped.policy.once, digests=digests)
    _same_data(rows, run_folder.load_run(folder).model.schema)


def _same_data(rows: StudyRows, schema: Schema) -> None:
    now, before = rows.schema.columns, schema.columns
    if now != before:
        view = next(name for name in [*now, *before] if now.get(name) != before.get(name))
        raise UserError(_other("the data", f"view {view!r} has other columns"))
    if differing := set(rows.held) ^ set(rows.digests):
        name = sorted(differing)[0]
        raise UserError(_other("the data", f"center {name!r} was {'not there' if name in rows.held else 'there'}"))
    try:
        rows.fold(lambda center: Nothing())
    except DataChanged as error:
        changed = f"rows of center {error.center!r} were changed, added or removed"
        raise UserError(_other("the data", changed)) from None


def same_settings(folder: Path, study: Study, given: Mapping[str, Any]) -> Settings:
    """The settings of the run, if study and options agree with it; complaints tell what differs."""
    run_folder.verified(folder)
    before = read_whole(folder / run_folder.STUDY).decode() if (folder / run_folder.STUDY).exists() else ""
    if before != study.text:
        raise UserError(_other("the study file", _first_difference(before, study.text)))
    described = from_json(read_whole(folder / run_folder.RUN), folder / run_folder.RUN)
    settings = build_settings(described["settings"])
    other = [name for name, value in given.items() if getattr(settings, name) != value]
    if other:
        listed = ", ".join(f"{name} was {getattr(settings, name)!r}, now {given[name]!r}" for name in other)
        raise UserError(_other("the configuration", listed))
    versions = run_folder.describe_run(settings)["versions"]
    changed = [name for name, version in described["versions"].items() if versions.get(name) != version]
    if changed:
        listed = ", ".join(f"{name} {described['versions'][name]} -> {versions.get(name)}" for name in changed)
        warnings.warn(f"resumed with other versions ({listed}): last digits may differ", DataWarning, stacklevel=2)
    return settings


def _first_difference(before: str, now: str) -> str:
    old, new = before.splitlines(), now.splitlines()
    for number, (was, is_) in enumerate(zip(old, new, strict=False), 1):
        if was != is_:
            return f"line {number} was {was.strip()!r}, now {is_.strip()!r}"
    return f"it had {len(old)} lines, now {len(new)}"


def _other(what: str, detail: str) -> str:
    return (
        f"cannot resume: {what} differs from that of the run ({detail}); "
        "undo that, or begin again with --force or another --out"
    )
