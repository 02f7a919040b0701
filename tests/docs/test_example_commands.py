"""The commands of examples/README.md run as they stand, on stand-ins for the real tables, which we do not ship."""

from __future__ import annotations

import csv
import re
import shutil
import tomllib
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from vedute.cli.app import run as run_command

EXAMPLES = Path(__file__).parents[2] / "examples"
SITES, N = ("cleveland", "hungary", "switzerland", "va"), 160
SHORTER = {
    "fit": ["--rounds", "3"],
    "select": ["--rounds", "3", "--jobs", "1"],
}  # the same commands, with less patience


def commands() -> list[list[str]]:
    """All commands of the page, in order."""
    text = (EXAMPLES / "README.md").read_text()
    return [line.split()[1:] for line in re.findall(r"^    (vedute .*)$", text, re.MULTILINE)]


def write_stand_in(folder: Path) -> None:
    """Tables with the columns of heart4, whose values are drawn from the declared ranges."""
    study = tomllib.loads((EXAMPLES / "heart4" / "study.toml").read_text())
    rng = np.random.default_rng(0)
    ids = [f"p{i}" for i in range(N)]
    site = np.resize(SITES, N)
    folder.mkdir(parents=True)
    pd.DataFrame({"id": ids, "site": site, "group": np.resize(["a", "b"], N)}).to_csv(
        folder / "subjects.csv", index=False
    )
    latent = rng.normal(size=(N, 2))
    for view, body in study["views"].items():
        ranges = body["ranges"]
        if isinstance(ranges, str):
            with (EXAMPLES / "heart4" / ranges).open() as file:
                ranges = {row["column"]: (float(row["low"]), float(row["high"])) for row in csv.DictReader(file)}
        share = 0.5 + 0.1 * (latent @ rng.normal(size=(2, len(ranges))) + rng.normal(size=(N, len(ranges))))
        low, high = np.array(list(ranges.values()), dtype=float).T
        table = pd.DataFrame(
            low + (high - low) * share.clip(0, 1), index=pd.Index(ids, name="id"), columns=list(ranges)
        )
        (table[site != "va"] if view == "PAIN" else table).to_csv(folder / f"{view}.csv")


@pytest.mark.filterwarnings("ignore::vedute.ConvergenceWarning")
def test_every_command_of_the_page_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shutil.copytree(
        EXAMPLES / "heart4", tmp_path / "examples" / "heart4", ignore=shutil.ignore_patterns("data", "runs")
    )
    write_stand_in(tmp_path / "examples" / "heart4" / "data")
    monkeypatch.chdir(tmp_path)
    told = commands()
    assert {words[0] for words in told} >= {
        "check",
        "fit",
        "select",
        "project",
        "impute",
        "harmonise",
        "score",
        "sample",
    }
    for words in told:
        assert run_command([*words, *SHORTER.get(words[0], [])]) == 0, words
        if "--out" in words:
            assert Path(words[words.index("--out") + 1]).exists()
