"""The lead's ``run``: submit a job, follow it, and submit again whenever something died, until the run is finished.

A job of NVFlare ends with the first machine that dies, and a machine that comes back is not let in again. So a run is
as many jobs as it takes: each goes on from the last complete round, which is on the server's disk, with the centers
that are there. What the lead needs to find the run again after it was killed itself is in its run folder.
"""

from __future__ import annotations

import json
import shutil
import tempfile
import time
import uuid
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from vedute.data.files import from_json, read_whole, to_json, write_whole
from vedute.data.study import Study
from vedute.errors import UserError
from vedute.federation.nvflare.jobs import write_job
from vedute.federation.nvflare.names import OUTCOME, RESULT
from vedute.federation.nvflare.session import Line, Sight, Unreachable
from vedute.run import run_folder
from vedute.run.protocol import Progress, Record
from vedute.run.server import starting_prior
from vedute.run.settings import Settings
from vedute.run.study_fit import Watch

POLL_SECONDS = 0.5
LONGEST = 2000  # letters of what the server says that a terminal is shown
FRUITLESS = 5  # jobs in a row that end without a new round, before the lead gives up
FOLLOWED = "federation.json"  # in the checkpoint of a run folder: which run of the federation it is
FILES = (
    run_folder.RUN, run_folder.STUDY, run_folder.NUMBERS, run_folder.NAMES, run_folder.HISTORY, run_folder.CHECKSUMS,
)  # fmt: skip


@dataclass(frozen=True)
class Absence:
    """A center that is connected but does not answer is left out for a while, longer each time."""

    until: float
    wait: float


@dataclass
class Following:
    """Where the lead stands; ``run`` names the run at the server and at the centers, ``job`` its present job."""

    line: Line
    study: Study
    settings: Settings
    folder: Path
    expected: frozenset[str]
    watch: Watch
    tell: Callable[[str], None]
    run: str
    job: str | None = None
    among: frozenset[str] = frozenset()  # the centers of the job
    started: float = 0.0  # of the server, when the job was submitted
    rounds: int = 0
    fruitless: int = 0
    told: set[str] = field(default_factory=set)
    left_out: dict[str, Absence] = field(default_factory=dict)

    def awaited(self) -> frozenset[str]:
        """The centers that the next job should have."""
        now = time.monotonic()
        return frozenset(
            name for name in self.expected if name not in self.left_out or self.left_out[name].until <= now
        )

    def remember(self) -> None:
        """Write down what a resumed lead needs."""
        kept = {"run": self.run, "job": self.job, "among": sorted(self.among), "started": self.started}
        path = self.folder / run_folder.CHECKPOINT / FOLLOWED
        path.parent.mkdir(exist_ok=True)
        write_whole(path, to_json(kept))

    def say(self, message: str) -> None:
        """Tell the user once."""
        if message not in self.told:
            self.told.add(message)
            self.tell("".join(letter if letter.isprintable() else "?" for letter in message[:LONGEST]))


def remembered(folder: Path) -> dict[str, Any]:
    """What an interrupted lead wrote down."""
    path = folder / run_folder.CHECKPOINT / FOLLOWED
    if not path.exists():
        return {}
    kept = from_json(read_whole(path), path)
    return {"run": kept["run"], "job": kept["job"], "among": frozenset(kept["among"]), "started": kept["started"]}


def new_run() -> str:
    """A name that no other run has."""
    return uuid.uuid4().hex


def follow(lead: Following) -> run_folder.Run:
    """All jobs that it takes."""
    lead.watch.begun(lead.settings, 0)
    while True:
        try:
            if lead.job is None:
                _submit(lead)
            ended = _follow_job(lead)
            if ended is not None:
                return ended
        except Unreachable as error:
            lead.say(f"the server does not answer ({error}); trying again")
            time.sleep(POLL_SECONDS)
        else:
            lead.told.clear()


def _submit(lead: Following) -> None:
    """Wait for the centers, then submit the rest of the run."""
    sight = _gather(lead)
    lead.among, lead.started = sight.centers & lead.awaited(), sight.started
    with tempfile.TemporaryDirectory() as folder:
        lead.job = lead.line.submit(write_job(Path(folder) / "vedute", lead.run, lead.settings, sorted(lead.among)))
    lead.remember()


def _gather(lead: Following) -> Sight:
    """All centers, or after the study's timeout as many as there are, if they are enough."""
    limits, since = lead.study.federation, time.monotonic()
    while True:
        sight = lead.line.look()
        awaited = lead.awaited()
        there = sight.centers & awaited
        enough = len(there) >= limits.minimum_centers
        missing = sorted((awaited if enough else lead.expected) - there)  # too few wait for all, silent or gone
        if not missing and enough:
            return sight
        waited = time.monotonic() - since
        names = ", ".join(repr(name) for name in missing)
        if enough and waited >= limits.timeout:
            lead.say(f"not connected: {names}; going on with the centers that are there")
            return sight
        lead.say(f"waiting for {names}" + ("" if enough else f" (the study needs {limits.minimum_centers} centers)"))
        time.sleep(POLL_SECONDS)


