"""Commands of other packages: listed without being imported, run where they are installed, named where they are not."""

from __future__ import annotations

import importlib.metadata
import subprocess
import sys

import click
import pytest

from vedute.cli.app import PLUGINS
from vedute.cli.app import run as run_command


def test_help_lists_the_command_and_imports_nothing_of_it() -> None:
    code = (
        "import sys; from vedute.cli.app import run; run(['--help']);"
        "print([name for name in sys.modules if name.startswith('vedute_reproduction')])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "  paper       Run the paper's experiments again" in done.stdout
    assert done.stdout.splitlines()[-1] == "[]"


@pytest.mark.parametrize("words", [[], ["--help"], ["sd", "--out", "out"]])
def test_a_command_that_is_not_installed_says_what_to_install(
    words: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(importlib.metadata, "entry_points", lambda **asked: ())
    assert run_command(["paper", *words]) == 2
    told = capsys.readouterr()
    assert told.out == ""
    assert told.err == (
        "vedute: 'vedute paper' comes with the package vedute-reproduction, which is not installed; "
        "install it from the folder of vedute's source: pip install ./reproduction\n"
    )


def test_the_command_that_runs_is_that_of_the_entry_point(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    @click.command()
    @click.argument("word")
    def command(word: str) -> None:
        click.echo(f"heard {word}")

    class Found:
        def load(self) -> click.Command:
            return command

    asked: list[dict[str, str]] = []
    monkeypatch.setattr(importlib.metadata, "entry_points", lambda **which: asked.append(which) or (Found(),))
    assert run_command(["paper", "this"]) == 0
    assert capsys.readouterr().out == "heard this\n"
    assert asked == [{"group": PLUGINS, "name": "paper"}]
