"""Fits under a privacy policy, in one process: all that leaves a center passes its gate and is in its ledger first.

``subject``: the rows become one noised matrix, and everything after it is ordinary and free. ``center`` and ``paper``:
the rounds are fixed beforehand, and in each the center's parameters pass the gate; the master sees nothing else.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from time import perf_counter
from typing import Generic, Protocol, TypeVar

import numpy as np

from vedute.data.scaling import Ranges as Bounds
from vedute.data.study import Folding, Study
from vedute.errors import BreakdownError, UserError
from vedute.model.master import change
from vedute.model.parameters import Array
from vedute.model.schema import Layout
from vedute.model.statistics import Accumulator
from vedute.privacy.fingerprint import Fingerprint, salt_of
from vedute.privacy.ledger import Ledger, open_ledger
from vedute.privacy.policies import NoPrivacy, Policy, SubjectPrivacy
from vedute.privacy.policies import policy_of as described_policy
from vedute.privacy.policies.subject import NoisedCovariance, Recovered, misfit, recovered
from vedute.privacy.release import Release
from vedute.privacy.second_moments import SecondMoments, Told, checked_ranges, make_bound
from vedute.privacy.update import Update
from vedute.run.center import Plan, run_round
from vedute.run.fitted_model import Model
from vedute.run.fitting import Folded, Ready, check_components, conclude, folded, needs_extremes, prepare, run
from vedute.run.inspection import inspect_centers
from vedute.run.loop import Progress, Record, grouped, nbytes
from vedute.run.settings import Settings

F = TypeVar("F", bound=Folding)
RUN = "fit"  # names the rounds of a fit in the ledger; questions tell different fits apart


def policy_of(settings: Settings) -> Policy:
    """The policy that the settings describe."""
    return described_policy(settings.privacy)


class Reader(Generic[F]):
    """Reads the rows of one center once: into what the policy needs of them, and into a name for the data."""

    def __init__(self, sink: F, salt: bytes) -> None:
        self.sink, self.print = sink, Fingerprint(salt)

    def add(self, views: Mapping[str, Array]) -> None:
        """Take in some row-aligned views."""
        self.print.add({name: np.asarray(rows, dtype=np.float64) for name, rows in views.items()})
        self.sink.add(views)


class Rows(Protocol):
    """The rows of all centers, wherever they are; ``held`` are the views of each, which is public."""

    @property
    def layout(self) -> Layout:
        """All views of the study."""

    @property
    def columns(self) -> Mapping[str, tuple[str, ...]]:
        """Their columns."""

    @property
    def held(self) -> Mapping[str, tuple[str, ...]]:
        """The views that each center holds."""

    def feed(self, make: Callable[[str], F]) -> dict[str, F]:
        """Read all rows and feed those of each center to its own ``make(center)``."""


@dataclass(frozen=True)
class StudyRows:
    """The rows of a study, in its files."""

    study: Study
    clipped: bool = False  # a policy will clip what lies beyond the declared ranges: no reason to refuse it

    @property
    def layout(self) -> Layout:
        """All views of the study."""
        return Layout(tuple(self.columns), tuple(len(names) for names in self.columns.values()))

    @property
    def columns(self) -> dict[str, tuple[str, ...]]:
        """Their columns."""
        return {view: self.study.columns[view] for view in sorted(self.study.columns)}

    @property
    def held(self) -> dict[str, tuple[str, ...]]:
        """The views that each center has a file of; in a pooled file every center is taken to hold all of them."""
        return {center: tuple(sorted(pool.files)) for pool in self.study.pools for center in pool.centers}

    def feed(self, make: Callable[[str], F]) -> dict[str, F]:
        """Read every file once."""
        found = self.study.fold(make, enforce_ranges=not self.clipped)
        return {center: part.result for center, part in found.items()}


@dataclass(frozen=True)
class Ledgers:
    """Where ledgers are kept: a folder, or (None) the memory of this process alone."""

    home: Path | None = None

    def salt(self, center: str) -> bytes:
        """The center's secret key for naming its data."""
        if self.home is None:
            with tempfile.TemporaryDirectory() as folder:
                return salt_of(Path(folder))
        return salt_of(self.home / "keys" / center.encode().hex())

    def open(self, center: str, data: str) -> Ledger:
        """The ledger of a center's data."""
        return Ledger(center, data) if self.home is None else open_ledger(self.home, center, data)


