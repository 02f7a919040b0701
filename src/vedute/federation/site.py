"""A center that is asked from elsewhere: it judges each request by what it agreed to, answers, and keeps its state.

All that a run needs of the center is on the center's own disk before an answer leaves, so that a center that was
killed answers the same request again with the same bits. What a request asks beyond the agreement is refused, and
why is told at home only. So is a center whose rows are not those that its run began with.
"""

from __future__ import annotations

import fcntl
import json
from collections.abc import Callable, Mapping
from dataclasses import asdict, replace
from pathlib import Path
from typing import TextIO

import numpy as np

from vedute.data.files import from_json, read_whole, sha256, to_json, write_whole
from vedute.data.rows import DataChanged, StudyRows, one_blas_thread
from vedute.data.scaling import Scaler, from_vectors, scaling_of
from vedute.data.study import Study
from vedute.errors import BreakdownError, Refused, UserError
from vedute.federation.agreement import own_policy
from vedute.federation.encoding import build_question, content_arrays
from vedute.federation.messages import Reply, Request, decode_request, encode_reply
from vedute.federation.plausible import check_basis, check_parameters, check_prior, check_scaled, check_scaler
from vedute.model.contribution import turned_center
from vedute.model.parameters import CenterParams, GlobalPrior, ViewParams
from vedute.model.stacked import State
from vedute.privacy.policies import Policy, accept
from vedute.privacy.policies.none import EXACT
from vedute.privacy.release import Release, digest
from vedute.run import run_folder
from vedute.run.center import Center, require_subjects, run_round
from vedute.run.checkpoint import build_state, latest, read_named, state_arrays, write_named
from vedute.run.exchange import (
    Ledgers,
    Participant,
    check_components,
    final_axes,
    ranges_for,
    read_participants,
    told_at_home,
)
from vedute.run.fitted_model import Model, describe_settings
from vedute.run.latent import write_latent
from vedute.run.protocol import Answer, Job, Progress, Question
from vedute.run.server import conclude
from vedute.run.settings import Settings

MOST_CENTERS = 10_000  # with a number of iterations of their own
MOST_ITERATIONS = 10_000  # of a local step: beyond that a request only keeps the center busy
TIMED = ("round", "finish")  # steps that name a round
IDENTITY = "rows.json"  # in the folder of a run: the identity of the rows that it began with


