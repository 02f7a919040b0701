"""What is measured, and that every method is measured on the same rows."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from vedute.datasets import make_sd
from vedute.errors import UserError
from vedute.estimator import FederatedPPCA
from vedute.model.parameters import Array, Layout
from vedute.model.prediction import Emission
from vedute_reproduction.arms import (
    Arm,
    Score,
    _seen,
    latent_accuracy,
    mean_absolute_error,
    mean_error,
    scaled,
    scores_of_folds,
)
from vedute_reproduction.baselines.linear import PCA, PPCA
from vedute_reproduction.folds import Dataset, Fold, Parting, deal, three_folds
from vedute_reproduction.methods import FedMvPPCA, OwnParameters, Projection


@pytest.fixture(scope="module")
def data() -> Dataset:
    views, groups = make_sd(120, 70, sizes=(6, 5, 4), n_components=2, random_state=1)
    return Dataset(views, groups, np.array(["x", "y"])[np.arange(120) % 2])


def scores(arms: list[Arm], fold: Fold, seed: int) -> list[Score]:
    return scores_of_folds(arms, [({None: fold}, seed)])[0]


def test_what_a_method_cannot_tell_is_no_missing_cell(data: Dataset) -> None:
    class Silent(Projection):
        def reconstruct(self, views):
            return {name: np.where(np.arange(rows.shape[1]) == 1, np.nan, rows) for name, rows in views.items()}

    silent = Silent(PCA(2).fit({"all": data.views}, 0).emission)
    assert np.isnan(mean_absolute_error(silent, data.views))
    holed = {name: np.where(np.arange(rows.shape[1]) == 1, np.nan, rows) for name, rows in data.views.items()}
    assert mean_absolute_error(silent, holed) == 0.0


def test_error_is_the_mean_over_observed_entries_of_known_views() -> None:
    nothing = Projection(
        Emission(Layout(("a",), (2,)), np.array([1.0, 2.0]), np.zeros((2, 1)), np.ones(2), np.zeros(1), 1.0)
    )
    rows = {"a": np.array([[1.5, np.nan], [1.0, 5.0]]), "unknown": np.full((2, 1), 99.0)}
    assert mean_absolute_error(nothing, rows) == pytest.approx((0.5 + 0.0 + 3.0) / 3)
    other = {"a": np.array([[2.0, 3.0]])}
    assert mean_error(nothing, {"x": rows, "y": other}) == pytest.approx(((3.5 / 3) + 1.0) / 2)  # centers count alike


def test_accuracy_is_learnt_on_train_and_scored_on_test() -> None:
    x = np.array([[0.0], [0.1], [1.0], [1.1]])
    assert latent_accuracy(x, np.array([0, 0, 1, 1]), np.array([[0.2], [0.9], [0.0]]), np.array([0, 0, 0])) == 2 / 3
    assert np.isnan(latent_accuracy(x, np.zeros(4), x, np.zeros(4)))


@pytest.mark.parametrize("broken", [np.zeros((4, 2)), np.full((4, 2), np.nan), np.full((4, 2), np.inf)])
def test_what_diverged_or_collapsed_tells_no_accuracy(broken: Array) -> None:
    groups, whole = np.array([0, 0, 1, 1]), np.array([[0.0, 1.0], [0.1, 0.0], [1.0, 0.0], [1.1, 1.0]])
    assert latent_accuracy(whole, groups, whole, groups) == 1.0
    assert np.isnan(latent_accuracy(broken, groups, whole, groups))
    if broken.any():  # rows may lie anywhere, but somewhere
        assert np.isnan(latent_accuracy(whole, groups, broken, groups))


def test_folds_hold_each_row_once_and_the_share_of_groups(data: Dataset) -> None:
    folds = three_folds(data, 4)
    assert sorted(np.concatenate([test for _, test in folds])) == list(range(120))
    for train, test in folds:
        assert not set(train) & set(test)
        assert abs(data.groups[test].mean() - data.groups.mean()) < 0.03


def test_in_k_test_rows_have_parts_that_lack_views_and_groups_as_the_centers_do(data: Dataset) -> None:
    train, test = three_folds(data, 0)[0]
    fold = deal(data, train, test, "G/K", 6, 0)
    lacking = [{"view1", "view2", "view3"}, {"view1", "view3"}, {"view1", "view2"}]
    assert [set(views) for views in fold.test.values()] == lacking
    assert [set(views) for views in fold.centers.values()] == [held for held in lacking for _ in range(2)]
    assert all(len(views) == 3 for views in fold.whole.values())
    assert [set(groups) for groups in fold.test_groups.values()] == [{0, 1}, {0}, {1}]
    assert [set(groups) for groups in fold.groups.values()][2::2] == [{0}, {1}]
    rows = np.concatenate([views["view1"] for views in fold.test.values()])
    assert sorted(rows[:, 0]) == sorted(data.views["view1"][test, 0])  # each row once


def test_in_g_the_test_rows_are_one_part(data: Dataset) -> None:
    train, test = three_folds(data, 0)[0]
    fold = deal(data, train, test, "G", 3, 0)
    assert list(fold.test) == ["test"]
    np.testing.assert_array_equal(fold.test["test"]["view2"], data.views["view2"][test])
    np.testing.assert_array_equal(fold.test_groups["test"], data.groups[test])


def test_sites_are_centers_and_rows_keep_their_groups(data: Dataset) -> None:
    train, test = three_folds(data, 0)[1]
    fold = deal(data, train, test, "sites", 0, 0)
    for name, views in fold.centers.items():
        own = train[data.sites[train] == name]
        np.testing.assert_array_equal(views["view3"], data.views["view3"][own])
        np.testing.assert_array_equal(fold.groups[name], data.groups[own])
    assert list(fold.centers) == ["x", "y"]
    with pytest.raises(UserError, match="no column of sites"):
        deal(Dataset(data.views, data.groups), train, test, "sites", 0, 0)


def test_known_sites_deal_the_test_rows_too_and_small_sites_may_have_none(data: Dataset) -> None:
    train, test = three_folds(data, 0)[1]
    sites = np.where(np.arange(120) == train[0], "lone", np.where(np.arange(120) == test[0], "new", data.sites))
    fold = deal(Dataset(data.views, data.groups, sites), train, test, "known sites", 0, 0)
    assert list(fold.centers) == ["lone", "x", "y"]
    assert list(fold.test) == ["new", "x", "y"]
    for name, views in fold.test.items():
        own = test[sites[test] == name]
        np.testing.assert_array_equal(views["view2"], data.views["view2"][own])
        np.testing.assert_array_equal(fold.test_groups[name], data.groups[own])


def test_rows_of_known_sites_are_placed_by_their_own_parameters(data: Dataset) -> None:
    """Sites whose instruments differ: their own parameters tell, the global ones cannot; a new site has only these."""
    moved = {name: rows + 8.0 * (data.sites == "y")[:, None] for name, rows in data.views.items()}
    train, test = three_folds(data, 0)[0]
    sites = np.where(np.arange(120) == test[0], "new", data.sites)
    fold = deal(Dataset(moved, data.groups, sites), train, test, "known sites", 0, 0)
    arms = [Arm("", OwnParameters(FedMvPPCA(2))), Arm("", FedMvPPCA(2))]
    own, typical = scores(arms, fold, 3)
    assert own.test_mae < 0.9 * typical.test_mae
    assert own.train_mae < 0.9 * typical.train_mae
    centers, rows = scaled(fold.centers, fold.test, "shared")
    model = FedMvPPCA(2).model(centers, 3)
    each = {name: Projection(model.emission(None if name == "new" else name)) for name in rows}
    assert own.test_mae == pytest.approx(np.mean([mean_absolute_error(each[name], rows[name]) for name in rows]))
    latent = [np.concatenate([each[n].latent(part[n]) for n in part]) for part in (centers, rows)]
    groups = [np.concatenate(list(part.values())) for part in (fold.groups, fold.test_groups)]
    assert own.accuracy == latent_accuracy(latent[0], groups[0], latent[1], groups[1])


def test_scaling_is_by_each_table_itself_or_by_the_train_rows() -> None:
    centers = {"a": {"v": np.array([[0.0], [4.0]])}, "b": {"v": np.array([[2.0], [10.0], [np.nan]])}}
    test = {"one": {"v": np.array([[5.0], [20.0]])}, "two": {"v": np.array([[0.0], [5.0]])}}
    own, own_test = scaled(centers, test, "per center")
    assert own["a"]["v"].ravel().tolist() == [0.0, 1.0]
    np.testing.assert_array_equal(own["b"]["v"].ravel(), [0.0, 1.0, np.nan])
    assert own_test["one"]["v"].ravel().tolist() == own_test["two"]["v"].ravel().tolist() == [0.0, 1.0]
    again, as_one = scaled(centers, test, "per center, test as one")
    assert again["a"]["v"].ravel().tolist() == [0.0, 1.0]
    assert [as_one[part]["v"].ravel().tolist() for part in ("one", "two")] == [[0.25, 1.0], [0.0, 0.25]]
    shared, shared_test = scaled(centers, test, "shared")
    assert shared["a"]["v"].ravel().tolist() == [0.0, 0.4]
    assert shared_test["one"]["v"].ravel().tolist() == [0.5, 2.0]


def test_the_paper_arm_is_the_estimator_with_center_minmax(data: Dataset) -> None:
    train, test = three_folds(data, 0)[0]
    fold = deal(data, train, test, "K", 3, 0)
    found = scores([Arm("", FedMvPPCA(2, "paper", rounds=5), "per center")], fold, 7)[0]
    estimator = FederatedPPCA(2, preset="paper", scaling="center-minmax", rounds=5, tol=None, random_state=7)
    estimator.fit(fold.centers)
    errors = []
    for part in fold.test.values():
        seen, unit = estimator.reconstruct(part), estimator.model_.scaler(part, None).scale
        errors.append(np.concatenate([(np.abs(rows - seen[v]) / unit[v]).ravel() for v, rows in part.items()]).mean())
    assert found.test_mae == pytest.approx(np.mean(errors), rel=1e-9)


def test_a_method_alone_scores_the_mean_over_centers(data: Dataset) -> None:
    train, test = three_folds(data, 0)[0]
    fold = deal(data, train, test, "G", 3, 0)
    found = scores([Arm("", PPCA(2), "shared", "alone")], fold, 0)[0]
    centers, rows = scaled(fold.centers, fold.test, "shared")
    each = [mean_absolute_error(PPCA(2).fit({name: views}, 0), rows["test"]) for name, views in centers.items()]
    assert found.test_mae == pytest.approx(np.mean(each))
    assert np.isfinite(found.accuracy)  # the one center with both groups


def test_the_yardstick_sees_what_scenarios_take_away(data: Dataset) -> None:
    train, test = three_folds(data, 0)[0]
    whole = scores([Arm("", PCA(2), "shared", "whole")], deal(data, train, test, "K", 3, 5), 0)[0]
    dealt = scores([Arm("", PCA(2), "shared")], deal(data, train, test, "K", 3, 5), 0)[0]
    assert whole.test_mae < dealt.test_mae  # which had a third of the rows to learn from


def test_all_arms_with_one_scaling_are_measured_in_the_same_units(data: Dataset) -> None:
    """Those of what the centers hold, also for methods that see the views that were taken away."""
    train, test = three_folds(data, 0)[0]
    fold = deal(data, train, test, "K", 3, 5)
    far = {name: {view: rows.copy() for view, rows in views.items()} for name, views in fold.whole.items()}
    lacking = next(name for name, views in fold.centers.items() if "view2" not in views)
    far[lacking]["view2"][0] = 1e3  # that no center holds
    arm = Arm("", PCA(2), "shared", "whole")
    np.testing.assert_equal(_seen(arm, replace(fold, whole=far))[1], _seen(arm, fold)[1])
    np.testing.assert_equal(_seen(arm, fold)[1], _seen(replace(arm, sees="centers"), fold)[1])
    with pytest.raises(ValueError, match="scaled by what the centers hold"):
        replace(arm, scaling="per center")


def test_arms_that_share_a_fit_score_as_if_they_did_not(data: Dataset) -> None:
    train, test = three_folds(data, 0)[0]
    fold = deal(data, train, test, "G/K", 3, 0)
    arms = [
        Arm("", FedMvPPCA(2, "paper", rounds=4), "per center"),
        Arm("", FedMvPPCA(2, "paper", rounds=4), "per center, test as one"),
        Arm("", FedMvPPCA(2, "paper", rounds=4), "shared"),
        Arm("", PPCA(2), "shared", "alone"),
        Arm("", PPCA(1), "shared", "alone"),
    ]
    together = scores(arms, fold, 3)
    assert together == [scores([arm], fold, 3)[0] for arm in arms]
    assert together[0].train_mae == together[1].train_mae
    assert len({one.test_mae for one in together}) == 5


def test_arms_are_judged_on_test_rows_that_are_parted_as_they_ask(
    data: Dataset, monkeypatch: pytest.MonkeyPatch
) -> None:
    train, test = three_folds(data, 0)[0]
    method = FedMvPPCA(2, "paper", rounds=4)
    ways: tuple[Parting, ...] = ("one part", "G", "K", "G/K")
    dealt = {parting: deal(data, train, test, "G", 3, 0, parting) for parting in ways}
    alone = [scores([Arm("", method, "per center")], fold, 3)[0] for fold in dealt.values()]
    fitted = []
    once = FedMvPPCA.fit
    monkeypatch.setattr(FedMvPPCA, "fit", lambda self, *given: fitted.append(self) or once(self, *given))
    arms = [Arm(parting, method, "per center", parting=parting) for parting in ways]
    assert scores_of_folds(arms, [(dealt, 3)])[0] == alone
    assert len(fitted) == 1
    assert len({one.test_mae for one in alone}) == 4