@dataclass(frozen=True)
class Outcome:
    """A fit under a policy: the model, how it went, the ledgers, and what each center may tell at home."""

    model: Model
    progress: Progress
    ledgers: dict[str, Ledger]
    told: dict[str, Told]


def fit_privately(
    rows: Rows,
    settings: Settings,
    ranges: Bounds | None,
    ledgers: Ledgers,
    on_round: Callable[[Progress], None] | None = None,
) -> Outcome:
    """Fit under the policy of the settings."""
    policy = policy_of(settings)
    policy.check(settings, len(rows.held))
    if isinstance(policy, SubjectPrivacy):
        return _fit_subject(read_subjects(policy, rows, ranges, ledgers), rows, settings, ranges, on_round)

    def make(center: str) -> Reader[Accumulator]:
        layout = rows.layout.restrict(rows.held[center])
        return Reader(Accumulator(layout, extremes=needs_extremes(settings)), ledgers.salt(center))

    readers = rows.feed(make)
    books = {center: ledgers.open(center, reader.print.name()) for center, reader in readers.items()}
    read = {center: folded(reader.sink) for center, reader in readers.items()}
    inspect_centers(rows.layout, {name: part.statistics for name, part in read.items()}, rows.columns)
    ready = prepare(rows.layout, read, settings, ranges)
    progress = private_rounds(ready, settings, policy, books, on_round)
    model = Model(rows.layout, rows.columns, progress.prior, {}, ready.scalers, settings)
    return Outcome(model, progress, books, {})


@dataclass(frozen=True)
class Noised:
    """What all centers let out under the policy ``subject``: statistics for the fit, covariances for choosing q."""

    read: dict[str, Folded]
    covariances: tuple[NoisedCovariance, ...]
    ledgers: dict[str, Ledger]
    told: dict[str, Told]


def read_subjects(policy: SubjectPrivacy, rows: Rows, ranges: Bounds | None, ledgers: Ledgers) -> Noised:
    """One noised release of every center; all that follows is computed from it and costs nothing."""
    own = {center: rows.layout.restrict(views) for center, views in rows.held.items()}
    public = {center: checked_ranges(part, rows.columns, ranges or {}) for center, part in own.items()}

    def make(center: str) -> Reader[SecondMoments]:
        return Reader(SecondMoments(public[center], make_bound(own[center], policy.bound)), ledgers.salt(center))

    books, told, releases = {}, {}, {}
    for center, reader in rows.feed(make).items():
        moments, mine = reader.sink, policy.of(center)
        mine.check_subjects(moments.rows)
        books[center] = ledgers.open(center, reader.print.name())
        releases[center] = mine.release(books[center], RUN, moments)
        told[center] = moments.told()
    found = recovered(releases, public, rows.layout)
    return Noised(folded_again(found), tuple(part.covariance for part in found.values()), books, told)


def folded_again(found: Mapping[str, Recovered]) -> dict[str, Folded]:
    """What was recovered of each center, as rows that were read would stand there."""
    return {center: Folded(part.statistics, part.low, part.high) for center, part in found.items()}


def _fit_subject(
    noised: Noised,
    rows: Rows,
    settings: Settings,
    ranges: Bounds | None,
    on_round: Callable[[Progress], None] | None,
) -> Outcome:
    ready = prepare(rows.layout, noised.read, settings, ranges)
    progress = run(ready, settings, threads=os.cpu_count() or 1, on_round=on_round)
    model = conclude(ready, progress, settings, rows.columns)
    return Outcome(model, progress, noised.ledgers, noised.told)


