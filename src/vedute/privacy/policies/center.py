"""Center-level privacy: all parameters of a round as one vector, clipped as a whole, one Gaussian a round.

The vector holds the differences of mu and W from the prior and of ln sigma2, and nothing else: spreads, case mix
and counts are data too. Each block is divided by its public scale and the root of its size, all by the root of
the number of blocks; a vector of length 1 is thus one whose entries differ by about their scale.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Any, ClassVar, Self

import numpy as np

from vedute.errors import UserError
from vedute.model.contribution import Contribution
from vedute.model.parameters import Array, CenterParams, GlobalPrior, Layout, ViewParams
from vedute.privacy.accounting import gaussian_mu, noise_multiplier
from vedute.privacy.audit import Claim, Mechanism, Progress, Verdict, judged
from vedute.privacy.mechanisms import Noise, add_gaussian, clip
from vedute.privacy.policies.base import (
    Budgets,
    Policy,
    RoundPolicy,
    Settings,
    Shape,
    at_most,
    check_budgets,
    check_positive,
    require,
    require_gaussian,
    warn,
)
from vedute.privacy.release import CENTER, Release
from vedute.privacy.update import NoiseVariance, Update, contribution, public_prior, view_contribution

FARTHEST = 40.0  # standard deviations: noise never lies beyond
LEAVES = (
    "What leaves this hospital, under the policy 'center': in each of {rounds}, one clipped vector of parameter "
    "changes with noise. The guarantee for the hospital as a whole, over all rounds, is eps = {epsilon:g}, "
    "delta = {delta:g}, if all its data are replaced by others."
)


@dataclass(frozen=True)
class Scales:
    """By how much parameters may reasonably differ from the prior, in units of the scaled data: public."""

    mu: float = 0.1
    W: float = 0.1
    log_sigma2: float = 1.0


@dataclass(frozen=True)
class Block:
    """Where one parameter of one view stands in the vector, and the factor that leads back to its units."""

    view: str
    what: str
    part: slice
    shape: tuple[int, ...]
    factor: float


def blocks(prior: GlobalPrior, names: tuple[str, ...], scales: Scales) -> Iterator[Block]:
    """The blocks of the views that a center holds, in the order of ``names``."""
    start = 0
    for name in names:
        d, q = prior.views[name].W.shape
        shapes = {"mu": (d,), "W": (d, q), "log_sigma2": ()}
        for what, shape in shapes.items():
            size = math.prod(shape)
            factor = float(getattr(scales, what)) * math.sqrt(size * 3 * len(names))
            yield Block(name, what, slice(start, start + size), shape, factor)
            start += size


def encode(update: Update, names: tuple[str, ...], scales: Scales) -> Array:
    """The vector of a center's update."""
    for name in names:
        if update.prior.views[name].alpha <= 0:
            raise UserError(f"view {name!r}: the prior of round {update.round} is flat: start from a public prior")
    parts = []
    for block in blocks(update.prior, names, scales):
        params, prior = update.params.views[block.view], update.prior.views[block.view]
        changes = {
            "mu": params.mu - prior.mu,
            "W": params.W - prior.W,
            "log_sigma2": np.array(math.log(params.sigma2 / prior.sigma2)),
        }
        parts.append(np.ravel(changes[block.what]) / block.factor)
    return np.concatenate(parts)


