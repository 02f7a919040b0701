"""Hidden views: what is hidden is hidden from all, regression in each center moves no rows, q is chosen at home."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from vedute.datasets import make_sd
from vedute.errors import UserError
from vedute.model.seeds import stream
from vedute.scenarios import split
from vedute_reproduction import missing
from vedute_reproduction.folds import Dataset
from vedute_reproduction.keeping import How
from vedute_reproduction.missing import (
    BLUES,
    CHOSEN,
    CHOSEN_HOLDERS,
    GLOBAL,
    HOLDERS,
    MEAN,
    OTHERS,
    OURS,
    Hidden,
    _colours,
    by_holders,
    by_mofa,
    by_mofa_of_holders,
    by_ours,
    by_pooled_ridge,
    by_ridge,
    chosen,
    figure,
    hide,
    run,
    summary,
    write,
)
from vedute_reproduction.studies import FixedStudy, Given

RESULTS = Path(__file__).parents[2] / "docs" / "reproduction"


@pytest.fixture(scope="module")
def small() -> FixedStudy:
    views, groups = make_sd(120, 60, sizes=(6, 5, 4), n_components=2, random_state=0)
    return FixedStudy(Dataset(views, groups))


@pytest.mark.parametrize("third", [0, 1, 2])
def test_a_third_of_the_centers_lacks_the_view_and_nothing_else(small: FixedStudy, third: int) -> None:
    hidden = hide(small.data, "view2", third, 3)
    assert hidden.lacking == (f"center{2 * third + 1}", f"center{2 * third + 2}")
    for name, views in hidden.centers.items():
        assert set(views) == {"view1", "view3"} | ({"view2"} if name not in hidden.lacking else set())
    rows = np.concatenate([views["view2"] for views in hidden.holders.values()])
    np.testing.assert_allclose(rows.mean(axis=0), 0.0, atol=1e-12)  # units of the holders alone
    np.testing.assert_allclose(rows.std(axis=0), 1.0)
    _, parts = split(small.data.views, small.data.groups, 6, "IID", stream(3, "missing"))
    truth = np.concatenate([small.data.views["view2"][parts[name]] for name in hidden.lacking])
    correlation = [np.corrcoef(a, b)[0, 1] for a, b in zip(truth.T, hidden.truth.T, strict=True)]
    np.testing.assert_allclose(correlation, 1.0)


def test_regression_in_each_center_is_the_mean_of_what_each_says_alone(small: FixedStudy) -> None:
    hidden = hide(small.data, "view1", 1, 0)
    alone = []
    for name in hidden.holders:
        kept = {center: hidden.centers[center] for center in (name, *hidden.lacking)}
        alone.append(by_ridge(Hidden(kept, hidden.lacking, hidden.view, hidden.truth)))
    np.testing.assert_allclose(by_ridge(hidden), np.mean(alone, axis=0))


def test_ridge_on_pooled_rows_is_that_of_one_holder_with_the_rows_of_all(small: FixedStudy) -> None:
    hidden = hide(small.data, "view1", 1, 0)
    pooled = {v: np.concatenate([views[v] for views in hidden.holders.values()]) for v in small.data.views}
    lacking = {name: hidden.centers[name] for name in hidden.lacking}
    one = Hidden({"all": pooled, **lacking}, hidden.lacking, hidden.view, hidden.truth)
    np.testing.assert_allclose(by_pooled_ridge(hidden), by_ridge(one))
    assert np.abs(by_pooled_ridge(hidden) - by_ridge(hidden)).max() > 1e-3


def test_the_right_number_of_components_is_found_without_the_hidden_rows(small: FixedStudy) -> None:
    hidden = hide(small.data, "view1", 0, 1)
    for predict in (by_ours, by_holders, by_mofa, by_mofa_of_holders):
        assert chosen(hidden, (1, 2), 0, predict) == 2
    spoilt = Hidden(hidden.centers, hidden.lacking, hidden.view, np.full_like(hidden.truth, 1e6))
    assert chosen(spoilt, (1, 2), 0) == 2


def test_rows_without_the_view_bend_its_components_and_a_model_of_the_holders_is_not_bent() -> None:
    """Two components for three views with two strong ones each of their own: lacking rows put them to other use."""
    rng, n = np.random.default_rng(0), 240
    views = {}
    for name in ("view1", "view2", "view3"):
        own = rng.normal(size=(n, 2)) @ rng.normal(size=(2, 8))  # nothing in common: 0 is the best guess
        views[name] = own + 0.3 * rng.normal(size=(n, 8))
    hidden = hide(Dataset(views, np.arange(n) % 2), "view1", 0, 0)

    def lost(predict) -> float:
        return float(((hidden.truth - predict(hidden, 2, 0)[0]) ** 2).sum() / (hidden.truth**2).sum() - 1.0)

    bent, straight = lost(by_ours), lost(by_holders)
    assert bent > 0.8  # full-sized guesses that have nothing to do with the truth double the error
    assert straight < bent / 2
    first, *_ = hidden.lacking  # whatever another lacking center holds, it changes what is said of this one, or not
    spoilt = {name: {view: 5.0 * rows for view, rows in hidden.centers[name].items()} for name in hidden.lacking[1:]}
    again = Hidden(hidden.centers | spoilt, (first,), hidden.view, hidden.truth)
    one = Hidden(hidden.centers, (first,), hidden.view, hidden.truth)
    np.testing.assert_array_equal(by_holders(again, 2, 0)[0], by_holders(one, 2, 0)[0])
    assert np.abs(by_ours(again, 2, 0)[0] - by_ours(one, 2, 0)[0]).max() > 0.1


@pytest.mark.parametrize("name", ["missing", "missing-cnp"])
def test_every_method_of_the_table_has_a_colour_of_its_own(name: str) -> None:
    table = summary(pd.read_csv(RESULTS / f"{name}.csv"))
    drawn = figure(table, name)["svg"].decode()
    for method in set(table["method"]) - {MEAN}:
        assert f">{method}<" in drawn
    assert len({*BLUES, *OTHERS}) == len(BLUES) + len(OTHERS) >= table["method"].nunique() - 1
    methods = [method for method in dict.fromkeys(table["method"]) if method != MEAN]
    whole = dict(zip(methods, _colours(methods), strict=True))
    fewer = [method for method in methods if "MOFA" not in method]
    assert dict(zip(fewer, _colours(fewer), strict=True)) == {method: whole[method] for method in fewer}


def test_everyone_beats_the_mean_on_data_that_views_share_and_intervals_hold(
    small: FixedStudy, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(missing, "FEW", ())  # how a number is chosen is tested above
    lines = run(Given(small, "small", 2, "SD"), How(1, tmp_path))
    table = summary(lines).set_index(["view", "method"])
    best = f"{OURS}, q = 2"
    for view in small.data.views:
        assert table.loc[(view, MEAN), "explained"] == 0.0
        for method in (
            best,
            CHOSEN,
            f"{GLOBAL}, q = 2",
            f"{HOLDERS}, q = 2",
            CHOSEN_HOLDERS,
            "ridge, each center alone",
            "ridge, pooled rows",
            "MOFA, pooled rows",
        ):
            assert table.loc[(view, method), "explained"] > 0.8
        # 9 parts of 40 subjects whose cells share loadings: within 6 points of 90 %
        assert table.loc[(view, best), "coverage"] == pytest.approx(0.90, abs=0.06)
    paths = write(lines, tmp_path, Given(small, "small", 2, "SD"))
    assert [path.suffix for path in paths] == [".md", ".csv", ".png", ".svg"]
    with pytest.raises(UserError, match="repeats=0"):
        How(0, tmp_path)
