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
from vedute.data.study import Study
from vedute.data.study_views import named_ranges
from vedute.errors import DataWarning, UserError
from vedute.model.schema import Layout
from vedute.run import run_folder
from vedute.run.checkpoint import Checkpoints, Snapshot, load_read, load_snapshot, save_read
from vedute.run.fitting import Folded, Ready, conclude, prepare, read_study, run
from vedute.run.inspection import inspect_centers
from vedute.run.latent import DATA, fingerprints, write_latent
from vedute.run.loop import Progress
from vedute.run.model_file import build_settings
from vedute.run.private import Ledgers, StudyRows, fit_privately, policy_of
from vedute.run.run_folder import Run, Stage
from vedute.run.settings import Settings
from vedute.run.threads import one_blas_thread

Columns = Mapping[str, tuple[str, ...]]


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
    """Fit ``study`` into ``folder``; a finished run that is resumed is only looked at."""
    run_folder.stage(folder)  # a folder of something else is not even locked
    with run_folder.opened(folder):
        sweep(folder)
        at = stage_to_go_on_from(folder, resume=request.resume, force=request.force)
        if at is Stage.NEW:
            settings = wanted_settings(study, request.given)
            if settings.privacy is not None:
                return _fit_privately(study, folder, settings, request, watch)
            columns, read = _read_new(study, settings)
            ready = _prepare(study, columns, read, settings)
            run_folder.begin(folder, study.text, settings)
            save_read(folder / run_folder.CHECKPOINT, columns, read, origin(study))
        else:
            settings = same_settings(folder, study, request.given)
            if at is Stage.FINISHED:
                _same_files(study, folder)
                run_folder.tidy(folder)
                return run_folder.load_run(folder)
            if settings.privacy is not None:
                return _fit_privately(study, folder, settings, request, watch)
            columns, read = _read_again(study, folder, settings)
            ready = _prepare(study, columns, read, settings)
        prints = {name: part.fingerprint for name, part in read.items()}
        return _go_on(study, folder, settings, columns, ready, prints, watch)


def stage_to_go_on_from(folder: Path, *, resume: bool, force: bool) -> Stage:
    """What the folder is to this run: new also if it is to be replaced; a run that is there is never lost by chance."""
    at = run_folder.stage(folder)
    if at is not Stage.NEW and not (resume or force):
        raise UserError(
            f"{folder}: there is {'an interrupted' if at is Stage.INTERRUPTED else 'a finished'} run already; "
            "continue it with --resume, replace it with --force, or choose another --out"
        )
    return Stage.NEW if force else at


def _fit_privately(study: Study, folder: Path, settings: Settings, request: Request, watch: Watch) -> Run:
    """A fit under a policy. Killed and resumed it begins again: the ledgers repeat what they released, at no cost.

    Nothing is in the folder before the fit has succeeded: a refused release leaves no trace there.
    """
    policy = policy_of(settings)
    rows = StudyRows(study, clipped=policy.name == "subject")
    prints = fingerprints(study)
    watch.begun(settings, 0)
    home = Ledgers(request.ledgers or study.path.parent / "ledgers")
    bounds = named_ranges(study.ranges, rows.layout, rows.columns, partial=True)
    found = fit_privately(rows, settings, bounds, home, watch.round)
    finished = Run(found.model, found.progress.history, found.progress.converged)
    run_folder.begin(folder, study.text, settings)
    write_latent(study, finished.model, prints, folder / run_folder.LOCAL)
    for center, ledger in found.ledgers.items():
        ledger.copy_to(folder / f"ledger-{quote(center, safe='')}.jsonl")
    for center, told in found.told.items():
        write_whole(folder / run_folder.LOCAL / center / "clipped.json", to_json(asdict(told)))
    run_folder.finish(folder, finished)
    return finished


def wanted_settings(study: Study, given: Mapping[str, Any]) -> Settings:
    """Settings of a new run: those given, the study's number of components, and defaults for the rest."""
    components = given.get("n_components", study.components)
    if components is None:
        raise UserError(
            f"{study.path.name}: the number of components is not said; "
            "give --components Q, or components = Q under [study]"
        )
    return Settings(**{**given, "n_components": components})


