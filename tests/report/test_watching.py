"""The live page: follows the checkpoints of a fit, and answers nobody but its own address on this machine."""

from __future__ import annotations

import http.client
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from toy_study import write_study
from vedute.cli.app import run as run_command
from vedute.data.study import Study
from vedute.errors import UserError
from vedute.report.live import HOST, WAITING, live_page, make_server, version
from vedute.run.checkpoint import latest
from vedute.run.protocol import Progress
from vedute.run.run_folder import CHECKPOINT
from vedute.run.study_fit import Request, Watch, fit_study


@pytest.fixture
def interrupted(tmp_path: Path) -> Path:
    """A fit that was stopped after its third round."""

    def stop(progress: Progress) -> None:
        if len(progress.history) == 3:
            raise KeyboardInterrupt

    study = Study.load(write_study(tmp_path / "study"))
    with pytest.raises(KeyboardInterrupt):
        fit_study(study, tmp_path / "run", Request({"rounds": 40}), Watch(lambda settings, done: None, stop))
    return tmp_path / "run"


def test_the_page_follows_the_fit(interrupted: Path, tmp_path: Path, read_page: Callable[[str], Any]) -> None:
    new = read_page(live_page(tmp_path / "nothing yet"))
    assert WAITING in new.words
    assert latest(interrupted / CHECKPOINT, "round") is not None
    running = read_page(live_page(interrupted))
    assert any(word.startswith("Round 3 of at most 40; the last one changed") for word in running.words)
    assert running.figures["change"][0]["data"][0]["x"] == [1, 2, 3]
    before = version(interrupted)
    assert ("html", {"lang": "en", "data-live": before}) in running.tags
    assert "toy" in running.words
    study = str(tmp_path / "study" / "study.toml")
    assert run_command(["fit", study, "--out", str(interrupted), "--resume"]) == 0
    assert version(interrupted) != before
    done = read_page(live_page(interrupted))
    assert sum(tag == "section" for tag, _ in done.tags) == 9
    policy = next(a["content"] for _, a in done.tags if a.get("http-equiv") == "Content-Security-Policy")
    assert "connect-src 'self'" in policy


@pytest.fixture
def address(toy_run: Path) -> Iterator[tuple[int, str]]:
    server, url = make_server(toy_run)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    assert server.server_address[0] == HOST
    yield server.server_address[1], url.split("/")[3]
    server.shutdown()
    server.server_close()


def ask(port: int, path: str, host: str | None = None) -> tuple[int, str]:
    connection = http.client.HTTPConnection(HOST, port, timeout=10)
    connection.request("GET", path, headers={"Host": host or f"{HOST}:{port}"})
    answer = connection.getresponse()
    return answer.status, answer.read().decode()


def test_only_the_secret_address_is_answered(address: tuple[int, str], toy_run: Path) -> None:
    port, secret = address
    status, text = ask(port, f"/{secret}/")
    assert status == 200
    assert text == live_page(toy_run)
    assert ask(port, f"/{secret}/version") == (200, version(toy_run))
    for path in ("/", "/version", f"/{secret}", f"/{secret}/../../etc/passwd", f"/{secret[::-1]}x/"):
        assert ask(port, path)[0] == 404
    assert ask(port, f"/{secret}/", host="evil.example")[0] == 403
    assert ask(port, f"/{secret}/", host=f"localhost:{port}")[0] == 200


def test_a_taken_port_is_told(address: tuple[int, str], toy_run: Path) -> None:
    with pytest.raises(UserError, match=r"cannot be used.*--port"):
        make_server(toy_run, address[0])


def test_a_strange_folder_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "thesis.doc").write_text("years of work")
    assert run_command(["report", str(tmp_path), "--watch"]) == 2
    assert "not a run folder" in capsys.readouterr().err
    assert run_command(["report", str(tmp_path), "--watch", "--out", "x.html"]) == 2
    assert "choose one" in capsys.readouterr().err
