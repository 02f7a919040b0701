"""Random generators at the door: an integer, a generator or nothing, as scikit-learn's users expect."""

from __future__ import annotations

import numpy as np

from vedute.errors import UserError

RandomState = int | np.integer | np.random.Generator | np.random.RandomState | None


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
