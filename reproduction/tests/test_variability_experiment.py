"""Variability: the truth of a taken view is found again, distances are Kolmogorov's, lines are those of the file."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from scipy.stats import kstest, norm

from vedute.datasets import make_sd
from vedute.errors import UserError
from vedute_reproduction.folds import Dataset
from vedute_reproduction.keeping import How
from vedute_reproduction.studies import FixedStudy, Given, SyntheticStudy
from vedute_reproduction.variability import Imputed, Imputing, fit, markdown, run, write

RESULTS = Path(__file__).parents[2] / "docs" / "reproduction"


@pytest.fixture(scope="module")
def small() -> FixedStudy:
    views, groups = make_sd(120, 60, sizes=(6, 5, 4), n_components=2, random_state=0)
    return FixedStudy(Dataset(views, groups))


def test_imputed_views_are_compared_with_the_rows_that_lost_them(small: FixedStudy) -> None:
    scene = fit(small.data, 2, "default", 0, 0)
    assert [part.view for part in scene.imputed] == ["view2", "view3"]
    assert not any("\0" in view for views in scene.centers.values() for view in views)
    for part in scene.imputed:
        gap = np.abs(part.truth - part.mean).mean() / np.abs(part.truth - part.holders).mean()
        assert gap < 0.3  # other rows would give about 1 or more
        line = next(part.features(part.truth))
        assert line["mae"] < line["mae_mean"]


def test_features_have_the_names_of_their_columns_where_these_are_known(small: FixedStudy) -> None:
    assert small.data.features("view3") == ["feature 1", "feature 2", "feature 3", "feature 4"]
    columns = {view: [f"{view}.{j}" for j in "abcdef"[: rows.shape[1]]] for view, rows in small.data.views.items()}
    scene = fit(replace(small.data, columns=columns), 2, "default", 0, 0)
    assert [line["feature"] for line in scene.lines()] == [*columns["view2"], *columns["view3"]] * 2
    assert scene.first_two["view1"] == ["view1.a", "view1.b"]


def test_parts_by_views_alone_hold_both_groups_and_are_of_the_same_fit(small: FixedStudy) -> None:
    scene = fit(small.data, 2, "default", 0, 0)
    mean = {name: rows.mean(axis=0) for name, rows in small.data.views.items()}
    far = {
        by: np.mean([np.abs(part.truth.mean(axis=0) - mean[part.view]).mean() for part in parts])
        for by, parts in scene.parted.items()
    }
    assert far["groups and views"] > 1.5 * far["views"]
    for part in scene.parted["views"]:
        assert np.abs(part.truth - part.mean).mean() < 0.3 * np.abs(part.truth - part.holders).mean()
    np.testing.assert_array_equal(scene.parted["views"][0].holders, scene.imputed[0].holders)


def test_the_distance_by_chance_is_that_of_draws_of_what_is_predicted() -> None:
    """The mean of 400 distances has a standard error of about 0.002: five of these are asked for."""
    rng = np.random.default_rng(0)
    draws = rng.standard_normal((30, 400))
    flat = Imputed("v", draws, np.zeros((30, 400)), np.ones((30, 400)), np.zeros(400), [str(j) for j in range(400)])
    lines = pd.DataFrame(flat.features(rng.standard_normal((20000, 400))))
    assert lines["distance_global"].mean() == pytest.approx(lines["distance_chance"].iloc[0], abs=0.01)


def test_distance_and_coverage_are_what_they_are_called() -> None:
    rng = np.random.default_rng(0)
    truth = rng.standard_normal((40, 1))
    same = Imputed("v", truth, np.full((40, 1), 0.3), np.full((40, 1), 1.2), np.zeros(1), ["score"])
    (line,) = same.features(rng.standard_normal((4000, 1)))
    assert line["distance"] == pytest.approx(kstest(truth[:, 0], norm(0.3, 1.2).cdf).statistic, abs=1e-12)
    assert line["feature"] == "score"
    assert line["coverage"] == np.mean(np.abs(truth - 0.3) <= norm.ppf(0.95) * 1.2)
    assert line["mae_mean"] == pytest.approx(np.abs(truth).mean() / truth.std())


def test_tables_and_figures_are_written(small: FixedStudy, tmp_path: Path) -> None:
    given = Given(small, "small", 2, "SD")
    lines = run(given, How(1, tmp_path))
    assert len(lines) == 3 * 2 * 2 * 2  # folds, presets, ways to part the test rows, views
    paths = write(lines, fit(small.data, 2, "default", 0, 0), tmp_path, given)
    assert {path.name for path in paths} >= {"variability.png", "variability-view2.svg", "variability-features.csv"}
    assert len(pd.read_csv(tmp_path / "variability-features.csv")) == 2 * (5 + 4)
    assert markdown(lines).count("\n") == 1 + 8
    with pytest.raises(UserError, match="repeats=0"):
        How(0, tmp_path)


def test_a_fold_run_again_gives_the_lines_of_the_file() -> None:
    again = pd.DataFrame(Imputing("variability", 5, 2, 1).compute(SyntheticStudy().draw(2)))
    kept = pd.read_csv(RESULTS / "variability.csv")
    kept = kept[(kept["repeat"] == 2) & (kept["fold"] == 1)].reset_index(drop=True)
    pd.testing.assert_frame_equal(again[list(kept.columns)], kept, rtol=0.03, atol=0.03)


def test_intervals_of_the_default_preset_hold_on_synthetic_data_and_the_papers_do_not() -> None:
    """90 % over about 800 subjects and both views: three standard errors of the mean over folds are below 2 points."""
    coverage = pd.read_csv(RESULTS / "variability.csv").groupby(["preset", "parted_by"])["coverage"].mean()
    assert coverage["default"].to_list() == pytest.approx([0.90, 0.90], abs=0.02)
    assert coverage["paper"].max() < 0.7
