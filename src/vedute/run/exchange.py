"""The centers of a run that are in this process: alike ones computed as one, large ones on threads of their own."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, fields, is_dataclass
from pathlib import Path
from typing import Any

import numpy as np

from vedute.data.identity import key_of
from vedute.data.rows import Rows, in_threads, workers
from vedute.data.scaling import Ranges, Scaler, Sums, extremes_of, named_ranges, scaling_of, squares_of, sums_of
from vedute.errors import BreakdownError, UserError
from vedute.model.contribution import Contribution, principal_axes, turned_center
from vedute.model.master import unbiased
from vedute.model.parameters import Array, CenterParams, GlobalPrior, Layout, Schema
from vedute.model.stacked import Stacked, State
from vedute.privacy.ledger import Ledger, open_ledger
from vedute.privacy.policies import NoPrivacy, Policy
from vedute.privacy.second_moments import SecondMoments, Told
from vedute.privacy.update import Update
from vedute.run.center import Center, CenterData, groups, inspect_centers, known_of, make_center, run_round, stack
from vedute.run.protocol import Answer, Answers, Content, Job, Progress, Question
from vedute.run.settings import Settings

RUN = "fit"  # names the rounds of a fit in the ledger; questions tell different fits apart
WORTH_A_THREAD = 1 << 22  # multiplications of one local iteration below which a thread costs more than it saves


@dataclass
class Participant:
    """A center that takes part in a run: what it knows of its rows, its policy, and its fit so far."""

    name: str
    known: CenterData | SecondMoments
    policy: Policy = NoPrivacy()  # noqa: RUF009 - frozen
    ledger: Ledger | None = None
    state: State | None = None  # where a resumed run left it
    center: Center | None = None  # once the scaling is known
    scaler: Scaler | None = None

    @property
    def data(self) -> CenterData:
        """Statistics of the rows, where the policy does not keep them to one noised matrix."""
        assert isinstance(self.known, CenterData)
        return self.known

    @property
    def views(self) -> tuple[str, ...]:
        """The views that the center holds."""
        known = self.known
        return known.statistics.layout.names if isinstance(known, CenterData) else known.ranges.layout.names

    def begin(self, job: Job, agreed: Scaler | None) -> None:
        """Scale what is known of the rows, by the agreed scaler or the center's own."""
        settings = job.settings
        scaling = scaling_of(settings.scaling)
        self.scaler = scaling.at_center(job.schema.layout, self.data, job.ranges, agreed)
        scaled = self.scaler.apply(self.data.statistics)
        self.center = make_center(self.name, scaled, settings.n_components, settings.iterations_of(self.name))
        self.center.state = self.state

    def answer(self, question: Question, job: Job) -> Answer:
        """The answer to a question about the rows as they were read."""
        layout = job.schema.layout
        content: Content
        if question.step == "sums":
            content = sums_of(layout, self.data.statistics)
        elif question.step == "squares":
            assert question.mean is not None
            content = squares_of(layout, self.data.statistics, question.mean)
        elif question.step == "extremes":
            content = extremes_of(layout, self.data)
        else:
            assert self.ledger is not None
            content = self.policy.release(self.ledger, RUN, self.known)
        return Answer(self.views, content)

    def after_round(self, contribution: Contribution, question: Question, job: Job) -> Answer:
        """What the policy lets out of a local step that was taken."""
        if self.policy.exact:
            return Answer(self.views, contribution)
        assert self.center is not None
        return self.let_out(self.center.parameters(), question, job)

    def let_out(self, params: CenterParams, question: Question, job: Job) -> Answer:
        """Noised parameters, on their way into the ledger first."""
        assert self.ledger is not None
        assert question.prior is not None
        update = Update(params, question.prior, question.round, job.settings.rounds)
        return Answer(self.views, self.policy.release(self.ledger, RUN, update))


