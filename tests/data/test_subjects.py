import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from vedute.data import subjects
from vedute.data.subjects import KeyIndex, hash_ids, repeated


@given(st.lists(st.text(max_size=30), min_size=1, max_size=30))
@settings(max_examples=100, derandomize=True, deadline=None)
def test_equal_ids_have_equal_keys_and_no_others_do(texts):
    keys = hash_ids(pa.array(texts, pa.string()))
    assert [a == b for a in keys for b in keys] == [a == b for a in texts for b in texts]


def test_a_key_depends_on_the_id_alone_not_on_its_neighbours():
    texts = ["", "a", "a\0", "\0a", "subject-000001", "subject-000002", "x" * 100, "żółć", "a"]
    together = hash_ids(pa.array(texts))
    alone = np.concatenate([hash_ids(pa.array([text])) for text in texts])
    np.testing.assert_array_equal(together, alone)
    np.testing.assert_array_equal(hash_ids(pa.array(texts).slice(3, 4)), together[3:7])
    assert len(np.unique(together)) == len(set(texts))


def test_keys_of_counted_ids_are_spread_evenly():
    keys = hash_ids(pa.array([f"s{i:07d}" for i in range(100_000)]))
    assert len(np.unique(keys)) == 100_000
    counts = np.bincount((keys >> np.uint64(56)).astype(int), minlength=256)
    chi2 = ((counts - 100_000 / 256) ** 2 / (100_000 / 256)).sum()
    assert chi2 < 367  # 255 degrees of freedom: false alarm once in 200,000, and the keys are not random


def test_repeated_names_each_key_once():
    np.testing.assert_array_equal(repeated(np.array([5, 1, 5, 2, 1, 5], dtype=np.uint64)), [1, 5])
    assert len(repeated(np.array([3, 1, 2], dtype=np.uint64))) == 0


@pytest.mark.parametrize("near", [2, 4096])
@pytest.mark.parametrize("order", ["same", "gaps", "shuffled", "strangers", "nothing"])
def test_an_index_finds_what_a_dictionary_finds(order, near, monkeypatch):
    monkeypatch.setattr(subjects, "NEAR", near)
    monkeypatch.setattr(subjects, "FAR", 3)
    rng = np.random.default_rng(0)
    keys = rng.permutation(1000).astype(np.uint64)
    wanted = {
        "same": keys,
        "gaps": keys[rng.random(1000) < 0.7],
        "shuffled": rng.permutation(keys)[:500],
        "strangers": np.insert(keys, [0, 10, 500], [2000, 2001, 2002]),
        "nothing": keys[:0],
    }[order]
    where = {int(key): place for place, key in enumerate(keys)}
    index = KeyIndex(keys)
    found = np.concatenate([index.find(part) for part in np.array_split(wanted, 7)])
    np.testing.assert_array_equal(found, [where.get(int(key), -1) for key in wanted])
