"""The number of components on SD: found by WAIC, beside the paper's table."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from vedute.cli.app import run as run_command
from vedute.datasets import make_sd
from vedute_reproduction.folds import Dataset, three_folds
from vedute_reproduction.selection import Trial, markdown, summary


def test_the_step_has_the_sum_of_both_variances_under_its_root() -> None:
    waic = {2: [10.0, 14.0, 12.0], 3: [4.0, 6.0, 11.0]}
    lines = pd.DataFrame(
        [
            {
                "preset": "paper",
                "components": q,
                "repeat": 0,
                "fold": i,
                "waic": w,
                "train_mae": 0.1,
                "test_mae": 0.2,
                "recommended": q == 3,
            }
            for q, values in waic.items()
            for i, w in enumerate(values)
        ]
    )
    table = summary(lines).set_index("components")
    expected = (7.0 - 12.0) / np.sqrt(np.var(waic[3], ddof=1) / 3 + np.var(waic[2], ddof=1) / 3)
    assert table.loc[3, "waic_step"] == pytest.approx(expected)
    assert np.isnan(table.loc[2, "waic_step"])
    steps = np.subtract(waic[3], waic[2])
    assert table.loc[3, "waic_paired"] == pytest.approx(steps.mean() / (steps.std(ddof=1) / np.sqrt(3)))
    assert np.isnan(table.loc[2, "waic_paired"])
    assert summary(lines, "ADNI").set_index("components").loc[3, "waic_paper"] == -5275
    assert table["recommended"].tolist() == [0, 3]
    assert table.loc[3, "test_mae_paper"] == 0.0662


def test_steps_are_told_between_neighbours_and_between_the_same_folds() -> None:
    """3 components are left out on the first fold, whose WAIC is far from the others; nothing was tried at 4."""
    waic = {2: [100.0, 14.0, 12.0], 3: [None, 6.0, 5.0], 5: [90.0, 3.0, 2.0]}
    lines = pd.DataFrame(
        {"preset": "paper", "components": q, "repeat": 0, "fold": i, "waic": w} | {"train_mae": 0.1, "test_mae": 0.2}
        for q, values in waic.items()
        for i, w in enumerate(values)
        if w is not None
    )
    table = summary(lines.assign(recommended=False)).set_index("components")
    assert table["waic_step"].isna().tolist() == [True, False, True]
    assert table["waic_paired"].isna().tolist() == [True, False, True]
    assert table.loc[3, "waic_paired"] == pytest.approx(-7.5 / 0.5)
    assert [line.split(" | ")[6] for line in markdown(summary(lines.assign(recommended=True))).split("\n")[2:5]] == [
        "3 of 3", "2 of 2", "3 of 3",
    ]  # fmt: skip


def test_errors_of_the_default_preset_are_in_the_units_of_the_train_rows() -> None:
    """A test row beyond them all would stretch units of its own."""
    views, groups = make_sd(60, 30, sizes=(6, 5, 4), n_components=2, random_state=0)
    data = Dataset(views, groups)
    _, test = three_folds(data, 0)[0]
    far = {name: rows.copy() for name, rows in views.items()}
    for rows in far.values():
        rows[test[0]] *= 1e3
    lines = pd.DataFrame(Trial("", (2,), "shared-view", 0, 0).compute(Dataset(far, groups))).set_index("preset")
    assert lines.loc["default", "test_mae"] > 1.0 > lines.loc["paper", "test_mae"]


def test_selection_command_finds_the_five_components_of_sd(tmp_path: Path) -> None:
    words = ["paper", "selection", "--components", "4-6", "--repeats", "1", "--jobs", "1", "--out", str(tmp_path)]
    assert run_command(words) == 0
    lines = pd.read_csv(tmp_path / "selection.csv")
    assert len(lines) == 2 * 3 * 3  # presets, numbers, folds
    chosen = lines[lines["recommended"] & (lines["preset"] == "default")]
    assert chosen["components"].tolist() == [5, 5, 5]
    text = (tmp_path / "selection.md").read_text()
    assert "| paper | 5 |" in text
    assert "| -5114 |" in text
    error = lines.groupby(["preset", "components"])["test_mae"].mean()
    assert error["paper", 4] > error["paper", 5] > 2 * error["default", 5]  # units of its own for each small table
    assert {path.suffix for path in tmp_path.glob("selection.*")} == {".md", ".csv", ".png", ".svg"}
