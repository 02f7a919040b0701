"""The page of a fit that is still running: how far the rounds have come, from its latest checkpoint."""

from __future__ import annotations

from pathlib import Path

from vedute.data.files import from_json, read_whole
from vedute.errors import UserError
from vedute.model.schema import Layout
from vedute.report import convergence
from vedute.report.content import Section
from vedute.report.page import page, render
from vedute.report.reading import Folder, read_folder, title_of
from vedute.run.checkpoint import latest, load_snapshot, read_named
from vedute.run.fitted_model import Model
from vedute.run.model_file import build_settings
from vedute.run.run_folder import CHECKPOINT, CHECKSUMS, RUN, Run, Stage, stage

WAITING = (
    "Nothing is written yet: the first checkpoint comes with the first rounds, under a privacy policy with the end."
)
LATER = "everything else: the full report appears here by itself when the fit has ended"


def version(path: Path) -> str:
    """A word that changes whenever the page would."""
    if not path.is_dir():
        return "new"
    at = stage(path)
    if at is Stage.FINISHED:
        return f"finished-{(path / CHECKSUMS).stat().st_mtime_ns}"
    found = latest(path / CHECKPOINT, "round")
    return "new" if found is None else found.stem


def live_page(path: Path, ids: bool = False) -> str:
    """The full report of a finished run, or how far a running one has come."""
    word = version(path)
    if word.startswith("finished"):
        return render(read_folder(path), ids=ids, live=word)
    folder = None if word == "new" else _running(path)
    if folder is None:
        return page(
            path.resolve().name, (Section("live", "The fit begins", (WAITING,), missing=(LATER,)),), 1, {}, word
        )
    rounds, most = len(folder.run.history), folder.run.model.settings.rounds
    moved = f"; the last one changed the model by {folder.run.history[-1].change:.1e}" if rounds > 1 else ""
    told = f"Round {rounds} of at most {most}{moved}."
    began = Section("live", "The fit is running", (told,), missing=(LATER,))
    return page(folder.name, (began, convergence.so_far(folder)), folder.run.model.prior.q, {}, word)


def _running(path: Path) -> Folder | None:
    """The latest checkpoint as a run; None when it was replaced while we looked."""
    data = latest(path / CHECKPOINT, "data")
    try:
        if data is None:
            return None
        _, names = read_named(data)
        columns = {view: tuple(listed) for view, listed in names["views"].items()}
        layout = Layout(tuple(columns), tuple(len(listed) for listed in columns.values()))
        snapshot = load_snapshot(path / CHECKPOINT, layout)
        settings = build_settings(from_json(read_whole(path / RUN), path / RUN)["settings"])
    except UserError:
        return None  # a newer checkpoint took its place; the next look finds that
    if snapshot is None or not snapshot.progress.history:
        return None
    model = Model(layout, columns, snapshot.progress.prior, {}, {}, settings)
    return Folder(title_of(path), Run(model, snapshot.progress.history, False))
