"""Random generators: as users name them at the door, and streams keyed by what they are for.

Neither the order nor the number of centers changes a draw from a keyed stream.
"""

from __future__ import annotations

import hashlib

import numpy as np

from vedute.errors import UserError

RandomState = int | np.integer | np.random.Generator | np.random.RandomState | None


def stream(seed: int, *key: str | int) -> np.random.Generator:
    """A generator that depends on the seed and on the words of the key alone."""
    return np.random.Generator(np.random.Philox(key=_hashed(seed, key)))


class RoundStream:
    """A stream with a part for each round: the generator's counter is set, not run, so that any round comes at once."""

    def __init__(self, seed: int, *key: str | int) -> None:
        self._bits = np.random.Philox(key=_hashed(seed, key))
        self._generator = np.random.Generator(self._bits)
        self._state = self._bits.state

    def at(self, round_: int) -> np.random.Generator:
        """The generator at the beginning of a round's part; valid until the next call."""
        counter = self._state["state"]["counter"]
        counter[:] = 0
        counter[3] = round_
        self._bits.state = self._state
        return self._generator


def _hashed(seed: int, key: tuple[str | int, ...]) -> int:
    words = "\x1f".join(str(part) for part in (seed, *key)).encode()
    return int.from_bytes(hashlib.sha256(words).digest()[:16], "big")


def generator(random_state: RandomState) -> np.random.Generator:
    """The generator that ``random_state`` names; a generator given is used as it is, and so moves on."""
    if isinstance(random_state, np.random.RandomState):
        return np.random.default_rng(random_state.randint(2**32, size=4, dtype=np.uint32))
    try:
        return np.random.default_rng(random_state)
    except (TypeError, ValueError) as error:
        raise UserError(
            f"random_state: {random_state!r} is no seed; give an integer >= 0, a numpy Generator or None"
        ) from error