@dataclass(frozen=True)
class Ledgers:
    """Where ledgers are kept: a folder, or (None) the memory of this process alone."""

    home: Path | None = None

    def key(self, center: str) -> bytes:
        """The center's secret key for naming its data."""
        if self.home is None:
            with tempfile.TemporaryDirectory() as folder:
                return key_of(Path(folder))
        return key_of(self.home / "keys" / center.encode().hex())

    def open(self, center: str, data: str) -> Ledger:
        """The ledger of a center's data."""
        return Ledger(center, data) if self.home is None else open_ledger(self.home, center, data)


def make_job(rows: Rows, settings: Settings, prior: GlobalPrior | None = None) -> Job:
    """What is to be fitted to some rows; what cannot be is refused before anything is read."""
    policy = settings.policy
    policy.check(settings, len(rows.held))
    job = Job(rows.schema, settings, ranges_for(rows.ranges, rows.schema, settings), prior)
    check_components(rows.schema.layout, settings)
    scaling_of(settings.scaling).public(rows.schema.layout, job.ranges)
    return job


def ranges_for(ranges: Any, schema: Schema, settings: Settings) -> Ranges | None:
    """Public ranges; every column must have one where the scaling needs it, and a policy may ask for more."""
    some = settings.policy.once or not scaling_of(settings.scaling).ranged
    return named_ranges(ranges, schema, partial=some)


def check_components(layout: Layout, settings: Settings) -> None:
    """Fewer components than features, or there is nothing to compress."""
    if settings.n_components >= layout.total:
        raise UserError(
            f"n_components={settings.n_components} must be smaller than the number of features, {layout.total}"
        )


def read_participants(rows: Rows, job: Job, ledgers: Ledgers | None = None) -> list[Participant]:
    """Read all rows once, into what the policy needs of them; they are then forgotten."""
    policy, extremes = job.settings.policy, scaling_of(job.settings.scaling).extremes
    held = {center: job.schema.restrict(views) for center, views in rows.held.items()}
    read = rows.fold(
        lambda center: policy.sink(held[center], job.ranges, extremes=extremes),
        None if ledgers is None else ledgers.key,
    )
    found = []
    for center, part in read.items():
        known = part.result if policy.once else known_of(part.result, part.digest)
        mine, book = policy.of(center), None if ledgers is None else ledgers.open(center, part.name)
        mine.check_subjects(part.subjects)
        found.append(Participant(center, known, mine, book))
    return found


def told_at_home(participants: Iterable[Participant]) -> dict[str, Told]:
    """What centers may tell their own staff of rows that a policy clipped."""
    moments = {one.name: one.known for one in participants if one.policy.once}
    return {name: known.told() for name, known in moments.items() if not isinstance(known, CenterData)}


def read_inspected(rows: Rows, job: Job, ledgers: Ledgers | None = None) -> list[Participant]:
    """The same for all centers of a run: what no fit survives is refused, and what is odd is told."""
    found = read_participants(rows, job, ledgers)
    if not job.settings.policy.once:
        inspect_centers(job.schema, {one.name: one.data.statistics for one in found})
    return found


@dataclass(frozen=True)
class Group:
    """Participants that are computed as one, and their stacked statistics (None: rotated anew every round)."""

    members: tuple[Participant, ...]
    centers: tuple[Center, ...]
    stacked: Stacked | None

    def weight(self, q: int) -> int:
        """Multiplications of one local iteration, roughly."""
        rows, features = (int(size) for size in self.centers[0].statistics.factor.shape)
        patterns = len(self.centers[0].statistics.n)
        return len(self.centers) * (rows * features + patterns * q * q * features) * q


