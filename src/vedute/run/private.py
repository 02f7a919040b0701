"""Fits under a privacy policy, in one process: all that leaves a center passes its gate and is in its ledger first.

``subject``: the rows become one noised matrix, and everything after it is ordinary and free. ``center`` and ``paper``:
the rounds are fixed beforehand, and in each the center's parameters pass the gate; the master sees nothing else.
"""

from __future__ import annotations

import os
import tempfile
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, fields, replace
from functools import reduce
from operator import add
from pathlib import Path
from time import perf_counter
from typing import Any, Generic, Protocol, TypeVar

import numpy as np

from vedute.data.scaling import Ranges as Bounds
from vedute.data.study import Folding, Study
from vedute.errors import BreakdownError, DataWarning, UserError
from vedute.model.contribution import Contribution
from vedute.model.master import change
from vedute.model.parameters import Array, GlobalPrior
from vedute.model.schema import Layout
from vedute.model.statistics import Accumulator, Statistics
from vedute.privacy.dimension import NoisedCovariance, misfit
from vedute.privacy.fingerprint import Fingerprint, salt_of
from vedute.privacy.gate import open_gate, release_round, release_rows
from vedute.privacy.ledger import Ledger, open_ledger
from vedute.privacy.mechanisms import noise_source
from vedute.privacy.policies import AnyPolicy, CenterPrivacy, NoPrivacy, PaperPrivacy, SubjectPrivacy
from vedute.privacy.policies.center import center_contribution
from vedute.privacy.policies.paper import paper_contribution
from vedute.privacy.policies.subject import to_statistics
from vedute.privacy.release import Release
from vedute.privacy.requests import check_scaling, make_policy, warn_about
from vedute.privacy.second_moments import Ranges as PublicRanges
from vedute.privacy.second_moments import SecondMoments, Told, checked_ranges, make_bound
from vedute.privacy.update import Update, plug_in_step, public_prior
from vedute.run.center import Plan, run_round
from vedute.run.fitted_model import Model
from vedute.run.fitting import Folded, Ready, check_components, conclude, folded, needs_extremes, prepare, run
from vedute.run.inspection import inspect_centers
from vedute.run.loop import Progress, Record, grouped, nbytes
from vedute.run.settings import Settings

F = TypeVar("F", bound=Folding)
HIDDEN = "cannot be told from noise at this budget (too few subjects for so many features)"
RUN = "fit"  # names the rounds of a fit in the ledger; questions tell different fits apart


def described(policy: AnyPolicy) -> dict[str, Any]:
    """A policy as the table ``[privacy]`` of a study has it; what :func:`vedute.privacy.requests.make_policy` reads."""
    found: dict[str, Any] = {"policy": policy.name}
    for part in fields(policy):
        value = getattr(policy, part.name)
        if part.name == "scales":
            value = {scale.name: getattr(value, scale.name) for scale in fields(value)}
        found[part.name] = dict(value) if isinstance(value, Mapping) else value
    return found


def policy_of(settings: Settings) -> AnyPolicy:
    """The policy that the settings describe."""
    if settings.privacy is None:
        return NoPrivacy()
    table = {name: value for name, value in settings.privacy.items() if value is not None}
    seed = table.pop("seed", None)
    policy = make_policy(table)
    return policy if seed is None or isinstance(policy, NoPrivacy) else replace(policy, seed=seed)


def check_private(policy: AnyPolicy, settings: Settings, centers: int) -> None:
    """What can be known of a private run before it begins: refuse what cannot be, warn of what is of no use."""
    check_scaling(policy, settings.scaling)
    if isinstance(policy, PaperPrivacy):
        if not settings.paper:
            raise UserError("the policy 'paper' is Algorithm 2 to the letter: it needs preset='paper'")
        policy.check_rho(centers)
    if isinstance(policy, CenterPrivacy | PaperPrivacy):
        warn_about(policy, 0, centers, settings.rounds)


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
    check_private(policy, settings, len(rows.held))
    if isinstance(policy, SubjectPrivacy):
        return _fit_subject(read_subjects(policy, rows, ranges, ledgers), rows, settings, ranges, on_round)
    assert not isinstance(policy, NoPrivacy)

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
        warn_about(mine, moments.rows, len(own), rounds=1)
        books[center] = ledgers.open(center, reader.print.name())
        releases[center] = release_rows(mine, books[center], moments, noise_source(policy.seed, center))
        told[center] = moments.told()
    return Noised(*recovered(releases, public, rows.layout), books, told)


