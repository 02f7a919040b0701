"""The live view in a real browser: it follows the rounds by itself and ends as the full report."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import pytest

from toy_study import write_study
from vedute.cli.app import run as run_command
from vedute.data.study import Study
from vedute.report.live import make_server
from vedute.run.protocol import Progress
from vedute.run.study_fit import Request, Watch, fit_study


def fit_until(study: Path, run: Path, rounds: int, resume: bool) -> None:
    def stop(progress: Progress) -> None:
        if len(progress.history) == rounds:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        fit_study(
            Study.load(study), run, Request({"rounds": 12, "tol": None}, resume), Watch(lambda s, done: None, stop)
        )


def test_the_page_follows_the_rounds(browser: Any, tmp_path: Path) -> None:
    study, run = write_study(tmp_path / "study"), tmp_path / "run"
    server, address = make_server(run)
    threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()
    try:
        browser.open(address)
        assert "The fit begins" in browser.ask("document.body.innerText")
        assert browser.axe() == []
        for rounds in (3, 6):
            fit_until(study, run, rounds, resume=rounds > 3)
            browser.wait(f"document.body.innerText.includes('Round {rounds} of at most 12')")
            browser.wait("document.documentElement.dataset.drawn === '2'")
            assert browser.ask("document.querySelector('#figure-change .plot').data[0].x.length") == rounds
        assert browser.axe() == []
        assert run_command(["fit", str(study), "--out", str(run), "--resume"]) == 0
        browser.wait("document.querySelector('#choice') && document.documentElement.dataset.drawn !== undefined")
        assert browser.ask("document.querySelector('#figure-change .plot').data[0].x.length") == 12
        assert browser.complaints() == []
        own = address.rsplit("/", 2)[0]
        assert all(url.startswith((own, "data:", "blob:")) for url in browser.requests())
    finally:
        server.shutdown()
        server.server_close()
