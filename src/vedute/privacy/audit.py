"""A measurement of privacy: lower bounds on eps and mu from the outputs of a mechanism on two neighbours.

The mechanism is run many times on each of two worst-case neighbours. On one half of the runs a score and
thresholds are chosen that tell the two apart best; on the other half the chosen test is carried out once, and
its rates of success get Clopper-Pearson limits. From the rates P1 >= p1 (neighbour 1 recognised) and P0 <= p0
(neighbour 0 mistaken for it), which hold together with the stated confidence,

    eps >= ln((p1 - delta) / p0)        by the definition of (eps, delta)-DP,
    mu  >= Phi^-1(p1) - Phi^-1(p0)      by the definition of Gaussian DP.

A lower bound above a claim refutes it. One below it proves nothing: a better attack may exist.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import betaincinv, ndtri

from vedute.errors import UserError
from vedute.model.parameters import Array

Mechanism = Callable[[int], Array]
Score = Callable[[Array], float]
Progress = Callable[[int, int], None]  # trials done, trials in all


@dataclass(frozen=True)
class Test:
    """A test of one neighbour against the other: a threshold, which side of it, and the limits of its rates."""

    threshold: float
    above: bool  # scores above the threshold speak for neighbour 1
    swapped: bool  # the roles of the neighbours are exchanged
    success: float  # lower limit of the rate of recognising
    mistake: float  # upper limit of the rate of false recognition


@dataclass(frozen=True)
class Audit:
    """What the runs of a mechanism show, with the scores of the half that was not used to choose the tests."""

    epsilon: float
    mu: float
    delta: float
    confidence: float
    trials: int
    scores: tuple[Array, Array]
    epsilon_test: Test
    mu_test: Test


@dataclass(frozen=True)
class Claim:
    """What a policy promises: (eps, delta), and Gaussian DP where all its noise is Gaussian."""

    epsilon: float
    delta: float
    mu: float | None = None


def audit(
    mechanism: Mechanism,
    trials: int,
    delta: float,
    *,
    score: Score | None = None,
    confidence: float = 0.99,
    progress: Progress | None = None,
) -> Audit:
    """Run ``mechanism(0)`` and ``mechanism(1)`` ``trials`` times each and bound eps and mu from below.

    Without a ``score`` the outputs are projected on the difference of their means in the first half.
    """
    if trials < 40:
        raise UserError(f"an audit of {trials} trials can show nothing: take 1000 or more")
    outputs: tuple[list[Array], list[Array]] = ([], [])
    for trial in range(trials):
        for which in (0, 1):
            outputs[which].append(np.ravel(np.asarray(mechanism(which), dtype=np.float64)))
        if progress is not None:
            progress(trial + 1, trials)
    half = trials // 2
    judge = score or _projection(np.array(outputs[0][:half]), np.array(outputs[1][:half]))
    zero, one = (np.array([judge(output) for output in side]) for side in outputs)
    chosen = [_choose(zero[:half], one[:half], value, confidence) for value in _values(delta)]
    by_epsilon, by_mu = (_carry_out(test, zero[half:], one[half:], confidence) for test in chosen)
    epsilon_of, mu_of = _values(delta)
    return Audit(
        _shown(epsilon_of, by_epsilon),
        _shown(mu_of, by_mu),
        delta,
        confidence,
        trials,
        (zero[half:], one[half:]),
        by_epsilon,
        by_mu,
    )


def refuted(found: Audit, claim: Claim) -> str | None:
    """Why the claim cannot be true, or None where the audit does not contradict it."""
    if found.delta != claim.delta:
        raise ValueError("an audit answers a claim at its own delta")
    if found.epsilon > claim.epsilon:
        return (
            f"claimed eps = {claim.epsilon:.4g} at delta = {claim.delta:g}, but eps >= {found.epsilon:.4g} "
            f"with confidence {found.confidence:g}"
        )
    if claim.mu is not None and found.mu > claim.mu:
        return f"claimed mu = {claim.mu:.4g}, but mu >= {found.mu:.4g} with confidence {found.confidence:g}"
    return None


@dataclass(frozen=True)
class Verdict:
    """An audit beside what is claimed: ``against`` says, claim by claim, why it cannot be true (None: it may be)."""

    found: Audit
    against: Mapping[str, str | None]

    @property
    def refuted(self) -> bool:
        """True when any claim was refuted."""
        return any(self.against.values())


def judged(
    run: Mechanism,
    trials: int,
    claims: Mapping[str, Claim],
    *,
    score: Score | None = None,
    progress: Progress | None = None,
) -> Verdict:
    """Audit whole runs, and hold what they show against claims at the same delta.

    The attacker sees all that one center releases over a whole run and knows all but which of two neighbours it is.
    """
    delta = next(iter(claims.values())).delta
    found = audit(run, trials, delta, score=score, progress=progress)
    return Verdict(found, {name: refuted(found, claim) for name, claim in claims.items()})


def plot(found: Audit, path: str) -> None:
    """The scores under both neighbours, the threshold, and the bounds, as a picture."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(6.0, 3.5), layout="constrained")
    axes = figure.subplots()
    edges = np.histogram_bin_edges(np.concatenate(found.scores), bins=60).tolist()
    for scores, label in zip(found.scores, ("neighbour 0", "neighbour 1"), strict=True):
        axes.hist(scores, bins=edges, alpha=0.6, label=label)
    axes.axvline(found.mu_test.threshold, color="black", linewidth=1.0, label="threshold")
    axes.set_title(
        f"eps ≥ {found.epsilon:.3g} at delta {found.delta:g},  mu ≥ {found.mu:.3g}  (confidence {found.confidence:g})"
    )
    axes.set_xlabel("score")
    axes.set_ylabel("runs")
    axes.legend()
    figure.savefig(path)


