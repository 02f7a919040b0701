"""FederatedPPCA as a user of scikit-learn meets it: parameters, tables in and out, and clear refusals."""

import pickle
import warnings

import numpy as np
import pandas as pd
import pytest
from scipy import stats
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.utils.estimator_checks import check_no_attributes_set_in_init, check_parameters_default_constructible

from vedute import (
    ConvergenceWarning,
    DataWarning,
    FederatedPPCA,
    GlobalPrior,
    MultiView,
    SubjectPrivacy,
    UserError,
    ViewPrior,
)
from vedute.datasets import make_hierarchical, make_sd
from vedute.model.prediction import center_emission, global_emission
from vedute.scenarios import split

SIZES = {"A": 5, "B": 4}


def rows(n=30, seed=0, sizes=SIZES, q=2):
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(n, q))
    world = np.random.default_rng(99)
    return {
        name: x @ world.normal(size=(d, q)).T * 3 + world.normal(size=d) * 5 + rng.normal(size=(n, d))
        for name, d in sizes.items()
    }


def centers():
    return {"nice": rows(40, 1), "paris": rows(30, 2), "zurich": {"A": rows(25, 3)["A"]}}


@pytest.fixture(scope="module")
def fitted():
    return FederatedPPCA(2, random_state=0).fit(centers())


# --- scikit-learn's manners -------------------------------------------------------------------------------------------


def test_parameters_are_plain_and_clone_keeps_them():
    est = FederatedPPCA(3, rounds=7, preset="paper", scaling=None, random_state=4)
    assert clone(est).get_params() == est.get_params()
    assert est.set_params(rounds=9).rounds == 9
    assert repr(FederatedPPCA(3, rounds=7)) == "FederatedPPCA(n_components=3, rounds=7)"
    with pytest.raises(ValueError, match="Invalid parameter"):
        est.set_params(round=3)


def test_scikit_learns_own_checks_of_the_constructor_pass():
    check_parameters_default_constructible("FederatedPPCA", FederatedPPCA())
    check_no_attributes_set_in_init("FederatedPPCA", FederatedPPCA())
    assert FederatedPPCA.__doc__ is not None


@pytest.mark.parametrize(
    "ask",
    [
        lambda est: est.transform(rows()),
        lambda est: est.reconstruct(rows()),
        lambda est: est.impute(rows()),
        lambda est: est.harmonise(rows(), "nice"),
        lambda est: est.score(rows()),
        lambda est: est.sample(3),
        lambda est: est.variance_explained(rows()),
        lambda est: est.center_deviation(),
        lambda est: est.adapt(rows()),
        lambda est: est.waic(centers()),
    ],
)
def test_nothing_answers_before_fit(ask):
    with pytest.raises(NotFittedError):
        ask(FederatedPPCA(2))


def test_a_fitted_estimator_survives_pickling(fitted):
    again = pickle.loads(pickle.dumps(fitted))
    assert np.array_equal(again.transform(rows()), fitted.transform(rows()))


def test_the_same_seed_gives_the_same_bits_and_another_one_the_same_model(fitted):
    again = FederatedPPCA(2, random_state=0).fit(centers())
    other = FederatedPPCA(2, random_state=1).fit(centers())
    for name, view in fitted.prior_.views.items():
        assert np.array_equal(again.prior_.views[name].W, view.W)
        assert np.allclose(other.prior_.views[name].W, view.W, atol=2e-3)  # components are brought into order
        assert np.allclose(other.prior_.views[name].mu, view.mu, atol=2e-3)


def test_fitted_attributes_tell_what_happened(fitted):
    assert set(fitted.centers_) == {"nice", "paris", "zurich"}
    assert fitted.n_rounds_ == len(fitted.history_)
    assert fitted.converged_
    assert fitted.history_[-1]["change"] < fitted.tol
    assert {"round", "change", "seconds", "bytes_up", "bytes_down", "centers"} <= set(fitted.history_[0])
    assert fitted.prior_.views["B"].n_centers == 2
    assert fitted.centers_["zurich"].views.keys() == {"A"}


# --- tables in, tables out --------------------------------------------------------------------------------------------


