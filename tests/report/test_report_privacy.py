"""The chapter on privacy against ledgers that were really written."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from vedute.errors import UserError
from vedute.privacy.accounting import Budget, noise_multiplier, spent_epsilon
from vedute.privacy.ledger import Ledger
from vedute.privacy.release import CENTER, SUBJECT, Event, Gaussian, NonPrivate, Release
from vedute.report.plotly_renderer import plotted
from vedute.report.reading import Folder, read_folder
from vedute.report.spending import DELTA, privacy

HALF = Gaussian(1.0, noise_multiplier(3.0, 1e-5, 2), SUBJECT)


def with_ledgers(run: Path, asked: dict[str, object], *events: Event, budget: Budget | None, relation: str) -> Folder:
    """The run of a study, with a ledger of every center beside it while it is read."""
    names = list(read_folder(run).centers)
    paths = [run / f"ledger-{name}.jsonl" for name in names]
    for name, path in zip(names, paths, strict=True):
        ledger = Ledger(name, "data")
        for i, event in enumerate(events):
            release = Release({"x": np.ones(2)}, (event,), str(asked["policy"]))
            ledger.release(f"release {i}", "q", lambda release=release: release, budget, relation)
        ledger.copy_to(path)
    try:
        return replace(read_folder(run), asked=asked)
    finally:
        for path in paths:
            path.unlink()


def test_no_privacy_is_said_loudly(toy_run: Path) -> None:
    told = privacy(read_folder(toy_run))
    assert told.banner.startswith("NOT PRIVATE")
    assert told.sentences[0].startswith("Policy: none")
    assert "epsilon = infinity" in told.sentences[1]


def test_the_composed_total_is_that_of_the_ledger(toy_run: Path) -> None:
    asked = {"policy": "subject", "epsilon": 3.0, "delta": 1e-5}
    folder = with_ledgers(toy_run, asked, HALF, HALF, budget=Budget(3.0, 1e-5), relation=SUBJECT)
    told = privacy(folder)
    assert told.banner == ""
    assert "replacing one subject" in told.sentences[0]
    assert any("is free" in sentence for sentence in told.sentences)
    assert "epsilon = 3.00 at delta = 1e-05" in told.sentences[1]
    totals, lines = told.tables
    assert totals.rows[0] == ("lyon", "subject", SUBJECT, "2", "3.00", "3.00", "1e-05")
    assert len(lines.rows) == 6
    first = spent_epsilon([HALF], 1e-5, SUBJECT)
    lines_drawn = plotted(told.figures[0].options[0])["data"]
    assert [line["name"] for line in lines_drawn] == list(folder.ledgers)
    assert lines_drawn[0]["y"] == pytest.approx([first, 3.0], rel=1e-4)
    assert lines.rows[0][-1] == f"{first:.2f}"


def test_one_missing_ledger_makes_the_total_infinite(toy_run: Path) -> None:
    asked = {"policy": "subject", "epsilon": 3.0, "delta": 1e-5}
    folder = with_ledgers(toy_run, asked, HALF, budget=Budget(3.0, 1e-5), relation=SUBJECT)
    fewer = replace(folder, ledgers={name: found for name, found in folder.ledgers.items() if name != "nice"})
    told = privacy(fewer)
    assert "epsilon = infinity" in told.sentences[1]
    assert told.banner.startswith("NOT PRIVATE")
    assert "ledgers of 1 center" in told.missing[0]


def test_a_center_that_paid_but_is_not_in_the_model_is_named(toy_run: Path) -> None:
    asked = {"policy": "subject", "epsilon": 3.0, "delta": 1e-5}
    folder = with_ledgers(toy_run, asked, HALF, budget=Budget(3.0, 1e-5), relation=SUBJECT)
    scalers = {name: scaler for name, scaler in folder.run.model.scalers.items() if name != "nice"}
    model = replace(folder.run.model, scalers=scalers)
    told = privacy(replace(folder, run=replace(folder.run, model=model)))
    assert told.missing == ("nice in the model: it released and paid, but nothing of use was left under the noise",)
    assert privacy(folder).missing == ()


def test_seeded_noise_is_no_privacy(toy_run: Path) -> None:
    asked = {"policy": "subject", "epsilon": 3.0, "delta": 1e-5}
    seeded = replace(HALF, seeded=True)
    folder = with_ledgers(toy_run, asked, seeded, budget=Budget(3.0, 1e-5), relation=SUBJECT)
    told = privacy(folder)
    assert told.banner.startswith("NOT PRIVATE: the noise was drawn from a known seed")
    assert "epsilon = infinity" in told.sentences[1]


@pytest.mark.parametrize("raw", [True, False])
def test_the_papers_claim_stands_beside_the_honest_total(toy_run: Path, raw: bool) -> None:
    asked: dict[str, object] = {
        "policy": "paper",
        "epsilon": 10.0,
        "delta": 0.01,
        "first_round": "raw" if raw else "public",
    }
    events = ([NonPrivate("round 1")] if raw else []) + [Gaussian(1.0, 0.3851, CENTER)] * 3
    told = privacy(with_ledgers(toy_run, asked, *events, budget=None, relation=CENTER))
    total = spent_epsilon(events, DELTA, CENTER)
    assert math.isinf(total) == raw
    assert f"epsilon = {'infinity' if raw else f'{total:.2f}'}" in told.sentences[1]
    assert "epsilon = 90.00, delta = 0.06" in told.sentences[2]  # 3 K eps and 2 K delta with K = 3
    assert ("first has no noise" in told.sentences[2]) == raw
    assert bool(told.banner) == raw
    claimed, counted = told.tables[0].rows
    assert claimed[2:] == ("90.00", "0.06")
    assert counted[2] == ("infinity" if raw else f"{total:.2f}")


def test_a_damaged_ledger_is_refused(toy_run: Path) -> None:
    path = toy_run / "ledger-nice.jsonl"
    path.write_text('{"ledger": "vedute"}\n')
    try:
        with pytest.raises(UserError, match=r"ledger-nice\.jsonl, line 1 is damaged"):
            read_folder(toy_run)
        path.write_text("")
        with pytest.raises(UserError, match="is empty or not a ledger"):
            read_folder(toy_run)
    finally:
        path.unlink()
