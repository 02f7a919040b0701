"""Sums of encrypted numbers, without any error: whole digits in CKKS ciphertexts, by TenSEAL (the extra ``he``).

CKKS adds approximate numbers. Here every number is cut into digits of 30 bits on a fixed grid: whole numbers, which the
noise of the scheme (below 0.02 for 64 centers) cannot blur. What is decrypted and rounded is therefore the exact sum of
what was encrypted: the same bits at every center, whatever machine it has and however often a share was encrypted anew.

The encryption is symmetric. Centers share one secret key; the server has the parameters of the scheme, which suffice to
add, and no key at all: it can neither read nor encrypt. What centers tell each other through the server and nobody
adds is wrapped under the same key (AES-256-GCM).
"""

from __future__ import annotations

import hashlib
import math
import os
from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce
from importlib.util import find_spec
from typing import Any

import numpy as np

from vedute.core.params import Array
from vedute.errors import UserError
from vedute.federation.protocol import Refused

DEGREE, MODULI = 8192, (60, 60)  # 120 bits of modulus, where 218 bits are still as hard to break as AES-128
SLOTS = DEGREE // 2  # numbers in a ciphertext
SCALE = 2.0**22
DIGIT_BITS = 30
MOST_CENTERS = 128  # digits of 29 bits and a sign, times 2^7 centers, times SCALE, fit into the modulus of 60 bits
MOST_BYTES = 140_000  # of a ciphertext; they have 131,217
NONCE, WRAPPING = 12, 28  # bytes that wrapping adds before, and in all
BLUR = 0.25  # a digit that is further from a whole number was never encrypted as one


@dataclass(frozen=True)
class Grid:
    """Fixed-point numbers: whole multiples of 2^lowest, in ``digits`` digits."""

    digits: int
    lowest: int

    @property
    def largest(self) -> float:
        """No number may be larger."""
        return math.ldexp(1.0, DIGIT_BITS * self.digits - 1 + self.lowest)

    def cut(self, vector: Array) -> Array:
        """(digits, n), lowest digit first; each is at most 2^29. Exact but for the part below the grid."""
        if not np.isfinite(vector).all():
            raise Refused("a number to encrypt is not finite")
        if np.abs(vector).max(initial=0.0) > self.largest:
            raise Refused(f"a number to encrypt is beyond {self.largest:.1e}; choose units in which values are smaller")
        digits, rest = np.empty((self.digits, len(vector))), vector
        for j, unit in reversed(list(enumerate(self._units()))):
            digits[j] = np.rint(rest / unit)
            rest = rest - digits[j] * unit
        return digits

    def join(self, digits: Array) -> Array:
        """The numbers again, from sums of digits."""
        return np.asarray(reduce(np.add, (row * unit for row, unit in zip(digits, self._units(), strict=True))))

    def _units(self) -> list[float]:
        return [math.ldexp(1.0, DIGIT_BITS * j + self.lowest) for j in range(self.digits)]


