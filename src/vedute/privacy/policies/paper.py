"""Algorithm 2 of the paper, to the letter, and what can be known of it before it runs.

Each parameter's difference from the prior is clipped at ``g = const * (sd of the prior)`` and noised with
sensitivity 2 g: mu and W by the Gaussian of Theorem 3 (W in the Frobenius norm), sigma2 by Laplace (Theorem 1).

Where the paper is silent: the prior's centre of sigma2 is ``beta / alpha`` and its sd that of the inverse gamma,
but no more than the centre itself (the sd does not exist for alpha <= 2); a noised sigma2 is raised to a public
floor; no sd is taken below a public floor, which matters where a single center holds a view.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import ClassVar, Literal, Self

import numpy as np

from vedute.errors import BreakdownError, UserError
from vedute.model.contribution import Contribution
from vedute.model.parameters import Array, CenterParams, GlobalPrior, Layout, ViewParams, ViewPrior
from vedute.privacy.accounting import Budget, paper_claim, spent_epsilon, zhao_multiplier
from vedute.privacy.audit import Claim, Mechanism, Progress, Verdict, judged
from vedute.privacy.mechanisms import Noise, add_gaussian, add_laplace, clip
from vedute.privacy.policies.base import (
    LARGEST,
    Budgets,
    Policy,
    RoundPolicy,
    Settings,
    Shape,
    at_most,
    check_budgets,
    check_positive,
    require,
)
from vedute.privacy.release import CENTER, Composed, Event, Gaussian, Laplace, NonPrivate, Release
from vedute.privacy.update import NoiseVariance, Update, contribution, named, public_prior, view_contribution

SD_FLOOR = 1e-12
SIGMA2_FLOOR = 1e-8
LEAVES = (
    "What leaves this hospital, under the policy 'paper' (for reproduction only): in each of {rounds}, this center's "
    "parameters with noise of eps = {epsilon:g}, delta = {delta:g} for each mechanism, of which there are three for "
    "each view and round; no total is promised. {first}"
)
FIRST_LEAVES = {
    "raw": "The first round sends them WITHOUT noise, as published: no guarantee holds.",
    "public": "The first round has noise as well.",
}


@dataclass(frozen=True)
class PaperPrivacy(RoundPolicy):
    """Algorithm 2 of the paper, for reproduction: ``epsilon`` and ``delta`` are those of one mechanism.

    A run of R rounds has 3 K R of them, so no total is promised: ``honest`` tells what it comes to, beside the
    paper's ``claim``. ``first_round`` is "raw" as published (no privacy at all) or "public" (from a prior that
    owes nothing to data). ``clip`` is the constant in g = const * sd.
    """

    epsilon: float = 10.0
    delta: float = 0.01
    clip: float = 1.0
    first_round: Literal["raw", "public"] = "raw"
    allow_divergence: bool = False
    budgets: Budgets = field(default_factory=dict)
    seed: int | None = None

    name: ClassVar[str] = "paper"
    relation: ClassVar[str] = CENTER
    scalings: ClassVar[tuple[str | None, ...]] = ("center-minmax", "declared", None)

    def __post_init__(self) -> None:
        check_budgets(self.epsilon, self.delta, self.budgets)
        for epsilon, delta in [(self.epsilon, self.delta), *self.budgets.values()]:
            zhao_multiplier(epsilon, delta)
        check_positive("clip", self.clip)
        if self.first_round not in FIRST_LEAVES:
            raise UserError(f"first_round must be 'raw' (as published) or 'public', not {self.first_round!r}")

    @property
    def budget(self) -> Budget | None:
        """None: the paper's total does not hold, and nothing is refused for it."""
        return None

    def agreed(self, asked: Policy, center: str) -> Self:
        """With the same first round only: raw values are another promise."""
        mine = super().agreed(asked, center)
        assert isinstance(asked, PaperPrivacy)
        if asked.first_round != mine.first_round:
            raise UserError(f"center {center!r} refuses first_round = {asked.first_round!r}: it has its own")
        return mine

    def check(self, settings: Settings, centers: int) -> None:
        """Refuse other algorithms, and runs that rho foretells to diverge."""
        super().check(settings, centers)
        if not settings.paper:
            raise UserError("the policy 'paper' is Algorithm 2 to the letter: it needs preset='paper'")
        self.check_rho(centers)

    def check_rho(self, centers: int) -> float:
        """rho, before the run; an error where it is 1 or more and divergence is not allowed."""
        rho = ratio(self.clip, self.epsilon, self.delta, centers)
        if rho >= 1.0 and not self.allow_divergence:
            raise UserError(
                f"the paper's algorithm diverges here: noise grows by rho = {rho:.3g} a round with "
                f"eps = {self.epsilon:g}, delta = {self.delta:g}, clip = {self.clip:g} and {centers} centers. Take "
                f"clip < {self.clip / rho:.3g}, a larger eps, or allow_divergence=True to watch it"
            )
        return rho

    def foretold(self, error: BreakdownError, centers: int, round_: int) -> BreakdownError:
        """A breakdown that rho foretold is not the fault of a center."""
        rho = self.check_rho(centers)
        if rho < 1.0:
            return error
        return BreakdownError(
            f"the paper's algorithm diverged: its numbers are too large to go on after round {round_ - 1}, as "
            f"rho = {rho:.3g} foretold. Take clip < {self.clip / rho:.3g}"
        )

    def claim(self, views: int) -> tuple[float, float]:
        """The paper's own total (Theorem 4)."""
        return paper_claim(self.epsilon, self.delta, views)

    def honest(self, views: int, rounds: int, delta: float = 1e-5) -> float:
        """The eps that the whole run really comes to, at ``delta``."""
        if self.first_round == "raw":
            return math.inf
        return spent_epsilon(paper_events(self.epsilon, self.delta, views, rounds), delta, CENTER)

    def noised(self, question: Update, noise: Noise) -> Release:
        """The noised parameters of one round, or the raw ones of the first."""
        raw = question.round == 1 and self.first_round == "raw"
        return raw_release(question) if raw else paper_release(question, self.epsilon, self.delta, self.clip, noise)

    def start(self, layout: Layout, flat: GlobalPrior, q: int, seed: int) -> GlobalPrior:
        """A prior that owes nothing to data, but for the raw first round as published."""
        if self.first_round == "raw":
            return flat
        return public_prior(zip(layout.names, layout.sizes, strict=True), q, seed)

    def share(
        self, release: Release, prior: GlobalPrior, held: tuple[str, ...], centers: Mapping[str, int]
    ) -> Contribution:
        """The noised parameters, plugged in as they are."""
        views = {
            name: view_contribution(
                release.values[named("mu", name)],
                release.values[named("W", name)],
                math.log(float(release.values[named("sigma2", name)])),
                prior.views[name],
                NoiseVariance(),
                centers[name],
            )
            for name in prior.views
            if named("mu", name) in release.values
        }
        return contribution(views, prior.q)

    def shapes(self, held: Layout, q: int) -> dict[str, Shape]:
        """The parameters of each view by name."""
        found: dict[str, Shape] = {}
        for name, size in zip(held.names, held.sizes, strict=True):
            found |= {named("mu", name): (size,), named("W", name): (size, q), named("sigma2", name): ()}
        return found

    def check_claims(self, release: Release, held: Layout, rounds: int) -> None:
        """Refuse parameters that are none."""
        largest = max(float(np.abs(value).max()) for value in release.values.values())
        positive = all(float(value) > 0.0 for name, value in release.values.items() if name.startswith("sigma2."))
        require(largest <= LARGEST and positive, "its parameters are none")

    def leaves(self, scaling: str, rounds: int) -> str:
        """Parameters in every round."""
        first = FIRST_LEAVES[self.first_round]
        return LEAVES.format(rounds=at_most(rounds), epsilon=self.epsilon, delta=self.delta, first=first)

    def audit(self, trials: int, noise: Noise, rounds: int, progress: Progress | None = None) -> Verdict:
        """A center at the edge of every clip; both the honest total and the paper's own claim stand trial."""
        if self.first_round == "raw":
            return super().audit(trials, noise, rounds, progress)
        theirs = Claim(*self.claim(1))
        claims = {"the honest total": Claim(self.honest(1, rounds, theirs.delta), theirs.delta), "Theorem 4": theirs}
        run = edge_center(self, noise, rounds)
        return judged(run, trials, claims, score=lambda output: float(output[0]), progress=progress)


