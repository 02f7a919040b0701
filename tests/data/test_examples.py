"""The studies under examples/ fit the real data, where these lie beside the repository."""

import os
import shutil
from pathlib import Path

import pandas as pd
import pytest

from vedute.data.problems import Problems
from vedute.data.study import Study
from vedute.data.study_file import parse_study, read_toml

EXAMPLES = Path(__file__).parents[2] / "examples"
SHARED = Path(__file__).parents[3] / "shared" / "data"
NAMES = sorted(path.parent.name for path in EXAMPLES.glob("*/study.toml"))
SUBJECTS = {"heart4": (899, {"cleveland": 282, "hungary": 294, "switzerland": 123}), "cnp": (272, {})}


def views_of(name: str) -> dict[str, str]:
    """View -> file, as the example names them."""
    path = EXAMPLES / name / "study.toml"
    text, raw = read_toml(path)
    problems = Problems()
    said = parse_study(path, text, raw, problems)
    assert not problems.messages
    return {view: table.label for view, table in said.pools[0].files.items()}


def test_both_examples_are_there_and_look_for_their_data_beside_them():
    assert NAMES == ["cnp", "heart4"]
    for name in NAMES:
        assert all(label.startswith("data/") for label in views_of(name).values())


@pytest.mark.parametrize("name", [name for name in NAMES if (SHARED / name).is_dir()] or ["no data beside"])
def test_the_real_data_pass_the_check(name, tmp_path):
    if name == "no data beside":
        assert not SHARED.is_dir() or not any((SHARED / known).is_dir() for known in NAMES)
        return
    shutil.copytree(EXAMPLES / name, tmp_path / name, ignore=shutil.ignore_patterns("data", "runs"))
    os.symlink(SHARED / name, tmp_path / name / "data", target_is_directory=True)
    study = Study.load(tmp_path / name / "study.toml")
    report = study.check()
    assert report.problems == ()
    total, known = SUBJECTS[name]
    assert report.subjects == total
    counts = {center.name: center.subjects for center in report.centers}
    assert known.items() <= counts.items()
    for center in study.centers:
        rows = study.read(center)
        for view in study.views:
            table = pd.read_csv(SHARED / name / f"{view}.csv").set_index("id")
            mine = table[table.index.isin(rows.ids)]
            assert (view in rows.views) == bool(len(mine))
            if len(mine):
                pd.testing.assert_frame_equal(
                    rows.frame(view), table.reindex(rows.ids).astype(float).rename_axis("id"), check_exact=True
                )
