"""Real processes, killed at several moments: --resume ends with the same bits as a run that nobody disturbed."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from toy_study import write_study
from vedute.cli.app import run as run_command
from vedute.cli.fit import seen_as_interrupts
from vedute.run.run_folder import Stage, read_checksums, stage

OPTIONS = ["--rounds", "80", "--tol", "none", "--seed", "7"]
Call = Callable[..., tuple[int, str, str]]
PROGRAM = "from vedute.cli import main; main()"


def start(*words: object) -> subprocess.Popen[str]:
    """The command line as a process of its own."""
    command = [sys.executable, "-c", PROGRAM, *(str(word) for word in words)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def wait_for(process: subprocess.Popen[str], happened: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 60
    while not happened():
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < deadline, "the moment never came"
        time.sleep(0.001)


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, str]]:
    """The study, and the checksums of the model that an undisturbed run gives."""
    study = write_study(tmp_path_factory.mktemp("killed"), n=45, empty=0.01)
    out = study.parent / "reference"
    assert run_command(["fit", str(study), "--out", str(out), *OPTIONS]) == 0
    return study, _model(out)


def _model(run: Path) -> dict[str, str]:
    return {name: digest for name, digest in read_checksums(run).items() if name != "history.jsonl"}


def test_killed_again_and_again(undisturbed: tuple[Path, dict[str, str]], call: Call) -> None:
    study, expected = undisturbed
    run = study.parent / "killed"
    moments: list[Callable[[], bool]] = [
        (run / "run.json").exists,
        lambda: any(run.glob("checkpoint/data-*.npz")),
        lambda: any(run.glob("checkpoint/round-*.npz")),
        lambda: any(run.glob("local/*/.tmp-*")) or any(run.glob("local/*/latent.csv")) or (run / "model.npz").exists(),
    ]
    for happened in moments:
        process = start("fit", study, "--out", run, "--resume", *OPTIONS)
        wait_for(process, happened)
        os.kill(process.pid, signal.SIGKILL)
        process.communicate()
        assert process.returncode == -signal.SIGKILL or happened is moments[-1]  # that one may just have ended
    assert call("fit", study, "--out", run, "--resume")[0] == 0  # the options need not be repeated
    assert _model(run) == expected
    left = [path.name for path in run.rglob("*") if path.name.startswith(".")]
    assert left == []
    assert not (run / "checkpoint").exists()


@pytest.mark.parametrize(("number", "status"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_interrupted_politely(undisturbed: tuple[Path, dict[str, str]], number: int, status: int) -> None:
    study, expected = undisturbed
    run = study.parent / f"stopped-{number}"
    process = start("fit", study, "--out", run, *OPTIONS)
    wait_for(process, lambda: any(run.glob("checkpoint/data-*.npz")))
    process.send_signal(number)
    _, err = process.communicate()
    assert process.returncode == status, err
    assert "Traceback" not in err
    assert f"--out {run} --resume" in err
    assert stage(run) is Stage.INTERRUPTED
    if number == signal.SIGINT:
        assert run_command(["fit", str(study), "--out", str(run), "--resume"]) == 0
        assert _model(run) == expected


def test_what_a_signal_broke_counts_as_an_interrupt():
    with pytest.raises(KeyboardInterrupt), seen_as_interrupts([15]):
        raise TypeError("Cannot compare structured arrays")
    with pytest.raises(TypeError), seen_as_interrupts([]):
        raise TypeError("a true fault")
