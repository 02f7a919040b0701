"""Real processes that die, hang, come late or lose their connection: the run ends in the model of its participation.

Heartbeats and timeouts are short here; the rest is as in a hospital.
"""

from __future__ import annotations

import json
import re
import signal
import subprocess
import time
import zipfile
from contextlib import contextmanager, suppress

import numpy as np
import pytest

from hospitals import CENTERS, as_one_study, with_other_rows
from ledgers import read_ledger
from machines import Cable, Machines, call_through, wait_until
from participation import same_prior, with_participation
from vedute.data.study import Study
from vedute.run.run_folder import load_run
from vedute.run.study_fit import Request, Watch, fit_study

QUICK = "timeout = 10\nheartbeat = 4"
ALL = f"{QUICK}\nminimum_centers = 3"  # a run waits for all, however long a busy machine takes to start a process
ROUNDS = ("--rounds", "25", "--tol", "none", "--iterations", "5")
LONGER = ("--rounds", "80", "--tol", "none", "--iterations", "5")  # enough for a center to connect meanwhile


def ends_like_its_participation(machines: Machines, lead) -> list[tuple[str, ...]]:
    """Who took part in each round; the model must be that of a run without faults and with the same centers."""
    lead.finish()
    run = load_run(lead.out)
    present = [record.centers for record in run.history]
    assert [record.round for record in run.history] == list(range(1, run.model.settings.rounds + 1))
    expected = with_participation(machines.shared, machines.nodes, run.model.settings, present)
    same_prior(run.model.prior, expected.prior)
    assert set(run.model.centers) == set(present[-1])
    return present


@contextmanager
def running(folder, federation):
    """The server and all centers of a federation, until this is left."""
    found = Machines(folder, federation=federation)
    try:
        found.start("server", *CENTERS)
        yield found
    finally:
        found.close()


def goes_on_without(center, lead):
    """Until a round is complete that this center cannot have answered: the lead hears of rounds with delay."""
    wait_until(lambda: f"not connected: '{center}'; going on" in lead.said(), f"the run waits for {center}")
    lead.reach(lead.rounds() + 1)


@pytest.fixture(scope="module")
def machines(tmp_path_factory):
    with running(tmp_path_factory.mktemp("faults"), QUICK) as found:
        yield found


def test_a_site_is_killed_and_the_lead_too(tmp_path):
    with running(tmp_path, ALL) as machines:
        lead = machines.lead("killed", *ROUNDS)
        lead.reach(3)
        machines.kill("paris")
        machines.start("paris")
        lead.reach(8)
        lead.kill()
        resumed = machines.lead("killed", "--resume")
        present = ends_like_its_participation(machines, resumed)
        assert "'paris'" in lead.said()
        assert all(set(names) == set(CENTERS) for names in present)


def test_the_server_is_killed_and_restarted(machines):
    lead = machines.lead("server", *ROUNDS)
    lead.reach(4)
    machines.kill("server")
    machines.start("server")
    present = ends_like_its_participation(machines, lead)
    assert all(set(names) == set(CENTERS) for names in present)
    found = load_run(lead.out).model
    given = {name: getattr(found.settings, name) for name in vars(found.settings)}
    whole = Study.load(as_one_study(machines.shared, machines.nodes))
    silent = Watch(lambda settings, done: None, lambda progress: None)
    in_one_process = fit_study(whole, machines.folder / "one", Request(given), silent).model
    same_prior(found.prior, in_one_process.prior)
    for center in CENTERS:
        for view, own in in_one_process.centers[center].views.items():
            np.testing.assert_array_equal(found.centers[center].views[view].W, own.W)


def test_a_site_never_answers_and_then_comes_back(machines):
    lead = machines.lead("silent", *ROUNDS)
    lead.reach(3)
    machines.signal("zurich", signal.SIGSTOP)
    try:
        goes_on_without("zurich", lead)
    finally:
        machines.signal("zurich", signal.SIGCONT)
    present = ends_like_its_participation(machines, lead)
    assert ("nice", "paris") in present


