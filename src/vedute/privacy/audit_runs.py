"""Whole runs to audit: worst-case data and centers in place of EM, and the attack that knows both neighbours.

The attacker sees everything that one center releases over a whole run, and knows all but which of two neighbours
it is. The scores are the logarithms of the likelihood ratio, the best there is (Neyman & Pearson).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from vedute.errors import UserError
from vedute.model.parameters import Array, CenterParams, GlobalPrior, ViewParams, ViewPrior
from vedute.model.schema import Layout
from vedute.privacy.accounting import gaussian_epsilon, gaussian_mu, zhao_multiplier
from vedute.privacy.audit import Audit, Claim, Mechanism, Progress, audit, refuted
from vedute.privacy.mechanisms import Noise
from vedute.privacy.policies import AnyPolicy, CenterPrivacy, PaperPrivacy, SubjectPrivacy, paper
from vedute.privacy.policies.center import center_contribution
from vedute.privacy.second_moments import Ranges, SecondMoments, make_bound
from vedute.privacy.update import Update, named, plug_in_step, public_prior


@dataclass(frozen=True)
class StreamNoise:
    """NOT PRIVATE: one stream drawn on and on, quick enough for thousands of simulated runs."""

    rng: np.random.Generator
    seeded = True

    def at(self, key: str) -> StreamNoise:
        """The same stream, wherever it stands."""
        return self

    def gaussian(self, values: Array, std: float, grid: int) -> Array:
        """Gaussian noise."""
        return values + std * self.rng.standard_normal(values.shape)

    def laplace(self, values: Array, scale: float, grid: int) -> Array:
        """Laplace noise."""
        return values + scale * self.rng.laplace(size=values.shape)


def subject_run(policy: SubjectPrivacy, noise: Noise, rows: int = 20) -> tuple[Mechanism, Claim]:
    """One center whose first subject is one of two whose vectors u stand at right angles, both as long as allowed."""
    layout = Layout(("A",), (2,))
    ranges = Ranges(layout, -np.ones(2), np.ones(2))
    bound = make_bound(layout, policy.bound)
    length = bound.length / 4096.0
    angle = math.acos(-0.25)  # then u'v = 0, the worst case of the proof
    pair = 2.0 * length * np.array([[1.0, 0.0], [math.cos(angle), math.sin(angle)]])
    others = np.random.default_rng(0).uniform(-0.3, 0.3, (rows - 1, 2))
    exact = []
    for first in pair:
        moments = SecondMoments(ranges, bound)
        moments.add({"A": np.vstack([first, others])})
        exact.append(moments)
    direction = exact[1].matrix() - exact[0].matrix()

    def run(which: int) -> Array:
        release = policy.release(exact[which], noise)
        return np.array([np.sum((release.values["moments"] - exact[0].matrix()) * direction)])

    return run, Claim(policy.epsilon, policy.delta, gaussian_mu(policy.epsilon, policy.delta))


def center_run(policy: CenterPrivacy, noise: Noise, rounds: int, centers: int = 2) -> tuple[Mechanism, Claim]:
    """A center far to one side or to the other in every round; the others stay at the prior."""
    start = public_prior([("A", 2)], 1, seed=0)
    names, counts = ("A",), {"A": centers}

    def run(which: int) -> Array:
        prior, score = start, 0.0
        far = 1e3 if which else -1e3
        for r in range(1, rounds + 1):
            view = prior.views["A"]
            mine = {"A": ViewParams(view.mu + far, view.W, view.sigma2)}
            still = {"A": ViewParams(view.mu, view.W, view.sigma2)}
            total = None
            for c in range(centers):
                params = CenterParams(mine if c == 0 else still, np.zeros(1))
                release = policy.release(Update(params, prior, r, rounds), noise)
                if c == 0:
                    score += float(release.values["update"][:2].sum())
                part = center_contribution(release, prior, names, policy.scales, counts)
                total = part if total is None else total + part
            assert total is not None
            prior = plug_in_step(prior, total)
        return np.array([score])

    return run, Claim(policy.epsilon, policy.delta, gaussian_mu(policy.epsilon, policy.delta))


def paper_run(
    policy: PaperPrivacy, noise: Noise, rounds: int, delta: float, centers: int = 2
) -> tuple[Mechanism, Claim]:
    """A center at the edge of every clip in every round of Algorithm 2, one view; the claim is the honest total.

    The first output is the score of all releases, the second that of the Gaussian ones alone, for which mu is known.
    """
    start = GlobalPrior({"A": ViewPrior(np.zeros(1), np.zeros((1, 1)), 1.0, 1.0, 5.0, 5.0, centers)})
    z = zhao_multiplier(policy.epsilon, policy.delta)

    def run(which: int) -> Array:
        prior, gaussian, laplace = start, 0.0, 0.0
        side = 1.0 if which else -1.0
        for r in range(1, rounds + 1):
            view = prior.views["A"]
            bounds = paper.clip_bounds(view, policy.clip)
            far = {"A": ViewParams(view.mu + side * 1e9, view.W + side * 1e9, view.sigma2 + side * 1e9)}
            still = {"A": ViewParams(view.mu, view.W, view.sigma2)}
            total = None
            for c in range(centers):
                params = CenterParams(far if c == 0 else still, np.zeros(1))
                release = policy.release(Update(params, prior, r, rounds), noise)
                if c == 0:
                    moved = [float(np.ravel(release.values[named(what, "A")])[0]) for what in ("mu", "W", "sigma2")]
                    centre = (float(view.mu[0]), float(view.W[0, 0]), view.sigma2)
                    x = [(a - b) / g for a, b, g in zip(moved, centre, bounds, strict=True)]  # in units of g
                    gaussian += (x[0] + x[1]) / (2.0 * z * z)
                    laplace += (abs(x[2] + 1.0) - abs(x[2] - 1.0)) * policy.epsilon / 2.0
                part = paper.paper_contribution(release, prior, {"A": centers})
                total = part if total is None else total + part
            assert total is not None
            prior = plug_in_step(prior, total)
        return np.array([gaussian + laplace, gaussian])

    return run, Claim(policy.honest(1, rounds, delta), delta)


def gaussian_claim(policy: PaperPrivacy, rounds: int, delta: float) -> Claim:
    """What the Gaussian releases of such a run may show: two a round, for mu and W."""
    mu = math.sqrt(2.0 * rounds) / zhao_multiplier(policy.epsilon, policy.delta)
    return Claim(gaussian_epsilon(delta, mu), delta, mu)


def papers_own_claim(policy: PaperPrivacy) -> Claim:
    """Theorem 4 for one view: the same whatever the number of rounds."""
    return Claim(*policy.claim(1))


@dataclass(frozen=True)
class Verdict:
    """An audit beside what is claimed: ``against`` says, claim by claim, why it cannot be true (None: it may be)."""

    found: Audit
    against: Mapping[str, str | None]

    @property
    def refuted(self) -> bool:
        """True when any claim was refuted."""
        return any(self.against.values())


def audit_policy(
    policy: AnyPolicy, trials: int, noise: Noise, *, rounds: int = 10, progress: Progress | None = None
) -> Verdict:
    """Audit whole runs of a policy; ``rounds`` matters to the policies that release something every round."""
    if isinstance(policy, SubjectPrivacy):
        run, claim = subject_run(policy, noise)
        found = audit(run, trials, claim.delta, progress=progress)
        return Verdict(found, {"the policy": refuted(found, claim)})
    if isinstance(policy, CenterPrivacy):
        run, claim = center_run(policy, noise, rounds)
        found = audit(run, trials, claim.delta, progress=progress)
        return Verdict(found, {"the policy": refuted(found, claim)})
    if isinstance(policy, PaperPrivacy) and policy.first_round == "public":
        theirs = papers_own_claim(policy)
        run, honest = paper_run(policy, noise, rounds, theirs.delta)
        found = audit(run, trials, theirs.delta, score=lambda output: float(output[0]), progress=progress)
        return Verdict(found, {"the honest total": refuted(found, honest), "Theorem 4": refuted(found, theirs)})
    raise UserError(
        "nothing to audit: values leave as they are (policy 'none', or 'paper' with its raw first round; "
        "take first_round = 'public' to audit the others)"
    )