def test_arrays_give_arrays_and_frames_give_frames_with_their_labels():
    index = [f"s{i}" for i in range(30)]
    frames = {
        name: pd.DataFrame(x, index=index, columns=[f"{name}{j}" for j in range(x.shape[1])])
        for name, x in rows().items()
    }
    est = FederatedPPCA(2, random_state=0).fit({"one": frames, "two": frames})
    found = est.transform(frames)
    assert list(found.index) == index
    assert list(found.columns) == ["component1", "component2"]
    assert list(est.impute({"A": frames["A"]})["B"].columns) == list(frames["B"].columns)
    assert isinstance(est.transform(rows()), np.ndarray)
    table = MultiView.from_mapping(rows(), ids=index)
    assert list(est.transform(table).index) == index
    with pytest.raises(UserError, match="order"):
        est.transform({"A": frames["A"].iloc[:, ::-1]})


def test_units_do_not_matter(fitted):
    """Other units of a feature change the answers by that unit only: everything goes in and out in original units."""
    factor, offset = 1000.0, 5e6
    moved = {c: {k: x * factor + offset for k, x in v.items()} for c, v in centers().items()}
    est = FederatedPPCA(2, random_state=0).fit(moved)
    there = {k: x * factor + offset for k, x in rows().items()}
    assert np.allclose(est.transform(there), fitted.transform(rows()), atol=1e-6)
    back = est.reconstruct(there)
    for name, x in fitted.reconstruct(rows()).items():
        assert np.allclose((back[name] - offset) / factor, x, atol=1e-5)
    shift = sum(SIZES.values()) * np.log(factor)
    assert np.allclose(est.score_samples(there), fitted.score_samples(rows()) - shift, atol=1e-5)


def test_imputation_keeps_what_was_observed_and_fills_the_rest(fitted):
    given = {"A": rows()["A"].copy()}
    given["A"][::3, 1] = np.nan
    filled, sd = fitted.impute(given, return_std=True)
    seen = ~np.isnan(given["A"])
    assert np.array_equal(filled["A"][seen], given["A"][seen])
    assert np.isfinite(filled["A"]).all()
    assert np.isfinite(filled["B"]).all()
    assert (sd["A"][seen] == 0).all()
    assert (sd["A"][~seen] > 0).all()
    assert (sd["B"] > 0).all()


def test_a_subject_with_nothing_observed_is_at_the_prior(fitted):
    nothing = {"A": np.full((1, 5), np.nan)}
    x, cov = fitted.transform(nothing, return_cov=True)
    assert np.allclose(x, 0.0)
    assert np.allclose(cov[0], np.eye(2) * (1 + fitted.prior_.tau2))
    at_nice, cov = fitted.transform(nothing, center="nice", return_cov=True)
    assert np.allclose(at_nice[0], fitted.centers_["nice"].m)
    assert np.allclose(cov[0], np.eye(2))
    with_him = centers()
    with_him["nice"] = {k: np.vstack([x, np.full(x.shape[1], np.nan)]) for k, x in with_him["nice"].items()}
    again = FederatedPPCA(2, random_state=0).fit(with_him)
    assert np.array_equal(again.prior_.views["A"].W, fitted.prior_.views["A"].W)


@pytest.mark.parametrize("center", [None, "nice"])
def test_densities_posteriors_and_imputation_are_those_of_the_dense_gaussian(fitted, center):
    """Against scipy and the textbook conditional of a dense multivariate normal, in scaled units."""
    model = fitted.model_
    layout = model.layout
    make = global_emission(model.prior, layout) if center is None else center_emission(
        model.prior, model.centers[center], layout
    )  # fmt: skip
    C = make.latent * make.W @ make.W.T + np.diag(make.noise)
    mean = make.mu + make.W @ make.m
    holes = {k: x.copy() for k, x in rows(6).items()}
    holes["A"][0, 2] = holes["B"][1, 0] = holes["B"][1, 3] = np.nan
    holes["B"][2] = np.nan
    scaled = model.rows(holes, center)
    _, scale = model.scaler(holes, center).vectors(layout)
    density = fitted.score_samples(holes, center=center)
    filled, sd = fitted.impute(holes, center=center, return_std=True)
    values = np.concatenate([model.scaler(holes, center).transform(filled)[k] for k in layout.names], axis=1)
    x, cov = fitted.transform(holes, center=center, return_cov=True)
    for i, row in enumerate(scaled):
        o, u = np.flatnonzero(~np.isnan(row)), np.flatnonzero(np.isnan(row))
        dense = stats.multivariate_normal(mean[o], C[np.ix_(o, o)]).logpdf(row[o]) - np.log(scale[o]).sum()
        assert density[i] == pytest.approx(dense, rel=1e-9)
        gain = C[np.ix_(u, o)] @ np.linalg.inv(C[np.ix_(o, o)])
        assert np.allclose(values[i, u], mean[u] + gain @ (row[o] - mean[o]), atol=1e-9)
        variance = np.diag(C)[u] - (gain * C[np.ix_(u, o)]).sum(axis=1)
        length = (x[i] ** 2).sum() + np.trace(cov[i])  # the loadings of an unknown center count with this subject's x
        spread = np.sqrt(variance + make.sigma2_W[u] * (length - make.typical)) * scale[u]
        assert np.allclose(np.concatenate([sd[k] for k in layout.names], axis=1)[i, u], spread, rtol=1e-9)