class Site:
    """One center of a federation. ``home`` is its own folder, for ledgers and runs; nothing in it ever leaves."""

    def __init__(self, study: Study, home: Path, note: Callable[[str], None] = lambda message: None) -> None:
        if len(study.centers) != 1:
            raise UserError(f"{study.path.name}: a center of a federation has files of its own alone")
        self.study, self.home = study, home
        self.note = note  # hears, at home, what the server must not
        self.name = study.centers[0]
        self.agreed = sha256(study.text.encode())
        self.layout = study.schema.layout
        self.ledgers = Ledgers(home / "ledgers")
        self._read: tuple[str, StudyRows, Participant] | None = None  # what was read, and what for
        self._scaled_for = ""  # the run whose units the participant has
        self._lock: tuple[str, TextIO] | None = None  # of the run that goes on

    def respond(self, data: bytes) -> bytes | None:
        """What leaves the center, as bytes; None where only the server had something to say."""
        reply = self.answer(decode_request(data, self.layout))
        return None if reply is None else encode_reply(reply)

    def answer(self, request: Request) -> Reply | None:
        """The same on values."""
        policy = self._judge(request)
        question = build_question(request.step, request.round, request.values, request.among, self.layout)
        try:
            with one_blas_thread():  # the same bits as in one process
                answer = self._answer(request, question, policy)
        except DataChanged:
            self.note(why := _other_rows(self.name, request.run))
            raise Refused(why) from None
        except UserError as error:
            self.note(str(error))
            raise
        if answer is None:
            return None
        held = self.layout.restrict(answer.views)
        release = answer.content
        if not isinstance(release, Release):
            release = Release(content_arrays(release, held), (EXACT,), policy.name)
        return Reply(request.step, request.run, request.round, held.names, release)

    def _judge(self, request: Request) -> Policy:
        """The policy to answer under; refuses what the center did not agree to."""
        settings, limits = request.settings, self.study.federation
        if request.study != self.agreed:
            raise Refused("the question belongs to another study than the one agreed to")
        if settings.rounds > limits.rounds or request.round > settings.rounds:
            raise Refused(f"round {request.round} of {settings.rounds}: the study allows {limits.rounds}")
        each = list(settings.iterations.values()) if isinstance(settings.iterations, Mapping) else [settings.iterations]
        if max(*each, settings.first_iterations) > MOST_ITERATIONS or len(each) > MOST_CENTERS:
            raise Refused("more local iterations than any fit needs")
        if settings.scaling != limits.scaling:
            raise Refused(f"scaling {settings.scaling!r}, where the study has {limits.scaling!r}")
        try:
            check_components(self.layout, settings)
            if self.study.components is not None and settings.n_components > self.study.components:
                raise Refused(f"{settings.n_components} components, where the study has {self.study.components}")
            policy = accept(own_policy(self.study), settings.policy, self.name)
            policy.check_scaling(settings.scaling)
        except UserError as error:
            raise Refused(str(error)) from None
        if request.step not in policy.steps(scaling_of(settings.scaling).steps):
            raise Refused(f"the step {request.step!r} under the policy {policy.name!r} and this scaling")
        if (request.step in TIMED) != (request.round > 0):
            raise Refused(f"round {request.round} of the step {request.step!r}")
        self._same_run(request)
        return policy

    def _same_run(self, request: Request) -> None:
        """A run keeps its settings: the first request writes them down."""
        self._begin(request.run)
        path = self._folder(request) / "asked.json"
        told = json.loads(json.dumps(describe_settings(request.settings)))
        if not path.exists():
            write_whole(path, to_json(told))
        elif json.loads(path.read_bytes()) != told:
            raise Refused("the settings differ from those that the run began with")

    def _begin(self, run: str) -> None:
        """No more runs than agreed, and one process for each: a straggler must not write over its successor's state."""
        if self._lock is not None and self._lock[0] == run:
            return
        runs = self.home / "runs"
        runs.mkdir(parents=True, exist_ok=True)
        if not (runs / run).exists() and sum(1 for _ in runs.iterdir()) >= self.study.federation.runs:
            raise Refused(f"one more run than the {self.study.federation.runs} that the study allows")
        (runs / run).mkdir(exist_ok=True)
        lock = open(runs / run / "lock", "w")  # noqa: SIM115 - held until this process, or this site, is gone
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise Refused("another process of this center answers this run") from None
        self._lock = run, lock

    def _folder(self, request: Request) -> Path:
        return self.home / "runs" / request.run

    def _job(self, settings: Settings, policy: Policy) -> Job:
        """What is fitted, as this center sees it: under its own policy."""
        own = replace(settings, privacy=policy.table())
        return Job(self.study.schema, own, ranges_for(self.study.ranges, self.study.schema, own))

    def _answer(self, request: Request, question: Question, policy: Policy) -> Answer | None:
        if question.step == "finish":
            return self._finish(request, question, policy)
        job = self._job(request.settings, policy)
        _, mine = self._participant(request, job, policy)
        if policy.exact:
            assert mine.ledger is not None
            policy.release(mine.ledger, f"run {request.run}", {})
        if question.step == "round":
            return self._round(request, question, job, mine)
        return mine.answer(question, job)

    def _participant(self, request: Request, job: Job, policy: Policy) -> tuple[StudyRows, Participant]:
        """What the center knows of its rows; its files are read once for all requests of a process.

        Rows that are read again, by a process that was started anew, must be those that the run began with.
        """
        kind = str(policy.table() if policy.once else scaling_of(job.settings.scaling).extremes)
        path = self._folder(request) / IDENTITY
        began = {self.name: str(from_json(read_whole(path), path)["rows"])} if path.exists() else {}
        if self._read is None or self._read[0] != kind:
            rows = StudyRows(self.study, clipped=policy.once, digests=began)
            (mine,) = read_participants(rows, job, self.ledgers)  # refuses other rows before it opens their ledger
            if not policy.once:
                require_subjects(self.name, mine.data.statistics)
            self._read = kind, rows, mine
        _, rows, mine = self._read
        mine.policy = policy
        if began:
            rows.compare(self.name, began[self.name])
        else:
            write_whole(path, to_json({"rows": rows.digests[self.name]}))
        return rows, mine

    def _round(self, request: Request, question: Question, job: Job, mine: Participant) -> Answer:
        prior = self._checked_prior(question)
        center = self._scaled(request, question, job, mine)
        self._same_question(request)
        center.state = self._state(request, request.round - 1)
        exact = mine.policy.exact
        try:
            (shared,) = run_round([center], prior, job.settings.plan(spreads=exact), question.round, question.basis)
            if not exact:
                check_parameters(center.parameters())
        except (BreakdownError, Refused, ArithmeticError, ValueError, np.linalg.LinAlgError):
            if exact:
                raise
            return self._as_the_prior(prior, question, job, mine)
        self._keep(request, center)
        return mine.after_round(shared, question, job)

    def _as_the_prior(self, prior: GlobalPrior, question: Question, job: Job, mine: Participant) -> Answer:
        """What a policy that hides the rows answers when the step broke down, which must not show: the prior."""
        least = self.study.federation.smallest_sd**2
        views = {name: prior.views[name] for name in mine.views}
        params = CenterParams(
            {name: ViewParams(view.mu, view.W, max(view.sigma2, least)) for name, view in views.items()},
            np.zeros(prior.q),
        )
        return mine.let_out(params, question, job)

    def _checked_prior(self, question: Question) -> GlobalPrior:
        """The prior that the server told, if it is one that a center agreed to be asked by."""
        assert question.prior is not None
        check_prior(question.prior, self.study.federation.smallest_sd, self.study.federation.largest_sd)
        if question.basis is not None:
            check_basis(question.basis)
        return question.prior

    def _same_question(self, request: Request) -> None:
        """A round is answered for one prior, however often it is asked, and never after a later one."""
        for kind in ("state0", "state1"):
            kept = latest(self._folder(request) / run_folder.CHECKPOINT, kind)
            if kept is None:
                continue
            _, about = read_named(kept)
            if about["round"] > request.round:
                raise Refused(f"round {request.round}, when round {about['round']} was answered already")
            if about["round"] == request.round and about["question"] != _digest(request):
                raise Refused(f"round {request.round} with another prior than before")

    def _scaled(self, request: Request, question: Question, job: Job, mine: Participant) -> Center:
        """The center in scaled units; they are kept, for requests that do not repeat them."""
        if mine.center is None or self._scaled_for != request.run or question.scaler is not None:
            mine.begin(job, self._agreed_scaler(request, question, mine))
            self._scaled_for = request.run
        assert mine.center is not None
        return mine.center

    def _agreed_scaler(self, request: Request, question: Question, mine: Participant) -> Scaler | None:
        """The scaling of the run: as told now, or as it was told before; None where each center knows its own."""
        if not scaling_of(request.settings.scaling).steps:
            return None
        folder = self._folder(request) / run_folder.CHECKPOINT
        kept = latest(folder, "scaling")
        before = None if kept is None else read_named(kept)[0]
        if question.scaler is None:
            return None if before is None else from_vectors(self.layout, before["shift"], before["scale"])
        told = {name: request.values[name] for name in ("shift", "scale")}
        check_scaler(told["shift"], told["scale"])
        if before is not None and not all(np.array_equal(told[name], before[name]) for name in told):
            raise Refused("another scaling than the one that the run began with")
        check_scaled(question.scaler.apply(mine.data.statistics))
        write_named(folder, "scaling", 0, told, {})
        return question.scaler

    def _state(self, request: Request, round_: int) -> State | None:
        """The state that the center left after a round; None if that did not count: it then begins at the prior.

        An answer may be lost on its way, so the request tells whose answers counted.
        """
        if round_ == 0 or self.name not in request.among:
            return None
        kept = latest(self._folder(request) / run_folder.CHECKPOINT, f"state{round_ % 2}")
        if kept is None:
            return None
        arrays, about = read_named(kept)
        return build_state(arrays) if about["round"] == round_ else None

    def _keep(self, request: Request, center: Center) -> None:
        """Write the state after this round down; that before it stays, in case the same round is asked again."""
        assert center.state is not None
        kind, about = f"state{request.round % 2}", {"round": request.round, "question": _digest(request)}
        folder = self._folder(request) / run_folder.CHECKPOINT
        write_named(folder, kind, request.round, state_arrays(center.state), about)

    def _finish(self, request: Request, question: Question, policy: Policy) -> Answer | None:
        """Write the model into the center's own run folder; without a policy, tell the center's parameters.

        Where a policy hides the rows nothing that happens here may show outside, not even a failure.
        """
        folder = self._folder(request) / "model"
        try:
            with run_folder.opened(folder):
                if run_folder.stage(folder) is not run_folder.Stage.FINISHED:
                    self._conclude(request, question, policy, folder)
        except Exception as error:
            if policy.exact:
                raise
            why = f"the model of run {request.run} could not be written: {type(error).__name__}: {error}"
            self.note(_other_rows(self.name, request.run) if isinstance(error, DataChanged) else why)
        if not policy.exact:
            return None
        own = run_folder.load_run(folder).model.centers.get(self.name)
        return None if own is None else Answer(tuple(own.views), own)

    def _conclude(self, request: Request, question: Question, policy: Policy, folder: Path) -> None:
        self._checked_prior(question)
        job = self._job(request.settings, policy)
        rows, mine = self._participant(request, job, policy)
        if policy.once and not (mine.ledger is not None and mine.ledger.entries()):
            raise Refused("the end of a run to which this center never gave anything")
        model = self._model(request, question, job, mine)
        run_folder.begin(folder, self.study.text, request.settings)
        try:
            write_latent(rows, model, folder / run_folder.LOCAL)
        except DataChanged:
            run_folder.clear(folder)  # where subjects lie that the model was not fitted to is nothing to keep
            raise
        for told in told_at_home([mine]).values():
            write_whole(folder / run_folder.LOCAL / self.name / "clipped.json", to_json(asdict(told)))
        run_folder.finish(folder, run_folder.Run(model, (), converged=True))
        for kind in ("state0", "state1", "scaling"):
            if (kept := latest(folder.parent / run_folder.CHECKPOINT, kind)) is not None:
                kept.unlink()

    def _model(self, request: Request, question: Question, job: Job, mine: Participant) -> Model:
        """The model as this center knows it, with its own parameters where it shared them."""
        prior, settings, params = question.prior, request.settings, dict[str, CenterParams]()
        assert prior is not None
        if mine.policy.once:  # the server fitted what was released, and tells its units
            if question.scaler is not None:
                check_scaler(request.values["shift"], request.values["scale"])
            units = scaling_of(settings.scaling).at_center(self.layout, None, job.ranges, question.scaler)
            return Model(job.schema, prior, {}, {self.name: units}, settings)
        center = self._scaled(request, question, job, mine)
        assert mine.scaler is not None
        if not mine.policy.exact:
            return Model(job.schema, prior, {}, {self.name: mine.scaler}, settings)
        center.state = self._state(request, request.round)
        if center.state is not None:
            own, turn = center.parameters(question.basis), final_axes(prior, settings)
            params[self.name] = own if turn is None else turned_center(own, turn)
        return conclude(Job(job.schema, settings), Progress(prior), params, {self.name: mine.scaler})


def _other_rows(center: str, run: str) -> str:
    """What the center's own staff is told when its rows are not those that a run began with."""
    return (
        f"the rows of center {center!r} are not those that run {run} began with: bring the files back, "
        "or leave this run to the others and take part in a new one"
    )


def _digest(request: Request) -> str:
    """What a round was asked about, but for the scaling, which is told once."""
    return digest({name: value for name, value in request.values.items() if name not in ("shift", "scale")})
