"""What the README tells is run: its Python as one program, its commands in the folder that the program wrote."""

import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from vedute import PaperPrivacy

README = Path(__file__).parent.parent / "README.md"


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    where = tmp_path_factory.mktemp("readme")
    program = "\n".join(re.findall(r"```python\n(.*?)```", README.read_text(), re.DOTALL))
    done = subprocess.run([sys.executable, "-c", program], cwd=where, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "case_mix" in done.stdout  # the table of deviations
    assert float(done.stdout.split()[-1]) == pytest.approx(3.0, rel=1e-6)  # what the ledger says was spent
    return where


def commands():
    (block,) = re.findall(r"```sh\n(.*?)```", README.read_text(), re.DOTALL)
    return block.strip().splitlines()


def test_the_commands_run_in_order_and_write_what_they_promise(folder):
    for line in commands():
        words = shlex.split(line)
        assert words[0] == "vedute"
        run = [sys.executable, "-c", "from vedute.cli import main; main()", *words[1:]]
        done = subprocess.run(run, cwd=folder, capture_output=True, text=True)
        assert done.returncode == 0, (line, done.stderr)
        if "--out" in words:
            assert (folder / words[words.index("--out") + 1]).exists(), line


def test_links_and_make_targets_exist():
    text = README.read_text()
    for target in re.findall(r"\]\(([^)#]+)\)", text):
        assert (README.parent / target).exists(), target
    makefile = (README.parent / "Makefile").read_text()
    for name in re.findall(r"^    make (\w+)", text, re.MULTILINE):
        assert re.search(rf"^{name}:", makefile, re.MULTILINE), name


def test_the_papers_totals_are_those_of_the_accountant():
    """K = 4 views, 100 rounds, eps = 10 and delta = .01 a mechanism; the design's 6642 within 1 %."""
    policy = PaperPrivacy(epsilon=10, delta=0.01, first_round="public")
    told = re.search(r"eps = (\d+) instead of (\d+)", README.read_text())
    assert policy.honest(views=4, rounds=100) == pytest.approx(float(told[1]), rel=0.01)
    assert policy.claim(views=4)[0] == float(told[2])
    assert PaperPrivacy().honest(views=4, rounds=100) == float("inf")
