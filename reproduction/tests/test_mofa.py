"""MOFA: where the rows that have a view are of another group, its means are the most likely ones."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from scipy.stats import multivariate_normal

from vedute.datasets import make_sd
from vedute.model.parameters import Array
from vedute.scenarios import split
from vedute_reproduction.arms import mean_absolute_error
from vedute_reproduction.baselines import mofa
from vedute_reproduction.baselines.linear import PCA
from vedute_reproduction.baselines.mofa import MOFA, _most_likely
from vedute_reproduction.methods import common_layout, side_by_side


@pytest.fixture(scope="module")
def study() -> tuple[dict[str, Array], Array]:
    views, groups = make_sd(150, 90, sizes=(6, 5, 4), n_components=2, random_state=4)
    return {name: (rows - rows.min(0)) / np.ptp(rows, axis=0) for name, rows in views.items()}, groups


def test_means_are_those_of_most_likelihood(study) -> None:
    """A quadratic is as low a step to the one side of its top as to the other; scipy tells how likely cells are."""
    centers, _ = split(*study, 3, "G/K", 0)
    emission = MOFA(2).fit(centers, 0).emission
    tables = [side_by_side(views, common_layout(centers)) for views in centers.values()]
    covariance = emission.W @ emission.W.T + np.diag(emission.noise)
    top = _most_likely(emission, np.concatenate(tables))

    def likelihood(mu: Array) -> float:
        seen = [np.flatnonzero(~np.isnan(rows[0])) for rows in tables]
        return sum(
            float(multivariate_normal(mu[own], covariance[np.ix_(own, own)]).logpdf(rows[:, own]).sum())
            for own, rows in zip(seen, tables, strict=True)
        )

    for step in 0.01 * np.eye(len(top)):
        down = [likelihood(top) - likelihood(top + side * step) for side in (-1.0, 1.0)]
        assert min(down) > 0.01
        assert down[0] == pytest.approx(down[1], rel=1e-6)


def test_means_of_whole_rows_are_those_of_their_columns(study, monkeypatch: pytest.MonkeyPatch) -> None:
    fits = []
    trained = mofa.trained
    monkeypatch.setattr(mofa, "trained", lambda *asked: fits.append(1) or trained(*asked))
    views, _ = study
    fitted = MOFA(2).fit({"all": views}, 0)
    np.testing.assert_allclose(fitted.emission.mu, side_by_side(views, common_layout({"all": views})).mean(0))
    assert len(fits) == 1


def test_rows_are_placed_as_the_package_places_its_own(study, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also rows without a view, where the weights' variances tell: without these the factors are off by more."""
    centers, _ = split(*study, 3, "K", 0)
    rng = np.random.default_rng(1)
    few = {  # much noise and few rows: weights of which little is known
        name: {view: rows[:8] + 0.3 * rng.standard_normal(rows[:8].shape) for view, rows in views.items()}
        for name, views in centers.items()
    }
    runs = []
    trained = mofa.trained
    monkeypatch.setattr(mofa, "trained", lambda *asked: runs.append(trained(*asked)) or runs[-1])
    fitted = MOFA(2).fit(few, 0)
    own = runs[-1]["Z"].getExpectation()
    found = np.concatenate([fitted.latent(views) for views in few.values()])
    assert np.abs(found - own).max() < 0.002
    sure = replace(fitted, variance=np.zeros_like(fitted.variance))
    off = np.concatenate([sure.latent(views) for views in few.values()])
    assert np.abs(off - own).max() > 0.05


def test_groups_dealt_apart_from_views_do_not_mislead(study, monkeypatch: pytest.MonkeyPatch) -> None:
    views, groups = study
    centers, _ = split(views, groups, 3, "G/K", 0)
    pca = mean_absolute_error(PCA(2).fit({"all": views}, 0), views)
    assert mean_absolute_error(MOFA(2).fit(centers, 0), views) < 1.1 * pca
    monkeypatch.setattr(mofa, "REFITS", 0)
    assert mean_absolute_error(MOFA(2).fit(centers, 0), views) > 1.3 * pca
