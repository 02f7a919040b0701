"""A release is a value: it keeps every bit, names what paid for it, and cannot be free."""

import json
import math

import numpy as np
import pytest

from vedute.data.identity import RowIdentity, key_of
from vedute.privacy import release as rel
from vedute.privacy.release import CENTER, Gaussian, NonPrivate


def test_every_bit_survives_json() -> None:
    values = {"W": np.array([[math.pi, -0.0], [5e-324, 1e308]]), "s": np.array(0.1), "none": np.zeros((0, 3))}
    release = rel.Release(values, (Gaussian(1.0, 2.0, CENTER),), "paper", {"round": 3})
    back = rel.from_json(json.loads(json.dumps(rel.to_json(release))))
    for name, value in values.items():
        assert back.values[name].tobytes() == value.tobytes()
        assert back.values[name].shape == value.shape
    assert (back.events, back.policy, back.public) == (release.events, "paper", {"round": 3})


def test_nothing_is_free_and_nothing_changes() -> None:
    with pytest.raises(ValueError, match="without an event"):
        rel.Release({}, (), "none")
    source = np.ones(2)
    release = rel.Release({"x": source}, (NonPrivate("raw"),), "none")
    source[0] = 5
    assert release.values["x"][0] == 1
    with pytest.raises(ValueError, match="read-only"):
        release.values["x"][0] = 2
    assert not release.seeded
    assert rel.Release({}, (Gaussian(1.0, 1.0, CENTER, seeded=True),), "center").seeded


def test_questions_differ_when_anything_public_differs() -> None:
    base = rel.digest({"a": 1.0, "b": np.eye(2)}, "x", None)
    assert base == rel.digest({"b": np.eye(2), "a": 1.0}, "x", None)
    others = [
        rel.digest({"a": 1.0 + 1e-15, "b": np.eye(2)}, "x", None),
        rel.digest({"a": 1.0, "b": np.eye(2).ravel()}, "x", None),
        rel.digest({"a": 1.0, "b": np.eye(2)}, "y", None),
    ]
    assert base not in others


def test_the_name_of_a_ledger_knows_rows_but_neither_order_nor_chunks(tmp_path: object) -> None:
    rng = np.random.default_rng(0)
    A, B = rng.normal(size=(20, 3)), rng.normal(size=(20, 2))
    A[3, 1] = np.nan

    def name(salt: bytes, *chunks: dict[str, np.ndarray]) -> str:
        rows = RowIdentity({}, salt)
        for chunk in chunks:
            rows.add_keyed(chunk)
        return rows.name()

    whole = name(b"s", {"A": A, "B": B})
    order = rng.permutation(20)
    assert whole == name(b"s", {"B": B[:7], "A": A[:7]}, {"A": A[7:], "B": B[7:]})
    assert whole == name(b"s", {"A": A[order], "B": B[order]})
    changed = A.copy()
    changed[0, 0] += 1e-12
    others = [name(b"s", {"A": changed, "B": B}), name(b"t", {"A": A, "B": B}), name(b"s", {"A": A, "C": B})]
    others += [name(b"s", {"A": A[:-1], "B": B[:-1]}), name(b"s", {"A": A[order], "B": B})]
    assert whole not in others


def test_the_key_is_made_once_and_is_secret(tmp_path) -> None:  # type: ignore[no-untyped-def]
    salt = key_of(tmp_path / "home")
    assert len(salt) == 32
    assert salt == key_of(tmp_path / "home")
    assert (tmp_path / "home" / "salt").stat().st_mode & 0o077 == 0
    assert salt != key_of(tmp_path / "other")
    assert [path.name for path in (tmp_path / "home").iterdir()] == ["salt"]
