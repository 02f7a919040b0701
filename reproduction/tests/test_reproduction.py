"""The page on the reproduction says what its CSV files say, and they say what the code gives."""

from __future__ import annotations

import re
import shutil
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from vedute.cli.app import run as run_command
from vedute.datasets import make_sd
from vedute.errors import UserError
from vedute_reproduction import heart4, studies
from vedute_reproduction.adni import experiment as adni
from vedute_reproduction.command import command
from vedute_reproduction.comparison import gaps, summary
from vedute_reproduction.contenders import DEFAULT, PAPER, YARDSTICK
from vedute_reproduction.page import page
from vedute_reproduction.prose import at_most
from vedute_reproduction.reading import at_sites, means, ratios
from vedute_reproduction.studies import from_study

DOCS = Path(__file__).parents[2] / "docs"
RESULTS, PAGE = DOCS / "reproduction", DOCS / "reproduction.md"
LINK = re.compile(r"!\[.*?\]\((.*?)\)")


def _ours(table: pd.DataFrame) -> pd.DataFrame:
    return table[table["method"] == PAPER]


def test_the_page_is_what_its_files_give(tmp_path: Path) -> None:
    shutil.copytree(RESULTS, tmp_path / "reproduction")
    out = tmp_path / "reproduction.md"
    assert run_command(["paper", "page", "--results", str(tmp_path / "reproduction"), "--out", str(out)]) == 0
    assert out.read_text(encoding="utf-8") == PAGE.read_text(encoding="utf-8")


def test_other_results_give_another_page(tmp_path: Path) -> None:
    """Numbers are computed, not typed: twice the error of our paper preset moves every figure that names it."""
    shutil.copytree(RESULTS, tmp_path / "results")
    lines = pd.read_csv(RESULTS / "sd.csv")
    lines.loc[lines["method"] == PAPER, ["train_mae", "test_mae"]] *= 2
    lines.to_csv(tmp_path / "results" / "sd.csv", index=False)
    worst = gaps(_ours(summary(lines, "SD_2")))[["train_mae", "test_mae"]].abs().to_numpy().max()
    text, before = page(tmp_path / "results"), PAGE.read_text(encoding="utf-8")
    assert f"lie within {at_most(worst)} of" in text
    assert f"lie within {at_most(worst)} of" not in before
    assert f"it reaches {ratios(lines, YARDSTICK)[PAPER].max():.1f}, where" in text
    assert f"it reaches {ratios(lines, YARDSTICK)[PAPER].max():.1f}, where" not in before
    for file, command_line in {
        "adni-cnp.csv": "vedute paper adni --data FOLDER/cnp --out",
        "privacy-cnp-rounds.csv": "vedute paper privacy --data FOLDER/cnp --out",
        "collapse.csv": "vedute paper collapse --out",
    }.items():
        (tmp_path / "results" / file).rename(tmp_path / "away")
        with pytest.raises(UserError, match=command_line):
            page(tmp_path / "results")
        (tmp_path / "away").rename(tmp_path / "results" / file)


def test_all_that_a_page_lacks_is_named_at_once(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="no: is no folder; give the one"):
        page(tmp_path / "no")
    shutil.copytree(RESULTS, tmp_path / "results")
    for name in ("sd", "sd-data", "heart4", "missing-cnp"):
        (tmp_path / "results" / f"{name}.csv").unlink()
    with pytest.raises(UserError) as told:
        page(tmp_path / "results")
    commands = [
        f"'vedute paper {words} --out" for words in ("sd", "heart4 --data FOLDER/heart4", "missing --data FOLDER/cnp")
    ]
    assert all(
        text in str(told.value) for text in ("sd.csv", "sd-data.csv", "heart4.csv", "missing-cnp.csv", *commands)
    )
    assert str(told.value).count("vedute paper") == 3


def test_a_page_of_fewer_repetitions_warns_of_its_words(tmp_path: Path) -> None:
    shutil.copytree(RESULTS, tmp_path / "results")
    assert "This is a short run" not in page(tmp_path / "results")
    for name in ("sd", "missing-cnp"):
        lines = pd.read_csv(RESULTS / f"{name}.csv")
        lines[lines["repeat"] < 2].to_csv(tmp_path / "results" / f"{name}.csv", index=False)
    assert "here are fewer of sd (2), missing-cnp (2)." in page(tmp_path / "results").replace("\n", " ")


def test_every_figure_of_the_page_is_there() -> None:
    shown = LINK.findall(PAGE.read_text(encoding="utf-8"))
    assert len(shown) > 10
    assert {DOCS / name for name in shown} == set(RESULTS.glob("*.png"))


