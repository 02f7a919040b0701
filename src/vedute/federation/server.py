"""The server's way through a run whose centers are elsewhere: ask, add, take the master's step, write it down.

What carries the questions is not known here: ``ask`` takes one question for several centers and gives back the bytes
that came from each. Every complete round is on disk before the next is asked, so a run whose server, lead or centers
died goes on from the last complete round, with the centers that are there.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence, Sized
from dataclasses import dataclass, field, replace
from functools import reduce
from operator import add
from pathlib import Path
from time import perf_counter
from urllib.parse import quote

import numpy as np
from threadpoolctl import threadpool_limits

from vedute.data.files import sha256
from vedute.data.scaling import Scaler, Sums, declared, from_vectors, identity, minmax, standard_scaler, view_scaler
from vedute.data.study import Study
from vedute.data.study_views import named_ranges
from vedute.errors import Refused, UserError
from vedute.federation.claims import check_claims
from vedute.federation.messages import decode_answer, encode_question
from vedute.federation.packing import unpack
from vedute.federation.plausible import check_contribution, check_parameters, check_prior, check_sums
from vedute.federation.protocol import Answer, Question, Step
from vedute.model.contribution import Contribution
from vedute.model.parameters import Array, CenterParams, GlobalPrior, ViewParams
from vedute.model.schema import Layout
from vedute.privacy.gate import open_gate
from vedute.privacy.ledger import Ledger
from vedute.privacy.policies import AnyPolicy, CenterPrivacy, NoPrivacy, PaperPrivacy, SubjectPrivacy
from vedute.privacy.release import Release
from vedute.privacy.subject import checked_ranges
from vedute.run import run_folder
from vedute.run.checkpoint import (
    Snapshot,
    latest,
    load_snapshot,
    read_named,
    snapshot_arrays,
    write_named,
)
from vedute.run.fitted_model import Model
from vedute.run.fitting import Ready, conclude, prepare, run, starting_prior
from vedute.run.inspection import inspect_sums
from vedute.run.loop import Progress, advance
from vedute.run.model_file import prior_arrays
from vedute.run.private import RUN, check_private, plug_in, policy_of, private_start, recovered
from vedute.run.run_folder import Run
from vedute.run.settings import Settings

Ask = Callable[[bytes, Sequence[str]], Mapping[str, bytes]]  # question, centers -> what each said; silence is absence


class TooFewCenters(UserError):
    """Fewer centers are there than the study needs; the run can go on from its last complete round."""


class SilentCenters(UserError):
    """Centers gave no answer; the run can go on from its last complete round, with them or without."""

    def __init__(self, names: Sequence[str]) -> None:
        self.names = tuple(names)
        super().__init__(f"no answer from {', '.join(map(repr, names))}")


@dataclass(frozen=True)
class Job:
    """What is to be run: the shared study, how, under which name, where to write it down, and who is there."""

    study: Study
    settings: Settings
    run: str
    folder: Path
    centers: tuple[str, ...]

    @property
    def agreed(self) -> str:
        """The checksum of the study that all agreed to."""
        return sha256(self.study.text.encode())

    @property
    def columns(self) -> dict[str, tuple[str, ...]]:
        """The columns of each view, views sorted."""
        return {view: self.study.columns[view] for view in sorted(self.study.columns)}

    @property
    def layout(self) -> Layout:
        """All views of the study."""
        return Layout(tuple(self.columns), tuple(len(names) for names in self.columns.values()))


@dataclass
class Listener:
    """Asks, decodes what comes back, and remembers whose answers were refused, of which ``tell`` hears."""

    job: Job
    ask: Ask
    tell: Callable[[str], None]
    present: list[str] = field(init=False)
    barred: list[str] = field(default_factory=list)
    held: dict[str, tuple[str, ...]] = field(default_factory=dict)
    travelled: tuple[int, int] = (0, 0)  # bytes up and down of the last question
    reached: set[str] = field(default_factory=set)

    def __post_init__(self) -> None:
        self.present = sorted(self.job.centers)
        self.enough(self.present)

    def hear(
        self, step: Step, round_: int = 0, values: Mapping[str, Array] | None = None, counted: Sequence[str] = ()
    ) -> dict[str, Answer]:
        """The sound answers to a question, by center; a center that gives none stops the job.

        ``counted`` are the centers whose answers made the prior that is told.
        """
        job = self.job
        found = self.put(Question(step, job.run, job.agreed, job.settings, round_, values or {}, among=tuple(counted)))
        if round_ <= 1 and step != "finish":  # later, a view may pause with the center that holds it
            self.every_view_held(found)
        return found

    def put(self, question: Question, to: Sequence[str] | None = None) -> dict[str, Answer]:
        """The same for any question, and perhaps for some centers only."""
        data, asked = encode_question(question), list(self.present if to is None else to)
        replies = self.ask(data, asked)
        policy, layout = policy_of(self.job.settings).name, self.job.layout
        self.reached |= set(replies)
        silent = [center for center in asked if center not in replies]
        if silent and question.step != "finish":
            raise SilentCenters(silent)
        found = {}
        for center in [center for center in asked if center in replies]:
            if question.step == "finish" and not replies[center]:
                continue  # it has heard the last prior, and its policy lets nothing more out
            try:
                answer = decode_answer(replies[center], question, layout, policy)
                self._same_views(center, answer)
                self.judge(question, answer)
                check_claims(policy_of(self.job.settings).of(center), self.job.settings.rounds, answer, layout)
                found[center] = answer
            except Refused as reason:
                self.bar(center, str(reason))
            except Exception as error:  # what breaks our own arithmetic is a lie as well
                self.bar(center, type(error).__name__)
        self.travelled = sum(len(replies[center]) for center in found), len(data) * len(replies)
        if question.step != "finish":
            self.enough(self.present)
        return found

    def judge(self, question: Question, answer: Answer) -> None:
        """Refuse well-formed answers that cannot be true."""
        _sensible(answer, self.job.layout, question.settings.n_components)

    def enough(self, there: Sized) -> None:
        """Stop where fewer centers are there than the study needs."""
        least = self.job.study.federation.minimum_centers
        if len(there) < least:
            raise TooFewCenters(f"{len(there)} centers are there, and the study needs {least}")

    def every_view_held(self, found: Mapping[str, Answer]) -> None:
        """A run does not begin with a view of which nobody could ever say anything."""
        held = {view for answer in found.values() for view in answer.views}
        if absent := [view for view in self.job.layout.names if view not in held]:
            raise UserError(
                f"view {absent[0]!r}: none of the centers {', '.join(map(repr, sorted(found)))} holds it; "
                "leave it out of the study, or wait for a center that has it"
            )

    def tell_the_end(self, round_: int, values: Mapping[str, Array], counted: Sequence[str]) -> dict[str, Answer]:
        """The last prior, told twice where it was not heard; a center that is gone has no model of this run."""
        self.reached = set()
        found = self.hear("finish", round_, values, counted)
        if missing := [center for center in self.present if center not in self.reached]:
            again = Question(
                "finish", self.job.run, self.job.agreed, self.job.settings, round_, values, among=tuple(counted)
            )
            found |= self.put(again, missing)
        for center in self.present:
            if center not in self.reached:
                self.tell(f"center {center!r} did not hear the last prior; it has no model of this run at home")
        return found

    def bar(self, center: str, reason: str) -> None:
        """A center that sends what cannot be is not asked again in this job."""
        self.present.remove(center)
        self.barred.append(center)
        self.tell(f"center {center!r} sent an answer that was refused ({reason}); the run goes on without it")

    def _same_views(self, center: str, answer: Answer) -> None:
        if self.held.setdefault(center, answer.views) != answer.views:
            raise Refused("it now holds other views than before")


def _sensible(answer: Answer, layout: Layout, q: int) -> None:
    held, values = layout.restrict(answer.views), answer.release.values
    if answer.step in ("sums", "squares", "extremes"):
        check_sums(values, held, layout)
    elif "contribution" in values:
        check_contribution(unpack(values["contribution"], held, q), held)


def conduct(job: Job, ask: Ask, tell: Callable[[str], None], on_round: Callable[[Progress], None]) -> Run:
    """The whole run, from wherever it stands; the finished run folder is ``job.folder``."""
    policy = policy_of(job.settings)
    check_private(policy, job.settings, len(job.centers))
    listener = Listener(job, ask, tell)
    with run_folder.opened(job.folder), threadpool_limits(1, user_api="blas"):
        if run_folder.stage(job.folder) is run_folder.Stage.FINISHED:
            return run_folder.load_run(job.folder)
        if run_folder.stage(job.folder) is run_folder.Stage.NEW:
            run_folder.begin(job.folder, job.study.text, job.settings)
        if isinstance(policy, SubjectPrivacy):
            return _once(listener, policy, on_round)
        return _rounds(listener, policy, on_round)


def _rounds(
    listener: Listener, policy: NoPrivacy | CenterPrivacy | PaperPrivacy, on_round: Callable[[Progress], None]
) -> Run:
    job = listener.job
    checkpoint = job.folder / run_folder.CHECKPOINT
    scaler = _agree_on_scaling(listener, policy)
    snapshot = load_snapshot(checkpoint, job.layout)
    progress = snapshot.progress if snapshot is not None else Progress(_start(job, policy))
    ledgers = _Ledgers(job, policy)
    told = False  # whether the centers of this job know the scaling
    while len(progress.history) < job.settings.rounds and not progress.converged:
        began, r = perf_counter(), len(progress.history) + 1
        counted = progress.history[-1].centers if progress.history else ()
        answers = listener.hear("round", r, _prior_values(progress, job.layout, None if told else scaler), counted)
        told = True
        progress, answers = _sound_step(job, progress, answers, policy, listener, began)
        ledgers.note(answers, r)
        arrays, names = snapshot_arrays(Snapshot(progress, {}), job.layout)
        write_named(checkpoint, "round", r, arrays, names)
        on_round(progress)
    return _conclude(listener, policy, progress, scaler, ledgers)


def _sound_step(
    job: Job,
    progress: Progress,
    answers: dict[str, Answer],
    policy: NoPrivacy | CenterPrivacy | PaperPrivacy,
    listener: Listener,
    began: float,
) -> tuple[Progress, dict[str, Answer]]:
    """The next prior, if the centers will take it; else the one without the center that spoils it, which is barred.

    One center's numbers may each be possible and still make a prior that all the others refuse, for good.
    """
    limits = job.study.federation

    def tried(some: dict[str, Answer]) -> Progress:
        found = _step(job, progress, some, policy, listener, began)
        check_prior(found.prior, limits.smallest_sd, limits.largest_sd)
        return found

    try:
        return tried(answers), answers
    except (Refused, ArithmeticError, ValueError, np.linalg.LinAlgError) as error:
        reason = str(error)
    for center in sorted(answers):
        rest = {name: answer for name, answer in answers.items() if name != center}
        try:
            found = tried(rest)
        except (Refused, ArithmeticError, ValueError, np.linalg.LinAlgError):
            continue
        listener.bar(center, reason)
        listener.enough(listener.present)
        return found, rest
    raise UserError(
        f"round {len(progress.history) + 1} leads to a prior that no center may take ({reason}); "
        "raise largest_sd in the study's [federation], or scale the data"
    )


def _step(
    job: Job,
    progress: Progress,
    answers: Mapping[str, Answer],
    policy: NoPrivacy | CenterPrivacy | PaperPrivacy,
    listener: Listener,
    began: float,
) -> Progress:
    if not isinstance(policy, NoPrivacy):
        releases = {center: answer.release for center, answer in answers.items()}
        return plug_in(progress, releases, listener.held, policy, began, listener.travelled)
    shared: dict[str, Contribution] = {}
    for center, answer in answers.items():
        held = job.layout.restrict(answer.views)
        shared[center] = unpack(answer.release.values["contribution"], held, job.settings.n_components)
    return advance(progress, shared, job.settings.master_rule(), job.settings.tol, began, listener.travelled)


def _start(job: Job, policy: NoPrivacy | CenterPrivacy | PaperPrivacy) -> GlobalPrior:
    start = starting_prior(job.layout, job.settings)
    return start if isinstance(policy, NoPrivacy) else private_start(job.layout, start, job.settings, policy)


def _prior_values(progress: Progress, layout: Layout, scaler: Scaler | None) -> dict[str, Array]:
    values: dict[str, Array] = dict(prior_arrays(progress.prior, layout))
    if progress.basis is not None:
        values["basis"] = progress.basis
    if scaler is not None:
        values["shift"], values["scale"] = scaler.vectors(layout)
    return values


def _agree_on_scaling(listener: Listener, policy: AnyPolicy) -> Scaler | None:
    """The common scaling, from sums of all centers; None where each center knows its own without asking."""
    job = listener.job
    scaling = job.settings.scaling
    if scaling is None or scaling in ("declared", "center-minmax") or not isinstance(policy, NoPrivacy):
        return None
    checkpoint = job.folder / run_folder.CHECKPOINT
    if (kept := latest(checkpoint, "scaling")) is not None:
        arrays, _ = read_named(kept)
        return from_vectors(job.layout, arrays["shift"], arrays["scale"])
    scaler = _extremes(listener) if scaling == "shared-minmax" else _moments(listener, scaling)
    shift, scale = scaler.vectors(job.layout)
    write_named(checkpoint, "scaling", 0, {"shift": shift, "scale": scale}, {})
    return scaler


def _extremes(listener: Listener) -> Scaler:
    layout, lows, highs = listener.job.layout, [], []
    answers = listener.hear("extremes")
    for center in sorted(answers):
        values = answers[center].release.values
        seen = values["seen"] > 0
        lows.append((layout, np.where(seen, values["low"], np.inf)))
        highs.append((layout, np.where(seen, values["high"], -np.inf)))
    return minmax(layout, lows, highs)


def _moments(listener: Listener, scaling: str) -> Scaler:
    job = listener.job
    answers = listener.hear("sums")
    parts = {center: answer.release.values for center, answer in answers.items()}
    again: dict[str, Answer] = {}
    while set(again) != set(parts):  # a center that falls silent in between must be in neither sum
        parts = {center: parts[center] for center in again or parts}
        total = reduce(add, (Sums(parts[name]["counts"], parts[name]["sums"]) for name in sorted(parts)))
        again = listener.hear("squares", values={"mean": total.mean})
    squares = reduce(add, (again[name].release.values["squares"] for name in sorted(again)))
    names = [f"{view}.{column}" for view in job.layout.names for column in job.columns[view]]
    inspect_sums(names, total.counts, squares)
    return (view_scaler if scaling == "shared-view" else standard_scaler)(job.layout, total, squares)


def _conclude(
    listener: Listener, policy: AnyPolicy, progress: Progress, scaler: Scaler | None, ledgers: _Ledgers
) -> Run:
    """Tell the centers the last prior, take their parameters where the policy lets them out, write the run folder."""
    job = listener.job
    last = progress.history[-1].centers
    told = listener.tell_the_end(len(progress.history), _prior_values(progress, job.layout, scaler), last)
    model = _model(job, policy, progress, scaler)
    own = {center: _parameters(job, answer) for center, answer in told.items() if center in last}
    finished = Run(replace(model, centers=dict(sorted(own.items()))), progress.history, progress.converged)
    ledgers.write(job.folder)
    run_folder.finish(job.folder, finished)
    return finished


def _model(job: Job, policy: AnyPolicy, progress: Progress, scaler: Scaler | None) -> Model:
    names = progress.history[-1].centers
    if job.settings.scaling == "declared":
        scaler = declared(job.layout, named_ranges(job.study.ranges, job.layout, job.columns))
    elif job.settings.scaling is None:
        scaler = identity(job.layout)
    scalers = {} if scaler is None else dict.fromkeys(names, scaler)  # each center's own min-max stays at home
    if not isinstance(policy, NoPrivacy):
        return Model(job.layout, job.columns, progress.prior, {}, scalers, job.settings)
    return conclude(Ready(job.layout, (), scalers, progress.prior), progress, job.settings, job.columns)


def _parameters(job: Job, answer: Answer) -> CenterParams:
    held, values = job.layout.restrict(answer.views), answer.release.values
    views = {
        name: ViewParams(values["mu"][columns], values["W"][columns], float(values["sigma2"][k]))
        for k, (name, columns) in enumerate(held.slices.items())
    }
    params = CenterParams(views, values["m"])
    check_parameters(params)
    return params


def _once(listener: Listener, policy: SubjectPrivacy, on_round: Callable[[Progress], None]) -> Run:
    """The policy ``subject``: one release of every center, and the fit is the server's alone."""
    job = listener.job
    answers = listener.hear("moments")
    bounds = named_ranges(job.study.ranges, job.layout, job.columns, partial=True) or {}
    public = {
        center: checked_ranges(job.layout.restrict(answer.views), job.columns, bounds)
        for center, answer in answers.items()
    }
    read, _ = recovered({name: answers[name].release for name in sorted(answers)}, public, job.layout)
    ready = prepare(job.layout, read, job.settings, bounds or None)
    progress = run(ready, job.settings, on_round=on_round)
    model = conclude(ready, progress, job.settings, job.columns)
    ledgers = _Ledgers(job, policy)
    ledgers.note(answers, 0)
    scaler = next(iter(ready.scalers.values()))
    final = Progress(model.prior, progress.history, progress.converged)
    listener.tell_the_end(len(progress.history), _prior_values(final, job.layout, scaler), ())
    finished = Run(model, progress.history, progress.converged)
    ledgers.write(job.folder)
    run_folder.finish(job.folder, finished)
    return finished


class _Ledgers:
    """What the server saw leave each center, as copies beside the model; the centers' own ledgers stay at home."""

    def __init__(self, job: Job, policy: AnyPolicy) -> None:
        self.job, self.policy = job, policy
        self._books: dict[str, Ledger] = {}

    def note(self, answers: Mapping[str, Answer], round_: int) -> None:
        """One release of each center."""
        for center, answer in answers.items():
            path = self.job.folder / run_folder.CHECKPOINT / f"ledger-{quote(center, safe='')}.jsonl"
            if center not in self._books:
                path.parent.mkdir(parents=True, exist_ok=True)
                self._books[center] = Ledger(center, self.job.run, path)
            book = self._books[center]
            if isinstance(self.policy, NoPrivacy):
                open_gate(self.policy, book, RUN)
            else:
                key = f"{RUN}, round {round_}" if round_ else "second moments"
                book.release(key, self.job.run, _already(answer.release), None, self.policy.relation)

    def write(self, folder: Path) -> None:
        """The copies, in the run folder."""
        for path in sorted((self.job.folder / run_folder.CHECKPOINT).glob("ledger-*.jsonl")):
            (folder / path.name).write_bytes(path.read_bytes())


def _already(release: Release) -> Callable[[], Release]:
    return lambda: release
