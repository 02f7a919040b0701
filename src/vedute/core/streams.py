"""Random streams keyed by what they are for, so that neither order nor number of centers changes a draw."""

from __future__ import annotations

import hashlib

import numpy as np


def stream(seed: int, *key: str | int) -> np.random.Generator:
    """A generator that depends on the seed and on the words of the key alone."""
    words = "\x1f".join(str(part) for part in key).encode()
    digest = hashlib.sha256(words).digest()
    return np.random.default_rng([seed, *np.frombuffer(digest, dtype=np.uint32).tolist()])
