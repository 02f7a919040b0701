"""A center that is asked from elsewhere: it judges each question by what it agreed to, answers, and keeps its state.

All that a run needs of the center is on the center's own disk before an answer leaves, so that a center that was
killed answers the same question again with the same bits. What a question asks beyond the agreement is refused, and
why is told at home only.
"""

from __future__ import annotations

import fcntl
import json
from collections.abc import Callable, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import TextIO

import numpy as np
from threadpoolctl import threadpool_limits

from vedute.data.files import sha256, to_json, write_whole
from vedute.data.scaling import Scaler, declared, from_vectors, identity, minmax, squares_of, sums_of
from vedute.data.study import Study
from vedute.data.study_views import named_ranges
from vedute.errors import BreakdownError, Refused, UserError
from vedute.federation.agreement import own_policy
from vedute.federation.messages import decode_question, encode_answer
from vedute.federation.packing import pack
from vedute.federation.plausible import check_basis, check_parameters, check_prior, check_scaled, check_scaler
from vedute.federation.protocol import Answer, Question
from vedute.model.local_step import State
from vedute.model.parameters import Array, CenterParams, GlobalPrior, ViewParams
from vedute.model.statistics import Accumulator
from vedute.privacy.events import NonPrivate
from vedute.privacy.gate import open_gate, release_round, release_rows
from vedute.privacy.ledger import Ledger
from vedute.privacy.mechanisms import noise_source
from vedute.privacy.policies import AnyPolicy, CenterPrivacy, NoPrivacy, PaperPrivacy, SubjectPrivacy
from vedute.privacy.release import Release, digest
from vedute.privacy.requests import accept, check_scaling
from vedute.privacy.shared import Update
from vedute.privacy.subject import SecondMoments, checked_ranges, make_bound
from vedute.run import run_folder
from vedute.run.center import Center, make_center, run_round
from vedute.run.checkpoint import latest, read_named, write_named
from vedute.run.fitted_model import Model
from vedute.run.fitting import Folded, Ready, check_components, conclude, folded, needs_extremes
from vedute.run.inspection import require_subjects
from vedute.run.latent import write_latent
from vedute.run.loop import Progress
from vedute.run.model_file import build_prior, describe_settings
from vedute.run.private import RUN, Ledgers, Reader, policy_of, private_plan
from vedute.run.settings import Settings

STATE = ("mu", "W", "sigma2", "m", "cov")
MOST_CENTERS = 10_000  # with a number of iterations of their own
MOST_ITERATIONS = 10_000  # of a local step: beyond that a question only keeps the center busy
ALLOWED = {
    "none": ("round", "finish"),
    "subject": ("moments", "finish"),
    "center": ("round", "finish"),
    "paper": ("round", "finish"),
}
SUMS = {"shared-standard": ("sums", "squares"), "shared-view": ("sums", "squares"), "shared-minmax": ("extremes",)}
TIMED = ("round", "finish")  # those that name a round
EXACT = NonPrivate("policy none: exact values")


