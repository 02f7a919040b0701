"""What is measured, and that every method is measured on the same rows."""

from __future__ import annotations

import numpy as np
import pytest

from vedute.core.layout import Layout
from vedute.core.predict import Emission
from vedute.data.synthetic import make_sd
from vedute.errors import UserError
from vedute.estimator import FederatedPPCA
from vedute.evaluation.arms import Arm, scaled, score
from vedute.evaluation.baselines import PCA, PPCA
from vedute.evaluation.folds import Dataset, deal, three_folds
from vedute.evaluation.methods import FedMvPPCA, Projection
from vedute.evaluation.metrics import latent_accuracy, mean_absolute_error, train_error


@pytest.fixture(scope="module")
def data() -> Dataset:
    views, groups = make_sd(120, 70, sizes=(6, 5, 4), n_components=2, random_state=1)
    return Dataset(views, groups, np.array(["x", "y"])[np.arange(120) % 2])


def test_error_is_the_mean_over_observed_entries_of_known_views() -> None:
    nothing = Projection(
        Emission(Layout(("a",), (2,)), np.array([1.0, 2.0]), np.zeros((2, 1)), np.ones(2), np.zeros(1), 1.0)
    )
    rows = {"a": np.array([[1.5, np.nan], [1.0, 5.0]]), "unknown": np.full((2, 1), 99.0)}
    assert mean_absolute_error(nothing, rows) == pytest.approx((0.5 + 0.0 + 3.0) / 3)
    other = {"a": np.array([[2.0, 3.0]])}
    assert train_error(nothing, [rows, other]) == pytest.approx(((3.5 / 3) + 1.0) / 2)  # centers count alike


def test_accuracy_is_learnt_on_train_and_scored_on_test() -> None:
    x = np.array([[0.0], [0.1], [1.0], [1.1]])
    assert latent_accuracy(x, np.array([0, 0, 1, 1]), np.array([[0.2], [0.9], [0.0]]), np.array([0, 0, 0])) == 2 / 3
    assert np.isnan(latent_accuracy(x, np.zeros(4), x, np.zeros(4)))


def test_folds_hold_each_row_once_and_the_share_of_groups(data: Dataset) -> None:
    folds = three_folds(data, 4)
    assert sorted(np.concatenate([test for _, test in folds])) == list(range(120))
    for train, test in folds:
        assert not set(train) & set(test)
        assert abs(data.groups[test].mean() - data.groups.mean()) < 0.03


def test_in_k_a_third_of_test_rows_lacks_each_of_two_views(data: Dataset) -> None:
    train, test = three_folds(data, 0)[0]
    fold = deal(data, train, test, "G/K", 3, 0)
    lost = {view: np.isnan(rows).all(axis=1) for view, rows in fold.test.items()}
    assert not lost["view1"].any()
    assert lost["view2"].sum() == lost["view3"].sum() == 13  # of 40 rows
    assert not (lost["view2"] & lost["view3"]).any()
    assert [set(views) for views in fold.centers.values()] == [
        {"view1", "view2", "view3"}, {"view1", "view3"}, {"view1", "view2"}
    ]  # fmt: skip
    assert all(len(views) == 3 for views in fold.whole.values())
    assert set(fold.groups["center2"]) == {0}
    assert set(fold.groups["center3"]) == {1}
    assert not np.isnan(data.views["view2"]).any()  # the study itself is untouched


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


def test_scaling_is_by_each_table_itself_or_by_the_train_rows() -> None:
    centers = {"a": {"v": np.array([[0.0], [4.0]])}, "b": {"v": np.array([[2.0], [10.0], [np.nan]])}}
    test = {"v": np.array([[5.0], [20.0]])}
    own, own_test = scaled(centers, test, "per center")
    assert own["a"]["v"].ravel().tolist() == [0.0, 1.0]
    np.testing.assert_array_equal(own["b"]["v"].ravel(), [0.0, 1.0, np.nan])
    assert own_test["v"].ravel().tolist() == [0.0, 1.0]
    shared, shared_test = scaled(centers, test, "shared")
    assert shared["a"]["v"].ravel().tolist() == [0.0, 0.4]
    assert shared_test["v"].ravel().tolist() == [0.5, 2.0]


def test_the_paper_arm_is_the_estimator_with_center_minmax(data: Dataset) -> None:
    train, test = three_folds(data, 0)[0]
    fold = deal(data, train, test, "K", 3, 0)
    found = score(Arm("", FedMvPPCA(2, "paper", rounds=5), "per center"), fold, 7)
    estimator = FederatedPPCA(2, preset="paper", scaling="center-minmax", rounds=5, tol=None, random_state=7)
    estimator.fit(fold.centers)
    seen, unit = estimator.reconstruct(fold.test), estimator.model_.scaler(fold.test, None).scale
    gap = np.concatenate([(np.abs(rows - seen[v]) / unit[v]).ravel() for v, rows in fold.test.items()])
    assert found.test_mae == pytest.approx(np.nanmean(gap), rel=1e-9)


def test_a_method_alone_scores_the_mean_over_centers(data: Dataset) -> None:
    train, test = three_folds(data, 0)[0]
    fold = deal(data, train, test, "G", 3, 0)
    found = score(Arm("", PPCA(2), "shared", "alone"), fold, 0)
    centers, rows = scaled(fold.centers, fold.test, "shared")
    each = [mean_absolute_error(PPCA(2).fit({name: views}, 0), rows) for name, views in centers.items()]
    assert found.test_mae == pytest.approx(np.mean(each))
    assert np.isfinite(found.accuracy)  # the one center with both groups


def test_the_yardstick_sees_what_scenarios_take_away(data: Dataset) -> None:
    train, test = three_folds(data, 0)[0]
    whole = score(Arm("", PCA(2), "shared", "whole"), deal(data, train, test, "K", 3, 5), 0)
    dealt = score(Arm("", PCA(2), "shared"), deal(data, train, test, "K", 3, 5), 0)
    assert whole.test_mae < dealt.test_mae  # which had a third of the rows to learn from