def test_samples_have_the_moments_of_the_model(fitted):
    """100 000 draws: means within 5 standard errors, variances within 5 % (false alarm far below 1e-4)."""
    drawn = fitted.sample(100_000, random_state=0)
    model = global_emission(fitted.prior_, fitted.model_.layout)
    shift, scale = fitted.scaler_.vectors(fitted.model_.layout)
    table = (np.concatenate([drawn[k] for k in ("A", "B")], axis=1) - shift) / scale
    variance = model.latent * (model.W**2).sum(axis=1) + model.noise
    assert np.allclose(table.mean(axis=0), model.mu, atol=5 * np.sqrt(variance.max() / 1e5))
    kept = model.noise < 5 * variance  # an inverse gamma with few centers has heavy tails: compare the middle instead
    middle = np.quantile(np.abs(table - model.mu), 0.5, axis=0) / np.sqrt(variance) / stats.norm.ppf(0.75)
    assert kept.all()
    assert (np.abs(middle - 1) < 0.1).all()
    of_nice = fitted.sample(50_000, random_state=0, center="nice")
    nice = center_emission(fitted.prior_, fitted.centers_["nice"], fitted.model_.layout)
    there = (np.concatenate([of_nice[k] for k in ("A", "B")], axis=1) - shift) / scale
    assert np.allclose(np.cov(there.T), nice.W @ nice.W.T + np.diag(nice.noise), atol=0.03)


def test_variance_explained_adds_up_to_what_reconstruction_explains(fitted):
    given = rows()
    table = fitted.variance_explained(given)
    fit = fitted.reconstruct(given)
    for name, x in given.items():
        scale = fitted.scaler_.scale[name]
        mu = fitted.prior_.views[name].mu * scale + fitted.scaler_.shift[name]
        left = (((x - fit[name]) / scale) ** 2).sum() / (((x - mu) / scale) ** 2).sum()
        assert table.loc[name, "all"] == pytest.approx(1 - left)
    assert list(table.columns) == ["component1", "component2", "all"]


def test_a_center_adapts_to_where_it_was():
    """Under the final prior, at home and from the prior alone, a center finds the parameters that it had in the fit."""
    data, _ = make_hierarchical(8, 150, sizes=(6, 5), n_components=2, random_state=3)
    everyone = FederatedPPCA(2, random_state=0, scaling=None).fit(data)
    adapted, own = everyone.adapt(data["center4"]), everyone.centers_["center4"]
    for view, there in own.views.items():
        here = adapted.views[view]
        assert np.allclose(here.mu + here.W @ adapted.m, there.mu + there.W @ own.m, atol=0.02)
        assert np.allclose(here.W @ here.W.T, there.W @ there.W.T, atol=0.1)
        assert here.sigma2 == pytest.approx(there.sigma2, rel=0.02)
    assert everyone.transform(data["center4"], center=adapted).shape == (150, 2)


def test_a_center_that_deviates_is_named():
    data, _ = make_hierarchical(6, 100, sizes=(6, 5), n_components=2, sd_mu=0.1, random_state=0)
    data["center3"]["view1"] = data["center3"]["view1"] + np.random.default_rng(0).normal(size=6) * 3
    table = FederatedPPCA(2, random_state=0).fit(data).center_deviation()
    assert table["mean"].idxmax() == ("center3", "view1")


