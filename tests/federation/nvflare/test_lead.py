"""The lead with a server that is played: what no real process can be made to do at the right moment."""

from __future__ import annotations

import json
import time
from pathlib import Path

import pytest

from hospitals import CENTERS, make_hospitals
from vedute.data.study import Study
from vedute.federation.nvflare.lead import Absence, Following, follow, new_run
from vedute.federation.nvflare.session import Sight
from vedute.run.study_fit import Watch, wanted_settings


class Enough(Exception):
    """The test has seen what it wanted."""


class Waited(Exception):
    """The lead waits, and has said what for."""


class Server:
    """Loses a center between the lead's look and the start of its job, which then is never started."""

    def __init__(self) -> None:
        self.centers = set(CENTERS)
        self.submitted: list[list[str]] = []
        self.aborted: list[str] = []
        self.asked = 0

    def look(self) -> Sight:
        return Sight(1.0, frozenset(self.centers), frozenset())

    def submit(self, folder: Path) -> str:
        self.submitted.append(json.loads((folder / "meta.json").read_bytes())["mandatory_clients"])
        if len(self.submitted) == 2:
            raise Enough
        self.centers.discard("nice")
        return "first"

    def status(self, job: str) -> str:
        self.asked += 1
        assert self.asked < 20, "the lead waits for a job that never starts"
        return "SUBMITTED"

    def abort(self, job: str) -> None:
        self.aborted.append(job)


def test_a_center_that_leaves_before_the_job_starts_does_not_hold_it_up(tmp_path):
    shared, _ = make_hospitals(tmp_path, federation="timeout = 1")
    study, server, said = Study.load_shared(shared), Server(), []
    watch = Watch(lambda *_: None, lambda *_: None)
    settings = wanted_settings(study, {"rounds": 5})
    lead = Following(server, study, settings, tmp_path, frozenset(CENTERS), watch, said.append, new_run())
    with pytest.raises(Enough):
        follow(lead)
    assert server.aborted == ["first"]
    assert server.submitted == [sorted(CENTERS), ["paris", "zurich"]]
    assert any("not connected: 'nice'" in message for message in said)


def test_too_few_centers_wait_for_the_one_that_is_left_out(tmp_path, monkeypatch):
    """It is connected, and gave no answer twice: nobody else is missing."""

    def wait(seconds):
        raise Waited

    shared, _ = make_hospitals(tmp_path, federation="timeout = 1\nminimum_centers = 3")
    study, said = Study.load_shared(shared), []
    watch = Watch(lambda *_: None, lambda *_: None)
    settings = wanted_settings(study, {"rounds": 5})
    lead = Following(Server(), study, settings, tmp_path, frozenset(CENTERS), watch, said.append, new_run())
    lead.left_out["nice"] = Absence(time.monotonic() + 60.0, 60.0)
    monkeypatch.setattr("vedute.federation.nvflare.lead.time.sleep", wait)
    with pytest.raises(Waited):
        follow(lead)
    assert said == ["waiting for 'nice' (the study needs 3 centers)"]
