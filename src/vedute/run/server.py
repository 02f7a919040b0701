"""The server of a run: it agrees on a scaling, sends the prior out, adds what comes back, and takes the master's step.

There is one loop, whoever the centers are and whatever carries the questions (:mod:`vedute.run.protocol`).
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from functools import partial, reduce
from operator import add
from time import perf_counter
from typing import Any, Protocol

import numpy as np

from vedute.data.rows import one_blas_thread
from vedute.data.scaling import Extremes, Scaler, Sums, scaling_of
from vedute.errors import ConvergenceWarning
from vedute.model.contribution import turned_prior
from vedute.model.master import MasterRule, accelerate, change, master_step, unbiased
from vedute.model.parameters import Array, CenterParams, GlobalPrior, Layout, flat_view_prior
from vedute.model.seeds import stream
from vedute.privacy.policies import NoPrivacy, Policy
from vedute.privacy.policies.subject import Recovered, recovered
from vedute.privacy.release import Release
from vedute.privacy.second_moments import checked_ranges
from vedute.run.center import CenterData
from vedute.run.exchange import InProcess, Participant, final_axes
from vedute.run.fitted_model import Model
from vedute.run.protocol import Answers, Exchange, Job, Progress, Question, Record
from vedute.run.settings import Settings

FIRST_NOISE = (2.25, 0.625)  # weak inverse-gamma prior on sigma2 in round 1, as the authors' code has it
OnRound = Callable[[Progress], None]


class Keeper(Protocol):
    """Where the state of a run is kept, so that it can be resumed."""

    def scaler(self) -> Scaler | None:
        """The scaling that was agreed on, if it was."""

    def note_scaler(self, scaler: Scaler) -> None:
        """A scaling was agreed on."""

    def progress(self) -> Progress | None:
        """Where the rounds stand, if there were any."""

    def note(self, progress: Progress) -> None:
        """A round has ended."""


class Nowhere:
    """A run in memory cannot be resumed."""

    def scaler(self) -> None:
        """Not yet."""

    def note_scaler(self, scaler: Scaler) -> None:
        """The run has it."""

    def progress(self) -> None:
        """No round."""

    def note(self, progress: Progress) -> None:
        """The run has it."""


NOWHERE = Nowhere()


@dataclass(frozen=True)
class Fitted:
    """The outcome of a run: the model, and how it went."""

    model: Model
    progress: Progress


def fit(job: Job, exchange: Exchange, keeper: Keeper = NOWHERE, on_round: OnRound | None = None) -> Fitted:
    """The whole run, from wherever it stands."""
    policy = job.settings.policy
    with one_blas_thread():  # the same bits on any number of cores
        if not policy.once:
            return _fit(job, exchange, policy, keeper, on_round)
        found = fit_released(job, exchange.ask(Question("moments")), on_round)
        units = _told(job, next(iter(found.model.scalers.values())))
        exchange.ask(Question("finish", len(found.progress.history), prior=found.model.prior, scaler=units))
        return found


def _fit(job: Job, exchange: Exchange, policy: Policy, keeper: Keeper, on_round: OnRound | None) -> Fitted:
    settings, layout = job.settings, job.schema.layout
    scaler = keeper.scaler()
    if scaler is None and (scaler := scaling_of(settings.scaling).agree(layout, _Asked(exchange), job.ranges)):
        keeper.note_scaler(scaler)
    told, flat = _told(job, scaler), starting_prior(layout, settings, job.prior)
    start = keeper.progress() or Progress(policy.start(layout, flat, settings.n_components, settings.seed))
    master = Master(settings.master_rule(), settings.tol, policy)
    progress = rounds(exchange, master, start, settings.rounds, told=told, keeper=keeper, on_round=on_round)
    last, n = progress.history[-1].centers, len(progress.history)
    end = exchange.ask(Question("finish", n, prior=progress.prior, basis=progress.basis, scaler=told, among=last))
    params = {name: one for name, one in parameters(end).items() if name in last}
    return Fitted(conclude(job, progress, params, exchange.scalers(scaler, last)), progress)


def fit_released(job: Job, answers: Answers, on_round: OnRound | None = None) -> Fitted:
    """A fit to what the centers released: the server's alone, and free."""
    exact = NoPrivacy()
    known = recovered_from(answers, job)
    centers = [Participant(name, CenterData(one.statistics, one.low, one.high)) for name, one in known.items()]
    found = _fit(job, InProcess(job, centers, policy=exact), exact, NOWHERE, on_round)
    _warn_unsettled(job.settings, found.progress)
    return found


def recovered_from(answers: Answers, job: Job) -> dict[str, Recovered]:
    """Statistics of every center that the noise of its release does not hide."""
    layout, columns, ranges = job.schema.layout, job.schema.columns, job.ranges or {}
    public = {name: checked_ranges(layout.restrict(one.views), columns, ranges) for name, one in answers.items()}
    releases = {name: answers[name].content for name in sorted(answers)}
    return recovered({name: one for name, one in releases.items() if isinstance(one, Release)}, public, layout)


def parameters(answers: Answers) -> dict[str, CenterParams]:
    """The parameters that centers told at the end, where their policy lets them."""
    return {name: one.content for name, one in answers.items() if isinstance(one.content, CenterParams)}