@pytest.mark.parametrize("scaling", ["shared-standard", "shared-minmax", "center-minmax", "declared", None])
def test_every_scaling_goes_there_and_back(scaling):
    ranges = {"A": [(-60.0, 60.0)] * 5, "B": {f"B_{j}": (-60.0, 60.0) for j in range(4)}}
    est = FederatedPPCA(2, scaling=scaling, random_state=0).fit(centers(), ranges=ranges)
    given = centers()["nice"]
    fit = est.reconstruct(given, center="nice")
    for name, x in given.items():
        assert np.abs(fit[name] - x).mean() < 0.6 * np.abs(x - x.mean(axis=0)).mean()


def test_one_row_cannot_be_scaled_by_itself():
    est = FederatedPPCA(2, scaling="center-minmax", random_state=0).fit(centers())
    with pytest.raises(UserError, match="more than one row"):
        est.transform({"A": rows(1)["A"]})
    assert est.transform({"A": rows(1)["A"]}, center="nice").shape == (1, 2)


def test_priors_given_at_the_start_are_used_in_round_one():
    """The paper's second initialisation: a sharp prior for one view, given by the master, holds after one round."""
    W = np.random.default_rng(5).normal(size=(5, 2))
    sharp = GlobalPrior({"A": ViewPrior(np.full(5, 0.5), W, 1e-8, 1e-8, 100.0, 10.0, 3)})
    est = FederatedPPCA(2, rounds=1, tol=None, preset="paper", scaling="shared-standard", random_state=0)
    est.fit(centers(), prior=sharp)
    assert np.allclose(est.prior_.views["A"].W, W, atol=1e-3)
    assert np.allclose(est.prior_.views["A"].mu, 0.5, atol=1e-3)


def test_a_center_may_have_its_own_number_of_iterations():
    few = FederatedPPCA(2, rounds=1, tol=None, iterations={"nice": 1}, random_state=0).fit(centers())
    usual = FederatedPPCA(2, rounds=1, tol=None, random_state=0).fit(centers())
    assert not np.allclose(few.centers_["nice"].views["A"].W, usual.centers_["nice"].views["A"].W)


def test_each_correction_is_a_switch_of_its_own():
    found = {
        name: FederatedPPCA(2, rounds=5, tol=None, random_state=0, **{name: False}).fit(centers()).prior_.views["A"]
        for name in ("posterior_variances", "case_mix", "spread")
    }
    default = FederatedPPCA(2, rounds=5, tol=None, random_state=0).fit(centers()).prior_.views["A"]
    assert all(not np.allclose(view.W, default.W, atol=1e-6) for view in found.values())
    assert FederatedPPCA(2, random_state=0, case_mix=False).fit(centers()).prior_.tau2 == 0.0


# --- refusals ---------------------------------------------------------------------------------------------------------


def changed(**center):
    return {**centers(), **center}


def cell(value):
    data = rows(40, 1)
    table = data["A"].astype(object)
    table[3, 2] = value
    return {**data, "A": table}


BAD_CENTERS = [
    (dict, "no center"),
    (lambda: [1, 2], "mapping from center name"),
    (lambda: changed(nice={}), "'nice'.*no view"),
    (lambda: changed(nice={"A": np.empty((0, 5))}), "'nice'.*no rows"),
    (lambda: changed(nice={"A": rows(1)["A"]}), "'nice'.*one subject"),
    (lambda: changed(nice={"A": np.full((9, 5), np.nan)}), "'nice'.*nothing was observed"),
    (lambda: changed(nice=cell(np.inf)), "'nice'.*'A'.*row 3, column 2.*infinite"),
    (lambda: changed(nice=cell("tall")), "'nice'.*'A'.*row 3, column 2.*'tall'"),
    (lambda: changed(nice={"A": rows(9)["A"], "B": rows(8)["B"]}), "'nice'.*A 9, B 8"),
    (lambda: changed(nice={"A": rows(9)["A"][:, :4]}), "'A' has .* columns"),
    (lambda: changed(nice={"A": np.zeros(9)}), "'nice'.*two dimensions"),
    (lambda: {5: rows()}, "5 cannot name a center"),
    (lambda: changed(nice={7: rows()["A"]}), "7 cannot name a view"),
    (lambda: changed(nice={"A": pd.DataFrame(rows()["A"], columns=list("vwxyy"))}), "'y' occurs twice"),
]


@pytest.mark.parametrize(("data", "message"), BAD_CENTERS)
def test_bad_data_are_refused_with_the_place_and_the_remedy(data, message):
    with pytest.raises(UserError, match=message):
        FederatedPPCA(2).fit(data())