def recovered(
    releases: Mapping[str, Release], public: Mapping[str, PublicRanges], layout: Layout
) -> tuple[dict[str, Folded], tuple[NoisedCovariance, ...]]:
    """Statistics of every center that its noise does not hide, and covariances, from what the centers released."""
    read, covariances = {}, []
    for center, release in releases.items():
        statistics = to_statistics(release, public[center])
        if statistics.mask.any():
            read[center] = _noised(statistics, public[center])
            covariances.append(NoisedCovariance.of(statistics, public[center], float(release.public["std"])))
        else:
            warnings.warn(f"center {center!r} {HIDDEN}; it takes no part", DataWarning, stacklevel=4)
    seen = {view for part in read.values() for view in part.statistics.layout.names}
    if hidden := [view for view in layout.names if view not in seen]:
        raise UserError(f"view {hidden[0]!r} {HIDDEN}; raise epsilon, or leave the view out of the study")
    return read, tuple(covariances)


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
    check_scaling(policy, settings.scaling)
    for q in components:
        check_components(rows.layout, replace(settings, n_components=q))
    noised = read_subjects(policy, rows, ranges, ledgers)
    misfits = {q: misfit(rows.layout, noised.covariances, q) for q in components}
    best = min(misfits, key=lambda q: misfits[q])
    return misfits, _fit_subject(noised, rows, replace(settings, n_components=best), ranges, None)


def _noised(statistics: Statistics, ranges: PublicRanges) -> Folded:
    held = statistics.held()
    parts = [ranges.layout.slices[name] for name in held.layout.names]
    low, high = (np.concatenate([ends[part] for part in parts]) for ends in (ranges.low, ranges.high))
    return Folded(held, low, high)


def note_exact_values(rows: Rows, ledgers: Ledgers) -> dict[str, Ledger]:
    """Without a policy the ledgers say that exact values left."""
    readers = rows.feed(lambda center: Reader(Nothing(), ledgers.salt(center)))
    books = {center: ledgers.open(center, reader.print.name()) for center, reader in readers.items()}
    for ledger in books.values():
        open_gate(NoPrivacy(), ledger, RUN)
    return books


class Nothing:
    """Keeps nothing of the rows."""

    def add(self, views: Mapping[str, Array]) -> None:
        """Forget them."""


def private_rounds(
    ready: Ready,
    settings: Settings,
    policy: CenterPrivacy | PaperPrivacy,
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
    progress = Progress(private_start(ready.layout, ready.start, settings, policy))
    for r in range(1, settings.rounds + 1):
        began = perf_counter()
        releases = {}
        with _explained(policy, len(held), r):
            for group in work:
                run_round(group.centers, progress.prior, plan, r, bunch=group.bunch)
        for center in ready.centers:
            noise = noise_source(policy.seed, center.name)
            with _explained(policy, len(held), r):
                update = Update(center.parameters(), progress.prior, r, settings.rounds)
                releases[center.name] = release_round(policy.of(center.name), books[center.name], RUN, update, noise)
        up = sum(nbytes(release.values) for release in releases.values())
        progress = plug_in(progress, releases, held, policy, began, (up, nbytes(progress.prior) * len(held)))
        if on_round is not None:
            on_round(progress)
    return progress


def private_plan(settings: Settings) -> Plan:
    """What a center does in a round of Algorithm 2: no spreads, which are data too."""
    plan = replace(settings.plan(), posterior=False)
    return replace(plan, rule=replace(plan.rule, spread=False))


def private_start(
    layout: Layout, start: GlobalPrior, settings: Settings, policy: CenterPrivacy | PaperPrivacy
) -> GlobalPrior:
    """The prior of round 1: one that owes nothing to data, but for the paper's raw first round."""
    if isinstance(policy, PaperPrivacy) and policy.first_round == "raw":
        return start
    return public_prior(zip(layout.names, layout.sizes, strict=True), settings.n_components, settings.seed)


def plug_in(
    progress: Progress,
    releases: Mapping[str, Release],
    held: Mapping[str, tuple[str, ...]],
    policy: CenterPrivacy | PaperPrivacy,
    began: float,
    travels: tuple[int, int],
) -> Progress:
    """The master's half of a round of Algorithm 2, from what the centers released."""
    names = sorted(releases)
    holders = {view: sum(view in held[name] for name in names) for view in progress.prior.views}
    shares = [_share(policy, releases[name], progress.prior, held[name], holders) for name in names]
    prior = plug_in_step(progress.prior, reduce(add, shares))
    round_, moved = len(progress.history) + 1, change(progress.prior, prior)
    record = Record(round_, moved, perf_counter() - began, *travels, tuple(names), prior.spreads)
    return Progress(prior, (*progress.history, record))


@contextmanager
def _explained(policy: CenterPrivacy | PaperPrivacy, centers: int, round_: int) -> Iterator[None]:
    """A breakdown that rho foretold is not the fault of a center."""
    try:
        yield
    except BreakdownError as error:
        if not isinstance(policy, PaperPrivacy) or policy.check_rho(centers) < 1.0:
            raise
        raise BreakdownError(
            f"the paper's algorithm diverged: its numbers are too large to go on after round {round_ - 1}, as "
            f"rho = {policy.check_rho(centers):.3g} foretold. Take clip < {policy.clip / policy.check_rho(centers):.3g}"
        ) from error


def _share(
    policy: CenterPrivacy | PaperPrivacy,
    release: Release,
    prior: GlobalPrior,
    held: tuple[str, ...],
    holders: Mapping[str, int],
) -> Contribution:
    if isinstance(policy, PaperPrivacy):
        return paper_contribution(release, prior, holders)
    return center_contribution(release, prior, held, policy.scales, holders)
