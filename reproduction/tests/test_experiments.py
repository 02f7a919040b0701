"""Each table compares what it says: methods by name, settings of the paper, and a collapse where the truth is known."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from vedute.cli.app import run as run_command
from vedute.datasets import make_sd
from vedute_reproduction import adni, collapse, contenders
from vedute_reproduction.baselines.autoencoders import Schedule
from vedute_reproduction.collapse import summary
from vedute_reproduction.contenders import (
    CORRECTED,
    CUT,
    DEFAULT,
    LONGER,
    MCVAE,
    OWN,
    PAPER,
    SCHEDULE,
    TWO_LAYERS,
    UNTUNED,
    VAE,
)
from vedute_reproduction.corrections import experiment as corrections
from vedute_reproduction.fedprox import LAMBDAS
from vedute_reproduction.fedprox import experiment as fedprox
from vedute_reproduction.folds import Dataset, deal, three_folds
from vedute_reproduction.methods import FedMvPPCA, OwnParameters
from vedute_reproduction.privacy import _mean_alone
from vedute_reproduction.sd import experiment as sd
from vedute_reproduction.studies import SYNTHETIC


def test_auto_encoders_are_trained_as_the_paper_says() -> None:
    assert (SCHEDULE.rounds, SCHEDULE.epochs, SCHEDULE.rate) == (100, 15, 1e-3)
    assert Schedule() == SCHEDULE
    arms = {(arm.name, arm.scaling): arm.method for arm in contenders.neural(5, "G")}
    for name, encoders in ((VAE, "joint"), (MCVAE, "one for each view")):
        tuned, untuned = arms[name, "per center"], arms[name + UNTUNED, "per center"]
        assert (tuned.encoders, tuned.noise_from, tuned.proximal, tuned.hidden) == (encoders, None, 0.0, 0)
        assert (untuned.encoders, untuned.noise_from) == (encoders, -3.0)
        assert untuned.schedule.steps(400)[0] == 1
        assert arms[name, "shared"] == tuned
    assert len(arms) == 6
    assert {arm.name for arm in contenders.neural(5, "G/K")} == {MCVAE, MCVAE + UNTUNED}  # a VAE needs every view
    late = [arm for s in sd().settings for arm in s.arms if arm.name.endswith(LONGER)]
    assert {arm.name for arm in late} == {MCVAE + LONGER, VAE + UNTUNED + LONGER, MCVAE + UNTUNED + LONGER}
    assert {arm.method.schedule.rounds for arm in late} == {400}


def test_every_arm_has_the_components_that_were_asked_for() -> None:
    def asked(method: object) -> int:
        return asked(method.method) if hasattr(method, "method") else method.n_components

    views, groups = make_sd(90, 40, sizes=(5, 4, 6), n_components=3, random_state=3)
    lacking = {name: np.where(np.arange(90)[:, None] == 7, np.nan, rows) for name, rows in views.items()}
    whole, holed = (Dataset(held, groups, np.array(["a", "b"])[np.arange(90) % 2]) for held in (views, lacking))
    for experiment, q in (
        (sd(), 5),
        (corrections(), 5),
        (fedprox(replace(SYNTHETIC, n_components=4)), 4),
        (adni.study("", "", whole, 3), 3),
        (adni.study("", "", holed, 3), 3),
    ):
        assert {asked(arm.method) for setting in experiment.settings for arm in setting.arms} == {q}


def test_fedprox_sweeps_lambda_from_0_to_a_half_and_adds_a_layer() -> None:
    arms = [arm for setting in fedprox(SYNTHETIC).settings for arm in setting.arms]
    assert (LAMBDAS[0], LAMBDAS[1], LAMBDAS[-1]) == (0.0, 0.01, 0.5)
    for arm in arms:
        if "lambda" in arm.name:
            assert (arm.method.proximal, arm.method.hidden) == (float(arm.name.rsplit(" ", 1)[1]), 0)
        if arm.name.endswith(TWO_LAYERS):
            assert arm.method.hidden > 0
    assert {arm.name for arm in arms} >= {f"{VAE}, lambda 0.5", VAE + TWO_LAYERS, MCVAE + TWO_LAYERS, PAPER, DEFAULT}


def test_ours_runs_as_the_paper_does() -> None:
    one, three = ({arm.name: arm.method for arm in contenders.ours(5, "IID", n)} for n in (1, 3))
    assert one[PAPER] == FedMvPPCA(5, "paper", 1, 800)  # the centralised case
    assert three[PAPER] == FedMvPPCA(5, "paper")
    assert three[PAPER].first_iterations == 30
    own, typical, _ = adni.known(5)
    assert (own.name, own.method) == (DEFAULT + OWN, OwnParameters(FedMvPPCA(5)))
    assert typical.method == FedMvPPCA(5)


def test_the_default_preset_goes_on_until_it_has_converged_and_is_cut_off_where_the_page_says_so() -> None:
    views, groups = make_sd(90, 40, sizes=(5, 4, 6), n_components=3, random_state=3)
    data = Dataset(views, groups, np.array(["a", "b"])[np.arange(90) % 2])
    blocks = adni.study("", "", data, 2).settings
    methods = {(s.dealing, arm.name): arm.method for s in blocks for arm in s.arms}
    centers = deal(data, *three_folds(data, 0)[0], "sites", 0, 0).centers
    ends = {}
    for name in (PAPER, DEFAULT, DEFAULT + CUT):
        settings = methods["sites", name].model(centers, 0).settings
        ends[name] = settings.rounds, settings.tol
    assert ends == {PAPER: (100, None), DEFAULT: (500, 1e-4), DEFAULT + CUT: (100, 1e-4)}
    assert [name for name in methods if name[1].endswith(CUT)] == [("sites", DEFAULT + CUT)]


def test_corrections_are_applied_one_after_the_other() -> None:
    arms = {arm.name: arm.method for arm in corrections().settings[0].arms}
    assert [arms[name].corrections for name in CORRECTED] == list(CORRECTED.values())
    views, groups = make_sd(90, 40, sizes=(5, 4, 6), n_components=3, random_state=3)
    train, test = three_folds(Dataset(views, groups), 0)[0]
    centers = deal(Dataset(views, groups), train, test, "G", 3, 0).centers
    found = []
    for name in CORRECTED:
        model = FedMvPPCA(2, "paper", 3, corrections=CORRECTED[name]).model(centers, 0)
        found.append(model.emission(None).mu)
    assert len({tuple(mu) for mu in found}) == len(CORRECTED)


def test_the_mean_alone_is_learnt_from_the_train_rows() -> None:
    views, groups = make_sd(60, 30, sizes=(6, 5, 4), n_components=2, random_state=0)
    data = Dataset(views, groups)
    train, test = three_folds(data, 0)[0]
    fold = deal(data, train, test, "IID", 3, 0)
    line = _mean_alone(fold, "shared")
    kept = np.concatenate([rows[train] for rows in views.values()], axis=1)
    unseen = np.concatenate([rows[test] for rows in views.values()], axis=1)
    mean = np.mean([np.concatenate(list(c.values()), axis=1).mean(axis=0) for c in fold.centers.values()], axis=0)
    assert line["test_mae"] == pytest.approx(np.mean(np.abs(unseen - mean) / np.ptp(kept, axis=0)))


def test_the_paper_loses_the_spread_of_the_loadings_and_the_default_finds_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Three draws with five centers: half of the truth, twice it and a hundredth lie far from what is seen."""
    monkeypatch.setattr(collapse, "COUNTS", (5,))
    monkeypatch.setattr(collapse, "CASE_MIX", (0.0,))
    assert run_command(["paper", "collapse", "--repeats", "3", "--jobs", "1", "--out", str(tmp_path)]) == 0
    table = summary(pd.read_csv(tmp_path / "collapse.csv"))
    found = table.pivot(index="method", columns="parameter", values="median")
    assert found.loc[PAPER, "W"] < 0.01
    assert 0.5 < found.loc[PAPER, "mu"] < 1.5
    assert 0.5 < found.loc[DEFAULT, "W"] < 1.5
    assert 0.5 < found.loc[DEFAULT, "mu"] < 1.5
    assert {path.suffix for path in tmp_path.glob("collapse.*")} == {".md", ".csv", ".png", ".svg"}


def test_a_case_mix_moves_the_means_that_the_paper_sees(monkeypatch: pytest.MonkeyPatch) -> None:
    """Patients that differ by two sds of x move the means of centers far more than these differ."""
    monkeypatch.setattr(collapse, "ROUNDS", 3)
    found = {}
    for tau in (0.0, 2.0):
        lines = pd.DataFrame(collapse.compute(collapse.ModelDraw(5, tau, 0)))
        own = lines[(lines["method"] == PAPER) & (lines["parameter"] == "mu")]
        found[tau] = own.loc[own["round"] == own["round"].max(), "ratio"].median()
    assert found[2.0] > 2 * found[0.0]