class InProcess:
    """An exchange without messages."""

    def __init__(self, job: Job, participants: Iterable[Participant], *, policy: Policy, threads: int = 1) -> None:
        self.job, self.policy, self.threads = job, policy, threads
        self.participants = {one.name: one for one in participants}
        self.plan = job.settings.plan(spreads=policy.exact)
        self.travelled = (0, 0)
        self._groups: list[Group] = []

    @property
    def _ordered(self) -> list[Participant]:
        return [self.participants[name] for name in sorted(self.participants)]

    def ask(self, question: Question) -> Answers:
        """All answers, in the order of the centers' names."""
        if question.step == "finish":
            return self._finish(question)
        if question.step != "round":
            return {one.name: one.answer(question, self.job) for one in self._ordered}
        if not self._groups:
            self._begin(question.scaler)
        try:
            answers = self._round(question)
        except BreakdownError as error:
            raise self.policy.foretold(error, len(self.participants), question.round) from error
        if not (self.policy.exact and any(self.travelled)):  # exact answers have the same size in every round
            up = sum(nbytes(getattr(answer.content, "values", answer.content)) for answer in answers.values())
            self.travelled = up, nbytes(question.prior) * len(answers)
        return answers

    def _begin(self, agreed: Scaler | None) -> None:
        list(in_threads(lambda one: one.begin(self.job, agreed), [one for one in self._ordered if one.center is None]))
        by_center = {one.name: (one, one.center) for one in self._ordered if one.center is not None}
        for alike in groups([center for _, center in by_center.values()], self.plan):
            members = tuple(by_center[center.name][0] for center in alike)
            self._groups.append(Group(members, tuple(alike), None if alike[0].rotation else stack(alike)))

    def _round(self, question: Question) -> Answers:
        """One round of all centers; large ones on threads of their own. The bits do not depend on the threads."""

        def steps(group: Group) -> list[Contribution]:
            assert question.prior is not None
            return run_round(group.centers, question.prior, self.plan, question.round, question.basis, group.stacked)

        heavy = self.threads > 1 and len(self._groups) > 1
        if heavy and any(group.weight(self.plan.q) > WORTH_A_THREAD for group in self._groups):
            with ThreadPoolExecutor(workers(self.threads)) as pool:
                shared = list(pool.map(steps, self._groups))
        else:
            shared = [steps(group) for group in self._groups]
        taken = [
            (one, part) for group, parts in zip(self._groups, shared, strict=True)
            for one, part in zip(group.members, parts, strict=True)
        ]  # fmt: skip
        taken.sort(key=lambda pair: pair[0].name)
        return {one.name: one.after_round(part, question, self.job) for one, part in taken}

    def _finish(self, question: Question) -> Answers:
        """The parameters of all centers, in the axes of the final model; none where a policy keeps them at home."""
        if not self.policy.exact:
            return {}
        assert question.prior is not None
        if not self._groups:  # a run that was resumed after its last round
            self._begin(question.scaler)
        turn, found = final_axes(question.prior, self.job.settings), {}
        for one in self._ordered:
            assert one.center is not None
            own = one.center.parameters(question.basis)
            found[one.name] = Answer(one.views, own if turn is None else turned_center(own, turn))
        return found

    def settle(self, step: Callable[[Answers], Progress], answers: Answers) -> Progress:
        """All answers count: nobody here sends what it should not."""
        return step(answers)

    def inspect(self, total: Sums, squares: Array) -> None:
        """The rows were inspected when they were read."""

    def scalers(self, common: Scaler | None, among: tuple[str, ...]) -> Mapping[str, Scaler]:
        """The scaler of each center."""
        return {name: one.scaler for name, one in self.participants.items() if one.scaler is not None}


def final_axes(prior: GlobalPrior, settings: Settings) -> Array | None:
    """The turn of the latent space after the last round; None where the last prior is left as it is."""
    return None if settings.paper or settings.noised else principal_axes(unbiased(prior))


def nbytes(value: object) -> int:
    """Bytes of the numbers in a prior or an answer, as they would travel."""
    if isinstance(value, Mapping):
        return sum(nbytes(part) for part in value.values())
    if is_dataclass(value):
        parts = (nbytes(getattr(value, part.name)) for part in fields(value))
        return sum(parts)
    return int(value.nbytes) if isinstance(value, np.ndarray) else 8
