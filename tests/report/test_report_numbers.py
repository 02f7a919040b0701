"""What the page says against the model: sentences, tables and every figure."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from vedute.errors import UserError
from vedute.model.parameters import ViewParams, ViewPrior
from vedute.report import centers, components, convergence, explained
from vedute.report.content import num, percent
from vedute.report.page import render
from vedute.report.plotly_renderer import plotted
from vedute.report.reading import Folder, LatentMeans, Seen, read_folder
from vedute.run.fitted_model import center_deviation
from vedute.run.latent import Tally
from vedute.run.model_choice import Choice
from vedute.run.run_folder import load_run


def test_who_differs_most(toy_run: Path) -> None:
    rows = center_deviation(load_run(toy_run).model)
    told = centers.variability(read_folder(toy_run)).sentences
    top = max((row for row in rows if math.isfinite(row.mean)), key=lambda row: row.mean)
    assert told[0] == f"{top.center} differs most, in {top.view}: {top.mean:.1f} sd."
    noisy = max((row for row in rows if math.isfinite(row.noise)), key=lambda row: abs(row.noise))
    assert f"{noisy.center} differs most, in {noisy.view}: {abs(noisy.noise):.1f} sd (" in told[2]


def test_a_moved_center_is_named(toy_run: Path) -> None:
    folder = read_folder(toy_run)
    model = folder.run.model
    view, prior = model.centers["paris"].views["view1"], model.prior.views["view1"]
    moved = replace(view, mu=prior.mu + 2.3 * math.sqrt(prior.sigma2_mu))
    paris = replace(model.centers["paris"], views={**model.centers["paris"].views, "view1": moved})
    run = replace(folder.run, model=replace(model, centers={**model.centers, "paris": paris}))
    assert centers.variability(replace(folder, run=run)).sentences[0] == "paris differs most, in view1: 2.3 sd."


def test_deviation_figure_and_interval(toy_run: Path, toy_page: Any) -> None:
    folder = read_folder(toy_run)
    rows = {(row.center, row.view): row for row in center_deviation(folder.run.model)}
    for option in toy_page.figures["deviation"]:
        trace = option["data"][0]
        assert trace["x"] == sorted(trace["x"], reverse=True)
        for name, x, up, down in zip(
            trace["text"], trace["x"], trace["error_x"]["array"], trace["error_x"]["arrayminus"], strict=True
        ):
            row = rows[name, option["label"]]
            low, high = centers.interval(folder, row)
            np.testing.assert_allclose([x, x + up, x - down], [row.mean, high, low], rtol=1e-3, atol=1e-4)


def test_interval_covers_the_scatter_of_samples() -> None:
    """By simulation: the sd of the deviation over 4,000 samples of 50 subjects is the stated one within 6 %.

    (The standard error of an sd over 4,000 draws is 1.1 %, so a right formula fails with probability below 1e-6.)
    """
    rng = np.random.default_rng(0)
    d, n = 12, 50
    prior = ViewPrior(np.zeros(d), rng.normal(size=(d, 2)), 0.5, 0.1, 4.0, 2.0, 3)
    params = ViewParams(rng.normal(0, 1.5, d), rng.normal(size=(d, 2)), 0.7)
    root = np.linalg.cholesky((params.W @ params.W.T + params.sigma2 * np.eye(d)) / n)
    means = params.mu + rng.standard_normal((4000, d)) @ root.T
    seen = np.sqrt(np.mean(means**2, axis=1) / prior.sigma2_mu)
    assert centers.sampling_sd(params, prior, n) == pytest.approx(seen.std(), rel=0.06)


def test_shares_are_the_variance_of_drawn_centers() -> None:
    """Against drawing: 40,000 centers of one subject each; the standard errors of the shares are below 1 %."""
    from vedute.model.parameters import GlobalPrior

    rng = np.random.default_rng(1)
    view = ViewPrior(np.zeros(3), rng.normal(size=(3, 2)), 0.4, 0.2, 5.0, 2.0, 4)
    prior = GlobalPrior({"v": view}, 0.5)
    n = 40000
    m = rng.normal(0, math.sqrt(prior.tau2), (n, 2))
    x = m + rng.standard_normal((n, 2))
    W = view.W + rng.normal(0, math.sqrt(view.sigma2_W), (n, 3, 2))
    noise = rng.normal(0, math.sqrt(view.sigma2), (n, 3))
    mu = rng.normal(0, math.sqrt(view.sigma2_mu), (n, 3))
    total = (np.einsum("ndq,nq->nd", W, x) + mu + noise).var()
    own = (np.einsum("ndq,nq->nd", W - view.W, x) + mu).var()
    found = centers.share(view, prior)
    assert found.measuring == pytest.approx(own / total, rel=0.04)
    assert found.case_mix == pytest.approx((m @ view.W.T).var() / total, rel=0.04)


def test_one_center_says_why(save: Callable[..., Path]) -> None:
    told = centers.variability(read_folder(save(["alone"])))
    assert told.figures == ()
    assert f"v0: {centers.ONE}" in told.missing
    assert any("fewer than two" in reason for reason in components.loadings(read_folder(save(["alone"]))).missing)


def test_latent_points_are_the_rows_at_home(toy_run: Path, toy_page: Any) -> None:
    folder = read_folder(toy_run)
    by_center, by_group = toy_page.figures["latent"]
    names = [trace["name"] for trace in by_center["data"][:3]]
    assert sorted(names) == ["lyon", "nice", "paris"]
    for name, columns in zip(names, by_center["columns"], strict=False):
        np.testing.assert_allclose(np.array(columns).T, folder.subjects[name].x, rtol=1e-4)
    assert {trace["name"] for trace in by_group["data"] if "case mix" not in trace["text"][0]} == {"case", "control"}
    assert sum(len(columns[0]) for columns in by_group["columns"][:2]) == sum(folder.counts.values())


def test_many_subjects_are_thinned_evenly(toy_run: Path) -> None:
    folder = read_folder(toy_run)
    x = np.arange(14000.0).reshape(7000, 2)
    many = replace(folder, subjects={"nice": LatentMeans(tuple(map(str, range(7000))), None, x)})
    told = components.latent(many)
    assert "(one in 3 of 7,000 subjects)" in told.sentences[0]
    columns = plotted(told.figures[0].options[0])["columns"][0]
    np.testing.assert_allclose(np.array(columns).T, x[::3], rtol=1e-4)


def test_ellipses_are_the_posterior_of_a_whole_subject(toy_run: Path, toy_page: Any) -> None:
    model = load_run(toy_run).model
    option = toy_page.figures["latent"][0]
    assert len(option["covs"]) == 3
    for index, cov in option["covs"].items():
        name = option["data"][int(index)]["name"]
        center = model.centers[name]
        precision = np.eye(2) + sum(v.W.T @ v.W / v.sigma2 for v in center.views.values())
        np.testing.assert_allclose(cov, np.linalg.inv(precision), rtol=1e-4)
        np.testing.assert_allclose(np.ravel(option["columns"][int(index)]), center.m, rtol=1e-4, atol=1e-12)
    assert components.uncertainty(model, "lyon")[0, 0] > 0


def test_loadings_are_the_largest_of_the_prior(toy_run: Path, toy_page: Any) -> None:
    prior = load_run(toy_run).model.prior
    for k, option in enumerate(toy_page.figures["loadings"]):
        for trace in option["data"]:
            W = prior.views[trace["name"]].W[:, k]
            largest = W[np.argsort(-np.abs(W))][: len(trace["x"])]
            np.testing.assert_allclose(trace["x"], largest, rtol=1e-4)
            view = prior.views[trace["name"]]
            se = 1.96 * math.sqrt(view.sigma2_W / view.n_centers)
            np.testing.assert_allclose(trace["error_x"]["array"], se, rtol=1e-4)


def test_variance_explained_is_that_of_the_parameters(toy_run: Path, toy_page: Any) -> None:
    model = load_run(toy_run).model
    overview, *by_view = toy_page.figures["explained"]
    for option, row in zip(by_view, overview["data"][0]["z"], strict=True):
        assert option["data"][0]["z"][0] == row  # the usual center of the view
    for option in by_view:
        z = np.array(option["data"][0]["z"])
        view = option["label"]
        own = [c.views[view] for c in model.centers.values() if view in c.views]
        for row, params in zip(z, [model.prior.views[view], *own], strict=True):
            cov = params.W @ params.W.T + params.sigma2 * np.eye(len(params.mu))
            each = [np.trace(np.outer(w, w)) / np.trace(cov) for w in params.W.T]
            np.testing.assert_allclose(row, 100 * np.array([*each, sum(each)]), atol=0.006)


def test_certainty_is_the_conditional_variance(toy_run: Path) -> None:
    """Against the joint Gaussian of all views, conditioned on the others."""
    model = load_run(toy_run).model
    center = model.centers["nice"]
    W = np.concatenate([v.W for v in center.views.values()])
    noise = np.concatenate([np.full(len(v.mu), v.sigma2) for v in center.views.values()])
    S = W @ W.T + np.diag(noise)
    held = model.layout.slices["view2"]
    a = np.zeros(len(S), dtype=bool)
    a[held] = True
    left = S[np.ix_(a, a)] - S[np.ix_(a, ~a)] @ np.linalg.solve(S[np.ix_(~a, ~a)], S[np.ix_(~a, a)])
    assert explained.certainty(model, "nice", "view2") == pytest.approx(1 - np.trace(left) / np.trace(S[np.ix_(a, a)]))


def test_a_missing_view_is_predicted_beside_what_others_saw(toy_run: Path, toy_page: Any) -> None:
    model = load_run(toy_run).model
    (option,) = toy_page.figures["imputation"]
    assert option["label"] == "view3 at lyon"
    observed, predicted = option["data"]
    emission = model.emission("lyon")
    columns = model.layout.slices["view3"]
    mean = emission.mu[columns] + emission.W[columns] @ model.centers["lyon"].m
    order = [model.columns["view3"].index(text.split(": ")[1]) for text in predicted["text"]]
    np.testing.assert_allclose(predicted["x"], mean[order], rtol=1e-4)
    assert len(observed["x"]) == 2 * len(order)
    (table,) = [t for t in explained.imputation(read_folder(toy_run)).tables if "lyon lacks" in t.caption]
    scaler = next(iter(model.scalers.values()))
    unit = mean[order] * scaler.scale["view3"][order] + scaler.shift["view3"][order]
    assert [row[1] for row in table.rows] == [num(value) for value in unit]


def test_holdings_and_counts(toy_run: Path, toy_page: Any) -> None:
    folder = read_folder(toy_run)
    assert sum(folder.counts.values()) == 89  # of 90 one has no view at all
    (option,) = toy_page.figures["holdings"]
    told = centers.fitted(folder)
    assert "lyon has no data for view3." in told.sentences
    assert told.missing == ()
    files = {view: pd.read_csv(toy_run.parent / "study" / f"{view}.csv", index_col="id") for view in ("view1", "view3")}
    site = pd.read_csv(toy_run.parent / "study" / "subjects.csv", index_col="id")["site"]
    for center, row in zip(centers.holdings(folder), option["data"][0]["z"], strict=True):
        for view, rows in files.items():
            own = rows[site[rows.index] == center]
            share = float(own.notna().to_numpy().sum()) / (folder.counts[center] * rows.shape[1])
            assert row[int(view[-1]) - 1] == pytest.approx(100 * share, abs=0.06)
            if len(own):
                has = own.notna().any(axis=1)
                assert folder.seen[center][view] == Seen(int(has.sum()), int(own[has].isna().to_numpy().sum()))


def test_a_row_without_any_cell_is_nobody_who_has_the_view() -> None:
    tally = Tally()
    tally.add({"a": np.array([[1.0, np.nan], [np.nan, np.nan]]), "b": np.full((2, 3), np.nan)})
    tally.add({"a": np.ones((3, 2))})
    assert tally.told() == {"a": {"subjects": 4, "empty": 1}}


def test_the_interval_counts_those_who_have_the_view(toy_run: Path) -> None:
    folder = read_folder(toy_run)
    row = next(r for r in center_deviation(folder.run.model) if (r.center, r.view) == ("nice", "view1"))
    fewer = replace(folder, seen={"nice": {"view1": Seen(5, 0)}})
    widths = [np.ptp(centers.interval(which, replace(row, mean=100.0))) for which in (folder, fewer)]
    assert widths[1] / widths[0] == pytest.approx(math.sqrt(folder.seen["nice"]["view1"].subjects / 5))


def test_what_stayed_at_home_is_still_seen_at_home(toy_run: Path) -> None:
    """Under a policy that keeps the parameters, the counts beside the rows tell who has what."""
    folder = read_folder(toy_run)
    hidden = replace(folder, run=replace(folder.run, model=replace(folder.run.model, centers={})))
    assert centers.holdings(hidden) == centers.holdings(folder)
    assert centers.fitted(hidden).missing == ()


def test_rounds_are_those_of_the_history(toy_run: Path, toy_page: Any) -> None:
    history = load_run(toy_run).history
    trace = toy_page.figures["change"][0]["data"][0]
    assert trace["x"] == [record.round for record in history]
    assert trace["y"][0] is None
    np.testing.assert_allclose(trace["y"][1:], [record.change for record in history[1:]], rtol=1e-4)
    for i, option in enumerate(toy_page.figures["spreads"]):
        for line in option["data"]:
            np.testing.assert_allclose(line["y"], [record.spreads[line["name"]][i] for record in history], rtol=1e-4)
    table = convergence.convergence(read_folder(toy_run)).tables[0]
    assert table.rows[0][1] == num(math.sqrt(load_run(toy_run).model.prior.views["view1"].sigma2_mu), 3)
    told = convergence.convergence(read_folder(toy_run)).sentences
    assert told[0].startswith("All 8 rounds were run, as asked")


def test_a_folder_that_kept_no_spreads_says_so(toy_run: Path) -> None:
    folder = read_folder(toy_run)
    history = tuple(replace(record, spreads={}) for record in folder.run.history)
    told = convergence.convergence(replace(folder, run=replace(folder.run, history=history)))
    assert [figure.key for figure in told.figures] == ["change"]
    assert "older vedute" in told.missing[0]


def test_an_unsettled_fit_is_told(toy_run: Path) -> None:
    folder = read_folder(toy_run)
    model = replace(folder.run.model, settings=replace(folder.run.model.settings, tol=1e-5))
    unsettled = replace(folder, run=replace(folder.run, model=model))
    assert "NOT settled" in convergence.convergence(unsettled).sentences[0]
    private = replace(unsettled, asked={"policy": "center"})
    assert "NOT settled" not in convergence.convergence(private).sentences[0]


def test_without_rows_the_page_says_why(save: Callable[..., Path]) -> None:
    folder = read_folder(save(["nice", "paris"]))
    assert components.ROWS in components.latent(folder).missing
    assert any("numbers of subjects" in reason for reason in centers.fitted(folder).missing)
    assert any("intervals" in reason for reason in centers.variability(folder).missing)


def test_a_server_that_knows_no_scaling_still_names_the_centers(toy_run: Path) -> None:
    """Across machines a center that scales by its own min and max keeps them at home."""
    folder = read_folder(toy_run)
    settings = replace(folder.run.model.settings, scaling="center-minmax")
    model = replace(folder.run.model, scalers={}, settings=settings)
    server = Folder("server", replace(folder.run, model=model))
    assert server.centers == ("lyon", "nice", "paris")
    assert centers.fitted(server).sentences[0].startswith("3 centers, 3 views")
    assert "3 centers" in render(server)


def test_without_parameters_of_centers_the_page_says_why(toy_run: Path) -> None:
    folder = read_folder(toy_run)
    model = replace(folder.run.model, centers={})
    withheld: Folder = replace(folder, run=replace(folder.run, model=model), subjects={}, seen={})
    chapters = (centers.fitted, centers.variability, components.latent, explained.explained, explained.imputation)
    for chapter in chapters:
        assert any("policy" in reason for reason in chapter(withheld).missing), chapter.__name__


def test_model_choice(toy_run: Path) -> None:
    folder = read_folder(toy_run)
    assert convergence.model_choice(folder).missing == (convergence.NO_CHOICE,)
    rows = tuple(Choice(q, "shared-standard", 100 - 5 * q, 1, 15 - 5 * q, 3, 4, 0.5, 30, True) for q in (1, 2, 3))
    told = convergence.model_choice(replace(folder, choices=rows, recommended=1))
    assert told.sentences[0] == "The smallest WAIC has 3 components (scaling shared-standard)."
    assert told.sentences[1].startswith("Recommended: 2 components")
    trace = plotted(told.figures[0].options[0])["data"][0]
    assert (trace["x"], trace["y"], trace["error_y"]["array"]) == ([1, 2, 3], [10, 5, 0], [6, 6, 6])
    assert len(told.sentences) == 2
    last = convergence.model_choice(replace(folder, choices=rows[:2], recommended=1)).sentences[-1]
    assert last == "That is the largest number tried; more may be better still."


def test_a_number_chosen_under_a_policy_is_told_by_its_misfit(toy_run: Path) -> None:
    (toy_run / "selection.csv").write_text("components,misfit\n1,70.25\n2,12.5\n")
    try:
        told = convergence.model_choice(read_folder(toy_run))
        (toy_run / "selection.csv").write_text("components,colour\n1,blue\n")
        with pytest.raises(UserError, match="is not what vedute writes there"):
            read_folder(toy_run)
    finally:
        (toy_run / "selection.csv").unlink()
    assert told.sentences[0].startswith("Recommended: 2 components, which meet the released moments best")
    assert told.tables[0].rows == (("", "1", "70.2"), ("recommended", "2", "12.5"))


def test_small_numbers_are_said_plainly() -> None:
    assert [percent(share) for share in (0.0, 0.001, 0.25, math.nan)] == ["0 %", "below 1 %", "25 %", "not known"]
    assert [num(v) for v in (-0.001, 1.0, math.inf, math.nan)] == ["0.00", "1.00", "infinity", "not known"]
