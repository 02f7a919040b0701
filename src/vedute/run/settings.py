"""How a model is fitted: the choices of a user, and what they mean for centers and master."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from vedute.data.scaling import SCALINGS
from vedute.errors import UserError
from vedute.model.local_step import LocalRule
from vedute.model.master import MasterRule
from vedute.privacy.policies import Policy, policy_of

PRESETS = ("default", "paper")


@dataclass(frozen=True)
class Plan:
    """What all centers do in a round; public, agreed before the first one."""

    q: int
    iterations: int = 15
    first_iterations: int = 30
    rule: LocalRule = field(default_factory=LocalRule)
    align: bool = True  # rotate the latent space towards the prior's before sharing
    posterior: bool = True  # share posterior spreads with the estimates
    redraw: bool = False  # the paper: W and sigma2 are drawn anew from the prior at the start of each round
    own_start: bool = False  # the paper: each center begins round 1 from random values of its own
    seed: int = 0


@dataclass(frozen=True)
class Settings:
    """Everything that decides a fit, apart from the data. None for a correction means: as the preset has it."""

    n_components: int
    rounds: int = 100
    iterations: int | Mapping[str, int] = 15
    first_iterations: int = 30
    preset: str = "default"
    scaling: str | None = "shared-standard"
    tol: float | None = 1e-5
    seed: int = 0
    posterior_variances: bool | None = None
    case_mix: bool | None = None
    spread: bool | None = None
    privacy: Mapping[str, Any] | None = None  # the policy as a study's [privacy] has it; None: exact values

    def __post_init__(self) -> None:
        _count("n_components", self.n_components)
        _count("rounds", self.rounds)
        _count("first_iterations", self.first_iterations)
        each = self.iterations.values() if isinstance(self.iterations, Mapping) else [self.iterations]
        for value in each:
            _count("iterations", value)
        if self.preset not in PRESETS:
            raise UserError(f"preset={self.preset!r} is not known; choose one of {', '.join(PRESETS)}")
        if self.scaling is not None and self.scaling not in SCALINGS:
            raise UserError(f"scaling={self.scaling!r} is not known; choose None or one of {', '.join(SCALINGS)}")
        if self.tol is not None and not self.tol > 0:
            raise UserError(f"tol={self.tol!r} must be a positive number, or None to run all rounds")

    @property
    def paper(self) -> bool:
        """Whether the fit follows the paper to the letter."""
        return self.preset == "paper"

    def _correction(self, asked: bool | None) -> bool:
        return not self.paper if asked is None else asked

    @property
    def policy(self) -> Policy:
        """The policy that the settings describe."""
        return policy_of(self.privacy)

    @property
    def noised(self) -> bool:
        """Whether the master takes the parameters of every round as the noise of a policy left them."""
        return not (self.policy.exact or self.policy.once)

    def plan(self, *, spreads: bool = True) -> Plan:
        """What the centers do; without ``spreads``, which are data too, under a policy that hides them."""
        carried = self._correction(self.spread)
        joint = not self.paper or carried or self._correction(self.case_mix)
        return Plan(
            q=self.n_components,
            iterations=15 if isinstance(self.iterations, Mapping) else self.iterations,
            first_iterations=self.first_iterations,
            rule=LocalRule(
                "joint" if joint else "marginal", carried and spreads, expand=not self.paper, narrow=self.paper
            ),
            align=not self.paper,
            posterior=spreads and self._correction(self.posterior_variances),
            redraw=self.paper,
            own_start=self.paper,
            seed=self.seed,
        )

    def master_rule(self) -> MasterRule:
        """What the master does."""
        return MasterRule(
            posterior=self._correction(self.posterior_variances),
            case_mix=self._correction(self.case_mix),
            expand=not self.paper and self._correction(self.posterior_variances),
            accelerate=not self.paper,
            narrow=self.paper,
        )

    def iterations_of(self, center: str) -> int | None:
        """The number of local iterations of a center, where it has one of its own."""
        return self.iterations.get(center) if isinstance(self.iterations, Mapping) else None


def _count(name: str, value: object) -> None:
    if isinstance(value, bool) or not hasattr(value, "__index__"):
        raise UserError(f"{name}={value!r} must be a whole number")
    if value.__index__() < 1:
        raise UserError(f"{name}={value!r} must be at least 1")