@dataclass(frozen=True)
class CenterPrivacy(RoundPolicy):
    """One clipped and noised vector a round hides each center as a whole.

    ``epsilon`` and ``delta`` bound all rounds together, if the data of one center are replaced by any others.
    ``clip`` bounds the length of an update, where 1 means that entries differ from the prior by about ``scales``.
    """

    epsilon: float
    delta: float
    clip: float = 1.0
    scales: Scales = field(default_factory=Scales)
    budgets: Budgets = field(default_factory=dict)
    seed: int | None = None

    name: ClassVar[str] = "center"
    relation: ClassVar[str] = CENTER
    scalings: ClassVar[tuple[str | None, ...]] = ("declared", None)

    def __post_init__(self) -> None:
        check_budgets(self.epsilon, self.delta, self.budgets)
        check_positive("clip", self.clip)
        for scale in fields(self.scales):
            check_positive(f"scales.{scale.name}", getattr(self.scales, scale.name))

    def agreed(self, asked: Policy, center: str) -> Self:
        """With the scales asked for: public units, which the master must share, and no privacy in them."""
        mine = super().agreed(asked, center)
        assert isinstance(asked, CenterPrivacy)
        return replace(mine, scales=asked.scales)

    def table(self) -> dict[str, Any]:
        """The scales are a table of their own."""
        return super().table() | {"scales": dict(vars(self.scales))}

    def multiplier(self, rounds: int) -> float:
        """Noise std over sensitivity in each of so many rounds."""
        return noise_multiplier(self.epsilon, self.delta, rounds)

    def check(self, settings: Settings, centers: int) -> None:
        """Warn where the promise is weak, or the noise drowns everything."""
        super().check(settings, centers)
        if self.delta > 1.0 / centers:
            warn(
                f"delta = {self.delta:g} is above 1/{centers}: it would allow to publish the data of one center; "
                f"take {0.1 / centers:.0e}"
            )
        message = warning_below_100(centers, self.epsilon, self.multiplier(settings.rounds))
        if message is not None:
            warn(message)

    def noised(self, question: Update, noise: Noise) -> Release:
        """The clipped and noised vector of one round; two centers' vectors differ by at most twice the bound."""
        vector = clip(encode(question, tuple(question.params.views), self.scales), self.clip)
        noise = noise.at(f"round {question.round}")
        noised, event = add_gaussian(vector, 2.0 * self.clip, self.multiplier(question.rounds), CENTER, noise)
        return Release({"update": noised}, (event,), self.name, {"round": question.round, "std": event.std})

    def start(self, layout: Layout, flat: GlobalPrior, q: int, seed: int) -> GlobalPrior:
        """A prior that owes nothing to data: updates are clipped about it."""
        return public_prior(zip(layout.names, layout.sizes, strict=True), q, seed)

    def share(
        self, release: Release, prior: GlobalPrior, held: tuple[str, ...], centers: Mapping[str, int]
    ) -> Contribution:
        """The noised parameters, with the known variance of the noise taken off the squares."""
        vector, std = np.asarray(release.values["update"]), float(release.public["std"])
        found: dict[str, dict[str, Array]] = {name: {} for name in held}
        variance: dict[str, dict[str, float]] = {name: {} for name in held}
        for block in blocks(prior, held, self.scales):
            found[block.view][block.what] = vector[block.part].reshape(block.shape) * block.factor
            variance[block.view][block.what] = (std * block.factor) ** 2
        views = {
            name: view_contribution(
                prior.views[name].mu + found[name]["mu"],
                prior.views[name].W + found[name]["W"],
                math.log(prior.views[name].sigma2) + float(found[name]["log_sigma2"]),
                prior.views[name],
                NoiseVariance(**variance[name]),
                centers[name],
            )
            for name in held
        }
        return contribution(views, prior.q)

    def shapes(self, held: Layout, q: int) -> dict[str, Shape]:
        """The vector."""
        return {"update": (held.total * (q + 1) + len(held.names),)}

    def check_claims(self, release: Release, held: Layout, rounds: int) -> None:
        """Refuse a vector with other noise, or one that its noise does not explain."""
        std = 2.0 * self.clip * self.multiplier(rounds)
        require_gaussian(release, std)
        longest = np.abs(release.values["update"]).max()
        require(longest <= self.clip + FARTHEST * std, "its update is longer than its noise")

    def leaves(self, scaling: str, rounds: int) -> str:
        """One vector a round."""
        return LEAVES.format(rounds=at_most(rounds), epsilon=self.epsilon, delta=self.delta)

    def audit(self, trials: int, noise: Noise, rounds: int, progress: Progress | None = None) -> Verdict:
        """A center far to one side or to the other in every round."""
        claim = Claim(self.epsilon, self.delta, gaussian_mu(self.epsilon, self.delta))
        return judged(far_center(self, noise, rounds), trials, {"the policy": claim}, progress=progress)


def warning_below_100(centers: int, epsilon: float, multiplier: float) -> str | None:
    """Why a handful of centers cannot be told apart from noise, with the figure; None from 100 centers on."""
    if centers >= 100:
        return None
    # The mean of C clipped vectors has length at most the bound; its noise has 2 * bound * z / sqrt(C) per entry.
    noise = 2.0 * multiplier / math.sqrt(centers)
    return (
        f"center-level privacy with {centers} centers: at eps = {epsilon:g} the noise on every single entry of a "
        f"round's mean update is {noise:.3g} times the longest update that is let through. It hides each center, "
        "and the signal with it; 100 centers or more are needed, or subject-level privacy (policy 'subject')"
    )


def far_center(policy: CenterPrivacy, noise: Noise, rounds: int, centers: int = 2) -> Mechanism:
    """A whole run with a center far to one side or to the other in every round; the others stay at the prior.

    The score adds up what shows the side of it: the logarithm of the likelihood ratio, but for a factor.
    """
    start = public_prior([("A", 2)], 1, seed=0)
    held = {str(c): ("A",) for c in range(centers)}

    def run(which: int) -> Array:
        prior, score, releases = start, 0.0, dict[str, Release]()
        far = 1e3 if which else -1e3
        for r in range(1, rounds + 1):
            view = prior.views["A"]
            mine = {"A": ViewParams(view.mu + far, view.W, view.sigma2)}
            still = {"A": ViewParams(view.mu, view.W, view.sigma2)}
            for c in range(centers):
                params = CenterParams(mine if c == 0 else still, np.zeros(1))
                releases[str(c)] = policy.noised(Update(params, prior, r, rounds), noise)
            score += float(releases["0"].values["update"][:2].sum())
            prior = policy.step(prior, releases, held)
        return np.array([score])

    return run
