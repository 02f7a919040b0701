"""Encrypted sums: exact, the same bits for everybody, readable by centers alone, and refused when altered."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from vedute.errors import UserError
from vedute.federation.encrypted import ROUND, UNITS
from vedute.federation.encryption import MOST_BYTES, MOST_CENTERS, SLOTS, Cipher, Grid, make_keys
from vedute.federation.protocol import Refused
from vedute.federation.sealing import seal, unseal


@pytest.fixture(scope="module")
def keys():
    return make_keys()


@pytest.fixture(scope="module")
def center(keys):
    return Cipher(keys[0])


@pytest.fixture(scope="module")
def server(keys):
    return Cipher(keys[1])


def mixed(rng, size, low, high):
    """Numbers of all magnitudes."""
    return rng.standard_normal(size) * 10.0 ** rng.uniform(low, high, size)


@pytest.mark.parametrize(("grid", "low", "high"), [(ROUND, -9.0, 14.0), (UNITS, -20.0, 34.0)])
def test_sums_are_those_of_exact_arithmetic(center, server, grid, low, high):
    """Against the sum of fractions: as well as a double can tell it, and half a step of the grid for each share."""
    rng = np.random.default_rng(1)
    shares = [mixed(rng, 3000, low, high) for _ in range(3)]
    total = server.add([center.encrypt(share, grid) for share in shares])
    found = center.decrypt(total, grid, 3000, 3)
    exact = np.array([float(sum(map(Fraction, map(float, column)))) for column in zip(*shares, strict=True)])
    error = np.abs(found - exact)
    assert (error <= 4e-16 * np.abs(exact) + 3 * 2.0 ** (grid.lowest - 1)).all()
    assert all(len(one) <= MOST_BYTES for one in total)


def test_as_many_centers_as_allowed_with_the_largest_digits(center, server):
    vector = np.full(SLOTS, 2.0**29 - 1)
    one = center.encrypt(vector, Grid(1, 0))
    total = server.add([one] * MOST_CENTERS)
    np.testing.assert_array_equal(center.decrypt(total, Grid(1, 0), SLOTS, MOST_CENTERS), MOST_CENTERS * vector)


def test_every_encryption_is_another_and_every_decryption_the_same(keys, center):
    vector = np.random.default_rng(2).standard_normal(100)
    first, second = center.encrypt(vector, ROUND), center.encrypt(vector, ROUND)
    assert first != second
    for ciphertexts in (first, first, second):
        found = Cipher(keys[0]).decrypt(ciphertexts, ROUND, 100, 1)
        assert found.tobytes() == center.decrypt(first, ROUND, 100, 1).tobytes()


def test_the_server_can_neither_read_nor_encrypt(center, server, keys):
    ciphertexts = center.encrypt(np.arange(5.0), ROUND)
    with pytest.raises(ValueError, match="secret_key"):
        server.decrypt(ciphertexts, ROUND, 5, 1)
    with pytest.raises(ValueError, match="encryption"):
        server.encrypt(np.arange(5.0), ROUND)
    with pytest.raises(Refused, match="wrapped"):
        server.unwrap(center.wrap(b"prior", "sum 1"), "sum 1")
    assert center.unwrap(center.wrap(b"prior", "sum 1"), "sum 1") == b"prior"
    with pytest.raises(Refused, match="wrapped"):
        center.unwrap(center.wrap(b"prior", "sum 1"), "sum 2")
    with pytest.raises(Refused):
        Cipher(make_keys()[0]).decrypt(ciphertexts, ROUND, 5, 1)  # another federation's key


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf, 1.2e15, 1e308])
def test_what_is_no_number_or_too_large_is_never_encrypted(center, bad):
    with pytest.raises(Refused, match="to encrypt"):
        center.encrypt(np.array([1.0, bad]), ROUND)


def test_altered_ciphertexts_are_refused(center, server):
    vector = np.random.default_rng(3).standard_normal(200)
    (sound,) = center.encrypt(vector, ROUND)
    expected = center.decrypt((sound,), ROUND, 200, 1)
    rng, refused = np.random.default_rng(4), 0
    for at in [*range(0, 200, 4), *rng.integers(200, len(sound), 50)]:
        altered = bytearray(sound)
        altered[at] ^= 0x80
        try:
            found = center.decrypt((bytes(altered),), ROUND, 200, 1)
        except Refused:
            refused += 1
        else:
            np.testing.assert_array_equal(found, expected)  # a bit that nobody reads
    assert refused > 80
    for junk in (b"", b"x" * 1000, sound[:-100], sound + sound):
        with pytest.raises(Refused):
            server.check((junk,))


def test_a_digit_that_was_moved_is_refused(center, server):
    """A server that adds to a ciphertext, which it can do without a key, leaves the grid of whole digits."""
    (sound,) = center.encrypt(np.arange(8.0), ROUND)
    moved = (server._load(sound) + [0.4] * SLOTS).serialize()
    with pytest.raises(Refused, match="not whole"):
        center.decrypt((moved,), ROUND, 8, 1)


def test_a_sum_of_another_shape_or_of_more_centers_than_told_is_refused(center, server):
    sound = center.encrypt(np.full(10, 1e15), ROUND)
    for ciphertexts, size, centers in (
        (sound, 10, 0),
        (sound, 10, MOST_CENTERS + 1),
        ((*sound, *sound), 10, 1),
        (sound, 9, 1),
    ):
        with pytest.raises(Refused):
            center.decrypt(ciphertexts, ROUND, size, centers)
    many = server.add([sound] * 3)
    with pytest.raises(Refused, match="too large"):
        center.decrypt(many, ROUND, 10, 1)
    np.testing.assert_array_equal(center.decrypt(many, ROUND, 10, 3), np.full(10, 3e15))


def test_damaged_keys_are_told(keys):
    with pytest.raises(UserError, match="damaged"):
        Cipher(keys[0][:1000])


def test_only_the_reader_opens_what_was_sealed():
    from vedute.federation.nvflare.authority import make_authority

    authority = make_authority("vedute", 1)
    lead, other = authority.issue("lead", role="lead"), authority.issue("paris")
    sealed = seal(b"model", lead.certificate, b"run 1")
    assert unseal(sealed, lead.key, b"run 1") == b"model"
    assert b"model" not in sealed
    broken = sealed[:-1] + bytes([sealed[-1] ^ 1])
    for data, key, about in (
        (sealed, other.key, b"run 1"), (sealed, lead.key, b"run 2"), (broken, lead.key, b"run 1"), (b"", lead.key, b"")
    ):  # fmt: skip
        with pytest.raises(UserError, match="sealed"):
            unseal(data, key, about)
