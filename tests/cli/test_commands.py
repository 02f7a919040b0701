"""Each command on a small study: the files that it writes say what the model says."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from toy_study import SITES
from vedute import FederatedPPCA, Study

Call = Callable[..., tuple[int, str, str]]


def test_check_tells_centers_and_views(toy: Path, call: Call) -> None:
    status, out, err = call("check", toy)
    assert (status, err) == (0, "")
    assert all(site in out for site in SITES)
    assert "no problems found" in out
    status, out, err = call("check", toy, "--json")
    told = json.loads(out)
    assert (status, err, told["ok"]) == (0, "", True)
    assert {name: center["subjects"] for name, center in told["centers"].items()} == {
        "lyon": 30,
        "nice": 29,
        "paris": 30,
    }
    assert "view3" not in told["centers"]["lyon"]["views"]


def test_check_foresees_what_a_fit_refuses(toy: Path, tmp_path: Path, call: Call) -> None:
    shutil.copytree(toy.parent, tmp_path / "copy")
    study = tmp_path / "copy" / toy.name
    table = pd.read_csv(study.parent / "view2.csv")
    table["view2_1"] = 3.0
    table.to_csv(study.parent / "view2.csv", index=False)
    status, _, err = call("check", study)
    assert status == 2
    assert "view2.view2_1 is constant over all centers" in err
    assert not json.loads(call("check", study, "--json")[1])["ok"]
    status, _, fit_err = call("fit", study, "--out", tmp_path / "run")
    assert status == 2
    assert "view2.view2_1 is constant over all centers" in fit_err
    assert not (tmp_path / "run").exists()


def test_fit_keeps_what_the_interface_promises(fitted: Path, toy: Path) -> None:
    names = sorted(path.relative_to(fitted).as_posix() for path in fitted.rglob("*") if path.is_file())
    local = [f"local/{site}/{name}" for site in sorted(SITES) for name in ("data.json", "latent.csv")]
    assert names == sorted(
        ["checksums.json", "history.jsonl", *local, "model.json", "model.npz", "run.json", "study.toml"]
    )
    assert (fitted / "study.toml").read_text() == toy.read_text()
    assert len((fitted / "history.jsonl").read_text().splitlines()) == 6
    settings = json.loads((fitted / "run.json").read_text())["settings"]
    assert (settings["n_components"], settings["rounds"], settings["tol"]) == (2, 6, None)


def test_fit_is_the_estimator(fitted: Path, toy: Path) -> None:
    study = Study.load(toy)
    own = FederatedPPCA(2, rounds=6, tol=None, random_state=0).fit(study)
    run = FederatedPPCA.load(fitted)
    for name, view in own.prior_.views.items():
        np.testing.assert_array_equal(run.prior_.views[name].W, view.W)
    for site in SITES:
        table = study.read(site)
        kept = pd.read_csv(fitted / "local" / site / "latent.csv", index_col="id")
        expected = own.transform(table, center=site)
        np.testing.assert_allclose(kept.loc[expected.index, expected.columns], expected, rtol=1e-12)
        assert list(kept.loc[expected.index, "group"]) == list(table.groups)


def test_progress_in_a_pipe_is_plain_and_json_is_json(toy: Path, tmp_path: Path, call: Call) -> None:
    status, out, err = call("fit", toy, "--out", tmp_path / "a", "--rounds", 3)
    assert status == 0
    assert "\x1b" not in out + err
    assert [line.split(":")[0] for line in err.splitlines()[:2]] == ["round 1", "round 2"]
    assert err.splitlines()[-1].startswith("vedute: warning: the rounds ran out")
    status, out, err = call("fit", toy, "--out", tmp_path / "b", "--rounds", 3, "--json")
    events = [json.loads(line) for line in out.splitlines()]
    assert [event["event"] for event in events] == ["begin", "round", "round", "round", "done"]
    assert events[-1]["centers"] == sorted(SITES)


@pytest.mark.parametrize("suffix", [".csv", ".tsv", ".parquet"])
def test_project_and_score(fitted: Path, toy: Path, tmp_path: Path, call: Call, suffix: str) -> None:
    model, study = FederatedPPCA.load(fitted), Study.load(toy)
    for command, numbers in (("project", ["component1", "component2"]), ("score", ["log_density"])):
        out = tmp_path / f"{command}{suffix}"
        status, said, err = call(command, fitted, toy, "--out", out)
        assert (status, said, err) == (0, f"89 subjects: {out}\n", "")
        table = _read(out).set_index("id")
        assert list(table.columns) == ["center", "group", *numbers]
        for site in SITES:
            own = study.read(site)
            result = (
                model.transform(own, center=site) if command == "project" else model.score_samples(own, center=site)
            )
            found = table.loc[list(own.ids), numbers].to_numpy()
            np.testing.assert_allclose(found, np.asarray(result).reshape(len(own), -1), rtol=1e-12)
            assert set(table.loc[list(own.ids), "center"]) == {site}


def _read(path: Path) -> pd.DataFrame:
    if path.suffix == ".parquet":
        return pd.read_parquet(path)
    return pd.read_csv(path, sep="\t" if path.suffix == ".tsv" else ",")


def test_impute_fills_every_cell_and_keeps_the_observed(fitted: Path, toy: Path, tmp_path: Path, call: Call) -> None:
    assert call("impute", fitted, toy, "--out", tmp_path / "filled.parquet")[0] == 0
    assert call("impute", fitted, toy, "--out", tmp_path / "filled")[0] == 0
    table = pd.read_parquet(tmp_path / "filled.parquet").set_index("id")
    assert not table.isna().any(axis=None)
    study = Study.load(toy)
    for site in SITES:
        own = study.read(site)
        for view, names in study.columns.items():
            given = own.frame(view) if view in own.views else pd.DataFrame(np.nan, index=own.ids, columns=list(names))
            values = table.loc[own.ids, [f"{view}.{name}" for name in names]].to_numpy()
            sd = table.loc[own.ids, [f"{view}.{name}.sd" for name in names]].to_numpy()
            seen = given.notna().to_numpy()
            np.testing.assert_array_equal(values[seen], given.to_numpy()[seen])
            assert (sd[seen] == 0).all()
            assert (sd[~seen] > 0).all()
            again = pd.read_csv(tmp_path / "filled" / site / f"{view}.csv", index_col="id").loc[own.ids]
            np.testing.assert_allclose(again.to_numpy(), values, rtol=1e-12)
            spread = pd.read_csv(tmp_path / "filled" / site / "sd" / f"{view}.csv", index_col="id").loc[own.ids]
            np.testing.assert_allclose(spread.to_numpy(), sd, rtol=1e-12)


def test_a_folder_of_results_is_a_study_again(fitted: Path, toy: Path, tmp_path: Path, call: Call) -> None:
    out = tmp_path / "harmonised"
    assert call("harmonise", fitted, toy, "--out", out)[0] == 0
    assert call("check", out / "study.toml")[0] == 0
    model, before, after = FederatedPPCA.load(fitted), Study.load(toy), Study.load(out / "study.toml")
    for site in SITES:
        old, new = before.read(site), after.read(site)
        assert set(old.views) == set(new.views)
        for view, expected in model.harmonise(old, site).items():
            np.testing.assert_allclose(new.frame(view).loc[expected.index], expected, rtol=1e-12)
        assert dict(zip(old.ids, old.groups, strict=True)) == dict(zip(new.ids, new.groups, strict=True))


def test_sample_draws_the_same_with_the_same_seed(fitted: Path, tmp_path: Path, call: Call) -> None:
    for name, seed in (("a.csv", 1), ("b.csv", 1), ("c.csv", 2)):
        assert call("sample", fitted, "-n", 7, "--seed", seed, "--out", tmp_path / name)[0] == 0
    a, b, c = ((tmp_path / name).read_bytes() for name in ("a.csv", "b.csv", "c.csv"))
    assert a == b != c
    assert len(pd.read_csv(tmp_path / "a.csv")) == 7
    assert call("sample", fitted, "-n", 7, "--center", "lyon", "--out", tmp_path / "d")[0] == 0
    assert call("check", tmp_path / "d" / "study.toml")[0] == 0


def test_a_new_center_may_adapt_or_go_by_the_global_model(fitted: Path, toy: Path, tmp_path: Path, call: Call) -> None:
    shutil.copytree(toy.parent, tmp_path / "copy")
    subjects = tmp_path / "copy" / "subjects.csv"
    subjects.write_text(subjects.read_text().replace("lyon", "bonn"))
    study = tmp_path / "copy" / toy.name
    status, _, err = call("project", fitted, study, "--out", tmp_path / "x.csv")
    assert status == 2
    assert "'bonn' is not in the model" in err
    assert "--using adapt" in err
    for using in ("adapt", "global"):
        assert call("project", fitted, study, "--using", using, "--out", tmp_path / f"{using}.csv")[0] == 0
    assert call("harmonise", fitted, study, "--using", "adapt", "--out", tmp_path / "h.csv")[0] == 0
    model, own = FederatedPPCA.load(fitted), Study.load(study).read("bonn")
    found = pd.read_csv(tmp_path / "adapt.csv", index_col="id").loc[own.ids, ["component1", "component2"]]
    np.testing.assert_allclose(found, model.transform(own, center=model.adapt(own)), rtol=1e-9)


def test_columns_may_stand_in_another_order(fitted: Path, toy: Path, tmp_path: Path, call: Call) -> None:
    shutil.copytree(toy.parent, tmp_path / "copy")
    study = tmp_path / "copy" / toy.name
    table = pd.read_csv(study.parent / "view1.csv", dtype=str)
    table[["id", *table.columns[:0:-1]]].to_csv(study.parent / "view1.csv", index=False)
    assert call("project", fitted, toy, "--out", tmp_path / "a.csv")[0] == 0
    assert call("project", fitted, study, "--out", tmp_path / "b.csv")[0] == 0
    assert (tmp_path / "a.csv").read_bytes() == (tmp_path / "b.csv").read_bytes()


def test_the_papers_own_scaling_goes_through(toy: Path, tmp_path: Path, call: Call) -> None:
    run = tmp_path / "run"
    options = ("--preset", "paper", "--scaling", "center-minmax", "--rounds", 3)
    assert call("fit", toy, "--out", run, *options)[0] == 0
    for command in ("project", "impute", "harmonise", "score"):
        assert call(command, run, toy, "--out", tmp_path / f"{command}.csv")[0] == 0
    assert call("project", run, toy, "--using", "global", "--out", tmp_path / "g.csv")[0] == 0
    assert len(pd.read_csv(tmp_path / "g.csv")) == 89


def test_completion_and_help(call: Call) -> None:
    status, out, err = call("completion", "zsh")
    assert (status, err) == (0, "")
    assert "_VEDUTE_COMPLETE=zsh_complete" in out
    for command in ("check", "fit", "project", "impute", "harmonise", "score", "sample", "demo"):
        status, out, _ = call(command, "--help")
        assert status == 0
        assert "Usage: vedute" in out
    assert call("--version")[1].startswith("vedute ")


def test_an_audit_is_quiet_in_a_pipe(call: Call) -> None:
    status, out, err = call("audit", "subject", "--epsilon", 3, "--trials", 40)
    assert status == 0
    assert "the policy: not refuted" in out
    assert err == ""
