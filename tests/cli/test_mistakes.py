"""Wrong input: exit status 2, one message on standard error that tells the remedy, no traceback, nothing lost."""

from __future__ import annotations

import json
import os
import resource
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from vedute.cli import app
from vedute.cli.app import run as run_command

Call = Callable[..., tuple[int, str, str]]


def files(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.fixture
def copy(toy: Path, tmp_path: Path) -> Path:
    """The study file of a copy of the small study."""
    shutil.copytree(toy.parent, tmp_path / "copy")
    return tmp_path / "copy" / toy.name


MISTAKES = {
    "no such study": (["check", "nowhere.toml"], "nowhere.toml: there is no such file"),
    "a folder for a study": (["check", "{folder}"], "is a directory"),
    "no such study to fit": (["fit", "nowhere.toml", "--out", "new"], "there is no such file"),
    "no out": (["fit", "{toy}"], "Missing option '--out'"),
    "option misspelt": (["fit", "{toy}", "--out", "new", "--componets", "2"], "No such option"),
    "command misspelt": (["fitt", "{toy}"], "No such command 'fitt'"),
    "components in words": (["fit", "{toy}", "--out", "new", "--components", "two"], "not a valid integer"),
    "components 0": (["fit", "{toy}", "--out", "new", "--components", "0"], "must be at least 1"),
    "too many components": (
        ["fit", "{toy}", "--out", "new", "--components", "12"],
        "smaller than the number of features",
    ),
    "rounds 0": (["fit", "{toy}", "--out", "new", "--rounds", "0"], "rounds=0"),
    "negative seed": (["fit", "{toy}", "--out", "new", "--seed", "-1"], "--seed"),
    "tol nan": (["fit", "{toy}", "--out", "new", "--tol", "nan"], "tol=nan"),
    "tol negative": (["fit", "{toy}", "--out", "new", "--tol", "-1"], "tol=-1"),
    "declared without ranges": (["fit", "{toy}", "--out", "new", "--scaling", "declared"], "needs the range"),
    "out is a file": (["fit", "{toy}", "--out", "{toy}"], "is a file"),
    "out is full of other things": (["fit", "{toy}", "--out", "{folder}"], "is not a run folder"),
    "the same with force": (["fit", "{toy}", "--out", "{folder}", "--force"], "is not a run folder"),
    "out below a file": (["fit", "{toy}", "--out", "{toy}/new"], "cannot be written"),
    "out where nothing can be": (["fit", "{toy}", "--out", "/proc/new"], "cannot be written"),
    "run finished": (["fit", "{toy}", "--out", "{fitted}"], "a finished run already"),
    "resume and force": (["fit", "{toy}", "--out", "{fitted}", "--resume", "--force"], "choose one"),
    "not a run": (["project", "{folder}", "{toy}", "--out", "x.csv"], "is not a run folder"),
    "no run": (["score", "nowhere", "{toy}", "--out", "x.csv"], "there is no such folder"),
    "run is a file": (["impute", "{toy}", "{toy}", "--out", "x.csv"], "is a file"),
    "arguments swapped": (["project", "{toy}", "{fitted}", "--out", "x.csv"], "is a file"),
    "table without suffix": (["project", "{fitted}", "{toy}", "--out", "latent"], "end the name in"),
    "table of another kind": (["impute", "{fitted}", "{toy}", "--out", "x.xlsx"], "end the name in"),
    "out exists": (["project", "{fitted}", "{toy}", "--out", "{toy}"], "exists already"),
    "out is the study": (["project", "{fitted}", "{toy}", "--out", "{folder}/view1.csv", "--force"], "reads from"),
    "out is the run": (["impute", "{fitted}", "{toy}", "--out", "{fitted}", "--force"], "reads from"),
    "out is another folder": (["harmonise", "{fitted}", "{toy}", "--out", "{home}", "--force"], "choose another"),
    "no folder for out": (["project", "{fitted}", "{toy}", "--out", "no/where/x.csv"], "there is no folder"),
    "center unknown": (["sample", "{fitted}", "--center", "nce", "--out", "x.csv"], "did you mean 'nice'?"),
    "sample of none": (["sample", "{fitted}", "-n", "0", "--out", "x.csv"], "-n"),
    "shell unknown": (["completion", "tcsh"], "tcsh"),
    "demo into a file": (["demo", "--out", "{toy}"], "cannot be written"),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake_is_told_and_costs_nothing(
    mistake: str, toy: Path, fitted: Path, tmp_path: Path, call: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mine.txt").write_text("mine")
    before = [files(toy.parent), files(fitted), files(tmp_path)]
    words, expected = MISTAKES[mistake]
    status, out, err = call(*(w.format(toy=toy, folder=toy.parent, fitted=fitted, home=tmp_path) for w in words))
    assert status == 2, (out, err)
    assert expected in err
    assert "Traceback" not in err
    assert out == ""
    assert [files(toy.parent), files(fitted), files(tmp_path)] == before


def test_other_columns_or_views_than_the_model_has(fitted: Path, copy: Path, tmp_path: Path, call: Call) -> None:
    path = copy.parent / "view2.csv"
    path.write_text(path.read_text().replace("view2_0", "pulse", 1))
    status, _, err = call("project", fitted, copy, "--out", tmp_path / "x.csv")
    assert status == 2
    assert "view 'view2' lacks 'view2_0'" in err
    copy.write_text(copy.read_text().replace("view2 =", "other ="))
    status, _, err = call("impute", fitted, copy, "--out", tmp_path / "x.csv")
    assert status == 2
    assert "view 'other' is not in the model" in err
    assert not (tmp_path / "x.csv").exists()


def test_resume_refuses_another_configuration_study_or_data(copy: Path, tmp_path: Path, call: Call) -> None:
    run = tmp_path / "run"
    assert call("fit", copy, "--out", run, "--rounds", 3, "--tol", "none")[0] == 0
    before = files(run)
    assert call("fit", copy, "--out", run, "--resume")[0] == 0

    status, _, err = call("fit", copy, "--out", run, "--resume", "--rounds", 4, "--seed", 9)
    assert status == 2
    assert "the configuration differs from that of the run (rounds was 3, now 4, seed was 0, now 9)" in err

    study = copy.read_text()
    copy.write_text(study.replace("components = 2", "components = 3"))
    status, _, err = call("fit", copy, "--out", run, "--resume")
    assert status == 2
    assert "the study file differs" in err
    assert "line 3 was 'components = 2', now 'components = 3'" in err
    copy.write_text(study)

    path = copy.parent / "view1.csv"
    table = path.read_text()
    line = next(line for line in table.splitlines() if line.startswith("s003"))  # a subject of nice
    path.write_text(table.replace(line, line.rsplit(",", 1)[0] + ",123.5"))
    status, _, err = call("fit", copy, "--out", run, "--resume")
    assert status == 2
    assert "the data differs from that of the run (rows of center 'nice'" in err
    path.write_text(table)  # the same data in a file of another time
    assert call("fit", copy, "--out", run, "--resume")[0] == 0
    assert files(run) == before


def test_force_replaces_a_run(copy: Path, tmp_path: Path, call: Call) -> None:
    run = tmp_path / "run"
    assert call("fit", copy, "--out", run, "--rounds", 2)[0] == 0
    assert call("fit", copy, "--out", run, "--rounds", 3, "--force")[0] == 0
    assert json.loads((run / "run.json").read_text())["settings"]["rounds"] == 3
    assert call("sample", run, "--out", tmp_path / "a")[0] == 0
    assert call("sample", run, "--out", tmp_path / "a")[0] == 2
    assert call("sample", run, "--out", tmp_path / "a", "-n", 3, "--force")[0] == 0
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a", "copy", "run"]


def test_a_flipped_byte_is_told_with_the_file(fitted: Path, toy: Path, tmp_path: Path, call: Call) -> None:
    shutil.copytree(fitted, tmp_path / "run")
    path = tmp_path / "run" / "local" / "nice" / "latent.csv"
    data = bytearray(path.read_bytes())
    data[50] ^= 4
    path.write_bytes(data)
    status, _, err = call("project", tmp_path / "run", toy, "--out", tmp_path / "x.csv")
    assert status == 2
    assert f"{path}: its checksum is wrong" in err


def _small_files() -> None:
    resource.setrlimit(resource.RLIMIT_FSIZE, (1500, 1500))


@pytest.mark.parametrize("command", ["fit", "impute", "harmonise"])
def test_a_full_disk_leaves_nothing_half_written(command: str, fitted: Path, toy: Path, tmp_path: Path) -> None:
    """Files may grow to 1500 bytes only, which fails like a full disk in the middle of a write."""
    out = tmp_path / "out"
    words = ["fit", str(toy), "--rounds", "3"] if command == "fit" else [command, str(fitted), str(toy)]
    code = "from vedute.cli import main; main()"
    done = subprocess.run(
        [sys.executable, "-c", code, *words, "--out", str(out)], capture_output=True, text=True, preexec_fn=_small_files
    )
    assert done.returncode == 2, done.stderr
    assert f"{out}" in done.stderr
    assert "cannot be written" in done.stderr
    assert ".tmp-" not in done.stderr  # the user knows nothing of names that are used in between
    assert "Traceback" not in done.stderr
    left = [path for path in tmp_path.rglob("*") if path.is_file()]
    if command == "fit":
        assert {path.name for path in left} <= {"run.json", "study.toml", "checksums.json"}
        assert run_command(["fit", str(toy), "--out", str(out), "--resume"]) == 0  # and the run goes on later
    else:
        assert left == []
        assert not out.exists()


def test_a_fault_of_ours_has_no_traceback_unless_asked(toy: Path, call: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    from vedute.data.study import Study

    def broken(self: Study) -> None:
        raise KeyError("oops")

    monkeypatch.setattr(Study, "check", broken)
    status, _, err = call("check", toy)
    assert status == app.OUR_FAULT
    assert "Traceback" not in err
    assert "KeyError" in err
    assert "Traceback" in call("--debug", "check", toy)[2]


def test_a_closed_pipe_is_no_complaint(toy: Path) -> None:
    code = "from vedute.cli import main; main()"
    read, write = os.pipe()
    os.close(read)
    with os.fdopen(write, "w") as closed:
        done = subprocess.run(
            [sys.executable, "-c", code, "check", str(toy)], stdout=closed, stderr=subprocess.PIPE, text=True
        )
    assert done.returncode == app.PIPE_CLOSED
    assert done.stderr == ""


VALUES = st.sampled_from(
    ["{toy}", "{folder}", "{fitted}", "x.csv", "y", "/dev/null", "z/../q.parquet", "1", "0", "-1", "1e9", "none", "nan",
     "nice", "paper", "center-minmax", "adapt", "global", "", "é" * 300, "\udcff"]
)  # fmt: skip
OPTIONS = st.sampled_from(
    ["--out", "--using", "--rounds", "--components", "--tol", "--seed", "--preset", "--scaling", "-n", "--center"]
)
FLAGS = st.sampled_from(["--force", "--json", "--resume", "--help"])
WORDS = st.one_of(VALUES.map(lambda v: [v]), FLAGS.map(lambda f: [f]), st.tuples(OPTIONS, VALUES).map(list))
COMMANDS = st.sampled_from(["check", "fit", "project", "impute", "harmonise", "score", "sample", "completion"])
SHARED = [HealthCheck.function_scoped_fixture, HealthCheck.too_slow]  # the examples may share a folder


@settings(max_examples=60, deadline=None, derandomize=True, suppress_health_check=SHARED)
@given(command=COMMANDS, words=st.lists(WORDS, max_size=5))
def test_no_line_of_words_is_our_fault(
    command: str, words: list[list[str]], toy: Path, fitted: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    names = {"toy": str(toy), "folder": str(toy.parent), "fitted": str(fitted)}
    line = [command, *(part.format(**names) for word in words for part in word)]
    assert run_command(line) in (0, 2), line
    assert (fitted / "model.npz").exists()


@settings(max_examples=30, deadline=None, derandomize=True, suppress_health_check=SHARED)
@given(data=st.data())
def test_no_damage_to_the_files_is_our_fault(data: st.DataObject, toy: Path, fitted: Path, tmp_path: Path) -> None:
    """Bytes of the study file or of a table replaced, cut out or put in: fitted, projected, or refused."""
    shutil.copytree(toy.parent, tmp_path / "copy", dirs_exist_ok=True)
    path = tmp_path / "copy" / data.draw(st.sampled_from(["study.toml", "subjects.csv", "view1.csv"]))
    whole = path.read_bytes()
    at = data.draw(st.integers(0, len(whole)))
    cut = data.draw(st.integers(0, 30))
    path.write_bytes(whole[:at] + data.draw(st.binary(max_size=6)) + whole[at + cut :])
    study = str(tmp_path / "copy" / toy.name)
    assert run_command(["check", study, "--json"]) in (0, 2)
    out = ["--out", str(tmp_path / "x.csv"), "--force"]
    assert run_command(["project", str(fitted), study, "--using", "adapt", *out]) in (0, 2)


def test_a_file_cut_off_in_the_middle_of_its_last_number_is_not_passed_over(copy: Path, call: Call) -> None:
    """The row is complete and the number is one, so it can only be told, not refused."""
    path = copy.parent / "view1.csv"
    whole = path.read_text()
    assert call("check", copy)[2] == ""
    path.write_text(whole[: whole.rindex(",") + 4])
    status, _, err = call("check", copy)
    assert status == 0
    assert err.count("view1.csv: the last line does not end") == 1


def test_a_locale_that_cannot_write_a_center_is_told_with_the_remedy(copy: Path, tmp_path: Path) -> None:
    path = copy.parent / "subjects.csv"
    path.write_text(path.read_text().replace("nice", "نيس"))
    plain = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
    words = [sys.executable, "-c", "from vedute.cli import main; main()", "fit", str(copy), "--rounds", "2"]
    words += ["--out", str(tmp_path / "run")]
    done = subprocess.run(words, capture_output=True, text=True, env={**os.environ, **plain})
    assert done.returncode == 2, done.stderr
    assert "PYTHONUTF8=1" in done.stderr
    done = subprocess.run([*words, "--resume"], capture_output=True, text=True, env={**os.environ, "PYTHONUTF8": "1"})
    assert done.returncode == 0, done.stderr
