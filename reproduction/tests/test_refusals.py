"""What an experiment cannot run on is told at once: what is wrong, where, and how to mend it."""

from __future__ import annotations

import importlib.util
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from toy_folders import four_views, write_folder
from vedute.cli.app import run as run_command
from vedute.errors import UserError
from vedute_reproduction.contenders import YARDSTICK, linear
from vedute_reproduction.folds import Dataset
from vedute_reproduction.keeping import How
from vedute_reproduction.missing import OURS, Hiding
from vedute_reproduction.page import page
from vedute_reproduction.studies import CNP, FixedStudy, Given, complete_rows, from_folder, from_study, read_folder
from vedute_reproduction.variability import Imputed, fit, run, write

RESULTS = Path(__file__).parents[2] / "docs" / "reproduction"
Edit = Callable[[pd.DataFrame], pd.DataFrame]


def _edited(path: Path, edit: Edit) -> None:
    edit(pd.read_csv(path, dtype=str)).to_csv(path, index=False)


def _cell(row: int, column: str, value: object) -> Edit:
    def edit(table: pd.DataFrame) -> pd.DataFrame:
        table.loc[row, column] = value
        return table

    return edit


@pytest.mark.parametrize(
    ("file", "edit", "told"),
    [
        ("T1W", _cell(4, "f2", "n/k"), r"T1W\.csv: subject '085', column 'f2': 'n/k' is no finite number"),
        ("T1W", _cell(4, "f2", "inf"), "is no finite number"),
        ("COGN", _cell(1, "id", "089"), r"COGN\.csv: subject '089' stands there twice"),
        ("COGN", _cell(3, "id", np.nan), r"COGN\.csv: line 5 has no id"),
        ("COGN", lambda table: table[["id"]], r"COGN\.csv: has no column but the id"),
        ("COGN", lambda table: table.rename(columns={"id": "name"}), r"COGN\.csv: has no column 'id'"),
        ("subjects", _cell(7, "group2", ""), r"subjects\.csv: subject '007' has no 'group2'; fill it in"),
        ("subjects", _cell(7, "site", np.nan), r"subject '007' has no 'site'"),
        ("subjects", lambda table: table.drop(columns="site"), "has no column 'site'"),
        ("COGN", lambda table: table.assign(id="sub-" + table["id"]), r"such as 'sub-0.*', .* like '000'"),
    ],
)
def test_a_folder_whose_files_are_wrong(tmp_path: Path, file: str, edit: Edit, told: str) -> None:
    folder = write_folder(tmp_path / "cnp", CNP.views)
    _edited(folder / f"{file}.csv", edit)
    with pytest.raises(UserError, match=told):
        read_folder(folder, CNP)


@pytest.mark.parametrize(
    ("edit", "told"),
    [
        (lambda table: table.assign(group2=["a", "b", "c"] * 30), r"are of 3 groups \(a 29, b 29, c 30\)"),
        (lambda table: table.assign(group2="a"), r"are of 1 groups \(a 88\); the scenarios need two"),
        (lambda table: table.assign(group2=["a"] * 75 + ["b"] * 15), "a group needs 18 subjects .* a 73, b 15"),
        (lambda table: table.head(60), "58 subjects with every cell are too few for 6 components .* 63 are needed"),
        (lambda table: table.assign(site=["x"] * 85 + ["y"] * 5), "center 'y' has 5 of the subjects .* 6 are needed"),
    ],
)
def test_a_study_too_small_or_of_other_groups_than_the_scenarios_deal(tmp_path: Path, edit: Edit, told: str) -> None:
    folder = write_folder(tmp_path / "cnp", CNP.views)
    _edited(folder / "subjects.csv", edit)
    with pytest.raises(UserError, match=told):
        from_folder(folder)


@pytest.mark.parametrize("others", [0, 5])
def test_a_column_that_may_be_constant_in_a_fold(tmp_path: Path, others: int) -> None:
    folder = write_folder(tmp_path / "cnp", CNP.views)
    _edited(folder / "REST.csv", lambda table: table.assign(f1=np.where(table.index < others, table["f1"], "1")))
    with pytest.raises(UserError, match=f"view 'REST', column 'f1': all but {others} of the subjects have the same"):
        from_folder(folder)


def test_subjects_of_a_study_file_without_a_group(tmp_path: Path) -> None:
    study = four_views(tmp_path / "toy")
    _edited(study.parent / "subjects.csv", _cell(5, "group", np.nan))
    with pytest.raises(UserError, match="1 subjects have no group; fill in the column, or leave their lines out"):
        from_study(study)


def test_one_center_is_no_center_among_others(tmp_path: Path) -> None:
    folder = write_folder(tmp_path / "cnp", CNP.views)
    _edited(folder / "subjects.csv", lambda table: table.assign(site="x"))
    assert complete_rows(read_folder(folder, CNP)).sites is None


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["sd"], "needs torch: pip install torch, or say --no-rivals"),
        (["adni", "--data", "x"], "or say --no-rivals"),
        (["fedprox"], "needs torch: pip install torch\n"),
        (["all", "--data", "x"], "needs torch and mofapy2: pip install torch mofapy2, or say --no-rivals"),
    ],
)
def test_packages_that_are_not_there(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    words: list[str],
    told: str,
) -> None:
    without(monkeypatch, "torch", "mofapy2")
    out = tmp_path / "out"
    assert run_command(["paper", *words, "--out", str(out)]) == 2
    assert told in capsys.readouterr().err
    assert not out.exists()


