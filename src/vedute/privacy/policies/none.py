"""No privacy: exact values leave, and the ledger says that eps is infinite."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from vedute.model.contribution import packed_size
from vedute.model.parameters import Array, Layout
from vedute.privacy.ledger import Ledger
from vedute.privacy.mechanisms import Noise
from vedute.privacy.policies.base import Policy, Shape, at_most, require
from vedute.privacy.release import SUBJECT, NonPrivate, Release

EXACT = NonPrivate("policy none: exact values")
EVERY_ROUND = NonPrivate("policy none: exact values in every round")
LEAVES = (
    "What leaves this hospital, under the policy 'none' (exact values): {scaling}in each of {rounds}, this center's "
    "means, loadings and noise variances (averages over its patients, one set for each view), their uncertainties, "
    "and the number of patients; at the end, this center's own parameters. No noise is added: there is no guarantee "
    "about single patients."
)


@dataclass(frozen=True)
class NoPrivacy(Policy):
    """Exact values; the ledger says that eps is infinite."""

    name: ClassVar[str] = "none"
    relation: ClassVar[str] = SUBJECT
    exact: ClassVar[bool] = True
    scalings: ClassVar[tuple[str | None, ...]] = (
        "shared-standard", "shared-view", "shared-minmax", "center-minmax", "declared", None,
    )  # fmt: skip

    def steps(self, sums: tuple[str, ...]) -> tuple[str, ...]:
        """Rounds, and the exact sums that agree on a scaling."""
        return (*super().steps(sums), *sums)

    def release(self, ledger: Ledger, run: str, question: Mapping[str, Array], noise: Noise | None = None) -> Release:
        """The values as they are; that they leave is written down once per run."""
        ledger.release(run, "", lambda: Release({}, (EVERY_ROUND,), self.name), None, self.relation)
        return Release(question, (EXACT,), self.name)

    def shapes(self, held: Layout, q: int) -> dict[str, Shape]:
        """A contribution as one vector."""
        return {"contribution": (packed_size(held, q),)}

    def check_claims(self, release: Release, held: Layout, rounds: int) -> None:
        """Refuse values that claim to be noised."""
        require(all(isinstance(event, NonPrivate) for event in release.events), "exact values that claim noise")

    def leaves(self, scaling: str, rounds: int) -> str:
        """Averages, counts and what agrees on the scaling."""
        return LEAVES.format(scaling=scaling, rounds=at_most(rounds))
