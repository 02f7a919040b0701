"""How a model is fitted: the choices of a user, and what they mean for centers and master."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from vedute.data.scaling import SCALINGS
from vedute.errors import UserError
from vedute.model.local_step import LocalRule
from vedute.model.master import MasterRule
from vedute.run.center import Plan

PRESETS = ("default", "paper")


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

    def plan(self) -> Plan:
        """What the centers do."""
        spread = self._correction(self.spread)
        joint = not self.paper or spread or self._correction(self.case_mix)
        return Plan(
            q=self.n_components,
            iterations=15 if isinstance(self.iterations, Mapping) else self.iterations,
            first_iterations=self.first_iterations,
            rule=LocalRule("joint" if joint else "marginal", spread, expand=not self.paper, narrow=self.paper),
            align=not self.paper,
            posterior=self._correction(self.posterior_variances),
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
