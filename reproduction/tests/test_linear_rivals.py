"""Rivals against the library they come from and against each other."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from sklearn.decomposition import PCA as SkPCA
from sklearn.decomposition import FactorAnalysis as SkFactors

from vedute.datasets import make_sd
from vedute.errors import UserError
from vedute_reproduction import methods
from vedute_reproduction.baselines.linear import PCA, PPCA, FactorAnalysis, PCAOfSums, summed
from vedute_reproduction.methods import CompleteRows, FedMvPPCA, OneNoise, Projected, common_layout, side_by_side


@pytest.fixture(scope="module")
def centers() -> dict[str, dict[str, np.ndarray]]:
    views, _ = make_sd(90, 40, sizes=(5, 4, 6), n_components=3, random_state=3)
    return {name: {v: rows[part::3] for v, rows in views.items()} for part, name in enumerate("abc")}


def _rows(centers: dict[str, dict[str, np.ndarray]]) -> np.ndarray:
    layout = common_layout(centers)
    return np.concatenate([side_by_side(views, layout) for views in centers.values()])


def test_pca_projects_as_scikit_learn_does(centers) -> None:
    rows = _rows(centers)
    expected = SkPCA(3).fit(rows)
    fitted = PCA(3).fit(centers, 0)
    seen = fitted.reconstruct(centers["a"])
    whole = expected.inverse_transform(expected.transform(side_by_side(centers["a"], common_layout(centers))))
    np.testing.assert_allclose(np.concatenate([seen[v] for v in ("view1", "view2", "view3")], 1), whole, atol=1e-5)


def test_sums_of_centers_give_the_axes_of_the_pooled_rows(centers) -> None:
    pooled, sums = PCA(3).fit(centers, 0), PCAOfSums(3).fit(centers, 0)
    np.testing.assert_allclose(sums.emission.mu, pooled.emission.mu, atol=1e-9)
    W, V = pooled.emission.W, sums.emission.W
    np.testing.assert_allclose(W @ W.T, V @ V.T, atol=1e-9)


def test_sums_use_every_pair_that_some_center_holds(centers) -> None:
    """Centers that lack a view still teach about the pairs they hold; pandas computes the same from the rows."""
    tables = [side_by_side(views, common_layout(centers)).copy() for views in centers.values()]
    tables[1][:, 5:9] = np.nan
    tables[2][:, 9:] = np.nan
    tables[0][3, 2] = np.nan
    mean, covariance = summed(tables)
    rows = pd.DataFrame(np.concatenate(tables))
    np.testing.assert_allclose(mean, rows.mean(), atol=1e-9)
    both = rows.notna().astype(float).T @ rows.notna().astype(float)
    np.testing.assert_allclose(covariance, rows.cov() * (both - 1) / both, atol=1e-9)  # pandas divides by n - 1
    tables[0][:, 0] = np.nan
    tables[1][:, 0] = np.nan
    assert summed(tables)[1][0, 9:].tolist() == [0.0] * 6  # nobody holds both


def test_factor_analysis_places_rows_as_scikit_learn_does(centers) -> None:
    expected = SkFactors(3, random_state=5).fit(_rows(centers))
    fitted = FactorAnalysis(3).fit(centers, 5)
    rows = side_by_side(centers["b"], common_layout(centers))
    np.testing.assert_allclose(fitted.latent(centers["b"]), expected.transform(rows), atol=1e-8)


def test_ppca_is_the_maximum_likelihood_of_scikit_learn(centers) -> None:
    rows = _rows(centers)
    found = SkPCA(3).fit(rows)
    e = PPCA(3).fit(centers, 0).emission
    covariance = (e.W @ e.W.T + np.diag(e.noise)) * len(rows) / (len(rows) - 1)
    np.testing.assert_allclose(covariance, found.get_covariance(), atol=1e-8)


def test_latent_of_a_row_with_missing_cells_is_least_squares(centers) -> None:
    fitted = PCA(3).fit(centers, 0)
    row = {v: rows[:1].copy() for v, rows in centers["a"].items()}
    row["view2"][:] = np.nan
    t = np.delete(side_by_side(row, common_layout(centers))[0], slice(5, 9))
    W, mu = np.delete(fitted.emission.W, slice(5, 9), 0), np.delete(fitted.emission.mu, slice(5, 9))
    expected = np.linalg.lstsq(W, t - mu, rcond=None)[0]
    np.testing.assert_allclose(fitted.latent(row)[0], expected, atol=1e-5)
    del row["view2"]
    np.testing.assert_allclose(fitted.latent(row)[0], expected, atol=1e-5)


def test_too_few_complete_rows_are_refused(centers) -> None:
    lacking = {"a": {"view1": centers["a"]["view1"]}, "b": {"view2": centers["b"]["view2"]}}
    with pytest.raises(UserError, match="0 complete rows"):
        PCA(2).fit(lacking, 0)


def test_projected_is_least_squares_on_our_loadings(centers) -> None:
    ours, projected = FedMvPPCA(2, rounds=3).fit(centers, 1), Projected(FedMvPPCA(2, rounds=3)).fit(centers, 1)
    W, mu = ours.emission.W, ours.emission.mu
    rows = side_by_side(centers["c"], common_layout(centers))
    expected = np.linalg.lstsq(W, (rows - mu).T, rcond=None)[0].T
    np.testing.assert_allclose(projected.latent(centers["c"]), expected, rtol=1e-5, atol=1e-8)
    gap = [
        np.square(rows - side_by_side(f.reconstruct(centers["c"]), common_layout(centers))) for f in (ours, projected)
    ]
    assert gap[1].sum() < gap[0].sum()


def test_with_all_undone_pca_remains(centers, monkeypatch: pytest.MonkeyPatch) -> None:
    """One noise for all, complete rows alone, rows projected: then ours is PCA; with any of them left it is not."""
    lacking = {name: {v: rows.copy() for v, rows in views.items()} for name, views in centers.items()}
    lacking["a"]["view1"][:9, 2] = np.nan
    pooled = {"all": {v: np.concatenate([views[v] for views in lacking.values()]) for v in lacking["a"]}}
    monkeypatch.setattr(methods, "end_of", lambda preset: (500, 1e-9))  # the fit itself, not where it was left
    ours = FedMvPPCA(2)
    expected = PCA(2).fit(pooled, 0).reconstruct(centers["b"])["view2"]

    def gap(method) -> float:
        return float(np.abs(method.fit(pooled, 0).reconstruct(centers["b"])["view2"] - expected).max())

    assert gap(Projected(CompleteRows(OneNoise(ours)))) < 1e-4
    for left in (Projected(CompleteRows(ours)), Projected(OneNoise(ours)), CompleteRows(OneNoise(ours))):
        assert gap(left) > 1e-2