def everywhere(change):
    return {c: {k: change(k, x.copy()) for k, x in v.items()} for c, v in centers().items()}


def with_column(value):
    def change(name, x):
        if name == "A":
            x[:, 1] = value
        return x

    return change


@pytest.mark.parametrize(("value", "message"), [(7.0, "A.A_1 is constant"), (np.nan, "A.A_1 is missing for all")])
def test_a_column_that_tells_nothing_anywhere_is_refused(value, message):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DataWarning)
        with pytest.raises(UserError, match=message):
            FederatedPPCA(2).fit(everywhere(with_column(value)))


@pytest.mark.parametrize(("value", "message"), [(7.0, "'nice'.*A_1 is constant"), (np.nan, "'nice'.*A_1 is missing")])
def test_a_column_that_tells_nothing_in_one_center_is_only_a_warning(value, message):
    data = centers()
    data["nice"] = {k: with_column(value)(k, x.copy()) for k, x in data["nice"].items()}
    with pytest.warns(DataWarning, match=message):
        est = FederatedPPCA(2, random_state=0).fit(data)
    assert all(np.isfinite(view.W).all() for view in est.prior_.views.values())
    assert np.isfinite(est.impute(data["nice"], center="nice")["A"]).all()


def test_centers_without_a_common_view_are_a_warning():
    data = {"nice": {"A": rows()["A"]}, "paris": {"B": rows()["B"]}}
    with pytest.warns(DataWarning, match=r"'paris' has no view in common.*not tied"):
        est = FederatedPPCA(2, random_state=0).fit(data)
    assert np.isfinite(est.transform(rows())).all()


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"n_components": 2.5}, "n_components=2.5 must be a whole number"),
        ({"n_components": True}, "whole number"),
        ({"n_components": "3"}, "whole number"),
        ({"n_components": 0}, "at least 1"),
        ({"n_components": 9}, "smaller than the number of features, 9"),
        ({"rounds": 0}, "rounds=0"),
        ({"iterations": -1}, "iterations=-1"),
        ({"iterations": {"nice": 0}}, "iterations=0"),
        ({"preset": "papre"}, "'papre'.*default, paper"),
        ({"scaling": "minmax"}, "'minmax'.*shared-standard"),
        ({"tol": 0}, "tol=0"),
        ({"scaling": "declared"}, "'A' has none"),
        ({"random_state": "x"}, "random_state"),
    ],
)
def test_bad_parameters_are_refused_when_fitting(parameters, message):
    with pytest.raises(UserError, match=message):
        FederatedPPCA(**{"n_components": 2, **parameters}).fit(centers())


@pytest.mark.parametrize(
    ("ask", "message"),
    [
        (lambda est: est.transform({"C": rows()["A"]}), "'C' is not in the model; known are 'A', 'B'"),
        (lambda est: est.transform({"A": rows()["A"][:, :3]}), "3 columns, but was fitted with 5"),
        (lambda est: est.transform(rows(), center="rome"), "'rome' is not in the model; known are 'nice'"),
        (lambda est: est.harmonise(rows(), "rome"), "'rome'"),
        (lambda est: est.sample(0), "n=0"),
        (lambda est: est.transform({}), "no view"),
    ],
)
def test_bad_questions_to_a_fitted_model_are_refused(fitted, ask, message):
    with pytest.raises(UserError, match=message):
        ask(fitted)


def test_rounds_that_run_out_say_so():
    with pytest.warns(ConvergenceWarning, match="the rounds ran out: after 2 .* raise rounds"):
        est = FederatedPPCA(2, rounds=2, random_state=0).fit(centers())
    assert not est.converged_


def test_scenario_data_go_straight_in():
    views, groups = make_sd(random_state=0)
    parts, _ = split(views, groups, 3, "K", random_state=0)
    est = FederatedPPCA(5, random_state=0).fit(parts)
    assert est.transform(views).shape == (400, 5)


@pytest.mark.parametrize("privacy", ["subject", {"policy": "subject"}, SubjectPrivacy])
def test_what_is_no_policy_is_refused_with_the_remedy(privacy):
    with pytest.raises(UserError, match=r"is no policy; write privacy=SubjectPrivacy\(epsilon"):
        FederatedPPCA(1, privacy=privacy).fit({"a": {"x": np.zeros((3, 2))}})