def fit_participants(
    job: Job,
    participants: Iterable[Participant],
    *,
    threads: int = 1,
    keeper: Keeper = NOWHERE,
    on_round: OnRound | None = None,
) -> Fitted:
    """The same with centers that are in this process, with a warning if the rounds ran out."""
    policy = job.settings.policy
    found = fit(job, InProcess(job, participants, policy=policy, threads=threads), keeper, on_round)
    if policy.exact:
        _warn_unsettled(job.settings, found.progress)
    return found


@dataclass(frozen=True)
class _Asked:
    """The centers of an exchange, as a scaling asks them."""

    exchange: Exchange

    def sums(self) -> dict[str, Sums]:
        return self._contents(Question("sums"))

    def squares(self, mean: Array) -> dict[str, Array]:
        return self._contents(Question("squares", mean=mean))

    def extremes(self) -> dict[str, Extremes]:
        return self._contents(Question("extremes"))

    def inspect(self, total: Sums, squares: Array) -> None:
        self.exchange.inspect(total, squares)

    def _contents(self, question: Question) -> dict[str, Any]:
        return {name: answer.content for name, answer in self.exchange.ask(question).items()}


def rounds(
    exchange: Exchange,
    master: Master,
    progress: Progress,
    most: int,
    *,
    told: Scaler | None = None,
    keeper: Keeper = NOWHERE,
    on_round: OnRound | None = None,
) -> Progress:
    """Algorithm 1 (or 2): from where the rounds stand until the prior settles, or ``most`` of them were run.

    ``told`` is the scaling that the centers are told with the first question.
    """
    while len(progress.history) < most and not progress.converged:
        began, among = perf_counter(), progress.history[-1].centers if progress.history else ()
        question = Question(
            "round", len(progress.history) + 1, prior=progress.prior, basis=progress.basis, scaler=told, among=among
        )
        answers = exchange.ask(question)
        progress = exchange.settle(partial(master.step, progress, (began, exchange.travelled)), answers)
        told = None
        keeper.note(progress)
        if on_round is not None:
            on_round(progress)
    return progress


def _told(job: Job, scaler: Scaler | None) -> Scaler | None:
    """The scaling, where centers cannot know it by themselves."""
    return scaler if scaling_of(job.settings.scaling).steps else None


Clock = tuple[float, tuple[int, int]]  # when a round began, and the bytes that travelled up and down


@dataclass(frozen=True)
class Master:
    """The master's half of a round; answers are taken in the order of the centers' names, whoever computed them."""

    rule: MasterRule
    tol: float | None
    policy: Policy

    def step(self, progress: Progress, clock: Clock, answers: Answers) -> Progress:
        """The next prior; noised parameters are taken as the policy says, and such rounds never settle."""
        contents: Any = {name: answers[name].content for name in sorted(answers)}
        before, memory, basis, settled = progress.prior, progress.memory, None, False
        if self.policy.exact:
            prior, basis = master_step(before, reduce(add, contents.values()), self.rule)
        else:
            prior = self.policy.step(before, contents, {name: answers[name].views for name in contents})
        moved = change(before, prior)
        if self.policy.exact:
            settled = self.tol is not None and len(progress.history) > 0 and moved < self.tol
            if self.rule.accelerate and not settled:
                prior, memory = accelerate(memory, before, prior)
        seconds, travelled = perf_counter() - clock[0], clock[1]
        record = Record(len(progress.history) + 1, moved, seconds, *travelled, tuple(contents), prior.spreads)
        return Progress(prior, (*progress.history, record), settled, memory, basis)


def starting_prior(layout: Layout, settings: Settings, given: GlobalPrior | None = None) -> GlobalPrior:
    """The prior of round 1: flat, around one seeded W~ for all centers; views that the user gave a prior keep it.

    On scaled data the noise has a weak prior, lest a center with a handful of subjects explain them perfectly.
    """
    q, views = settings.n_components, {}
    for name, d in zip(layout.names, layout.sizes, strict=True):
        if given is not None and name in given.views:
            views[name] = given.views[name]
            continue
        start = None if settings.paper else stream(settings.seed, "shared start", name).standard_normal((d, q))
        flat = flat_view_prior(d, q, None if start is None else start * np.sqrt(0.5 / q))
        alpha, beta = (flat.alpha, flat.beta) if settings.scaling is None else FIRST_NOISE
        views[name] = replace(flat, alpha=alpha, beta=beta)
    return GlobalPrior(views, 0.0 if given is None else given.tau2)


def _warn_unsettled(settings: Settings, progress: Progress) -> None:
    if settings.tol is None or progress.converged or settings.paper:
        return
    warnings.warn(
        f"the rounds ran out: after {settings.rounds} the global prior still changes by "
        f"{progress.history[-1].change:.1e} a round (tol={settings.tol:g}); raise rounds, or tol if that is enough",
        ConvergenceWarning,
        stacklevel=3,
    )


def conclude(job: Job, progress: Progress, params: Mapping[str, CenterParams], scalers: Mapping[str, Scaler]) -> Model:
    """The model of the last round: variances over n - 1 centers, components in order of what they explain.

    ``params`` are those that the centers gave at the end, in these axes.
    """
    prior = progress.prior
    if (turn := final_axes(prior, job.settings)) is not None:
        prior = turned_prior(unbiased(prior), turn)
    return Model(job.schema, prior, {name: params[name] for name in sorted(params)}, scalers, job.settings)
