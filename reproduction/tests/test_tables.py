"""The paper's numbers as printed, ours beside them, and the files that a run leaves."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from vedute.cli.app import run as run_command
from vedute.errors import UserError
from vedute_reproduction import contenders, fedprox, sd
from vedute_reproduction.baselines.autoencoders import Schedule
from vedute_reproduction.comparison import AS_ONE, figure, gaps, markdown, paper_table, styles, summary
from vedute_reproduction.contenders import PAPER

RESULTS = Path(__file__).parents[2] / "docs" / "reproduction"


def test_the_papers_tables_are_whole_and_as_printed() -> None:
    sd, adni = paper_table("SD_2"), paper_table("ADNI_2")
    for table in (sd, adni):
        ours = table[table["method"] == "Fed-mv-PPCA"]
        assert list(zip(ours["scenario"], ours["centers"], strict=True)) == list(contenders.SCENARIOS)
        assert table["method"].value_counts().to_dict() == {
            "Fed-mv-PPCA": 9, "DP-Fed-mv-PPCA": 8, "VAE": 5, "mc-VAE": 5,
        }  # fmt: skip
    row = sd.set_index(["scenario", "centers", "method"]).loc[("G/K", 6, "Fed-mv-PPCA")]
    assert row.tolist() == [0.0499, 0.0104, 0.0575, 0.0128, 0.7785, 0.0222]
    row = adni.set_index(["scenario", "centers", "method"]).loc[("G", 6, "mc-VAE")]
    assert row.tolist() == [0.1924, 0.0219, 0.1589, 0.0018, 0.8085, 0.0464]
    fedprox = paper_table("ADNI_fedprox").set_index(["centers", "method"])
    assert len(fedprox) == 32
    assert fedprox.loc[(6, "VAE, lambda 0.4")].tolist()[1:] == [0.1405, 0.0116, 0.1203, 0.0020, 0.7753, 0.0546]
    slip = fedprox.loc[(3, "mc-VAE, lambda 0")].tolist()[1:]
    assert slip == adni.set_index(["scenario", "centers", "method"]).loc[("IID", 3, "mc-VAE")].tolist()  # not of G
    with pytest.raises(UserError, match="no table 'SD_3'"):
        paper_table("SD_3")


def _lines() -> pd.DataFrame:
    values = [
        ("per center", 0, 0.03, 0.04, 1.0),
        ("per center", 1, 0.05, 0.04, 0.9),
        ("shared", 0, 0.01, 0.01, np.nan),
    ]
    found = pd.DataFrame(values, columns=["scaling", "fold", "train_mae", "test_mae", "accuracy"])
    return found.assign(scenario="IID", centers=3, method=PAPER, repeat=0)


def test_summary_sets_the_paper_beside_our_paper_preset_alone() -> None:
    table = summary(_lines(), "SD_2")
    assert table["train_mae"].tolist() == pytest.approx([0.04, 0.01])
    assert table["train_mae_sd"].tolist() == pytest.approx([0.01, 0.0])
    assert table["test_mae_paper"].tolist()[0] == 0.0373
    assert np.isnan(table["test_mae_paper"].tolist()[1])
    apart = gaps(table)
    assert len(apart) == 1
    assert apart["train_mae"][0] == pytest.approx(0.04 / 0.0320 - 1)


def test_a_figure_compares_methods_and_leaves_variations_of_them_to_the_tables() -> None:
    plain = summary(_lines())
    aside = plain.assign(method=PAPER + contenders.CUT)
    other = plain.assign(method="another method")
    drawn = figure(plain, "x")["png"]
    assert figure(pd.concat([plain, aside]), "x")["png"] == drawn
    assert figure(pd.concat([plain, other]), "x")["png"] != drawn


def test_variations_of_a_method_share_its_colour_and_no_two_labels_look_the_same() -> None:
    named = pd.read_csv(RESULTS / "adni-cnp.csv")["method"]
    labels = [name for name in named.drop_duplicates() if not any(aside in name for aside in contenders.ASIDE)]
    looks = styles([*labels, contenders.PAPER + AS_ONE])
    assert len(set(looks.values())) == len(looks) == len(labels) + 1
    for name, variation in (
        (contenders.PAPER, AS_ONE), (contenders.DEFAULT, contenders.OWN), (contenders.VAE, contenders.UNTUNED),
    ):  # fmt: skip
        assert looks[name][0] == looks[name + variation][0]
    families = {name.removesuffix(contenders.OWN).removesuffix(contenders.UNTUNED) for name in labels}
    assert len({colour for colour, _ in looks.values()}) == len(families)


def test_a_fold_without_an_error_makes_the_mean_unknown_but_an_accuracy_may_be() -> None:
    about = {"scenario": "IID", "centers": 3, "method": "PCA", "scaling": "shared", "train_mae": 0.1}
    errors = [(0.1, 0.8), (np.nan, np.nan), (0.1, 0.6)]
    lines = pd.DataFrame([about | {"test_mae": error, "accuracy": accuracy} for error, accuracy in errors])
    row = summary(lines).iloc[0]
    assert np.isnan(row["test_mae"])
    assert (row["train_mae"], row["accuracy"]) == (pytest.approx(0.1), pytest.approx(0.7))


def test_markdown_has_a_line_for_each_row_and_no_nan() -> None:
    lines = markdown(summary(_lines(), "SD_2")).splitlines()
    assert len(lines) == 4
    assert lines[2].startswith(
        f"| IID | 3 | {PAPER} | per center | 0.0400 ± 0.0100 | 0.0320 ± 0.0024 | 0.0400 ± 0.0000 | 0.0373 ± 0.0035 |"
    )
    assert len({line.count("|") for line in lines}) == 1
    assert "nan" not in "".join(lines)


def test_sd_command_writes_table_and_figures_and_keeps_to_the_yardstick(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """G/K is where the paper's algorithm fails and ours has to stay within 3 % of PCA that saw everything."""
    monkeypatch.setattr(sd, "SCENARIOS", (("G/K", 3),))
    monkeypatch.setattr(contenders, "SCHEDULE", Schedule(1, 1))  # of auto-encoders
    assert run_command(["paper", "sd", "--repeats", "1", "--out", str(tmp_path), "--jobs", "1"]) == 0
    written = [Path(line).name for line in capsys.readouterr().out.splitlines()]
    assert written == ["sd.md", "sd.csv", "sd-data.csv", "sd.png", "sd.svg"]
    assert (tmp_path / "sd.png").read_bytes().startswith(b"\x89PNG")
    assert b"</svg>" in (tmp_path / "sd.svg").read_bytes()
    assert "| G/K | 3 | Fed-mv-PPCA, paper preset | per center |" in (tmp_path / "sd.md").read_text()
    lines = pd.read_csv(tmp_path / "sd.csv")
    error = lines.groupby(["method", "scaling"])["test_mae"].mean()
    assert error[contenders.DEFAULT, "shared"] < 1.03 * error[contenders.YARDSTICK, "shared"]
    assert error[contenders.PAPER, "shared"] > 1.5 * error[contenders.YARDSTICK, "shared"]


