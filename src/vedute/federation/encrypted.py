"""What both sides of an encrypted run know: the run is a sequence of encrypted sums, and nothing else is exchanged.

For the scalings that are agreed on, the first sum is that of counts and values and the second that of squares about the
mean; then comes one sum for each round. All sums are numbered from 1 on through the run. The server asks

* ``encrypted share`` n: take in sum n - 1, which I bring, and give me your share of sum n;
* ``encrypted finish`` n: take in sum n, the last, and write the model down, at home;
* ``encrypted where``: which sums have you taken in? and ``encrypted past`` n: take in sum n, which you missed.

A center that takes in a sum decrypts it, judges it, and takes the master's step by itself: all centers then hold the
same prior, but for the last bits, in which machines differ, and which accelerated rounds would magnify. So with each
sum of a round goes the prior that one of its centers held (the first by name), wrapped for the others: all check it
against their own and go on from it.

An answer tells, besides what is encrypted, only the number of sums taken in, a checksum over them (the "chain") and
whether the rounds have settled.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

from vedute.core.layout import Layout
from vedute.errors import UserError
from vedute.federation.encryption import MOST_BYTES, WRAPPING, Grid, ciphertexts_for
from vedute.federation.model_file import SCALARS
from vedute.federation.packing import packed_size
from vedute.federation.protocol import Question
from vedute.federation.settings import Settings

ROUND = Grid(4, -69)  # up to 1e15, the largest parameter that bounds.py lets pass; doubles above 1e-5 lose nothing
UNITS = Grid(8, -120)  # sums in the units of the data, whatever these are: up to 6e35, in steps of 8e-37
AGREED = ("shared-standard", "shared-view")


def check_encryptable(policy: str, scaling: str | None) -> None:
    """Refuse studies whose exchange is no sum of exact values."""
    if policy != "none":
        raise UserError(
            f"encrypted aggregation goes with the policy 'none' alone, not with {policy!r}: what that policy releases "
            'is noised and may be seen, so it needs no encryption. Write aggregation = "plain", or policy = "none"'
        )
    if scaling == "shared-minmax":
        raise UserError(
            "the scaling 'shared-minmax' is no sum, so it cannot be agreed on under encryption; "
            "choose 'shared-standard', 'shared-view', 'center-minmax' or 'declared'"
        )


def sums_before_rounds(settings: Settings) -> int:
    """How many sums agree on the scaling."""
    return 2 if settings.scaling in AGREED else 0


def round_of(number: int, settings: Settings) -> int:
    """The round whose sum has this number; below 1 for those of the scaling."""
    return number - sums_before_rounds(settings)


def share_of(number: int, layout: Layout, settings: Settings) -> tuple[int, Grid]:
    """How many numbers a share has, and on which grid. The first number counts the center itself."""
    if round_of(number, settings) >= 1:
        return 1 + packed_size(layout, settings.n_components), ROUND
    return 1 + (2 if number == 1 else 1) * layout.total, UNITS


def brought(question: Question) -> int:
    """The number of the sum that a question brings; 0 for none."""
    if question.step == "encrypted share":
        return question.round - 1
    return question.round if question.step in ("encrypted past", "encrypted finish") else 0


def prior_size(layout: Layout, q: int) -> int:
    """How many numbers a prior has."""
    return layout.total * (1 + q) + len(SCALARS) * len(layout.names) + 1


def sizes_of(number: int, layout: Layout, settings: Settings) -> list[int]:
    """The ciphertexts of this sum, or of a share of it: the most bytes of each; in a round the last is the prior."""
    if not number:
        return []
    found = [MOST_BYTES] * ciphertexts_for(*share_of(number, layout, settings))
    prior = 8 * prior_size(layout, settings.n_components) + WRAPPING
    return [*found, prior] if round_of(number, settings) >= 1 else found


def split(ciphertexts: Sequence[bytes], number: int, settings: Settings) -> tuple[Sequence[bytes], Sequence[bytes]]:
    """What adds, and what goes along: nothing, or in a round one prior."""
    at = len(ciphertexts) - (round_of(number, settings) >= 1 and len(ciphertexts) > 0)
    return ciphertexts[:at], ciphertexts[at:]


def first_link(run: str, study: str) -> str:
    """The chain before the first sum."""
    return hashlib.sha256(f"{run} {study}".encode()).hexdigest()


def next_link(chain: str, among: Sequence[str], ciphertexts: Sequence[bytes]) -> str:
    """The chain after a sum."""
    found = hashlib.sha256("\n".join([chain, *among]).encode())
    for one in ciphertexts:
        found.update(hashlib.sha256(one).digest())
    return found.hexdigest()
