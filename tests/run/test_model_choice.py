"""The number of components: found on the paper's synthetic study, and why the scaling decides whether it can be."""

import json
import warnings

import numpy as np
import pandas as pd
import pytest

from vedute import FederatedPPCA, UserError
from vedute.cli.app import run
from vedute.cli.select import parse_components
from vedute.data.rows import open_rows
from vedute.data.study import Folded
from vedute.datasets import make_hierarchical, make_sd
from vedute.errors import BreakdownError, ConvergenceWarning, DataWarning
from vedute.model.waic import sums
from vedute.run.exchange import make_job, read_participants
from vedute.run.model_choice import Choice, recommended, select_components, table
from vedute.run.scoring import score
from vedute.run.server import fit_participants
from vedute.scenarios import split


def sd(seed, n_centers=3):
    views, groups = make_sd(random_state=seed)
    return split(views, groups, n_centers, "IID", random_state=seed)[0]


def chosen(centers, components, **options):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        found = select_components(centers, components, jobs=1, **options)
    return found, found.choices[found.recommended]


def test_the_true_number_is_found_on_sd():
    """True q = 5; the issue asks for 8 of 10 seeds, and all ten are found with q from 3 to 8. Here from 4 to 6."""
    hits = [chosen(sd(seed), range(4, 7), scalings=["shared-view"])[1].components == 5 for seed in range(10)]
    assert sum(hits) >= 8


def test_scaling_each_feature_by_itself_makes_noise_unequal_and_components_pay_for_it():
    """In units of a feature's own spread the noise of SD differs within a view, so that q = 6 gains hundreds; with one
    scale a view it gains nothing. WAIC in the units of the data sees which scaling suits, and both are tried."""
    centers = sd(0)
    found, best = chosen(centers, [5, 6])
    gain = {(c.scaling, c.components): c.waic for c in found.choices}
    assert gain["shared-standard", 5] - gain["shared-standard", 6] > 200
    assert gain["shared-view", 5] - gain["shared-view", 6] < 20
    assert (best.components, best.scaling) == (5, "shared-view")
    noise = {
        scaling: FederatedPPCA(5, scaling=scaling, random_state=0).fit(centers).scaler_.scale["view1"]
        for scaling in ("shared-standard", "shared-view")
    }
    assert np.ptp(noise["shared-view"]) == 0.0
    assert noise["shared-standard"].max() / noise["shared-standard"].min() > 1.5


def test_a_candidate_that_breaks_down_is_left_out_and_named(monkeypatch):
    centers = sd(0)
    whole, _ = chosen(centers, [4, 5], scalings=["shared-view"], starts=2)

    def fragile(job, participants):
        if job.settings.n_components == 3 or (job.settings.n_components == 4 and job.settings.seed == 1):
            raise BreakdownError("the local step broke down")
        return fit_participants(job, participants)

    monkeypatch.setattr("vedute.run.model_choice.fit_participants", fragile, raising=True)
    with pytest.warns(DataWarning, match="components 3 with scaling 'shared-view'"):
        found, best = chosen(centers, [3, 4, 5], scalings=["shared-view"], starts=2)
    assert [choice.components for choice in found.choices] == [4, 5]
    assert best == whole.choices[whole.recommended]
    assert found.choices[0].waic >= whole.choices[0].waic  # one of its two starts is gone
    with pytest.raises(BreakdownError, match="broke down"):
        chosen(centers, [3], scalings=["shared-view"])


def test_one_scale_for_a_view_leaves_its_variance_at_one():
    centers = sd(1)
    scaler = FederatedPPCA(2, scaling="shared-view", rounds=1, tol=None).fit(centers).scaler_
    rows = np.concatenate([scaler.transform(views)["view2"] for views in centers.values()])
    assert np.allclose(rows.mean(axis=0), 0.0, atol=1e-12)
    assert np.mean(rows**2) == pytest.approx(1.0)
    assert len(set(scaler.scale["view2"])) == 1


def test_the_table_is_complete_and_does_not_depend_on_jobs():
    centers = {name: {v: T[:40] for v, T in views.items()} for name, views in sd(2).items()}
    options = {"scalings": ["shared-view"], "starts": 2, "rounds": 5, "draws": 40}
    found, best = chosen(centers, [2, 5], **options)
    with pytest.warns(ConvergenceWarning, match="ran out"):
        again = select_components(centers, [5, 2, 2], jobs=2, **options)
    assert again.choices == found.choices
    frame = table(found)
    assert list(frame["components"]) == [2, 5]
    assert frame["recommended"].sum() == 1
    assert frame.loc[frame["recommended"], "components"].item() == best.components == 5
    assert found.model.prior.q == 5
    assert frame["mae"].is_monotonic_decreasing


def test_the_rule_takes_the_fewest_within_two_errors():
    def choice(q, difference, se, scaling="shared-view"):
        return Choice(q, scaling, difference, 1.0, difference, se, 1.0, 1.0, 1, True)

    choices = [choice(2, 50.0, 9.0), choice(3, 17.0, 9.0), choice(4, 0.0, 0.0), choice(1, 1.0, 9.0, "shared-standard")]
    assert recommended(choices, 2) == 1
    assert recommended(choices[:1] + choices[2:], 1) == 1