def choose_privately(
    rows: Rows, settings: Settings, components: Sequence[int], ranges: Bounds | None, ledgers: Ledgers
) -> tuple[dict[int, float], Outcome]:
    """The misfit of each number of components, and the fit with the best: free under the policy ``subject``."""
    policy = policy_of(settings)
    if not isinstance(policy, SubjectPrivacy):
        raise UserError(
            f"under the policy {policy.name!r} every fit is paid for, and WAIC looks at the rows: "
            "fix the number of components beforehand, or use the policy 'subject'"
        )
    policy.check_scaling(settings.scaling)
    for q in components:
        check_components(rows.layout, replace(settings, n_components=q))
    noised = read_subjects(policy, rows, ranges, ledgers)
    misfits = {q: misfit(rows.layout, noised.covariances, q) for q in components}
    best = min(misfits, key=lambda q: misfits[q])
    return misfits, _fit_subject(noised, rows, replace(settings, n_components=best), ranges, None)


def note_exact_values(rows: Rows, ledgers: Ledgers) -> dict[str, Ledger]:
    """Without a policy the ledgers say that exact values left."""
    readers = rows.feed(lambda center: Reader(Nothing(), ledgers.salt(center)))
    books = {center: ledgers.open(center, reader.print.name()) for center, reader in readers.items()}
    for ledger in books.values():
        NoPrivacy().release(ledger, RUN, {})
    return books


class Nothing:
    """Keeps nothing of the rows."""

    def add(self, views: Mapping[str, Array]) -> None:
        """Forget them."""


def private_rounds(
    ready: Ready,
    settings: Settings,
    policy: Policy,
    books: Mapping[str, Ledger],
    on_round: Callable[[Progress], None] | None = None,
) -> Progress:
    """Algorithm 2: local steps, the gate of each center, the master's plug-in step; all rounds, whatever happens.

    A run that was killed is run again from its first round: the ledgers answer the same questions with the same
    releases, at no cost, so it ends in the same model.
    """
    held = {center.name: center.statistics.layout.names for center in ready.centers}
    plan = private_plan(settings)
    work = grouped(ready.centers, plan)
    progress = Progress(policy.start(ready.layout, ready.start, settings.n_components, settings.seed))
    for r in range(1, settings.rounds + 1):
        began = perf_counter()
        releases = {}
        try:
            for group in work:
                run_round(group.centers, progress.prior, plan, r, bunch=group.bunch)
            for center in ready.centers:
                update = Update(center.parameters(), progress.prior, r, settings.rounds)
                releases[center.name] = policy.of(center.name).release(books[center.name], RUN, update)
        except BreakdownError as error:
            if (foretold := policy.foretold(error, len(held), r)) is error:
                raise
            raise foretold from error
        up = sum(nbytes(release.values) for release in releases.values())
        progress = plug_in(progress, releases, held, policy, began, (up, nbytes(progress.prior) * len(held)))
        if on_round is not None:
            on_round(progress)
    return progress


def private_plan(settings: Settings) -> Plan:
    """What a center does in a round of Algorithm 2: no spreads, which are data too."""
    plan = replace(settings.plan(), posterior=False)
    return replace(plan, rule=replace(plan.rule, spread=False))


def plug_in(
    progress: Progress,
    releases: Mapping[str, Release],
    held: Mapping[str, tuple[str, ...]],
    policy: Policy,
    began: float,
    travels: tuple[int, int],
) -> Progress:
    """The master's half of a round of Algorithm 2, from what the centers released."""
    names = sorted(releases)
    prior = policy.step(progress.prior, releases, held)
    round_, moved = len(progress.history) + 1, change(progress.prior, prior)
    record = Record(round_, moved, perf_counter() - began, *travels, tuple(names), prior.spreads)
    return Progress(prior, (*progress.history, record))
