"""A fitted run of a small study, and the command line called in this process."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from toy_study import write_study
from vedute.cli.app import run as run_command


@pytest.fixture(scope="session")
def toy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_study(tmp_path_factory.mktemp("toy"))


@pytest.fixture(scope="session")
def fitted(toy: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("fitted") / "run"
    assert run_command(["fit", str(toy), "--out", str(out), "--rounds", "6", "--tol", "none"]) == 0
    return out


Call = Callable[..., tuple[int, str, str]]


@pytest.fixture
def call(capfd: pytest.CaptureFixture[str]) -> Call:
    """Run a command in this process: exit status, standard output, standard error."""

    def call(*words: object) -> tuple[int, str, str]:
        capfd.readouterr()
        status = run_command([str(word) for word in words])
        out, err = capfd.readouterr()
        return status, out, err

    return call