def test_waic_of_the_estimator_is_in_the_units_of_the_data():
    centers, _ = make_hierarchical(3, 60, sizes=(4, 3), n_components=2, random_state=0)
    fitted = FederatedPPCA(2, random_state=0).fit(centers)
    found = fitted.waic(centers)
    assert float(found) == found.waic == -2.0 * (found.lppd - found.p)
    assert found.n == 180
    larger = {c: {v: 10.0 * T for v, T in views.items()} for c, views in centers.items()}
    scaled = FederatedPPCA(2, random_state=0).fit(larger).waic(larger)
    assert scaled.waic - found.waic == pytest.approx(2.0 * 180 * 7 * np.log(10.0), abs=0.5)
    own = sum(fitted.score_samples(views, center=c).sum() for c, views in centers.items())
    assert abs(found.lppd - own) < found.p  # the plug-in density lies within the uncertainty of the parameters


def test_rows_in_chunks_and_rows_at_once_give_the_same_sums():
    centers, _ = make_hierarchical(2, 70, sizes=(4, 3), n_components=2, random_state=1)
    centers["center1"]["view1"][3:9, 1] = np.nan
    centers["center1"]["view2"][5] = np.nan
    fitted = FederatedPPCA(2, random_state=0).fit(centers)
    rows = open_rows(centers)
    read = read_participants(rows, make_job(rows, fitted.model_.settings))
    statistics = {one.name: one.data.statistics for one in read}

    class InChunks:
        schema, held, ranges = rows.schema, rows.held, None

        def fold(self, make, key=None):
            found = {}
            for name, views in centers.items():
                found[name] = Folded(make(name), 70, "")
                for part in np.array_split(np.arange(70), 4):
                    found[name].result.add({view: table[part] for view, table in views.items()})
            return found

    unit = np.ones(rows.schema.layout.total)
    one, mae = score([fitted.model_], statistics, rows, unit, draws=40)
    many, mae_many = score([fitted.model_], statistics, InChunks(), unit, draws=40, threads=2)
    assert one.n == many.n == 140
    assert np.allclose([one.lppd, one.p, one.squares], [many.lppd, many.p, many.squares], rtol=1e-10)
    assert np.allclose(mae, mae_many, rtol=1e-12)
    errors = []
    for views in centers.values():
        guess = fitted.reconstruct(views)
        errors.append(np.nanmean(np.hstack([np.abs(guess[v] - rows) for v, rows in views.items()])))
    assert mae[0] == pytest.approx(np.mean(errors), rel=1e-10)
    assert sums(np.zeros((1, 2)), np.zeros((1, 2))).n == 2


def test_mistakes_are_named():
    centers, _ = make_hierarchical(2, 30, sizes=(3, 2), n_components=1, random_state=0)
    with pytest.raises(UserError, match="between 1 and 4"):
        select_components(centers, [1, 5], jobs=1)
    with pytest.raises(UserError, match="no number of components"):
        select_components(centers, [], jobs=1)
    with pytest.raises(UserError, match="no scaling to try"):
        select_components(centers, [1], scalings=[], jobs=1)
    fitted = FederatedPPCA(1, random_state=0, rounds=3, tol=None).fit(centers)
    with pytest.raises(UserError, match="view 'other'"):
        fitted.waic({"a": {"other": np.random.default_rng(0).normal(size=(9, 2))}})


@pytest.mark.parametrize(("text", "numbers"), [("1-3", (1, 2, 3)), ("2,5", (2, 5)), ("7", (7,)), ("1-2,4", (1, 2, 4))])
def test_ranges_are_read(text, numbers):
    assert parse_components(text) == numbers


@pytest.mark.parametrize("text", ["", "a", "3-1", "0-2", "1-2-3", "1-", "1-99999"])
def test_odd_ranges_are_refused(text):
    with pytest.raises(UserError, match="--components"):
        parse_components(text)


def test_the_command_writes_table_figure_and_a_usable_run(tmp_path, capsys):
    views, _ = make_hierarchical(2, 60, sizes=(4, 3), n_components=1, random_state=0)
    lines = []
    for center, tables in views.items():
        (tmp_path / center).mkdir()
        lines.append(f"[centers.{center}.files]")
        for view, rows in tables.items():
            frame = pd.DataFrame(rows, columns=[f"{view}_{j}" for j in range(rows.shape[1])])
            frame.to_csv(tmp_path / center / f"{view}.csv", index_label="id")
            lines.append(f'{view} = "{center}/{view}.csv"')
    study, out = tmp_path / "study.toml", tmp_path / "run"
    study.write_text("\n".join(["[study]", 'name = "two"', "[views.view1]", "[views.view2]", *lines]))
    words = ["select", str(study), "--components", "1-2", "--out", str(out), "--jobs", "1", "--scaling", "shared-view"]
    assert run(words) == 0
    assert "1 components: the fewest" in capsys.readouterr().out
    assert pd.read_csv(out / "selection.csv")["recommended"].tolist() == [True, False]
    assert (out / "selection.png").read_bytes().startswith(b"\x89PNG")
    assert FederatedPPCA.load(out).prior_.q == 1
    assert run(words) == 2
    assert run([*words, "--force", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["components"] == 1