def test_mofa_alone_is_left_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert "MOFA, pooled" in {arm.name for arm in linear(2)}
    without(monkeypatch, "mofapy2")
    assert "MOFA, pooled" not in {arm.name for arm in linear(2)}
    assert YARDSTICK in {arm.name for arm in linear(2)}
    methods = {line["method"] for line in Hiding("missing", 1, "a", 0, 0).compute(_small())}
    assert {OURS, "ridge, pooled rows"} < methods
    assert not any("MOFA" in name for name in methods)
    assert run_command(["paper", "missing", "--data", str(tmp_path / "no"), "--out", str(tmp_path)]) == 2
    assert "without MOFA, which needs mofapy2: pip install mofapy2" in capsys.readouterr().err


def without(monkeypatch: pytest.MonkeyPatch, *lacking: str) -> None:
    found = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name in lacking else found(name))


def test_an_empty_path(capsys: pytest.CaptureFixture[str]) -> None:
    assert run_command(["paper", "adni", "--data", "", "--out", "out"]) == 2
    assert "is empty; give a path" in capsys.readouterr().err


@pytest.mark.parametrize(
    "edit",
    [
        lambda table: table[~table["method"].str.contains("VAE|PCA|MOFA")],  # as --no-rivals writes it
        lambda table: table.head(0),
        lambda table: table.drop(columns="test_mae"),
    ],
)
def test_a_page_of_files_that_lack_something(tmp_path: Path, edit: Edit) -> None:
    shutil.copytree(RESULTS, tmp_path / "results")
    lines = pd.read_csv(RESULTS / "sd.csv")
    edit(lines).to_csv(tmp_path / "results" / "sd.csv", index=False)
    with pytest.raises(
        UserError, match=r"results: sd\.csv lacks lines that the page tells of .* with all rivals and MOFA"
    ):
        page(tmp_path / "results")


def test_a_page_without_mofa_names_what_is_lacking(tmp_path: Path) -> None:
    shutil.copytree(RESULTS, tmp_path / "results")
    lines = pd.read_csv(RESULTS / "missing.csv")
    lines[~lines["method"].str.contains("MOFA")].to_csv(tmp_path / "results" / "missing.csv", index=False)
    with pytest.raises(UserError, match=r"missing\.csv .* tells of \('MOFA, pooled rows'\); .* MOFA$"):
        page(tmp_path / "results")


@pytest.mark.parametrize("content", [b"\xff\xfe\x00", b'a,b\n1,2,"3\n'])
def test_a_file_of_results_that_is_no_csv(tmp_path: Path, content: bytes) -> None:
    shutil.copytree(RESULTS, tmp_path / "results")
    (tmp_path / "results" / "heart4.csv").write_bytes(content)
    with pytest.raises(UserError, match=r"heart4\.csv: is no CSV \(.*\); write it again"):
        page(tmp_path / "results")


def test_an_empty_file_of_results(tmp_path: Path) -> None:
    shutil.copytree(RESULTS, tmp_path / "results")
    (tmp_path / "results" / "heart4.csv").write_text("")
    with pytest.raises(UserError, match=r"heart4\.csv: is empty; write it again"):
        page(tmp_path / "results")


def _small(names: tuple[str, ...] = ("a", "b", "c")) -> Dataset:
    rng = np.random.default_rng(0)
    shared = rng.normal(size=(60, 2))
    views = {name: shared @ rng.normal(size=(2, 4)) + 0.3 * rng.normal(size=(60, 4)) for name in names}
    return Dataset(views, np.arange(60) % 2)


def test_a_view_of_one_feature_has_no_figure_of_two(tmp_path: Path) -> None:
    class Source:
        def draw(self, repeat: int) -> Dataset:
            data = _small()
            return replace(data, views=dict(data.views) | {"b": data.views["b"][:, :1]})

    with pytest.raises(UserError, match="view 'b' has one feature"):
        run(Given(Source(), "", 2, "SD"), How(1, tmp_path))


def test_a_feature_that_does_not_vary_has_no_error_in_its_own_units() -> None:
    truth = np.column_stack([np.full(20, 3.0), np.arange(20.0)])
    part = Imputed("b", truth, np.zeros((20, 2)), np.ones((20, 2)), np.zeros(2), ["still", "moving"])
    still, moving = part.features(np.zeros((5, 2)))
    assert np.isnan([still["mae"], still["mae_mean"]]).all()
    assert np.isfinite([moving["mae"], moving["mae_mean"], still["coverage"]]).all()


def test_names_with_signs_of_formulas_are_drawn_as_they_are(tmp_path: Path) -> None:
    data = _small(("a$b", "x_{", "$"))
    data = replace(data, columns={name: [f"${name}_{{{j}" for j in range(4)] for name in data.views})
    scene = fit(data, 2, "default", 0, 0)
    lines = pd.DataFrame([line | {"preset": "default", "repeat": 0, "fold": 0} for line in scene.lines()])
    paths = write(lines, scene, tmp_path, Given(FixedStudy(data), "costs $5, or 5$", 2, "SD"))
    assert all(path.stat().st_size > 0 for path in paths)
