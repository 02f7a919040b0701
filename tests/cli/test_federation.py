"""``vedute federation init``, ``join``, ``serve``: mistakes cost nothing, consent is asked, a stop ends everything."""

from __future__ import annotations

import json
import os
import pty
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest

from flare_lab import STUDY, lab_kits, wait_for
from vedute.federation.nvflare import processes
from vedute.federation.nvflare.kits import held, open_kit

Call = Callable[..., tuple[int, str, str]]
NODE = 'center = "nice"\n[files]\nCLINIC = "clinic.csv"\n'
CLINIC = "id,age,sbp\na,50,120\nb,61,135\nc,47,118\n"


@pytest.fixture(scope="module")
def kits(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    return lab_kits(tmp_path_factory.mktemp("kits"))


@pytest.fixture
def node(tmp_path: Path) -> Path:
    (tmp_path / "clinic.csv").write_text(CLINIC)
    (tmp_path / "node.toml").write_text(NODE)
    return tmp_path / "node.toml"


@pytest.fixture
def joined(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What would have connected; nothing does."""
    found: list[str] = []
    monkeypatch.setattr(processes, "join", lambda kit, say: found.append(kit.file.name))
    return found


def test_init_makes_kits_and_adds_one(call: Call, tmp_path):
    (tmp_path / "study.toml").write_text(STUDY)
    out = tmp_path / "out"
    words = ["federation", "init", tmp_path / "study.toml", "--out", out]
    status, said, _ = call(*words, "--centers", "nice, paris", "--server", "127.0.0.1", "--days", 30)
    assert status == 0
    assert "center 'paris': " in said
    assert f"{out / 'authority'} signed them" in said
    assert open_kit(out / "server", "server").address == "127.0.0.1:8002"
    status, said, _ = call(*words, "--add", "lyon")
    assert status == 0
    assert open_kit(out / "lyon", "center").file.name == "lyon"
    status, _, err = call(*words, "--centers", "nice", "--server", "127.0.0.1")
    assert (status, "exists already" in err) == (2, True)
    status, _, err = call("federation", "init", tmp_path / "study.toml", "--out", tmp_path / "other")
    assert (status, "name the centers and the server" in err) == (2, True)


def test_join_tells_what_leaves_and_notes_where_the_data_are(call: Call, kits, node, joined):
    status, said, err = call("federation", "join", kits["nice"], "--data", node, "--yes")
    assert (status, err) == (0, "")
    assert "center 'nice', 3 subjects; with each view: CLINIC (3)" in said
    assert "under the policy 'none' (exact values): once, for each column, the number of values" in said
    assert "at most 100 rounds" in said
    assert "Never sent: a patient's row" in said
    assert "WARNING" not in said
    assert joined == ["nice"]
    found = json.loads((kits["nice"] / "local/vedute.json").read_text())
    assert found == {"node": str(node), "home": str(node.parent / "vedute-home")}
    assert (node.parent / "vedute-home").stat().st_mode & 0o077 == 0


def mistakes() -> dict[str, tuple[dict[str, str], str, list[str]]]:
    """Files of the center, what the kit is called, and what the message says."""
    return {
        "columns differ": (
            {"clinic.csv": "id,age,spb\na,50,120\n", "mri.csv": "id,Left\na,1\n",
             "node.toml": NODE + 'MRI = "mri.csv"\n'},
            "nice",
            ["no column 'sbp'", "did you mean 'spb'", "mri.csv: no column 'left'", "mri.csv: no column 'right'"],
        ),
        "another center": ({"node.toml": NODE.replace("nice", "paris")}, "nice",
                           ["is about center 'paris', but", "is the kit of 'nice'"]),
        "no view of the study": ({"node.toml": 'center = "nice"\n[files]\nOTHER = "clinic.csv"\n'}, "nice",
                                 ["there is no [views.OTHER]"]),
        "no file": ({"node.toml": 'center = "nice"\n'}, "nice", ["names no file"]),
        "a cell that is no number": ({"clinic.csv": CLINIC.replace("61", "six")}, "nice", ["'six'", "clinic.csv"]),
        "a scaling that leaks past the policy": (
            {"node.toml": NODE + '[privacy]\npolicy="center"\nepsilon=1\ndelta=1e-5\n'}, "nice",
            ["would leak past the policy 'center'"]),
        "the server's kit": ({}, "server", ["is the kit of the server; it is for 'vedute federation serve'"]),
        "no kit": ({}, "authority", ["is not a kit"]),
    }  # fmt: skip


@pytest.mark.parametrize("what", mistakes())
def test_nothing_is_sent_after_a_mistake(call: Call, kits, tmp_path, node, joined, what):
    shutil.copytree(kits["nice"].parent, tmp_path / "kits")
    (tmp_path / "kits/nice/local/vedute.json").unlink(missing_ok=True)
    files, name, parts = mistakes()[what]
    for file, text in files.items():
        (tmp_path / file).write_text(text)
    status, _, err = call("federation", "join", tmp_path / "kits" / name, "--data", node, "--yes")
    assert status == 2
    assert not [part for part in parts if part not in err]
    assert joined == []
    assert not (tmp_path / "kits/nice/local/vedute.json").exists()
    assert not (tmp_path / "vedute-home").exists()


def test_all_differences_are_listed_however_many(call: Call, tmp_path, joined):
    columns = [f"c{i}" for i in range(60)]
    kits = lab_kits(tmp_path, STUDY.replace('"age", "sbp"', ", ".join(f'"{c}"' for c in columns)))
    (tmp_path / "clinic.csv").write_text("id,x\na,1\n")
    (tmp_path / "node.toml").write_text(NODE)
    status, _, err = call("federation", "join", kits["nice"], "--data", tmp_path / "node.toml", "--yes")
    assert status == 2
    assert not [c for c in columns if f"no column '{c}'" not in err]


def test_without_a_terminal_nobody_agrees(kits, node):
    status, said, err = terminal(["join", kits["nice"], "--data", node], None)
    assert status == 2
    assert "What leaves this hospital" in said
    assert "nobody is here to agree" in err


def test_a_no_is_a_no(kits, node):
    status, said, err = terminal(["join", kits["nice"], "--data", node], b"n\n")
    assert status == 2
    assert "Let this leave the hospital? [y/N]" in said
    assert "not agreed; nothing was sent" in err


def terminal(words: list[object], typed: bytes | None) -> tuple[int, str, str]:
    """The command with a terminal on which somebody types, or without one."""
    command = [sys.executable, "-c", "from vedute.cli import main; main()", "federation", *map(str, words)]
    if typed is None:
        done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60)
        return done.returncode, done.stdout, done.stderr
    ours, theirs = pty.openpty()
    try:
        os.write(ours, typed)
        done = subprocess.run(command, stdin=theirs, capture_output=True, text=True, timeout=60)
    finally:
        os.close(ours)
        os.close(theirs)
    return done.returncode, done.stdout, done.stderr


def test_a_kit_in_use_and_a_taken_port(call: Call, kits, node):
    with held(open_kit(kits["nice"], "center")):
        status, _, err = call("federation", "join", kits["nice"], "--data", node, "--yes")
    assert (status, "another process is using this kit" in err) == (2, True)
    with socket.socket() as other:
        other.bind(("127.0.0.1", open_kit(kits["server"], "server").file.port))
        other.listen()
        status, _, err = call("federation", "serve", kits["server"])
    assert (status, "cannot be used" in err) == (2, True)


def test_units_are_printed(call: Call, kits, node):
    status, said, _ = call("federation", "join", kits["nice"], "--data", node, "--print-unit")
    assert (status, "Restart=always" in said, f"--data {node} --home" in said) == (0, True, True)
    status, said, _ = call("federation", "serve", kits["server"], "--print-unit")
    assert (status, f"federation serve {kits['server']}\n" in said) == (0, True)


class Service:
    """A command that runs until it is stopped."""

    def __init__(self, out: Path, *words: object) -> None:
        self.out = out
        command = [sys.executable, "-c", "from vedute.cli import main; main()", "federation", *map(str, words)]
        with open(out, "w") as file:
            self.process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=file, stderr=subprocess.STDOUT)

    def says(self, part: str) -> None:
        wait_for(lambda: part in self.out.read_text())

    def below(self) -> list[psutil.Process]:
        return list(psutil.Process(self.process.pid).children(recursive=True))


def test_services_find_each_other_and_leave_nothing_running(tmp_path, node):
    kits = lab_kits(tmp_path)
    server = center = None
    try:
        center = Service(tmp_path / "center.txt", "join", kits["nice"], "--data", node, "--yes")  # before the server
        server = Service(tmp_path / "server.txt", "serve", kits["server"])
        server.says("listening on localhost:")
        center.says("connected to localhost:")
        server.says("center 'nice' is here")
        left = [*server.below(), *center.below()]
        assert len(left) >= 2
        center.process.send_signal(signal.SIGTERM)
        assert center.process.wait(30) == 0
        server.process.kill()  # nobody can catch this one: the engine must notice by itself
        server.process.wait(30)
        wait_for(lambda: not any(process.is_running() for process in left))
        assert center.out.read_text().endswith("stopped\n")
    finally:
        for service in (server, center):
            if service is not None and service.process.poll() is None:
                service.process.kill()
                service.process.wait(30)