def test_one_command_runs_everything_that_the_page_needs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each experiment, which would take hours together, is stood in for by the files that it once wrote."""

    def stand_in(name: str) -> Callable[..., None]:
        def run(out: Path, data: Path | None = None, **how: object) -> None:
            stem = f"{name}-cnp" if data == tmp_path / "cnp" else name
            for file in RESULTS.iterdir():
                rest = file.stem.removeprefix(stem)
                if file.stem.startswith(stem) and (not rest or (rest[0] == "-" and "cnp" not in rest)):
                    shutil.copy(file, out)

        return run

    for name, experiment in command.commands.items():
        if name not in ("page", "all"):
            monkeypatch.setattr(experiment, "callback", stand_in(name))
    asked: list[Path] = []
    # which look whether the folders are whole before anything runs
    monkeypatch.setattr(studies, "from_folder", asked.append)
    monkeypatch.setattr(heart4, "experiment", asked.append)
    out = tmp_path / "out"
    out.mkdir()
    assert run_command(["paper", "all", "--data", str(tmp_path), "--out", str(out)]) == 0
    text = (out / "reproduction.md").read_text(encoding="utf-8")
    assert page(RESULTS, ".") == text
    assert all((out / name).is_file() for name in LINK.findall(text))
    assert {file.name for file in out.glob("*.csv")} == {file.name for file in RESULTS.glob("*.csv")}
    assert asked == [tmp_path / "cnp", tmp_path / "heart4"]


def test_a_wrong_folder_is_told_before_anything_runs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "out"
    assert run_command(["paper", "all", "--data", str(tmp_path), "--out", str(out)]) == 2
    assert f"{tmp_path / 'cnp'}: is no folder" in capsys.readouterr().err
    assert not out.exists()


def test_the_figures_promised_for_the_synthetic_table_are_reached() -> None:
    lines = pd.read_csv(RESULTS / "sd.csv")
    apart = gaps(_ours(summary(lines, "SD_2")))
    assert len(apart) == 9
    assert apart[["train_mae", "test_mae"]].abs().to_numpy().max() < 0.20
    assert ratios(lines, YARDSTICK)[DEFAULT].max() < 1.03


def test_the_figures_promised_for_real_data_are_reached() -> None:
    cnp, hearts = (pd.read_csv(RESULTS / f"{name}.csv") for name in ("adni-cnp", "heart4"))
    assert ratios(cnp, YARDSTICK)[DEFAULT].max() < 1.03
    told = means(cnp, "accuracy")
    below = (told[YARDSTICK] - told[DEFAULT]) * 100
    assert max(below["IID", 3], below["IID", 6], at_sites(below)) < 3.0
    error = means(hearts, "test_mae")[DEFAULT]
    assert max(error["IID", 3], error["IID", 6]) < 1.05 * error["IID", 1]
    assert at_sites(error) < 1.15 * error["IID", 1]


def test_the_correction_of_the_adni_page_takes_out_what_goes_along_with_icv_sex_and_age() -> None:
    code = (DOCS / "adni.md").read_text(encoding="utf-8").split("```python\n")[1].split("```")[0]
    names: dict[str, Any] = {}
    exec(code, names)
    rng = np.random.default_rng(0)
    icv, sex, age = 1500 + 100 * rng.normal(size=60), rng.integers(0, 2, 60), rng.normal(72, 7, size=60)
    sick = np.arange(60) % 2 * (age > 72)  # a disease of the old
    features = np.column_stack([0.01 * icv + 3 * sex, 0.2 * age - 2 * sick])
    left = names["corrected"](features, icv, sex, age)
    table = pd.DataFrame(features, columns=["hippocampus", "entorhinal"])
    np.testing.assert_array_equal(names["corrected"](table, pd.Series(icv), pd.Series(sex), pd.Series(age)), left)
    np.testing.assert_allclose(left.T @ np.column_stack([np.ones(60), icv, sex, age]), 0, atol=1e-6)
    by_healthy = names["corrected"](features, icv, sex, age, sick == 0)
    np.testing.assert_allclose(by_healthy, np.column_stack([np.zeros(60), -2.0 * sick]), atol=1e-8)
    with pytest.raises(ValueError, match="leave out"):
        names["corrected"](np.full_like(features, np.nan), icv, sex, age)


def test_the_study_file_of_the_adni_page_works(tmp_path: Path) -> None:
    text = (DOCS / "adni.md").read_text(encoding="utf-8").split("```toml\n")[1].split("```")[0]
    (tmp_path / "adni.toml").write_text(text)
    names = tomllib.loads(text)["files"]
    views, groups = make_sd(66, 33, sizes=(7, 5, 5, 5), weights=5.0, means=5.0, noise=1.0, random_state=0)
    subjects = pd.DataFrame({"id": range(66), "group": pd.Series(groups).map({0: "NL", 1: "AD"})})
    subjects.assign(site=[f"site{i % 2}" for i in range(66)]).to_csv(tmp_path / "subjects.csv", index=False)
    for rows, file in zip(views.values(), names.values(), strict=True):
        pd.DataFrame(rows).add_prefix("f").assign(id=range(66)).to_csv(tmp_path / file, index=False)
    experiment = adni(from_study(tmp_path / "adni.toml"))
    assert list(experiment.source.draw(0).views) == ["CLINIC", "MRI", "FDG", "AV45"]
    assert not any("not ADNI" in remark for remark in experiment.remarks)