def noise_sd(prior: ViewPrior) -> float:
    """The sd of sigma2 under the prior, at most its centre."""
    centre = prior.sigma2
    if prior.alpha <= 2.0:
        return centre
    return min(centre, prior.beta / ((prior.alpha - 1.0) * math.sqrt(prior.alpha - 2.0)))


def clip_bounds(prior: ViewPrior, const: float) -> tuple[float, float, float]:
    """g for mu, W and sigma2 (section 3.2.2)."""
    spreads = (math.sqrt(prior.sigma2_mu), math.sqrt(prior.sigma2_W), noise_sd(prior))
    mu, W, sigma2 = (const * max(spread, SD_FLOOR) for spread in spreads)
    return mu, W, sigma2


def raw_release(update: Update) -> Release:
    """Round 1 as published: there is no prior, hence no clip, hence no privacy."""
    values: dict[str, Array] = {}
    for name, view in update.params.views.items():
        values |= {named("mu", name): view.mu, named("W", name): view.W}
        values[named("sigma2", name)] = np.array(view.sigma2)
    return Release(values, (NonPrivate("round 1 as published: no prior, no clip"),), "paper", _public(update))


def paper_release(update: Update, epsilon: float, delta: float, const: float, noise: Noise) -> Release:
    """One noised round: 3 K mechanisms, each (epsilon, delta) or (epsilon, 0)."""
    z = zhao_multiplier(epsilon, delta)
    noise = noise.at(f"round {update.round}")
    values: dict[str, Array] = {}
    events: list[Event] = []
    for name, view in update.params.views.items():
        prior = update.prior.views[name]
        g_mu, g_W, g_sigma2 = clip_bounds(prior, const)
        if not math.isfinite(g_mu + g_W + g_sigma2) or prior.alpha <= 0:
            raise UserError(f"view {name!r}: the prior is flat, so nothing bounds the update: use a public prior")
        steps = [("mu", view.mu, prior.mu, g_mu), ("W", view.W, prior.W, g_W)]
        for what, value, centre, g in steps:
            moved, event = add_gaussian(clip(value - centre, g), 2 * g, z, CENTER, noise.at(named(what, name)))
            values[named(what, name)] = centre + moved
            events.append(event)
        change = clip(np.array([view.sigma2 - prior.sigma2]), g_sigma2)
        moved, lap = add_laplace(change, 2 * g_sigma2, epsilon, CENTER, noise.at(named("sigma2", name)))
        values[named("sigma2", name)] = np.array(max(prior.sigma2 + float(moved[0]), SIGMA2_FLOOR))
        events.append(lap)
    return Release(values, tuple(events), "paper", _public(update))


