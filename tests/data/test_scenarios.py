"""The paper's four scenarios: who gets which rows and which views."""

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from vedute.errors import UserError
from vedute.scenarios import split


def study(n=120, n_second=50, n_views=3):
    """Rows carry their own number, so that a test sees where each went."""
    views = {f"v{k}": np.arange(n, dtype=float)[:, None] + [[0.0, 1000.0 * (k + 1)]] for k in range(n_views)}
    groups = np.random.default_rng(0).permutation(np.repeat(["a", "b"], [n - n_second, n_second]))
    return views, groups


@pytest.mark.parametrize("scenario", ["IID", "G", "K", "G/K"])
@given(thirds=st.integers(1, 5), seed=st.integers(0, 2**32 - 1))
def test_every_row_is_dealt_once_and_all_views_follow(scenario, thirds, seed):
    views, groups = study()
    centers, rows = split(views, groups, 3 * thirds, scenario, random_state=seed)
    assert list(centers) == list(rows) == sorted(centers)
    assert np.array_equal(np.sort(np.concatenate(list(rows.values()))), np.arange(120))
    for name, tables in centers.items():
        for view, table in tables.items():
            assert np.array_equal(table, views[view][rows[name]])


def counts(rows, groups):
    return [[int((groups[mine] == g).sum()) for g in ("a", "b")] for mine in rows.values()]


@pytest.mark.parametrize("scenario", ["IID", "K"])
def test_groups_are_even_where_the_scenario_does_not_touch_them(scenario):
    views, groups = study()
    _, rows = split(views, groups, 6, scenario, random_state=1)
    table = np.array(counts(rows, groups))
    assert table.shape == (6, 2)
    assert np.ptp(table, axis=0).max() <= 1


@pytest.mark.parametrize("scenario", ["G", "G/K"])
def test_groups_part_ways_in_g(scenario):
    views, groups = study(n=120, n_second=48)
    _, rows = split(views, groups, 6, scenario, random_state=1)
    assert counts(rows, groups) == [[18, 12], [18, 12], [18, 0], [18, 0], [0, 12], [0, 12]]


@pytest.mark.parametrize("scenario", ["K", "G/K"])
def test_views_are_absent_in_k(scenario):
    views, groups = study(n_views=4)
    centers, _ = split(views, groups, 6, scenario, random_state=1)
    everything, no_second, no_third = ["v0", "v1", "v2", "v3"], ["v0", "v2", "v3"], ["v0", "v1", "v3"]
    assert [list(tables) for tables in centers.values()] == [everything] * 2 + [no_second] * 2 + [no_third] * 2


@pytest.mark.parametrize("scenario", ["IID", "G"])
def test_views_are_complete_elsewhere(scenario):
    views, groups = study()
    centers, _ = split(views, groups, 3, scenario)
    assert all(list(tables) == list(views) for tables in centers.values())


def test_the_seed_decides():
    views, groups = study()
    one, two, other = (split(views, groups, 3, "G", random_state=s)[1]["center1"] for s in (5, 5, 6))
    assert np.array_equal(one, two)
    assert not np.array_equal(one, other)


def test_rows_are_shuffled_before_they_are_dealt():
    views, _ = study()
    _, rows = split(views, None, 3, "IID", random_state=0)
    # unshuffled hands would be runs of 40 neighbours; a random one spans almost all 120 rows
    assert all(np.ptp(mine) > 60 for mine in rows.values())


def test_one_center_is_the_centralised_case():
    views, groups = study()
    centers, rows = split(views, groups, 1, "IID")
    assert np.array_equal(rows["center1"], np.arange(120))
    assert np.array_equal(centers["center1"]["v1"], views["v1"])


def test_dataframes_stay_dataframes_and_groups_are_optional():
    views, _ = study()
    tables = {name: pd.DataFrame(values, columns=["x", "y"]) for name, values in views.items()}
    centers, rows = split(tables, None, 3, "K", random_state=0)
    assert list(centers["center1"]["v0"].columns) == ["x", "y"]
    assert centers["center1"]["v0"].index.tolist() == rows["center1"].tolist()
    assert [len(mine) for mine in rows.values()] == [40, 40, 40]


@pytest.mark.parametrize(
    ("change", "word"),
    [
        ({"n_centers": 4}, "multiple of 3"),
        ({"n_centers": 0}, "multiple of 3"),
        ({"n_centers": -3}, "multiple of 3"),
        ({"n_centers": 1, "scenario": "G"}, "multiple of 3"),
        ({"n_centers": 3.0}, "whole number"),
        ({"n_centers": True}, "whole number"),
        ({"scenario": "g"}, "IID, G, K, G/K"),
        ({"groups": None, "scenario": "G"}, "two groups"),
        ({"groups": np.arange(120) % 3, "scenario": "G"}, "two groups"),
        ({"groups": np.zeros(7)}, "one label for each row"),
        ({"groups": np.where(np.arange(120) < 3, np.nan, 1.0)}, "missing"),
        ({"views": {}}, "none"),
        ({"views": {"a": np.zeros((3, 1)), "b": np.zeros((4, 1))}}, "rows differ"),
        ({"views": {"a": np.zeros((120, 1)), "b": np.zeros((120, 1))}, "scenario": "K"}, "at least 3 views"),
        ({"n_centers": 99}, "fewer centers"),
    ],
)
def test_what_cannot_be_dealt_is_refused(change, word):
    views, groups = study()
    arguments = {"views": views, "groups": groups, "n_centers": 3, "scenario": "IID"} | change
    with pytest.raises(UserError, match=word):
        split(**arguments)