def ciphertexts_for(size: int, grid: Grid) -> int:
    """How many ciphertexts carry ``size`` numbers."""
    return -(-size * grid.digits // SLOTS)


def need_tenseal() -> None:
    """Refuse kindly where the extra is not installed."""
    if find_spec("tenseal") is None:
        raise UserError('encrypted aggregation needs TenSEAL; install it with: pip install "vedute[he]"')


def make_keys() -> tuple[bytes, bytes]:
    """What every center is given (the secret key), and what the server is given (parameters without any key)."""
    need_tenseal()
    import tenseal as ts

    kind = ts.ENCRYPTION_TYPE.SYMMETRIC
    made = ts.context(ts.SCHEME_TYPE.CKKS, DEGREE, coeff_mod_bit_sizes=MODULI, encryption_type=kind, n_threads=1)
    made.global_scale = SCALE
    secret, parameters = (made.serialize(False, with_secret, False, False) for with_secret in (True, False))
    return bytes(secret), bytes(parameters)


class Cipher:
    """Encrypts, adds and decrypts; with the server's half of the keys it only adds."""

    def __init__(self, keys: bytes) -> None:
        need_tenseal()
        import tenseal as ts

        self._ts: Any = ts
        try:
            self._context: Any = ts.context_from(keys, n_threads=1)
        except Exception:
            raise UserError("the keys for encrypted sums are damaged; ask the coordinator for the kit again") from None
        if self._context.global_scale != SCALE:
            raise UserError("the keys for encrypted sums are of another version; make new kits, or install another")
        self._key = hashlib.sha256(b"vedute: from center to center" + keys).digest()

    def encrypt(self, vector: Array, grid: Grid) -> tuple[bytes, ...]:
        """The numbers as ciphertexts; every call gives others, as each is blinded by fresh noise."""
        slots = np.zeros((ciphertexts_for(len(vector), grid), SLOTS))
        slots.flat[: grid.digits * len(vector)] = grid.cut(vector).ravel()
        return tuple(bytes(self._ts.ckks_vector(self._context, part).serialize()) for part in slots)

    def decrypt(self, ciphertexts: Sequence[bytes], grid: Grid, size: int, centers: int) -> Array:
        """The exact sum of what ``centers`` centers encrypted; anything else is refused."""
        if not 1 <= centers <= MOST_CENTERS or len(ciphertexts) != ciphertexts_for(size, grid):
            raise Refused("it is no encrypted sum of so many centers and numbers")
        slots = np.array([self._load(one).decrypt() for one in ciphertexts]).ravel()
        digits = np.rint(slots)
        if not (np.isfinite(slots).all() and np.abs(slots - digits).max() <= BLUR):
            raise Refused("an encrypted sum was altered: its digits are not whole")
        if np.abs(digits).max() > centers * 2.0 ** (DIGIT_BITS - 1) or digits[grid.digits * size :].any():
            raise Refused("an encrypted sum was altered: its digits are too large")
        return grid.join(digits[: grid.digits * size].reshape(grid.digits, size))

    def add(self, shares: Sequence[Sequence[bytes]]) -> tuple[bytes, ...]:
        """The sum of the centers' shares, of which nothing is learned."""
        return tuple(bytes(reduce(_plus, map(self._load, parts)).serialize()) for parts in zip(*shares, strict=True))

    def check(self, ciphertexts: Sequence[bytes]) -> None:
        """Refuse what cannot be added to others."""
        for one in ciphertexts:
            self._load(one)

    def wrap(self, data: bytes, about: str) -> bytes:
        """For other centers; ``about`` says what it is, and is bound to it."""
        from cryptography.hazmat.primitives.ciphers.aead import AESGCM

        nonce = os.urandom(NONCE)
        return nonce + AESGCM(self._key).encrypt(nonce, data, about.encode())

    def unwrap(self, wrapped: bytes, about: str) -> bytes:
        """What another center wrapped; anything else is refused."""
        from cryptography.exceptions import InvalidTag
        from cryptography.hazmat.primitives.ciphers.aead import AESGCM

        try:
            return AESGCM(self._key).decrypt(wrapped[:NONCE], wrapped[NONCE:], about.encode())
        except (InvalidTag, ValueError):
            raise Refused("it is not what a center wrapped") from None

    def _load(self, data: bytes) -> Any:
        try:
            vector = self._ts.ckks_vector_from(self._context, data)
            (found,) = vector.ciphertext()
            shape = vector.size(), found.scale, found.size(), found.coeff_modulus_size(), found.poly_modulus_degree()
        except Exception as error:  # TenSEAL raises whatever SEAL and protobuf do
            raise Refused(f"it is not a ciphertext ({type(error).__name__})") from None
        if shape != (SLOTS, SCALE, 2, 1, DEGREE):
            raise Refused("it is a ciphertext of another kind")
        return vector


def _plus(total: Any, share: Any) -> Any:
    try:
        return total + share
    except Exception as error:
        raise Refused(f"a ciphertext cannot be added ({type(error).__name__})") from None