def ratio(const: float, epsilon: float, delta: float, centers: int) -> float:
    """rho: by what factor the clip bound grows from round to round when updates are all noise.

    The noise on an entry has sd 2 g z, the master estimates the prior's sd from C noised values, and the next
    bound is const times that: rho = 2 const z sqrt(1 - 1/C). Below 1 the bound collapses, above 1 it explodes.
    """
    return 2.0 * const * zhao_multiplier(epsilon, delta) * math.sqrt(1.0 - 1.0 / centers)


def paper_events(epsilon: float, delta: float, views: int, rounds: int) -> tuple[Event, ...]:
    """What ``rounds`` noised rounds of a center with ``views`` views amount to."""
    z = zhao_multiplier(epsilon, delta)
    gaussians = Composed((Gaussian(1.0, z, CENTER),), 2 * views)
    laplaces = Composed((Laplace(1.0, 1.0 / epsilon, CENTER),), views)
    return (Composed((gaussians, laplaces), rounds),)


def _public(update: Update) -> dict[str, int]:
    return {"round": update.round}


def edge_center(policy: PaperPrivacy, noise: Noise, rounds: int, centers: int = 2) -> Mechanism:
    """A whole run with a center at the edge of every clip in every round of Algorithm 2, one view.

    The first output is the score of all releases (the logarithm of the likelihood ratio, the best there is), the second
    that of the Gaussian ones alone, for which mu is known.
    """
    start = GlobalPrior({"A": ViewPrior(np.zeros(1), np.zeros((1, 1)), 1.0, 1.0, 5.0, 5.0, centers)})
    held = {str(c): ("A",) for c in range(centers)}
    z = zhao_multiplier(policy.epsilon, policy.delta)

    def run(which: int) -> Array:
        prior, gaussian, laplace, releases = start, 0.0, 0.0, dict[str, Release]()
        side = 1.0 if which else -1.0
        for r in range(1, rounds + 1):
            view = prior.views["A"]
            bounds = clip_bounds(view, policy.clip)
            far = {"A": ViewParams(view.mu + side * 1e9, view.W + side * 1e9, view.sigma2 + side * 1e9)}
            still = {"A": ViewParams(view.mu, view.W, view.sigma2)}
            for c in range(centers):
                params = CenterParams(far if c == 0 else still, np.zeros(1))
                releases[str(c)] = policy.noised(Update(params, prior, r, rounds), noise)
            values = releases["0"].values
            moved = [float(np.ravel(values[named(what, "A")])[0]) for what in ("mu", "W", "sigma2")]
            centre = (float(view.mu[0]), float(view.W[0, 0]), view.sigma2)
            x = [(a - b) / g for a, b, g in zip(moved, centre, bounds, strict=True)]  # in units of g
            gaussian += (x[0] + x[1]) / (2.0 * z * z)
            laplace += (abs(x[2] + 1.0) - abs(x[2] - 1.0)) * policy.epsilon / 2.0
            prior = policy.step(prior, releases, held)
        return np.array([gaussian + laplace, gaussian])

    return run