def _go_on(
    study: Study,
    folder: Path,
    settings: Settings,
    columns: Columns,
    ready: Ready,
    prints: Mapping[str, str],
    watch: Watch,
) -> Run:
    snapshot = load_snapshot(folder / run_folder.CHECKPOINT, ready.layout)
    for center in ready.centers:
        center.state = snapshot.states[center.name] if snapshot is not None else None
    watch.begun(settings, len(snapshot.progress.history) if snapshot is not None else 0)
    checkpoints = Checkpoints(folder / run_folder.CHECKPOINT, ready.layout)

    def after_round(progress: Progress) -> None:
        states = {center.name: center.state for center in ready.centers if center.state is not None}
        checkpoints.note(Snapshot(progress, states))
        watch.round(progress)

    try:
        progress = run(
            ready, settings, threads=os.cpu_count() or 1,
            resume=snapshot.progress if snapshot is not None else None, on_round=after_round,
        )  # fmt: skip
    finally:
        checkpoints.close()
    with one_blas_thread():
        finished = Run(conclude(ready, progress, settings, columns), progress.history, progress.converged)
    write_latent(study, finished.model, prints, folder / run_folder.LOCAL)
    run_folder.finish(folder, finished)
    return finished


def _read_new(study: Study, settings: Settings) -> tuple[Columns, dict[str, Folded]]:
    layout, columns, read = read_study(study, settings)
    inspect_centers(layout, {name: part.statistics for name, part in read.items()}, columns)
    return columns, read


def _read_again(study: Study, folder: Path, settings: Settings) -> tuple[Columns, dict[str, Folded]]:
    """What the centers had read: from the checkpoint, if the files are still the same."""
    saved = load_read(folder / run_folder.CHECKPOINT)
    if saved is None:  # killed while the first checkpoint was written
        columns, read = _read_new(study, settings)
        save_read(folder / run_folder.CHECKPOINT, columns, read, origin(study))
        return columns, read
    columns, read, since = saved
    if origin(study) != since:
        prints = {name: part.fingerprint for name, part in read.items()}
        _same_data(study, columns, prints)
    return columns, read


def _prepare(study: Study, columns: Columns, read: Mapping[str, Folded], settings: Settings) -> Ready:
    layout = Layout(tuple(columns), tuple(len(listed) for listed in columns.values()))
    with one_blas_thread():  # the same bits when resumed with other cores
        return prepare(layout, read, settings, named_ranges(study.ranges, layout, columns))


def origin(study: Study) -> list[list[Any]]:
    """Size, times and inode of every file of a study: while they are the same, so are the data."""
    found = []
    for table in (table for pool in study.pools for table in pool.tables):
        status = os.stat(table.path)
        found.append([table.label, status.st_size, status.st_mtime_ns, status.st_ctime_ns, status.st_ino])
    return found


def _same_files(study: Study, folder: Path) -> None:
    """A finished run against the data: by the fingerprints that were kept at home."""
    prints = {
        path.parent.name: from_json(read_whole(path), path)["fingerprint"]
        for path in sorted((folder / run_folder.LOCAL).glob(f"*/{DATA}"))
    }
    _same_data(study, run_folder.load_run(folder).model.columns, prints)


def _same_data(study: Study, columns: Columns, prints: Mapping[str, str]) -> None:
    now = {view: study.columns[view] for view in sorted(study.columns)}
    if now != dict(columns):
        view = next(name for name in [*now, *columns] if now.get(name) != columns.get(name))
        raise UserError(_other("the data", f"view {view!r} has other columns"))
    if set(study.centers) != set(prints):
        name = sorted(set(study.centers) ^ set(prints))[0]
        raise UserError(_other("the data", f"center {name!r} was {'not there' if name in study.centers else 'there'}"))
    for center, found in fingerprints(study).items():
        if found != prints[center]:
            raise UserError(_other("the data", f"rows of center {center!r} were changed, added or removed"))


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