def _follow_job(lead: Following) -> run_folder.Run | None:
    """Until the job ends; the finished run, or None where another job is needed."""
    assert lead.job is not None
    before, stopped = lead.rounds, False
    while True:
        status = lead.line.status(lead.job)
        if status.startswith("FINISHED"):
            break
        sight = lead.line.look()
        if sight.started != lead.started:  # a server that was killed calls its dead jobs running for ever
            lead.say("the server was restarted; going on from the last complete round")
            lead.line.abort(lead.job)
            break
        if status == "SUBMITTED" and not lead.among <= sight.centers:  # gone since: it would wait for them for ever
            lead.line.abort(lead.job)
            lead.job = None
            lead.remember()
            return None
        if status == "RUNNING":
            told = lead.line.progress(lead.job)
            _show(lead, told)
            if ready := sorted((sight.centers & lead.awaited()) - lead.among):
                lead.say(f"{', '.join(map(repr, ready))} joined; going on from the last complete round with all")
                stopped = True
                lead.line.abort(lead.job)
        time.sleep(POLL_SECONDS)
    found = _outcome(lead, lead.job)
    if found is None:
        lead.job = None
        lead.remember()
        lead.fruitless = 0 if lead.rounds > before else lead.fruitless + (not stopped)
        if lead.fruitless >= FRUITLESS:
            raise UserError(
                f"{FRUITLESS} jobs in a row ended without a new round; the logs of the server and of the centers say "
                "why. When that is mended, go on with --resume"
            )
    return found


def _show(lead: Following, told: dict[str, Any]) -> None:
    """What the server tells of a running job, as far as it can be understood."""
    for message in told.get("said", []):
        lead.say(str(message))
    for one in told.get("rounds", []):
        try:
            record = Record(**{**one, "change": float(one["change"]), "centers": tuple(one["centers"])})
        except (KeyError, TypeError, ValueError):
            return
        if record.round > lead.rounds:
            _count(lead, Progress(starting_prior(lead.study.schema.layout, lead.settings), (record,)))


def _count(lead: Following, progress: Progress) -> None:
    lead.rounds = progress.history[-1].round
    for name in progress.history[-1].centers:
        lead.left_out.pop(name, None)  # it answers again
    lead.watch.round(progress)


def _outcome(lead: Following, job: str) -> run_folder.Run | None:
    """How a job ended, by its own words; without any, something died."""
    with tempfile.TemporaryDirectory() as folder:
        try:
            found = sorted(lead.line.fetch(job, Path(folder)).rglob(f"{RESULT}/{OUTCOME}"))
            told = json.loads(found[0].read_bytes()) if found else {}
        except (Unreachable, ValueError, OSError):
            return None
        for message in told.get("said", []):
            lead.say(str(message))
        outcome = told.get("outcome")
        if outcome == "finished":
            return _take(lead, found[0].parent / "run")
        if outcome == "silent":
            _leave_out(lead, [str(name) for name in told.get("silent", [])])
        elif outcome == "too few centers":
            lead.say(f"{told.get('reason')}; waiting for more")
        elif outcome == "stopped" and told.get("reason") != "the job was stopped":
            raise UserError(f"the server stopped the run: {told.get('reason')}")
        return None


def _leave_out(lead: Following, silent: list[str]) -> None:
    """A center that fell silent is awaited; one that is there and silent a second time is left out for a while."""
    for name in silent:
        lead.say(f"center {name!r} gave no answer")
        last = lead.left_out.get(name)
        wait = 0.0 if last is None else max(2.0 * last.wait, lead.study.federation.timeout)
        lead.left_out[name] = Absence(time.monotonic() + wait, wait)


def _check(lead: Following, run: run_folder.Run, study: str) -> None:
    """The server is not trusted to have run what was asked for."""
    present = {name for record in run.history for name in record.centers}
    same = (
        run.model.settings == lead.settings,
        study == lead.study.text,
        run.model.columns == lead.study.schema.columns,
        present <= lead.expected,
        len(run.history) <= lead.settings.rounds,
    )
    if not all(same):
        raise UserError("the server's model is not that of the run that was asked for; ask the coordinator why")


def _take(lead: Following, source: Path) -> run_folder.Run:
    """The finished run of the server, verified, into the lead's own folder; the checksums come last."""
    run = run_folder.load_run(source)
    _check(lead, run, read_whole(source / run_folder.STUDY).decode())
    for n in range(lead.rounds, len(run.history)):  # those that passed since the last look
        last = n + 1 == len(run.history)
        _count(lead, Progress(run.model.prior, run.history[: n + 1], converged=run.converged and last))
    names = [name for name in FILES if (source / name).is_file()]
    for path in [*sorted(source.glob("ledger-*.jsonl")), *(source / name for name in names)]:
        write_whole(lead.folder / path.name, path.read_bytes())
    shutil.rmtree(lead.folder / run_folder.CHECKPOINT, ignore_errors=True)
    return run
