from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from vedute.data import stream
from vedute.data.stream import ViewFile, join, read_spine
from vedute.data.subjects import Keys, fit_in
from vedute.data.table import TableFile
from vedute.errors import UserError


def keys_of(numbers) -> Keys:
    return np.array(numbers, dtype=np.uint64)


@given(st.lists(st.integers(0, 30), unique=True), st.lists(st.integers(0, 30), unique=True))
def test_a_list_fitted_into_another_keeps_both_orders_where_they_agree(spine, keys):
    grown, added, at, ordered = fit_in(keys_of(spine), keys_of(keys))
    assert sorted(grown) == sorted({*spine, *keys})
    assert [k for k in grown if k in spine] == spine, "the old order is kept"
    np.testing.assert_array_equal(grown[at], keys)
    common = [k for k in keys if k in spine]
    assert ordered == (common == [k for k in spine if k in keys])
    assert ordered == (list(at) == sorted(at))
    moved = np.insert(np.zeros(len(spine)), added, 1) if spine else np.ones(len(grown))
    if spine:
        np.testing.assert_array_equal(moved == 0, [k in spine for k in grown])


def files(folder: Path, tables: dict[str, pd.DataFrame]) -> dict[str, ViewFile]:
    found = {}
    for name, table in tables.items():
        table.to_csv(folder / f"{name}.csv", index=False)
        found[name] = ViewFile(TableFile(folder / f"{name}.csv", f"{name}.csv"), tuple(table.columns[1:]))
    return found


def tables(orders: dict[str, list[int]]) -> dict[str, pd.DataFrame]:
    rng = np.random.default_rng(0)
    values = {name: rng.normal(size=(200, 2 + len(name))) for name in orders}
    return {
        name: pd.concat(
            [
                pd.DataFrame({"id": [f"s{i}" for i in order]}),
                pd.DataFrame(values[name][order], columns=[f"{name}{j}" for j in range(values[name].shape[1])]),
            ],
            axis=1,
        )
        for name, order in orders.items()
    }


rng = np.random.default_rng(7)
SAME = list(range(200))
ORDERS = {
    "same order": {"A": SAME, "BB": SAME},
    "gaps": {"A": [i for i in SAME if i % 3], "BB": [i for i in SAME if i % 5], "CCC": [i for i in SAME if i % 7 == 0]},
    "shuffled": {"A": SAME, "BB": rng.permutation(200).tolist(), "CCC": rng.permutation(150).tolist()},
    "one against many": {"A": SAME[::-1][:20], "BB": SAME, "CCC": SAME[:100]},
    "disjoint": {"A": SAME[:100], "BB": SAME[100:]},
    "a view of nobody": {"A": SAME, "BB": []},
}


@pytest.mark.usefixtures("small_chunks")
@pytest.mark.parametrize("orders", ORDERS.values(), ids=ORDERS.keys())
def test_a_join_of_files_is_the_outer_join_of_tables(orders, tmp_path):
    frames = tables(orders)
    expected = None
    for frame in frames.values():
        expected = frame if expected is None else expected.merge(frame, on="id", how="outer")
    expected = expected.set_index("id").astype(float)
    joined = list(join(files(tmp_path, frames)))
    labels = [label for rows in joined for label in rows.labels.to_pylist()]
    assert len(labels) == len(set(labels))
    got = np.concatenate(
        [
            np.hstack([rows.views.get(n, np.full((len(rows.keys), f.shape[1] - 1), np.nan)) for n, f in frames.items()])
            for rows in joined
        ]
    )
    np.testing.assert_array_equal(got, expected.loc[labels])
    assert max(len(rows.keys) for rows in joined) <= 16


@pytest.mark.parametrize(
    ("name", "spilled"), [("same order", 0), ("gaps", 0), ("shuffled", 2), ("one against many", 1)]
)
def test_only_files_in_another_order_wait_on_disk(name, spilled, tmp_path, monkeypatch):
    opened = []
    real = stream.Spill.__init__
    monkeypatch.setattr(stream.Spill, "__init__", lambda self, *a: (opened.append(self), real(self, *a))[1])
    found = files(tmp_path, tables(ORDERS[name]))
    assert sum(len(rows.keys) for rows in join(found)) == len(read_spine(found).keys)
    assert len(opened) == spilled
    assert all(one._file.closed for one in opened)


@pytest.mark.usefixtures("small_chunks")
def test_repeated_ids_are_named_with_their_lines_in_a_single_file_and_in_a_join(tmp_path):
    frames = tables({"A": [*range(150), 3, 149], "BB": SAME})
    found = files(tmp_path, frames)
    pattern = r"A\.csv: column 'id': ids occur more than once: 's3' \(lines 5 and 152\), 's149' \(lines 151 and 153\)"
    with pytest.raises(UserError, match=pattern):
        list(join(found))
    with pytest.raises(UserError, match=pattern):
        list(join({"A": found["A"]}))