def test_a_site_joins_late(machines):
    """Its process calls in vain while the run begins: how long a process takes to start is nothing of the run's."""
    machines.kill("nice")
    cable = Cable(machines.port)
    cable.whole.clear()
    call_through(machines.kits["nice"], cable.port)
    machines.start("nice")
    wait_until(cable.called.is_set, "nice does not call")
    lead = machines.lead("late", *LONGER)
    lead.reach(3)
    assert "'nice'" in lead.said()
    cable.whole.set()
    present = ends_like_its_participation(machines, lead)
    assert present[0] == ("paris", "zurich")
    assert set(present[-1]) == set(CENTERS)


OTHER_ROWS = re.compile(r"the rows of center 'nice' are not those that run [0-9a-f]{32} began with")


@contextmanager
def other_rows(machines, center):
    """The center's files are others, until this is left."""
    kept = {path: path.read_bytes() for path in machines.nodes[center].parent.glob("*.csv")}
    with_other_rows(machines.nodes[center])
    yield
    for path, content in kept.items():
        path.write_bytes(content)


def has_no_model(machines, center):
    """One run, one ledger, and nothing of the end."""
    home = machines.nodes[center].parent / "vedute-home"
    (run,) = (home / "runs").iterdir()
    return not (run / "model").exists() and len(list(home.rglob("ledger-*.jsonl"))) == 1


def test_rows_are_rewritten_before_the_end(tmp_path):
    """With a hospital's patience: on a busy machine too, no center is started anew meanwhile."""
    with running(tmp_path, "minimum_centers = 3") as machines:
        lead = machines.lead("rewritten", *ROUNDS)
        lead.reach(3)
        with other_rows(machines, "nice"):
            lead.finish()
        assert OTHER_ROWS.search(machines.said("nice"))
        assert not any(OTHER_ROWS.search(machines.said(name)) for name in ("server", "paris", "zurich"))
        assert "center 'nice' did not hear the last prior; it has no model of this run at home" in lead.said()
        assert [has_no_model(machines, center) for center in CENTERS] == [True, False, False]
        run = load_run(lead.out)
        present = [record.centers for record in run.history]
        assert present == [CENTERS] * 25
        assert set(run.model.centers) == {"paris", "zurich"}
        expected = with_participation(machines.shared, machines.nodes, run.model.settings, present)
        same_prior(run.model.prior, expected.prior)


def test_a_site_is_restarted_with_other_rows(tmp_path):
    """Its process has 40 s of the round to come back, and 40 more before the others go on without having asked it."""
    with running(tmp_path, "timeout = 40\nheartbeat = 4") as machines:
        lead = machines.lead("restarted", *ROUNDS)
        lead.reach(3)
        machines.kill("nice")
        with other_rows(machines, "nice"):
            machines.start("nice")
            lead.finish()
        assert OTHER_ROWS.search(machines.said("nice"))
        assert not any(OTHER_ROWS.search(said) for said in (machines.said("server"), lead.said()))
        assert "center 'nice' gave no answer" in lead.said()
        assert has_no_model(machines, "nice")
        present = ends_like_its_participation(machines, lead)
        left = present.index(("paris", "zurich"))
        assert left >= 3
        assert present == [CENTERS] * left + [("paris", "zurich")] * (25 - left)


def test_nothing_of_the_rows_is_on_the_server(machines):
    """After all that happened: no id and no cell of a hospital, plain or in an archive, on the server's disk."""
    held = list(everything(machines.kits["server"]))
    assert len(held) > 20
    for center in CENTERS:
        for path in machines.nodes[center].parent.glob("*.csv"):
            name, *cells = path.read_text().splitlines()[7].split(",")
            assert not any(name.encode() in data for data in held)
            for cell in map(float, cells):
                shapes = (np.float64(cell).tobytes(), np.float32(cell).tobytes(), repr(cell)[:12].encode())
                assert not any(shape in data for shape in shapes for data in held)
    assert any(b"paris" in data for data in held)  # the search does find what is there


def everything(folder):
    """The content of all files below a folder, and of the archives among them."""
    for path in folder.rglob("*"):
        if path.is_file():
            yield path.read_bytes()
            if zipfile.is_zipfile(path):
                with zipfile.ZipFile(path) as archive:
                    yield from (archive.read(name) for name in archive.namelist())