def test_fedprox_command_runs_each_lambda_beside_ours(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(contenders, "SCHEDULE", Schedule(1, 1))
    monkeypatch.setattr(fedprox, "LAMBDAS", (0.0, 0.5))
    monkeypatch.setattr(fedprox, "SWEPT_CENTERS", (3,))
    assert run_command(["paper", "fedprox", "--repeats", "1", "--out", str(tmp_path), "--jobs", "1"]) == 0
    lines = pd.read_csv(tmp_path / "fedprox.csv")
    assert set(lines["method"]) >= {"VAE, lambda 0", "mc-VAE, lambda 0.5", "VAE, two layers", contenders.DEFAULT}
    text = (tmp_path / "fedprox.md").read_text()
    assert "| MAE train |" in text
    assert "MAE train, paper" not in text  # whose table is of ADNI
    assert {path.suffix for path in tmp_path.glob("fedprox.*")} == {".md", ".csv", ".png", ".svg"}


def test_each_lambda_stands_beside_the_papers_where_that_is_of_the_same_kind() -> None:
    table = summary(pd.read_csv(RESULTS / "fedprox-cnp.csv"), "ADNI_fedprox")
    own = table[table["centers"] == 3].set_index(["method", "scaling"])["accuracy_paper"]
    assert own["mc-VAE, lambda 0.5", "per center"] == 0.8229
    assert np.isnan(own["mc-VAE, lambda 0.5", "shared"])
