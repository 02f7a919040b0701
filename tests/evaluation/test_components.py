"""The number of components on SD: found by WAIC, beside the paper's table."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from vedute.cli.app import run as run_command
from vedute.evaluation.selection import summary


def test_the_step_has_the_sum_of_both_variances_under_its_root() -> None:
    waic = {2: [10.0, 14.0, 12.0], 3: [4.0, 6.0, 11.0]}
    lines = pd.DataFrame(
        [
            {"preset": "paper", "components": q, "waic": w, "train_mae": 0.1, "test_mae": 0.2, "recommended": q == 3}
            for q, values in waic.items()
            for w in values
        ]
    )
    table = summary(lines).set_index("components")
    expected = (7.0 - 12.0) / np.sqrt(np.var(waic[3], ddof=1) / 3 + np.var(waic[2], ddof=1) / 3)
    assert table.loc[3, "waic_step"] == pytest.approx(expected)
    assert np.isnan(table.loc[2, "waic_step"])
    assert table["recommended"].tolist() == [0, 3]
    assert table.loc[3, "test_mae_paper"] == 0.0662


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
