"""Real studies from folders and study files, and the commands that run them."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from toy_folders import four_views, write_folder
from toy_study import write_study
from vedute.cli.app import run as run_command
from vedute.data.study import Study
from vedute.errors import UserError
from vedute_reproduction import adni as real
from vedute_reproduction import contenders, fedprox, missing
from vedute_reproduction.adni import experiment as adni
from vedute_reproduction.baselines import mofa
from vedute_reproduction.baselines.autoencoders import Schedule
from vedute_reproduction.command import command, rows_given
from vedute_reproduction.heart4 import experiment as heart4
from vedute_reproduction.studies import CNP, complete_rows, from_folder, from_study, read_folder
from vedute_reproduction.studies import read_study as read

DOCS = Path(__file__).parents[2] / "docs"


def test_a_folder_is_joined_by_id_and_missing_stays_missing(tmp_path: Path) -> None:
    folder = write_folder(tmp_path / "cnp", CNP.views)
    data = read_folder(folder, CNP)
    assert list(data.views) == ["COGN", "QUEST", "T1W", "REST"]
    assert np.isnan(data.views["REST"][0]).all()
    assert np.isnan(data.views["COGN"]).sum() == 1
    first = pd.read_csv(folder / "QUEST.csv", dtype={"id": str}).set_index("id").loc["005"]
    np.testing.assert_array_equal(data.views["QUEST"][5], first.to_numpy())
    assert data.features("QUEST") == list(first.index)
    assert len(complete_rows(data)) == 88
    assert set(data.sites) == {"north", "south"}


def test_the_stand_in_says_that_it_is_not_adni(tmp_path: Path) -> None:
    experiment = adni(from_folder(write_folder(tmp_path / "cnp", CNP.views)))
    assert experiment.remarks[0].startswith("This is not ADNI")
    assert "Of 90 subjects the 88" in experiment.remarks[1]
    dealt = [(s.dealing, s.centers) for s in experiment.settings if s.part == "ours"]
    assert dealt == [*contenders.SCENARIOS, real.SITES, real.KNOWN]


def test_heart4_deals_by_group_and_hospital_without_methods_that_need_complete_centers(tmp_path: Path) -> None:
    experiment = heart4(write_folder(tmp_path / "heart4", ("CLINIC", "EXERCISE")))
    assert {s.dealing for s in experiment.settings} == {"IID", "G", "sites", "known sites"}  # nobody lacks a third view
    assert all(arm.sees != "alone" for s in experiment.settings for arm in s.arms)
    assert {s.part for s in experiment.settings} == {"ours", "linear", "dissected"}  # auto-encoders need every cell


def test_a_study_file_gives_rows_groups_and_centers(tmp_path: Path) -> None:
    loaded = Study.load(write_study(tmp_path / "toy"))
    data = read(loaded)
    whole = {center: loaded.read(center) for center in loaded.centers}
    assert list(data.sites) == [name for name, part in whole.items() for _ in range(len(part))]
    np.testing.assert_array_equal(data.views["view1"], np.concatenate([p.views["view1"] for p in whole.values()]))
    assert np.isnan(data.views["view3"][data.sites == "lyon"]).all()
    assert set(data.groups) == {"case", "control"}
    assert data.features("view1") == list(loaded.columns["view1"])


def test_mistakes_are_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(UserError, match="has 3 views; the experiment needs four"):
        from_study(write_study(tmp_path / "toy"))
    with pytest.raises(UserError, match="no such file"):
        read_folder(tmp_path, CNP)
    folder = write_folder(tmp_path / "cnp", CNP.views)
    (folder / "subjects.csv").write_text("id,group\n1,a\n")
    with pytest.raises(UserError, match="no column 'group2'"):
        read_folder(folder, CNP)
    assert run_command(["paper", "adni", "--out", str(tmp_path / "out")]) == 2
    assert "give either --data FOLDER" in capsys.readouterr().err


def test_adni_command_runs_on_a_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(real, "SCENARIOS", (("IID", 1),))
    monkeypatch.setattr(contenders, "SCHEDULE", Schedule(1, 1))  # of auto-encoders
    monkeypatch.setattr(mofa, "ITERATIONS", 10)
    folder = write_folder(tmp_path / "cnp", CNP.views)
    words = ["paper", "adni", "--data", str(folder), "--repeats", "1", "--jobs", "1", "--out", str(tmp_path / "out")]
    assert run_command(words) == 0
    assert capsys.readouterr().err.startswith("This is not ADNI")  # before anything is computed
    text = (tmp_path / "out" / "adni-cnp.md").read_text()
    assert "This is not ADNI" in text
    lines = pd.read_csv(tmp_path / "out" / "adni-cnp.csv")
    assert set(zip(lines["scenario"], lines["centers"], strict=True)) == {
        ("IID", 1),
        ("IID", 3),  # where the mc-VAE has more time
        ("sites", 2),
        ("known sites", 2),
    }
    error = lines[lines["scaling"] == "shared"].groupby("method")["test_mae"].mean()
    assert error[contenders.DEFAULT] < 1.1 * error[contenders.YARDSTICK]


@pytest.mark.parametrize(
    ("name", "files"),
    [
        ("selection", ["selection-study.md", "selection-study.csv"]),
        ("variability", ["variability-study.md", "variability-study-view2.png"]),
        ("missing", ["missing-study.md", "missing-study.svg"]),
        ("fedprox", ["fedprox-study.md", "fedprox-study.png"]),
    ],
)
def test_other_experiments_take_a_study_file_and_say_what_it_is_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, files: list[str]
) -> None:
    monkeypatch.setattr(contenders, "SCHEDULE", Schedule(1, 1))  # of auto-encoders
    monkeypatch.setattr(mofa, "ITERATIONS", 10)
    monkeypatch.setattr(fedprox, "SWEPT_CENTERS", (3,))
    monkeypatch.setattr(missing, "FEW", ())
    study = four_views(tmp_path / "toy")
    words = ["paper", name, "--study", str(study), "--repeats", "1", "--jobs", "1", "--out", str(tmp_path / "out")]
    assert run_command([*words, *(["--components", "1-2"] if name == "selection" else [])]) == 0
    assert {path.name for path in (tmp_path / "out").iterdir()} >= set(files)
    assert "not ADNI" in (tmp_path / "out" / files[0]).read_text()
    assert run_command([*words, "--data", str(tmp_path)]) == 2


def test_a_folder_of_results_belongs_to_one_study(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "out"
    first, second = four_views(tmp_path / "toy", "ADNI"), four_views(tmp_path / "other", "MyPET")
    rows_given(None, first, out)
    told = capsys.readouterr().err
    assert re.search(r"ADNI: \d+ subjects \(.+\); features: .+\. The paper has 311", told)
    with pytest.raises(UserError, match=r"has results of the study 'ADNI'; give 'MyPET \(not ADNI\)' a"):
        rows_given(None, second, out)
    assert (out / "study.txt").read_text() == "ADNI"
    rows_given(None, first, out)  # again, to go on
    rows_given(None, second, tmp_path / "elsewhere")
    assert "This is not ADNI: the rows are those of MyPET." in capsys.readouterr().err


@pytest.mark.parametrize(
    ("name", "real"), [("ADNI", True), ("adni-3 baseline", True), ("pseudo_adni", False), ("not ADNI", False)]
)
def test_a_study_is_adni_if_its_name_begins_so(tmp_path: Path, name: str, real: bool) -> None:
    given = from_study(four_views(tmp_path / "toy", name))
    assert given.printed == "ADNI"
    assert any("This is not ADNI" in remark for remark in given.remarks) != real
    assert given.about == (name if real else f"{name} (not ADNI)")


def test_every_table_of_adni_can_be_asked_of_a_study_file() -> None:
    named = set(re.findall(r"`vedute paper (\w+)`", (DOCS / "adni.md").read_text(encoding="utf-8"))) | {"adni"}
    taking = {name for name, one in command.commands.items() if {"data", "study"} <= {p.name for p in one.params}}
    assert named == taking
