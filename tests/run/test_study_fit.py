"""An interrupted run goes on with the same data and with no other, to the same bits."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from toy_study import write_study
from vedute import DataWarning, Study, UserError
from vedute.run import run_folder
from vedute.run.protocol import Progress
from vedute.run.run_folder import Stage, read_checksums, stage, write_checksums
from vedute.run.study_fit import Request, Watch, fit_study

GIVEN = {"rounds": 6, "tol": None}


def watch(stop_at: int = 0) -> tuple[Watch, list[int]]:
    """Interrupts after a round, as Ctrl-C would; the list notes after which round a run began."""
    began: list[int] = []

    def after(progress: Progress) -> None:
        if len(progress.history) == stop_at:
            raise KeyboardInterrupt

    return Watch(lambda settings, done: began.append(done), after), began


def interrupted(folder: Path) -> tuple[Path, Path]:
    """A study, and a run folder of it that was interrupted after round 3."""
    study, run = write_study(folder / "study"), folder / "run"
    with pytest.raises(KeyboardInterrupt):
        fit_study(Study.load(study), run, Request(GIVEN), watch(3)[0])
    assert stage(run) is Stage.INTERRUPTED
    return study, run


def another_number(text: str, subject: str) -> str:
    """A table in which one number of one subject is another."""
    start = text.index(f"\n{subject},") + len(subject) + 2
    return text[:start] + "12.5" + text[text.index(",", start) :]


def resume(study: Path, run: Path) -> list[int]:
    looking, began = watch()
    fit_study(Study.load(study), run, Request({}, resume=True), looking)
    return began


def test_goes_on_after_the_last_round_to_the_same_bits(tmp_path: Path) -> None:
    study, run = interrupted(tmp_path)
    assert resume(study, run) == [3]
    fit_study(Study.load(study), tmp_path / "whole", Request(GIVEN), watch()[0])
    one, other = read_checksums(run), read_checksums(tmp_path / "whole")
    assert {name for name in one if one[name] != other[name]} == {"history.jsonl"}  # it tells seconds


def test_files_with_the_same_content_are_the_same_data(tmp_path: Path) -> None:
    study, run = interrupted(tmp_path)
    for path in study.parent.glob("*.csv"):
        lines = path.read_text().splitlines(keepends=True)
        path.write_text("".join([lines[0], *reversed(lines[1:])]))  # the order of the rows tells nothing
        os.utime(path, (1e9, 1e9))
    assert resume(study, run) == [3]


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (("view2.csv", "s010", ""), "rows of center 'paris'"),
        (("view2.csv", "\ns010,", "\ns010x,"), "s010x"),
        (("subjects.csv", "s010,paris", "s010,nice"), "rows of center 'nice'"),
        (("subjects.csv", "s010,paris", "s010,bonn"), "center 'bonn' was not there"),
        (("view1.csv", "view1_0", "weight"), "view 'view1' has other columns"),
        (("study.toml", "components = 2", "components = 1"), "the study file differs.*components = 1"),
    ],
)
def test_other_data_are_refused_and_named(tmp_path: Path, change: tuple[str, str, str], told: str) -> None:
    study, run = interrupted(tmp_path)
    name, old, new = change
    path = study.parent / name
    text = path.read_text()
    path.write_text(text.replace(old, new, 1) if new else another_number(text, old))
    assert path.read_text() != text
    with pytest.raises(UserError, match=told):
        resume(study, run)
    assert stage(run) is Stage.INTERRUPTED
    path.write_text(text)
    assert resume(study, run) == [3]


def test_a_damaged_checkpoint_is_named(tmp_path: Path) -> None:
    study, run = interrupted(tmp_path)
    for path in (run / "checkpoint").iterdir():
        whole = path.read_bytes()
        path.write_bytes(whole[:200] + bytes([whole[200] ^ 1]) + whole[201:])
        with pytest.raises(UserError, match=f"{path.name}: its checksum is wrong"):
            resume(study, run)
        path.write_bytes(whole)
    assert resume(study, run) == [3]


def test_other_versions_are_told(tmp_path: Path) -> None:
    study, run = interrupted(tmp_path)
    path = run / run_folder.RUN
    content = json.loads(path.read_text())
    content["versions"]["numpy"] = "1.0"
    path.write_text(json.dumps(content))
    write_checksums(run, read_checksums(run) | {run_folder.RUN: run_folder.sha256_of(path)})
    with pytest.warns(DataWarning, match=r"numpy 1\.0 -> "):
        resume(study, run)


def test_data_that_change_during_the_fit_are_refused(tmp_path: Path) -> None:
    study = write_study(tmp_path / "study")
    path = study.parent / "view1.csv"
    text = path.read_text()

    def change(progress: Progress) -> None:
        path.write_text(another_number(text, "s004"))

    with pytest.raises(UserError, match="its data changed while the model was fitted"):
        fit_study(Study.load(study), tmp_path / "run", Request(GIVEN), Watch(lambda settings, done: None, change))
    assert stage(tmp_path / "run") is Stage.INTERRUPTED
