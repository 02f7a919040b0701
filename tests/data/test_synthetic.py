"""The synthetic studies: shapes, reproducible draws, and moments that follow from the parameters."""

import numpy as np
import pytest

from vedute.datasets import load_breast_cancer_views, make_hierarchical, make_sd
from vedute.errors import UserError


def test_sd_has_the_shapes_and_groups_of_the_paper():
    views, groups = make_sd(random_state=0)
    assert {name: table.shape for name, table in views.items()} == {
        "view1": (400, 15),
        "view2": (400, 8),
        "view3": (400, 10),
    }
    assert np.bincount(groups).tolist() == [150, 250]
    assert 0 < groups[:150].sum() < 150  # in random order, or a plain K-fold would see one group


def test_sd_parameters_lie_in_their_ranges_and_fill_them():
    _, _, truth = make_sd(sizes=(40, 50), weights=(1, 7), means=3, noise=(0.5, 2), random_state=1, return_truth=True)
    first, second = truth.params.views.values()
    assert 0.9 < np.abs(first.W).max() <= 1
    assert 6.3 < np.abs(second.W).max() <= 7
    assert 2.5 < np.abs(second.mu).max() <= 3
    assert (first.sigma2, second.sigma2) == (0.5, 2)


def test_sd_rows_are_what_the_truth_says():
    views, groups, truth = make_sd(20_000, 8_000, random_state=2, return_truth=True)
    for name, view in truth.params.views.items():
        residual = views[name] - truth.latent @ view.W.T - view.mu
        # the relative standard error is below 0.4 %, so 2 % is five of them: false alarm about 1e-6
        assert np.mean(residual**2) == pytest.approx(view.sigma2, rel=0.02)
    means = np.array([truth.latent[groups == g].mean(axis=0) for g in (0, 1)])
    # standard error at most 0.011 each; five of them over ten numbers: false alarm about 1e-5
    assert np.abs(means[0]).max() < 0.06
    assert np.abs(means[1] - truth.shift).max() < 0.06
    assert np.abs(truth.shift).max() <= 5


@pytest.mark.parametrize("make", [make_sd, make_hierarchical])
def test_same_seed_same_data(make):
    def first(state):
        data = make(random_state=state)[0]
        table = data.get("view1")
        return data["center01"]["view1"] if table is None else table

    assert np.array_equal(first(7), first(7))
    assert np.array_equal(first(7), first(np.random.default_rng(7)))
    assert np.array_equal(first(np.random.RandomState(7)), first(np.random.RandomState(7)))
    assert not np.array_equal(first(7), first(8))
    assert not np.array_equal(first(None), first(None))


def test_hierarchical_centers_spread_as_the_prior_says():
    _, truth = make_hierarchical(400, 1, sd_mu=(0.3, 0.6, 0.0), sd_W=0.1, noise=0.25, tau=1.5, random_state=3)
    for view, sd_mu in zip(("view1", "view2", "view3"), (0.3, 0.6, 0.0), strict=True):
        prior = truth.prior.views[view]
        mus = np.array([center.views[view].mu - prior.mu for center in truth.centers.values()])
        Ws = np.array([center.views[view].W - prior.W for center in truth.centers.values()])
        precision = np.mean([1 / center.views[view].sigma2 for center in truth.centers.values()])
        # 3600 draws or more: relative standard error 1.2 %, of the precision 0.7 %; false alarm below 1e-6
        assert np.sqrt(np.mean(mus**2)) == pytest.approx(sd_mu, rel=0.06)
        assert np.sqrt(np.mean(Ws**2)) == pytest.approx(0.1, rel=0.06)
        assert 1 / precision == pytest.approx(0.25, rel=0.04)
        assert prior.n_centers == 400
        assert prior.sigma2 == pytest.approx(0.25)
    case_mix = np.array([center.m for center in truth.centers.values()])
    assert np.sqrt(np.mean(case_mix**2)) == pytest.approx(1.5, rel=0.1)  # standard error 2 %
    assert truth.prior.tau2 == pytest.approx(2.25)


def test_hierarchical_rows_follow_their_own_center():
    centers, truth = make_hierarchical(2, [30_000, 10], tau=2, random_state=4)
    assert [len(center["view2"]) for center in centers.values()] == [30_000, 10]
    rows, params = centers["center1"]["view1"], truth.centers["center1"]
    view = params.views["view1"]
    expected = view.mu + view.W @ params.m
    # variances of the mean are at most (12 + .25) / 30000: sd 0.02; five of them, 14 times: below 1e-5
    assert np.abs(rows.mean(axis=0) - expected).max() < 0.1
    cov = view.W @ view.W.T + view.sigma2 * np.eye(14)
    assert np.linalg.norm(np.cov(rows.T) - cov) < 0.1 * np.linalg.norm(cov)


@pytest.mark.parametrize(
    ("arguments", "word"),
    [
        ({"n_subjects": 10, "n_shifted": 11}, "n_shifted"),
        ({"sizes": ()}, "sizes"),
        ({"n_components": 0}, "n_components"),
        ({"noise": (1, 2)}, "noise"),
        ({"weights": -1.0}, "weights"),
        ({"random_state": "seven"}, "random_state"),
        ({"random_state": -1}, "random_state"),
    ],
)
def test_sd_refuses_what_makes_no_study(arguments, word):
    with pytest.raises(UserError, match=word):
        make_sd(**arguments)


@pytest.mark.parametrize(
    ("arguments", "word"),
    [
        ({"n_centers": 0}, "n_centers"),
        ({"n_centers": 3, "n_subjects": [5, 5]}, "n_subjects"),
        ({"n_subjects": 0}, "n_subjects"),
        ({"noise_shape": 0}, "noise_shape"),
        ({"tau": -1}, "tau"),
        ({"sd_W": np.inf}, "sd_W"),
    ],
)
def test_hierarchical_refuses_what_makes_no_study(arguments, word):
    with pytest.raises(UserError, match=word):
        make_hierarchical(**arguments)


def test_breast_cancer_comes_in_three_views_of_ten():
    views, groups = load_breast_cancer_views()
    assert {name: table.shape for name, table in views.items()} == dict.fromkeys(("mean", "error", "worst"), (569, 10))
    firsts = [table.columns[0] for table in views.values()]
    assert firsts == ["mean radius", "radius error", "worst radius"]
    assert (groups == "malignant").sum() == 212
    larger = views["mean"]["mean radius"][groups == "malignant"].mean()
    assert larger > views["mean"]["mean radius"][groups == "benign"].mean()
