"""Folds are kept, found again, and thrown away when they belong to something else."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from vedute.datasets import make_sd
from vedute.errors import UserError
from vedute_reproduction import runner
from vedute_reproduction.arms import Arm
from vedute_reproduction.baselines.linear import PCA, PPCA
from vedute_reproduction.folds import Dataset
from vedute_reproduction.keeping import FOLDS, How, fold_key
from vedute_reproduction.runner import Experiment, Setting, Task, key, run
from vedute_reproduction.studies import FixedStudy


@pytest.fixture
def experiment() -> Experiment:
    views, groups = make_sd(60, 30, sizes=(5, 4, 4), n_components=2, random_state=0)
    arms = (Arm("PCA", PCA(2)), Arm("alone", PPCA(1), "shared", "alone"))
    settings = (Setting("IID", 3, arms), Setting("G", 3, arms))
    return Experiment("small", "small", FixedStudy(Dataset(views, groups)), settings)


def test_lines_are_tidy_and_the_same_on_every_run_and_number_of_processes(
    experiment: Experiment, tmp_path: Path
) -> None:
    lines = run(experiment, How(2, tmp_path / "a"))
    assert len(lines) == 2 * 2 * 3 * 2  # settings, repeats, folds, arms
    assert not lines.duplicated(["scenario", "method", "repeat", "fold"]).any()
    pd.testing.assert_frame_equal(lines, run(experiment, How(2, tmp_path / "b", 2)))


def test_a_kept_fold_is_not_computed_again(experiment: Experiment, tmp_path: Path) -> None:
    run(experiment, How(1, tmp_path))
    path = tmp_path / FOLDS / "small-G-3-ours-r000-f1.json"
    kept = json.loads(path.read_text())
    kept["lines"][0]["test_mae"] = 123.0
    path.write_text(json.dumps(kept))
    again = run(experiment, How(1, tmp_path))
    assert (again["test_mae"] == 123.0).sum() == 1


def test_whatever_a_fold_depends_on_changes_its_key() -> None:
    views, groups = make_sd(60, 30, sizes=(5, 4, 4), n_components=2, random_state=0)
    sites = np.array(["x", "y"])[np.arange(60) % 2]
    data = Dataset(views, groups, sites)
    others = [
        replace(data, views=views | {"view1": np.nextafter(views["view1"], 1.0)}),
        replace(data, views=views | {"view1": views["view1"].reshape(30, 10)}),
        replace(data, views={name[::-1]: rows for name, rows in views.items()}),
        replace(data, groups=1 - groups),
        replace(data, sites=sites[::-1]),
        replace(data, sites=None),
    ]
    keys = [fold_key("task", one) for one in (data, *others)] + [fold_key("another", data)]
    assert len(set(keys)) == len(keys)
    assert fold_key("task", Dataset(dict(views), groups.copy(), sites.copy())) == keys[0]


def test_a_stacked_setting_computes_only_the_folds_that_lack(
    experiment: Experiment, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = []
    whole = runner.scores_of_folds
    monkeypatch.setattr(runner, "scores_of_folds", lambda arms, folds: asked.append(len(folds)) or whole(arms, folds))
    stacked = replace(experiment, settings=(replace(experiment.settings[0], stacked=True, part="stack"),))
    lines = run(stacked, How(2, tmp_path))
    (tmp_path / FOLDS / "small-IID-3-stack-r001-f2.json").unlink()
    pd.testing.assert_frame_equal(run(stacked, How(2, tmp_path)), lines)
    assert asked == [6, 1]  # all folds at once, then the one
    one_by_one = run(replace(experiment, settings=experiment.settings[:1]), How(2, tmp_path))
    pd.testing.assert_frame_equal(lines, one_by_one)


def test_stacks_are_of_five_repetitions(
    experiment: Experiment, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = []
    whole = runner.scores_of_folds
    monkeypatch.setattr(runner, "scores_of_folds", lambda arms, folds: asked.append(len(folds)) or whole(arms, folds))
    run(replace(experiment, settings=(replace(experiment.settings[0], stacked=True),)), How(7, tmp_path))
    assert asked == [15, 6]


def test_what_is_trained_on_another_device_has_another_key(
    experiment: Experiment, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = experiment.source.draw(0)
    tasks = [Task("small", replace(experiment.settings[0], stacked=stacked), 0, 0) for stacked in (True, False)]
    here = [key(task, data) for task in tasks]
    monkeypatch.setattr(runner, "device", lambda: "another")
    there = [key(task, data) for task in tasks]
    assert here[0] != there[0]
    assert here[1] == there[1]


def test_a_damaged_fold_and_one_of_other_arms_or_rows_is_computed_again(experiment: Experiment, tmp_path: Path) -> None:
    first = run(experiment, How(1, tmp_path))
    (tmp_path / FOLDS / "small-IID-3-ours-r000-f0.json").write_text('{"key": ')
    pd.testing.assert_frame_equal(run(experiment, How(1, tmp_path)), first)
    fewer = replace(experiment, settings=(Setting("IID", 3, (Arm("PCA", PCA(1)),)),))
    assert (run(fewer, How(1, tmp_path))["test_mae"] > first.loc[first["method"] == "PCA", "test_mae"].max()).all()
    data = experiment.source.draw(0)
    other = Dataset({name: rows + np.arange(len(rows))[:, None] for name, rows in data.views.items()}, data.groups)
    changed = run(replace(experiment, source=FixedStudy(other)), How(1, tmp_path))
    assert not np.isclose(changed["test_mae"], first["test_mae"]).any()


def test_what_cannot_be_told_stays_so_when_read_again(tmp_path: Path) -> None:
    views, _ = make_sd(30, 10, sizes=(4, 3, 3), n_components=1, random_state=0)
    same = Dataset(views, np.zeros(30))
    experiment = Experiment("one", "one", FixedStudy(same), (Setting("IID", 3, (Arm("PCA", PCA(1)),)),))
    assert run(experiment, How(1, tmp_path))["accuracy"].isna().all()
    assert run(experiment, How(1, tmp_path))["accuracy"].isna().all()


def test_no_repeats_are_refused(experiment: Experiment, tmp_path: Path) -> None:
    with pytest.raises(UserError, match="repeats=0"):
        run(experiment, How(0, tmp_path))
