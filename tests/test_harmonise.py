"""Harmonising: what tells the centers apart goes, what tells the patients apart stays."""

import numpy as np
import pytest
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis, QuadraticDiscriminantAnalysis
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression

from vedute import FederatedPPCA
from vedute.datasets import make_hierarchical
from vedute.model.parameters import Layout
from vedute.model.prediction import Emission, harmonised

CENTERS, NEW = 4, 2000
NOISY = {"weights": 0.7, "noise": 1.0, "noise_shape": 4.0, "sd_W": 0.3, "sizes": (6, 4, 5)}


def emission(rng, d=9, q=3, m=1.0):
    layout = Layout(("v",), (d,))
    return Emission(
        layout, rng.normal(size=d), rng.normal(size=(d, q)), rng.uniform(0.2, 2, d), m * rng.normal(size=q), 1.0
    )


def covariance(model):
    return model.W @ model.W.T + np.diag(model.noise)


@pytest.mark.parametrize("hidden", [(), (1, 4), (0, 1, 2, 3, 4, 5, 6)])
def test_the_rows_get_exactly_the_distribution_of_the_target(hidden):
    """The map is affine: it takes the mean to the target's mean, and its matrix carries one covariance to the other.

    With two features left there are fewer of them than components.
    """
    rng = np.random.default_rng(0)
    own, target = emission(rng), emission(rng)
    seen = np.setdiff1d(np.arange(9), hidden)
    mean = own.mu + own.W @ own.m
    rows = np.vstack([mean, mean + np.eye(9)])
    rows[:, list(hidden)] = np.nan
    out = harmonised(own, target, rows)
    assert np.isnan(out[:, list(hidden)]).all()
    assert np.allclose(out[0, seen], (target.mu + target.W @ own.m)[seen], atol=1e-12)
    T = (out[1:] - out[0])[np.ix_(seen, seen)].T
    assert np.allclose(
        T @ covariance(own)[np.ix_(seen, seen)] @ T.T, covariance(target)[np.ix_(seen, seen)], atol=1e-12
    )


def test_equal_instruments_leave_the_rows_as_they_are():
    rng = np.random.default_rng(1)
    own = emission(rng)
    rows = rng.normal(size=(5, 9))
    turned = Emission(own.layout, own.mu, own.W @ np.diag([1.0, -1.0, 1.0]), own.noise, own.m, 1.0)
    assert np.allclose(harmonised(own, own, rows), rows, atol=1e-12)
    other = harmonised(turned, turned, rows)
    assert np.allclose(other, rows, atol=1e-12)


def test_what_no_component_explains_is_kept_where_both_have_the_same_span():
    rng = np.random.default_rng(2)
    own = emission(rng, m=0.0)
    target = Emission(own.layout, own.mu + 1.0, own.W * 1.5, own.noise, own.m, 1.0)
    across = rng.normal(size=9)
    W = own.W / own.noise[:, None]
    across -= own.W @ np.linalg.solve(W.T @ own.W, W.T @ across)
    out = harmonised(own, target, np.vstack([own.mu, own.mu + across]))
    assert np.allclose(out[1] - out[0], across, atol=1e-12)


def _harmonised(fitted, centers):
    return np.concatenate([np.hstack(list(fitted.harmonise(views, c).values())) for c, views in centers.items()])


def _study(n, **options):
    """Rows to fit and new rows of the same centers, before and after."""
    centers, _ = make_hierarchical(CENTERS, n + NEW, **options)
    old = {c: {k: T[:n] for k, T in views.items()} for c, views in centers.items()}
    new = {c: {k: T[n:] for k, T in views.items()} for c, views in centers.items()}
    fitted = FederatedPPCA(3, scaling="shared-view", random_state=0).fit(old)
    raw = [np.concatenate([np.hstack(list(views.values())) for views in part.values()]) for part in (old, new)]
    return raw, [_harmonised(fitted, old), _harmonised(fitted, new)]


def _accuracy(classifier, train, test):
    """Of telling the centers apart; both parts are sorted by center, equally many rows each."""
    labels = [np.repeat(np.arange(CENTERS), len(rows) // CENTERS) for rows in (train, test)]
    scale = train.std(axis=0)
    return classifier.fit(train / scale, labels[0]).score(test / scale, labels[1])


@pytest.mark.parametrize("options", [{}, NOISY])
def test_no_classifier_of_harmonised_rows_knows_the_center_of_a_new_patient(options):
    """Chance is 0.25. 8000 new rows: one point is two standard errors, 0.28 is beyond six (false alarms < 1e-9)."""
    (raw, raw_new), (rows, new) = _study(300, random_state=0, **options)
    classifiers = [
        LogisticRegression(max_iter=300),
        QuadraticDiscriminantAnalysis(),
        RandomForestClassifier(30, min_samples_leaf=5, random_state=0),
    ]
    before = [_accuracy(classifier, raw, raw_new) for classifier in classifiers]
    after = [_accuracy(classifier, rows, new) for classifier in classifiers]
    assert min(before) > 0.45
    assert max(after) < 0.28


def test_even_new_rows_tell_nothing_once_the_centers_are_well_known():
    """A classifier that learns from harmonised *new* rows sees the errors of the fitted parameters, about d/n a center:
    0.32 to 0.38 with 300 subjects, within three points of chance with 5000."""
    _, (_, new) = _study(5000, random_state=0)
    half = np.tile(np.arange(NEW) < NEW // 2, CENTERS)
    for classifier in (LogisticRegression(max_iter=300), QuadraticDiscriminantAnalysis()):
        assert _accuracy(classifier, new[half], new[~half]) < 0.28


def test_case_mix_stays_by_what_the_patients_explain():
    """Two centers recruit differently: harmonised rows tell them apart as well as the patients' true x, no better."""
    n = 1000
    centers, truth = make_hierarchical(CENTERS, n, tau=1.0, random_state=1)
    fitted = FederatedPPCA(3, scaling="shared-view", random_state=0).fit(centers)
    rows = _harmonised(fitted, centers)
    x = np.concatenate([truth.latent[c] for c in centers])
    half = np.tile(np.arange(n) < n // 2, CENTERS)
    by_rows = _accuracy(LinearDiscriminantAnalysis(), rows[half], rows[~half])
    by_patients = _accuracy(LinearDiscriminantAnalysis(), x[half], x[~half])
    assert by_patients > 0.45
    assert abs(by_rows - by_patients) < 0.05


def _group_accuracy(seed, n=400):
    """Half of each center's patients are ill, which moves their x: how well LDA finds them, before and after."""
    centers, truth = make_hierarchical(CENTERS, n, sd_mu=1.0, sd_W=0.2, random_state=seed)
    ill = np.arange(n) % 4 < 2
    for c, views in centers.items():
        for name, rows in views.items():
            rows[ill] += truth.centers[c].views[name].W @ [1.2, -1.0, 0.8]
    fitted = FederatedPPCA(3, scaling="shared-view", random_state=0).fit(centers)
    before = np.concatenate([np.hstack(list(views.values())) for views in centers.values()])
    group, half = np.tile(ill, CENTERS), np.tile(np.arange(n) % 2 == 0, CENTERS)
    return [
        LinearDiscriminantAnalysis().fit(rows[half], group[half]).score(rows[~half], group[~half])
        for rows in (before, _harmonised(fitted, centers))
    ]


def test_the_difference_of_groups_is_kept():
    """The accuracy of one study moves by a point either way (400 x 4 rows); over studies it is the same."""
    before, after = np.mean([_group_accuracy(seed) for seed in range(4)], axis=0)
    assert after > before - 0.005
    assert after > 0.75