def test_a_connection_is_cut_for_a_minute(tmp_path):
    machines = Machines(tmp_path, federation=QUICK)
    try:
        cable = Cable(machines.port)
        call_through(machines.kits["paris"], cable.port)
        machines.start("server", *CENTERS)
        lead = machines.lead("cut", *ROUNDS)
        lead.reach(3)
        cable.whole.clear()
        cut = time.monotonic()
        goes_on_without("paris", lead)
        time.sleep(max(0.0, cut + 60.0 - time.monotonic()))
        cable.whole.set()
        present = ends_like_its_participation(machines, lead)
        assert ("nice", "zurich") in present
    finally:
        machines.close()


HEARTBEAT = 4  # of QUICK
UNANSWERED = 600  # seconds that a center is told to wait for the answer to a request
BACK = 10 * HEARTBEAT  # seconds from the server that listens again to the last center that is back


def test_hospitals_are_back_after_a_server_that_froze_and_was_killed(tmp_path):
    """Heartbeats that the frozen server never answered are given up when it dies.

    A center tries to connect every second, and calls two seconds later at most: 3 s of sleep, and the rest of the 40 s
    is for the work of a busy machine. A center that does not give up is away for the 600 s that its kit says here,
    so nothing but that makes the difference; what a center takes by itself would be 30 s, too near to busy machines.
    """
    machines = Machines(tmp_path, federation=QUICK)
    try:
        for center in CENTERS:
            wait_for_answers(machines.kits[center], UNANSWERED)
        machines.start("server", *CENTERS)
        wait_until(lambda: here(machines.said("server")) == set(CENTERS), "not all centers come")
        machines.signal("server", signal.SIGSTOP)
        time.sleep(HEARTBEAT)  # every center has asked meanwhile
        before = len(machines.said("server"))
        machines.kill("server")
        machines.start("server")
        wait_until(lambda: here(machines.said("server")[before:]) == set(CENTERS), "not all centers come back", BACK)
    finally:
        machines.close()


def wait_for_answers(kit, seconds):
    """Let a center wait so long for what the server says to a heartbeat."""
    path = kit / "local" / "resources.json"
    content = json.loads(path.read_text())
    content["client"]["maint_msg_timeout"] = float(seconds)
    path.write_text(json.dumps(content))


def here(said):
    """The centers of which the server said that they came."""
    return set(re.findall("center '([a-z]+)' is here", said))


def fill(path):
    """Write until the disk is full."""
    with open(path, "wb", buffering=0) as ballast, suppress(OSError):
        while True:
            ballast.write(b"0" * 4096)


def test_the_disk_of_the_server_is_full_for_a_while(tmp_path):
    disk = tmp_path / "disk"
    disk.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64m", "tmpfs", str(disk)], check=True)
    machines = Machines(tmp_path / "hospitals", federation=QUICK, server_kit=disk / "server")
    try:
        machines.start("server", *CENTERS)
        lead = machines.lead("full", *ROUNDS)
        lead.reach(3)
        fill(disk / "ballast")
        wait_until(lambda: "No space" in lead.said(), "nobody is told of the full disk")
        (disk / "ballast").unlink()
        ends_like_its_participation(machines, lead)
    finally:
        machines.close()
        subprocess.run(["umount", "-l", str(disk)], check=True)


def test_budgets_are_spent_once_though_everything_dies(tmp_path):
    table = 'policy = "center"\nepsilon = 80.0\ndelta = 1e-5'
    machines = Machines(tmp_path, federation=f'{ALL}\nscaling = "declared"', privacy=table)
    try:
        machines.start("server", *CENTERS)
        lead = machines.lead("private", *ROUNDS)
        lead.reach(4)
        machines.kill("nice")
        machines.kill("server")
        machines.start("server", "nice")
        lead.finish()
        run = load_run(lead.out)
        assert [set(record.centers) for record in run.history] == [set(CENTERS)] * 25
        for center in CENTERS:
            home = machines.nodes[center].parent / "vedute-home" / "ledgers" / center
            (path,) = home.glob("ledger-*.jsonl")
            entries = read_ledger(path)
            assert [entry.key for entry in entries] == [f"fit, round {r}" for r in range(1, 26)]
            seen = read_ledger(lead.out / f"ledger-{center}.jsonl")
            assert [entry.release.values["update"].tobytes() for entry in seen] == [
                entry.release.values["update"].tobytes() for entry in entries
            ]
    finally:
        machines.close()
