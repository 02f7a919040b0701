"""The demonstration: its numbers are those of a good fit, and its figure is a picture."""

from __future__ import annotations

import json
from io import StringIO
from pathlib import Path

import pytest

from vedute.cli.app import run
from vedute.cli.demo import FIGURE, _reports, table
from vedute.cli.demonstration import Demonstrated, as_folder, breast_cancer, report, synthetic
from vedute.report import centers


@pytest.fixture(scope="module")
def outcomes() -> list[Demonstrated]:
    return [synthetic(), breast_cancer()]


def test_the_model_serves_subjects_whom_it_has_not_seen(outcomes: list[Demonstrated]) -> None:
    """Errors in standard deviations: a column's mean would give about 0.8."""
    for outcome, error in zip(outcomes, (0.15, 0.5), strict=True):
        assert set(outcome.test_error) == set(outcome.train_error)
        assert len(outcome.test_error) == 3
        assert all(0 < value < error for value in outcome.test_error.values())
        assert all(outcome.test_error[view] < 1.2 * value for view, value in outcome.train_error.items())
        assert outcome.test_accuracy > 0.9
        assert outcome.estimator.converged_


def test_case_mix_shows_who_recruited_one_group_only(outcomes: list[Demonstrated]) -> None:
    synthetic_mix = outcomes[0].case_mix()
    assert synthetic_mix["center1"] < 0.5 < min(synthetic_mix["center2"], synthetic_mix["center3"])
    apart = outcomes[0].deviations()
    assert apart.isna().to_numpy().sum() == 2  # center2 lacks one view, center3 another


def test_the_table_tells_all_of_it(outcomes: list[Demonstrated]) -> None:
    from rich.console import Console

    console = Console(width=160, record=True, file=StringIO())
    console.print(table(outcomes))
    text = console.export_text()
    assert text.count("no view") == 2
    for outcome in outcomes:
        assert f"{outcome.test_accuracy:.1%}" in text
        assert all(f"{value:.3f}" in text for value in outcome.test_error.values())


def test_the_command_draws_a_figure_and_may_be_repeated(
    outcomes: list[Demonstrated], tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    import vedute.cli.demonstration

    monkeypatch.setattr(vedute.cli.demonstration, "synthetic", lambda: outcomes[0])
    monkeypatch.setattr(vedute.cli.demonstration, "breast_cancer", lambda: outcomes[1])
    out = tmp_path / "demo"
    assert run(["demo", "--out", str(out), "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert [study["test_accuracy"] for study in told] == [outcome.test_accuracy for outcome in outcomes]
    assert run(["demo", "--out", str(out)]) == 0
    picture = (out / FIGURE).read_bytes()
    assert picture[:8] == b"\x89PNG\r\n\x1a\n"
    assert len(picture) > 50_000
    reports = ["report-breast-cancer.html", "report-synthetic.html"]
    assert sorted(path.name for path in out.iterdir()) == [FIGURE, *reports]
    told = capsys.readouterr().out
    for name in reports:
        assert str(out / name) in told
        assert (out / name).stat().st_size < 3e6


def test_the_reports_show_every_subject_and_what_is_missing(outcomes: list[Demonstrated]) -> None:
    folder = as_folder(outcomes[0])
    assert folder.seen["center1"]["view1"].subjects == folder.counts["center1"] == len(folder.subjects["center1"].x)
    assert [len(held) for held in centers.holdings(folder).values()] == [3, 2, 2]
    assert len(centers.fitted(folder).missing) == 0
    page = report(outcomes[0])
    assert outcomes[0].title in page
    assert f"{sum(folder.counts.values())} subjects" in page


def test_without_the_extra_the_demonstration_says_what_it_lacks(
    outcomes: list[Demonstrated], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("vedute.cli.demo.find_spec", lambda name: None)
    assert "vedute[report]" in _reports(outcomes, tmp_path)
    assert list(tmp_path.iterdir()) == []
