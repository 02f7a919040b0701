"""How many components? Fit a range of them, compare by WAIC, and recommend the simplest that is as good as the best.

The noise of the model is equal in all features of a view. Scaling each feature by itself breaks that where the features
had a common unit, and further components then pay for repairing it; one scale for a whole view breaks it where they had
none. WAIC in the units of the data can compare the two, so both are tried unless the user names one.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import reduce
from operator import add
from typing import TYPE_CHECKING, Any

import numpy as np
from joblib import Parallel, delayed

from vedute.data.rows import Rows, open_rows
from vedute.data.scaling import named_ranges, scaling_of, squares_of, standard_scaler, sums_of
from vedute.data.study import Study
from vedute.errors import BreakdownError, ConvergenceWarning, DataWarning, UserError
from vedute.model.parameters import Array, Layout
from vedute.model.statistics import Statistics
from vedute.model.waic import Sums
from vedute.privacy.policies.subject import misfit
from vedute.run.center import CenterData
from vedute.run.exchange import InProcess, Ledgers, Participant, make_job, read_inspected, read_participants
from vedute.run.fitted_model import Model
from vedute.run.protocol import Job, Question, Record
from vedute.run.scoring import DRAWS, score
from vedute.run.server import Fitted, fit_participants, fit_released, recovered_from
from vedute.run.settings import Settings

if TYPE_CHECKING:
    import pandas as pd

SCALINGS_TRIED = ("shared-standard", "shared-view")
ERRORS = 2.0  # differences of WAIC below so many standard errors are no evidence


@dataclass(frozen=True)
class Choice:
    """One number of components, from the best of its starts; errors are in standard deviations of the features."""

    components: int
    scaling: str | None
    waic: float
    se: float
    difference: float  # to the best WAIC
    difference_se: float
    p_waic: float  # effective number of parameters
    mae: float  # mean absolute error of the global model on the rows it was fitted to
    rounds: int
    converged: bool


@dataclass(frozen=True)
class Selection:
    """The table of all choices, in the order of scaling and components, and the models behind it."""

    choices: tuple[Choice, ...]
    models: tuple[Model, ...]
    histories: tuple[tuple[Record, ...], ...]
    best: int  # index of the smallest WAIC
    recommended: int  # index of the recommended choice

    @property
    def model(self) -> Model:
        """The recommended model."""
        return self.models[self.recommended]


@dataclass(frozen=True)
class Candidates:
    """What is compared."""

    components: Sequence[int]
    scalings: Sequence[str | None] = SCALINGS_TRIED
    starts: int = 1


def select_components(
    centers: Mapping[str, Any] | Study,
    components: Iterable[int],
    *,
    scalings: Iterable[str | None] = SCALINGS_TRIED,
    starts: int = 1,
    ranges: Any = None,
    draws: int = DRAWS,
    jobs: int | None = None,
    seed: int = 0,
    on_fit: Callable[[int, int], None] | None = None,
    **settings: Any,
) -> Selection:
    """Fit the model with each number of components and compare by WAIC.

    ``centers`` and ``ranges`` are as in :meth:`FederatedPPCA.fit`; ``settings`` are the estimator's other parameters
    (``rounds``, ``preset``, ...). Each scaling named is tried with each number, from ``starts`` seeded starting values,
    of which the best WAIC is kept. ``jobs`` processes work at once (default: one for each core); the result does not
    depend on them.
    """
    asked = settings.get("privacy") or (isinstance(centers, Study) and centers.privacy.policy != "none")
    if asked:
        raise UserError(
            "WAIC looks at the rows, which no privacy policy covers; under the policy 'subject' use 'vedute select'"
        )
    return select(
        open_rows(centers, ranges=ranges), Settings(1, seed=seed, **settings),
        Candidates(tuple(components), tuple(scalings), starts), draws=draws, jobs=jobs or os.cpu_count() or 1,
        on_fit=on_fit,
    )  # fmt: skip


def select(
    rows: Rows,
    settings: Settings,
    candidates: Candidates,
    *,
    draws: int = DRAWS,
    jobs: int = 1,
    on_fit: Callable[[int, int], None] | None = None,
) -> Selection:
    """Fit every candidate (in ``jobs`` processes; the result does not depend on their number) and compare them.

    ``rows`` are read twice: once for all fits, and once to judge them. ``on_fit`` is told how many of how many fits are
    done. A candidate whose fits break down is left out, with a warning.
    """
    layout = rows.schema.layout
    if not candidates.scalings:
        raise UserError("there is no scaling to try; give at least one, or leave them to the default")
    ranges = named_ranges(rows.ranges, rows.schema, partial=not any(scaling_of(s).ranged for s in candidates.scalings))
    work = [
        Job(rows.schema, replace(settings, n_components=q, scaling=scaling, seed=settings.seed + start), ranges)
        for scaling in candidates.scalings
        for q in _checked(candidates.components, layout)
        for start in range(candidates.starts)
    ]
    with_extremes = next((job for job in work if scaling_of(job.settings.scaling).extremes), work[0])
    data = {one.name: one.data for one in read_inspected(rows, with_extremes)}
    tried: list[Fitted | BreakdownError] = []
    for done in Parallel(n_jobs=min(jobs, len(work)), return_as="generator")(delayed(_fit)(job, data) for job in work):
        tried.append(done)
        if on_fit is not None:
            on_fit(len(tried), len(work))
    fitted = [one for one in tried if isinstance(one, Fitted)]
    if not fitted:
        raise next(one for one in tried if isinstance(one, BreakdownError))
    statistics = {name: part.statistics for name, part in data.items()}
    unit = pooled_units(layout, statistics.values())
    sums, mae = score([one.model for one in fitted], statistics, rows, unit, draws=draws, threads=jobs)
    selection = _compare(fitted, sums, mae)
    _warn(selection, list(dict.fromkeys(_place(job.settings) for job in work)))
    return selection


def pooled_units(layout: Layout, parts: Iterable[Statistics]) -> Array:
    """The standard deviation of each feature over all centers."""
    held = list(parts)
    total = reduce(add, (sums_of(layout, part) for part in held))
    squares = reduce(add, (squares_of(layout, part, total.mean) for part in held))
    return standard_scaler(layout, total, squares).vectors(layout)[1]


def _checked(components: Sequence[int], layout: Layout) -> list[int]:
    found = sorted(set(components))
    if not found:
        raise UserError("there is no number of components to try; give a range such as 1-8")
    if found[0] < 1 or found[-1] >= layout.total:
        raise UserError(
            f"components {found[0]} to {found[-1]}: must lie between 1 and {layout.total - 1}, "
            f"one less than the number of features"
        )
    return found


def _fit(job: Job, data: Mapping[str, CenterData]) -> Fitted | BreakdownError:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # told once for all of them, at the end
        try:
            return fit_participants(job, [Participant(name, part) for name, part in data.items()])
        except BreakdownError as error:
            return error


def _place(settings: Settings) -> tuple[int, str | None]:
    return settings.n_components, settings.scaling


def _compare(fitted: Sequence[Fitted], sums: Sums, mae: Array) -> Selection:
    waic = sums.waic
    starts: dict[tuple[int, str | None], list[int]] = {}
    for i, one in enumerate(fitted):
        starts.setdefault(_place(one.model.settings), []).append(i)
    kept = np.array([min(own, key=lambda i: waic[i]) for own in starts.values()])
    best = int(kept[np.argmin(waic[kept])])
    difference, difference_se = sums.difference(best)
    choices = tuple(
        Choice(
            fitted[i].model.settings.n_components, fitted[i].model.settings.scaling, float(waic[i]),
            float(sums.se()[i]), float(difference[i]), float(difference_se[i]), float(sums.p[i]), float(mae[i]),
            len(fitted[i].progress.history), fitted[i].progress.converged,
        )
        for i in kept
    )  # fmt: skip
    winner = int(np.flatnonzero(kept == best)[0])
    return Selection(
        choices,
        tuple(fitted[i].model for i in kept),
        tuple(fitted[i].progress.history for i in kept),
        winner,
        recommended(choices, winner),
    )


def recommended(choices: Sequence[Choice], best: int) -> int:
    """The fewest components, with the scaling of the best WAIC, that lie within two standard errors of it.

    WAIC prices a superfluous component at just about what it seems to gain, so that the best one is often a component
    or two above the truth, by about the standard error of the difference; too few components cost hundreds. On SD
    (true q = 5, 3 centers, 10 seeds) the best, one error and two errors find it 8, 10, 10 times when centers are alike
    (IID), 8, 9, 9 when they recruit one group each (G), and 2, 7, 10 when they lack views (K).
    """
    near = [
        i
        for i, choice in enumerate(choices)
        if choice.scaling == choices[best].scaling and choice.difference <= ERRORS * choice.difference_se
    ]
    return min([*near, best], key=lambda i: choices[i].components)


def _warn(selection: Selection, asked: Sequence[tuple[int, str | None]]) -> None:
    there = {_place(model.settings) for model in selection.models}
    lost = [f"{q} with scaling {scaling!r}" for q, scaling in asked if (q, scaling) not in there]
    if lost:
        warnings.warn(
            f"left out, because the fit broke down: components {', '.join(lost)}; that many cannot be told from these "
            "rows in these units",
            DataWarning,
            stacklevel=3,
        )
    lagging = sorted({choice.components for choice in selection.choices if not choice.converged})
    if lagging and not selection.model.settings.paper and selection.model.settings.tol is not None:
        warnings.warn(
            f"the rounds ran out before the fit had settled for components {', '.join(map(str, lagging))}; "
            "raise rounds if their WAIC matters",
            ConvergenceWarning,
            stacklevel=3,
        )


def select_by_release(
    rows: Rows, settings: Settings, components: Sequence[int], ledgers: Ledgers
) -> tuple[dict[int, float], Fitted]:
    """The misfit of each number of components, and the fit with the best: free where one release pays for all."""
    policy = settings.policy
    if not policy.once:
        raise UserError(
            f"under the policy {policy.name!r} every fit is paid for, and WAIC looks at the rows: "
            "fix the number of components beforehand, or use the policy 'subject'"
        )
    jobs = {q: make_job(rows, replace(settings, n_components=q)) for q in components}
    job = next(iter(jobs.values()))
    participants = read_participants(rows, job, ledgers)
    answers = InProcess(job, participants, policy=policy).ask(Question("moments"))
    covariances = [part.covariance for part in recovered_from(answers, job).values()]
    misfits = {q: misfit(rows.schema.layout, covariances, q) for q in components}
    best = min(misfits, key=lambda q: misfits[q])
    return misfits, fit_released(jobs[best], answers)


def table(selection: Selection) -> pd.DataFrame:
    """All choices as a table; the recommended one is marked."""
    import pandas as pd

    frame = pd.DataFrame([asdict(choice) for choice in selection.choices])
    frame["recommended"] = [i == selection.recommended for i in range(len(frame))]
    return frame
