"""Everything that the README and the pages of the site tell a reader to do is done, and what they show was printed."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

import playing
from playing import alike, blocks, difference, mistakes, rewritten
from vedute import PaperPrivacy
from vedute.cli.app import COMMANDS
from vedute.data.problems import Problems
from vedute.data.study_file import parse_study

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
ELSEWHERE = {"federation.md": "tests/federation"}  # pages that need more than a folder -> where tests run their blocks
COMMAND = re.compile(
    rf"^(?: {{4,}}|\t)(?:\$ )?(?:python|pip|nvflare|vedute (?:{'|'.join(COMMANDS)})\b).*", re.MULTILINE
)
TOLD_ONLY = {
    "    vedute paper adni --study adni.toml --out results",  # needs ADNI itself
    "    vedute paper all --data FOLDER --out DIR",  # takes hours; reproduction/tests run its parts in small
}


def active(page: Path) -> bool:
    """Whether the page has something to run or to show."""
    return any(block.language in {"python", "sh"} for block in blocks(page.read_text()))


@pytest.mark.parametrize("page", [pytest.param(p, id=p.stem) for p in PAGES if active(p) and p.name not in ELSEWHERE])
def test_a_page_does_what_it_says(page: Path, tmp_path: Path) -> None:
    env = {**os.environ, "COLUMNS": "120", "MPLBACKEND": "agg"}
    run = [sys.executable, playing.__file__, str(page)]
    done = subprocess.run(run, cwd=tmp_path, capture_output=True, text=True, env=env)
    assert done.returncode == 0, done.stderr


def test_a_page_that_is_run_elsewhere_is_named_there() -> None:
    for page in [page for page in PAGES if page.name in ELSEWHERE]:
        folder = ELSEWHERE[page.name]
        tests = (ROOT / folder).rglob("test_*.py")
        assert any(page.name in test.read_text() for test in tests), f"no test in {folder} runs {page.name}"


@pytest.mark.parametrize("page", [pytest.param(p, id=p.stem) for p in PAGES])
def test_no_command_stands_where_nobody_runs_it(page: Path) -> None:
    """Commands are written in fenced blocks; an indented one would never be run."""
    text = playing.FENCE.sub("", page.read_text())
    assert set(COMMAND.findall(text)) <= TOLD_ONLY


def test_what_the_reader_does_first_can_be_done() -> None:
    """Installing needs a network and a folder needs a place, so these lines are looked at, not run."""
    makefile, project = (ROOT / "Makefile").read_text(), (ROOT / "pyproject.toml").read_text()
    extras = tomllib.loads(project)["project"]["optional-dependencies"]
    texts = [page.read_text() for page in PAGES]
    lines = [line for text in texts for b in blocks(text) if b.language == "console" for line in b.text.splitlines()]
    lines += [f"$ {line.strip()}" for text in texts for line in re.findall(r"^    make \w+", text, re.MULTILINE)]
    assert any("make demo" in line for line in lines)
    for line in lines:
        known = re.fullmatch(
            r'\$ (?:make (?P<target>\w+)|pip install "vedute\[(?P<extra>\w+)\]"|source \.venv/bin/activate|'
            r"mkdir (?P<folder>[\w-]+)|cd [\w-]+)(?: +#.*)?",
            line,
        )
        assert known, line
        assert known["target"] is None or re.search(rf"^{known['target']}:", makefile, re.MULTILINE), line
        assert known["extra"] is None or known["extra"] in extras, line


def test_the_study_files_of_the_reference_are_study_files() -> None:
    page = ROOT / "docs" / "reference" / "files.md"
    shown = [block for block in blocks(page.read_text()) if block.language == "toml"]
    assert len(shown) == 3
    for block in shown:
        problems = Problems()
        parse_study(Path("study.toml"), block.text, tomllib.loads(block.text), problems)
        assert problems.messages == []


def test_links_of_the_readme_lead_somewhere() -> None:
    for target in re.findall(r"\]\(([^)#]+)\)", PAGES[0].read_text()):
        assert (ROOT / target).exists(), target


def test_the_papers_totals_in_the_readme_are_those_of_the_accountant() -> None:
    """K = 4 views, 100 rounds, eps = 10 and delta = .01 a mechanism; the design's 6642 within 1 %."""
    policy = PaperPrivacy(epsilon=10, delta=0.01, first_round="public")
    told = re.search(r"eps = (\d+) instead of (\d+)", PAGES[0].read_text())
    assert told
    assert policy.honest(views=4, rounds=100) == pytest.approx(float(told[1]), rel=0.01)
    assert policy.claim(views=4)[0] == float(told[2])
    assert PaperPrivacy().honest(views=4, rounds=100) == float("inf")


def test_the_blocks_of_a_page() -> None:
    page = "# T\n\n```python\na = 1\n```\n\n```text\n1\n```\n\n!!! note\n\n"
    page += '    ```toml title="x.toml"\n    b = 2\n    ```\n'
    found = blocks(page)
    assert [(b.language, b.title, b.text, b.line, b.follows) for b in found] == [
        ("python", None, "a = 1\n", 3, False),
        ("text", None, "1\n", 7, True),
        ("toml", "x.toml", "b = 2\n", 13, False),
    ]


@pytest.mark.parametrize(
    ("told", "printed", "same"),
    [
        ("mean 1.99", "mean  1.995", True),
        ("mean 1.99", "mean 2.21", False),
        ("6 centers", "7 centers", False),
        ("569 subjects", "569  subjects", True),
        ("after 24 rounds", "after 25 rounds", True),
        ("after 24 rounds", "after 34 rounds", False),
        ("93%", "92%", True),
        ("93%", "90%", False),
        ("0.003", "0.009", False),
        ("1.2e-05", "1.2e-05", True),
        ("1.2e-05", "1.2e-04", False),
        ("p003 Nice", "p003 Nice", True),
        ("p003 Nice", "p004 Nice", False),
        ("a 1 2", "a 1", False),
    ],
)
def test_alike(told: str, printed: str, same: bool) -> None:
    assert alike(told, printed) is same


def test_difference_skips_where_it_may_and_nowhere_else() -> None:
    assert difference("a\n...\nd\n", "a\nb\nc\nd\n") is None
    assert difference("a\n...\n", "a\nb\n") is None
    assert difference("a\nd\n", "a\nb\nd\n") is not None
    assert difference("a\n", "a\nb\n") == "printed, not told: b"
    assert difference("a\nb\n", "a\n") == "not printed: b"


def test_what_was_printed_can_be_written_down() -> None:
    page = "```python\nprint(2)\n```\n\n```text\n1\n```\n\nand\n"
    assert mistakes("p.md", page, {0: "2\n"}) == ["p.md:5: printed: 2\n   told: 1"]
    assert rewritten(page, {0: "2\n"}) == page.replace("1", "2")
    assert mistakes("p.md", rewritten(page, {0: "2\n"}), {0: "2\n"}) == []
