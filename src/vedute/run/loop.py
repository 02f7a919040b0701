"""The round loop of Algorithm 1 in one process."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, fields, is_dataclass
from functools import reduce
from operator import add
from time import perf_counter

import numpy as np

from vedute.model.acceleration import Memory, accelerate
from vedute.model.contribution import Contribution
from vedute.model.master import MasterRule, change, master_step
from vedute.model.parameters import Array, GlobalPrior, Spreads
from vedute.model.stacked import Bunch
from vedute.run.center import Center, Plan, groups, run_round, stack
from vedute.run.threads import one_blas_thread, workers

NOTHING = Memory()
WORTH_A_THREAD = 1 << 22  # multiplications of one local iteration below which a thread costs more than it saves


@dataclass(frozen=True)
class Record:
    """What is known of one round: how far the prior moved and spread, how long it took, how much travelled."""

    round: int
    change: float
    seconds: float
    bytes_up: int
    bytes_down: int
    centers: tuple[str, ...]
    spreads: Mapping[str, Spreads] = field(default_factory=dict)  # of each view, in the prior that the round made


@dataclass(frozen=True)
class Progress:
    """Where the rounds stand; all that is needed to go on after an interruption, but for the centers' states."""

    prior: GlobalPrior
    history: tuple[Record, ...] = ()
    converged: bool = False
    memory: Memory = NOTHING
    basis: Array | None = None


def rounds(
    centers: Sequence[Center],
    start: GlobalPrior,
    plan: Plan,
    rule: MasterRule,
    *,
    n_rounds: int,
    tol: float | None,
    threads: int = 1,
    resume: Progress | None = None,
    on_round: Callable[[Progress], None] | None = None,
) -> Progress:
    """Send the prior out, add what comes back, take the master's step; until it settles or the rounds run out."""
    ordered = sorted(centers, key=lambda center: center.name)
    progress = resume or Progress(start)
    work = grouped(ordered, plan)
    travels = (0, 0)
    with one_blas_thread(), ThreadPoolExecutor(workers(threads)) as pool:
        for r in range(len(progress.history) + 1, n_rounds + 1):
            if progress.converged:
                break
            began = perf_counter()
            shared = local_steps(work, progress, plan, r, pool, threads)
            travels = travels if any(travels) else (nbytes(shared), nbytes(progress.prior) * len(ordered))
            progress = advance(progress, shared, rule, tol, began, travels)
            if on_round is not None:
                on_round(progress)
    return progress


def advance(
    progress: Progress,
    shared: Mapping[str, Contribution],
    rule: MasterRule,
    tol: float | None,
    began: float,
    travels: tuple[int, int],
) -> Progress:
    """The master's half of a round: contributions add in the order of the centers' names, whoever computed them."""
    round_ = len(progress.history) + 1
    total = reduce(add, (shared[name] for name in sorted(shared)))
    prior, basis = master_step(progress.prior, total, rule)
    moved = change(progress.prior, prior)
    settled = tol is not None and round_ > 1 and moved < tol
    memory = progress.memory
    if rule.accelerate and not settled:
        prior, memory = accelerate(memory, progress.prior, prior)
    record = Record(round_, moved, perf_counter() - began, *travels, tuple(sorted(shared)), prior.spreads)
    return Progress(prior, (*progress.history, record), settled, memory, basis)


@dataclass(frozen=True)
class Group:
    """Centers that are computed as one, and their stacked statistics (None: rotated anew every round)."""

    centers: tuple[Center, ...]
    bunch: Bunch | None

    def weight(self, q: int) -> int:
        """Multiplications of one local iteration, roughly."""
        rows, features = (int(size) for size in self.centers[0].statistics.factor.shape)
        patterns = len(self.centers[0].statistics.n)
        return len(self.centers) * (rows * features + patterns * q * q * features) * q


def grouped(centers: Sequence[Center], plan: Plan) -> list[Group]:
    """Centers that are alike together, their statistics stacked once for all rounds."""
    return [Group(tuple(alike), None if alike[0].rotation else stack(alike)) for alike in groups(centers, plan)]


def local_steps(
    work: Sequence[Group], progress: Progress, plan: Plan, round_: int, pool: ThreadPoolExecutor, threads: int
) -> Mapping[str, Contribution]:
    """One round of all centers; large ones on threads of their own. The bits do not depend on the threads."""

    def run(group: Group) -> list[Contribution]:
        return run_round(group.centers, progress.prior, plan, round_, progress.basis, group.bunch)

    heavy = threads > 1 and len(work) > 1 and any(group.weight(plan.q) > WORTH_A_THREAD for group in work)
    results = (pool.map if heavy else map)(run, work)
    pairs = [
        pair for group, parts in zip(work, results, strict=True) for pair in zip(group.centers, parts, strict=True)
    ]
    return {center.name: part for center, part in sorted(pairs, key=lambda pair: pair[0].name)}


def nbytes(value: object) -> int:
    """Bytes of the numbers in a prior or a contribution, as they would travel."""
    if isinstance(value, Mapping):
        return sum(nbytes(part) for part in value.values())
    if is_dataclass(value):
        parts = (nbytes(getattr(value, part.name)) for part in fields(value))
        return sum(parts)
    return int(value.nbytes) if isinstance(value, np.ndarray) else 8