class Site:
    """One center of a federation. ``home`` is its own folder, for ledgers and runs; nothing in it ever leaves."""

    def __init__(self, study: Study, home: Path, note: Callable[[str], None] = lambda message: None) -> None:
        if len(study.centers) != 1:
            raise UserError(f"{study.path.name}: a center of a federation has files of its own alone")
        self.study, self.home = study, home
        self.note = note  # hears, at home, what the server must not
        self.name = study.centers[0]
        self.agreed = sha256(study.text.encode())
        self.columns, self.layout = study.schema.columns, study.schema.layout
        self.ledgers = Ledgers(home / "ledgers")
        self._reads: dict[object, tuple[Folded | SecondMoments, Ledger]] = {}
        self._center: tuple[str, Center, Scaler] | None = None  # of the run that goes on
        self._locks: dict[str, TextIO] = {}

    def answer(self, question: Question) -> Answer | None:
        """What leaves the center; None where only the server had something to say."""
        policy = self._judge(question)
        with threadpool_limits(1, user_api="blas"):  # the same bits as in one process
            release, views = self._release(question, policy)
        if release is None:
            return None
        return Answer(question.step, question.run, question.round, views, release)

    def respond(self, data: bytes) -> bytes | None:
        """The same on bytes, as they came from the server and as they go back."""
        answer = self.answer(decode_question(data, self.layout))
        return None if answer is None else encode_answer(answer)

    def _judge(self, question: Question) -> AnyPolicy:
        """The policy to answer under; refuses what the center did not agree to."""
        settings, limits = question.settings, self.study.federation
        if question.study != self.agreed:
            raise Refused("the question belongs to another study than the one agreed to")
        if settings.rounds > limits.rounds or question.round > settings.rounds:
            raise Refused(f"round {question.round} of {settings.rounds}: the study allows {limits.rounds}")
        each = list(settings.iterations.values()) if isinstance(settings.iterations, Mapping) else [settings.iterations]
        if max(*each, settings.first_iterations) > MOST_ITERATIONS or len(each) > MOST_CENTERS:
            raise Refused("more local iterations than any fit needs")
        if settings.scaling != limits.scaling:
            raise Refused(f"scaling {settings.scaling!r}, where the study has {limits.scaling!r}")
        try:
            check_components(self.layout, settings)
            if self.study.components is not None and settings.n_components > self.study.components:
                raise Refused(f"{settings.n_components} components, where the study has {self.study.components}")
            asked = policy_of(settings)
            policy = accept(own_policy(self.study), asked, self.name)
            check_scaling(policy, settings.scaling)
        except UserError as error:
            raise Refused(str(error)) from None
        if question.step not in self._steps(policy, settings):
            raise Refused(f"the step {question.step!r} under the policy {policy.name!r} and this scaling")
        if (question.step in TIMED) != (question.round > 0):
            raise Refused(f"round {question.round} of the step {question.step!r}")
        self._same_run(question)
        return policy

    def _steps(self, policy: AnyPolicy, settings: Settings) -> tuple[str, ...]:
        """What this center can be asked."""
        agreeing = SUMS.get(str(settings.scaling), ()) if policy.name == "none" else ()
        return (*ALLOWED[policy.name], *agreeing)

    def _same_run(self, question: Question) -> None:
        """A run keeps its settings: the first question writes them down."""
        self._begin(question.run)
        path = self._folder(question) / "asked.json"
        told = json.loads(json.dumps(describe_settings(question.settings)))
        if not path.exists():
            write_whole(path, to_json(told))
        elif json.loads(path.read_bytes()) != told:
            raise Refused("the settings differ from those that the run began with")

    def _begin(self, run: str) -> None:
        """No more runs than agreed, and one process for each: a straggler must not write over its successor's state."""
        if run in self._locks:
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
        self._locks = {run: lock}

    def _folder(self, question: Question) -> Path:
        return self.home / "runs" / question.run

    def _release(self, question: Question, policy: AnyPolicy) -> tuple[Release | None, tuple[str, ...]]:
        if question.step == "finish":
            return self._finish(question, policy)
        if isinstance(policy, SubjectPrivacy):
            moments, ledger = self._read_moments(policy)
            return release_rows(policy, ledger, moments, noise_source(None, self.name)), moments.ranges.layout.names
        read, ledger = self._read(question.settings)
        views = read.statistics.layout.names
        if isinstance(policy, NoPrivacy):
            open_gate(policy, ledger, f"run {question.run}")
        if question.step == "round":
            return self._round(question, policy, read, ledger), views
        return Release(self._sums(question, read), (EXACT,), policy.name), views

    def _sums(self, question: Question, read: Folded) -> dict[str, Array]:
        if question.step == "sums":
            found = sums_of(self.layout, read.statistics)
            return {"counts": found.counts, "sums": found.sums}
        if question.step == "squares":
            return {"squares": squares_of(self.layout, read.statistics, question.values["mean"])}
        seen, low, high = (np.zeros(self.layout.total) for _ in range(3))
        for name, columns in read.statistics.layout.slices.items():
            there = np.isfinite(read.low[columns])
            whole = self.layout.slices[name]
            seen[whole] = there
            low[whole], high[whole] = np.where(there, read.low[columns], 0.0), np.where(there, read.high[columns], 0.0)
        return {"seen": seen, "low": low, "high": high}

    def _round(
        self, question: Question, policy: NoPrivacy | CenterPrivacy | PaperPrivacy, read: Folded, ledger: Ledger
    ) -> Release:
        prior = self._prior(question)
        basis = question.values.get("basis")
        center, _ = self._ready(question, read)
        self._same_question(question)
        center.state = self._state(question, question.round - 1)
        if isinstance(policy, NoPrivacy):
            plan = question.settings.plan()
            (shared,) = run_round([center], prior, plan, question.round, basis if center.state is not None else None)
            self._keep(question, center)
            return Release({"contribution": pack(shared, center.statistics.layout)}, (EXACT,), policy.name)
        params = self._hidden_step(question, center, prior)
        update = Update(params, prior, question.round, question.settings.rounds)
        return release_round(policy, ledger, RUN, update, noise_source(None, self.name))

    def _hidden_step(self, question: Question, center: Center, prior: GlobalPrior) -> CenterParams:
        """The local step of a policy that hides whether it broke down: then the center says what the prior says."""
        try:
            run_round([center], prior, private_plan(question.settings), question.round)
            params = center.parameters()
            check_parameters(params)
        except (BreakdownError, Refused, ArithmeticError, ValueError, np.linalg.LinAlgError):
            center.state = None
            views = {name: prior.views[name] for name in center.statistics.layout.names}
            least = self.study.federation.smallest_sd**2
            return CenterParams(
                {name: ViewParams(view.mu, view.W, max(view.sigma2, least)) for name, view in views.items()},
                np.zeros(prior.q),
            )
        self._keep(question, center)
        return params

    def _prior(self, question: Question) -> GlobalPrior:
        """The prior that the server told, if it is one that a center agreed to be asked by."""
        prior = build_prior(question.values, self.layout)
        check_prior(prior, self.study.federation.smallest_sd, self.study.federation.largest_sd)
        if "basis" in question.values:
            check_basis(question.values["basis"])
        return prior

    def _same_question(self, question: Question) -> None:
        """A round is answered for one prior, however often it is asked, and never after a later one."""
        for kind in ("state0", "state1"):
            kept = latest(self._folder(question) / run_folder.CHECKPOINT, kind)
            if kept is None:
                continue
            _, about = read_named(kept)
            if about["round"] > question.round:
                raise Refused(f"round {question.round}, when round {about['round']} was answered already")
            if about["round"] == question.round and about["question"] != _digest(question):
                raise Refused(f"round {question.round} with another prior than before")

    def _ready(self, question: Question, read: Folded) -> tuple[Center, Scaler]:
        """The center with scaled statistics; the scaling of the run is kept, for questions that do not repeat it."""
        if self._center is None or self._center[0] != question.run or "shift" in question.values:
            scaler = self._scaler(question, read)
            q, iterations = question.settings.n_components, question.settings.iterations_of(self.name)
            center = make_center(self.name, scaler.apply(read.statistics), q, iterations)
            self._center = question.run, center, scaler
        return self._center[1], self._center[2]

    def _scaler(self, question: Question, read: Folded) -> Scaler:
        scaling = question.settings.scaling
        if scaling is None:
            return identity(self.layout)
        if scaling == "declared":
            return declared(self.layout, named_ranges(self.study.ranges, self.layout, self.columns))
        if scaling == "center-minmax":
            own = read.statistics.layout
            return minmax(own, [(own, read.low)], [(own, read.high)])
        folder = self._folder(question) / run_folder.CHECKPOINT
        if "shift" in question.values and "scale" in question.values:
            arrays: Mapping[str, Array] = {name: question.values[name] for name in ("shift", "scale")}
            check_scaler(arrays["shift"], arrays["scale"])
            if (kept := latest(folder, "scaling")) is not None and not _same_arrays(read_named(kept)[0], arrays):
                raise Refused("another scaling than the one that the run began with")
            check_scaled(from_vectors(self.layout, arrays["shift"], arrays["scale"]).apply(read.statistics))
            write_named(folder, "scaling", 0, dict(arrays), {})
        elif (kept := latest(folder, "scaling")) is not None:
            arrays, _ = read_named(kept)
        else:
            raise Refused("the scaling of the run was never told")
        return from_vectors(self.layout, arrays["shift"], arrays["scale"])

    def _state(self, question: Question, round_: int) -> State | None:
        """The state that the center left after a round; None if that did not count: it then begins at the prior.

        An answer may be lost on its way, so the question tells whose answers counted.
        """
        if round_ == 0 or self.name not in question.among:
            return None
        kept = latest(self._folder(question) / run_folder.CHECKPOINT, f"state{round_ % 2}")
        if kept is None:
            return None
        arrays, about = read_named(kept)
        return State(*(arrays.get(part) for part in STATE)) if about["round"] == round_ else None  # type: ignore[arg-type]

    def _keep(self, question: Question, center: Center) -> None:
        """Write the state after this round down; that before it stays, in case the same round is asked again."""
        state = center.state
        arrays = {part: value for part in STATE if (value := getattr(state, part)) is not None}
        kind, about = f"state{question.round % 2}", {"round": question.round, "question": _digest(question)}
        write_named(self._folder(question) / run_folder.CHECKPOINT, kind, question.round, arrays, about)

    def _finish(self, question: Question, policy: AnyPolicy) -> tuple[Release | None, tuple[str, ...]]:
        """Write the model into the center's own run folder; without a policy, tell the center's parameters."""
        if not isinstance(policy, NoPrivacy):
            self._finish_silently(question, policy)
            return None, ()
        folder = self._folder(question)
        with run_folder.opened(folder / "model"):
            if run_folder.stage(folder / "model") is not run_folder.Stage.FINISHED:
                self._conclude(question, policy, folder / "model")
        model = run_folder.load_run(folder / "model").model
        own = model.centers.get(self.name)
        if own is None:
            return None, ()
        views = [own.views[name] for name in self.layout.names if name in own.views]
        values: dict[str, Array] = {
            "mu": np.concatenate([view.mu for view in views]),
            "W": np.concatenate([view.W for view in views]),
            "sigma2": np.array([view.sigma2 for view in views]),
            "m": own.m,
        }
        return Release(values, (EXACT,), policy.name), tuple(own.views)

    def _finish_silently(self, question: Question, policy: AnyPolicy) -> None:
        """The same where a policy hides the rows: nothing that happens here may show outside, not even a failure."""
        folder = self._folder(question) / "model"
        try:
            with run_folder.opened(folder):
                if run_folder.stage(folder) is not run_folder.Stage.FINISHED:
                    self._conclude(question, policy, folder)
        except Exception as error:
            self.note(f"the model of run {question.run} could not be written: {type(error).__name__}: {error}")

    def _conclude(self, question: Question, policy: AnyPolicy, folder: Path) -> None:
        settings, prior = question.settings, self._prior(question)
        if isinstance(policy, SubjectPrivacy):
            moments, ledger = self._read_moments(policy)
            if not ledger.entries():
                raise Refused("the end of a run to which this center never gave anything")
            scaler, told = self._told_scaler(question), moments.told()
            model = Model(self.layout, self.columns, prior, {}, {self.name: scaler}, settings)
        else:
            read, _ = self._read(settings)
            center, scaler = self._ready(question, read)
            center.state, told = self._state(question, question.round), None
            model = self._model(question, prior, center, scaler, policy)
        run_folder.begin(folder, self.study.text, settings)
        write_latent(self.study, model, {self.name: self.study.fingerprint(self.name)}, folder / run_folder.LOCAL)
        if told is not None:
            write_whole(folder / run_folder.LOCAL / self.name / "clipped.json", to_json(asdict(told)))
        run_folder.finish(folder, run_folder.Run(model, (), converged=True))
        for kind in ("state0", "state1", "scaling"):
            if (kept := latest(folder.parent / run_folder.CHECKPOINT, kind)) is not None:
                kept.unlink()

    def _model(
        self, question: Question, prior: GlobalPrior, center: Center, scaler: Scaler, policy: AnyPolicy
    ) -> Model:
        settings = question.settings
        if not isinstance(policy, NoPrivacy):
            return Model(self.layout, self.columns, prior, {}, {self.name: scaler}, settings)
        there = (center,) if center.state is not None else ()
        ready = Ready(self.layout, there, {self.name: scaler}, prior)
        return conclude(ready, Progress(prior, basis=question.values.get("basis")), settings, self.columns)

    def _told_scaler(self, question: Question) -> Scaler:
        if question.settings.scaling == "declared":
            return declared(self.layout, named_ranges(self.study.ranges, self.layout, self.columns))
        if "shift" not in question.values or "scale" not in question.values:
            return identity(self.layout)
        check_scaler(question.values["shift"], question.values["scale"])
        return from_vectors(self.layout, question.values["shift"], question.values["scale"])

    def _read(self, settings: Settings) -> tuple[Folded, Ledger]:
        """What the center knows of its rows, and their ledger; the files are read once for all questions."""
        extremes = needs_extremes(settings)
        if extremes not in self._reads:
            salt = self.ledgers.salt(self.name)
            made = self.study.fold(lambda _: Reader(Accumulator(self.layout, extremes=extremes), salt))[self.name]
            read = folded(made.result.sink)
            require_subjects(self.name, read.statistics)
            self._reads[extremes] = read, self.ledgers.open(self.name, made.result.print.name())
        found, ledger = self._reads[extremes]
        assert isinstance(found, Folded)
        return found, ledger

    def _read_moments(self, policy: SubjectPrivacy) -> tuple[SecondMoments, Ledger]:
        if "moments" not in self._reads:
            held = self.layout.restrict(view for pool in self.study.pools for view in pool.files)
            bounds = named_ranges(self.study.ranges, self.layout, self.columns, partial=True)
            ranges, bound = checked_ranges(held, self.columns, bounds or {}), make_bound(held, policy.bound)
            salt = self.ledgers.salt(self.name)
            made = self.study.fold(lambda _: Reader(SecondMoments(ranges, bound), salt), enforce_ranges=False)
            reader = made[self.name].result
            self._reads["moments"] = reader.sink, self.ledgers.open(self.name, reader.print.name())
        found, ledger = self._reads["moments"]
        assert isinstance(found, SecondMoments)
        return found, ledger


def _digest(question: Question) -> str:
    """What a round was asked about, but for the scaling, which is told once."""
    return digest({name: value for name, value in question.values.items() if name not in ("shift", "scale")})


def _same_arrays(a: Mapping[str, Array], b: Mapping[str, Array]) -> bool:
    return all(np.array_equal(a[name], b[name]) for name in b)