def clopper_pearson(hits: NDArray[np.integer[Any]] | int, trials: int, alarm: float) -> tuple[Array, Array]:
    """Lower and upper limit of a rate, each wrong with probability ``alarm`` at most."""
    k = np.asarray(hits, dtype=np.float64)
    low = np.where(k > 0, betaincinv(np.maximum(k, 1), trials - k + 1, alarm), 0.0)
    high = np.where(k < trials, betaincinv(k + 1, np.maximum(trials - k, 1), 1.0 - alarm), 1.0)
    return low, high


Value = Callable[[Array, Array], Array]


def _shown(value: Value, test: Test) -> float:
    return max(float(value(np.array(test.success), np.array(test.mistake))), 0.0)


def _values(delta: float) -> tuple[Value, Value]:
    """What rates of success and mistake show of eps, and of mu."""

    def epsilon(success: Array, mistake: Array) -> Array:
        return np.asarray(np.log(np.maximum(success - delta, 1e-300) / mistake))

    def mu(success: Array, mistake: Array) -> Array:
        return np.asarray(ndtri(success) - ndtri(mistake))

    return epsilon, mu


def _projection(zero: Array, one: Array) -> Score:
    spread = np.sqrt((zero.var(axis=0) + one.var(axis=0)) / 2.0)
    direction = (one.mean(axis=0) - zero.mean(axis=0)) / np.where(spread > 0.0, spread, 1.0) ** 2
    return lambda output: float(output @ direction)


# Recognising neighbour 1 by high or low scores, or neighbour 0 by them: the definitions hold in both directions.
_SIDES = ((True, False), (False, False), (True, True), (False, True))


def _choose(zero: Array, one: Array, value: Value, confidence: float) -> Test:
    """The threshold between two scores, and the side of it, that show most."""
    scores = np.unique(np.concatenate([zero, one]))
    thresholds = (scores[:-1] + scores[1:]) / 2.0 if len(scores) > 1 else scores
    best, chosen = -np.inf, Test(float(thresholds[0]), True, False, 0.0, 1.0)
    for above, swapped in _SIDES:
        shown = value(*_limits(thresholds, above, swapped, zero, one, confidence))
        at = int(np.argmax(shown))
        if shown[at] > best:
            best, chosen = float(shown[at]), Test(float(thresholds[at]), above, swapped, 0.0, 1.0)
    return chosen


def _carry_out(test: Test, zero: Array, one: Array, confidence: float) -> Test:
    success, mistake = _limits(np.array([test.threshold]), test.above, test.swapped, zero, one, confidence)
    return replace(test, success=float(success[0]), mistake=float(mistake[0]))


def _limits(
    thresholds: Array, above: bool, swapped: bool, zero: Array, one: Array, confidence: float
) -> tuple[Array, Array]:
    """Lower limit of the rate of recognising and upper limit of that of false recognition, for each threshold."""
    right, wrong = (zero, one) if swapped else (one, zero)
    below = [np.searchsorted(np.sort(scores), thresholds, side="right") for scores in (right, wrong)]
    hits = [len(s) - b if above else b for s, b in zip((right, wrong), below, strict=True)]
    alarm = (1.0 - confidence) / 2.0
    success, _ = clopper_pearson(hits[0], len(right), alarm)
    _, mistake = clopper_pearson(hits[1], len(wrong), alarm)
    return success, mistake
