"""What a person at a terminal sees: a bar, messages on lines of their own, and how to go on after Ctrl-C."""

from __future__ import annotations

import os
import pty
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path

# as at a terminal: tests that run in the background of a shell are born deaf to Ctrl-C, and so are their children
HEARING = "import signal; signal.signal(signal.SIGINT, signal.default_int_handler)"
VEDUTE = [sys.executable, "-c", f"{HEARING}; from vedute.cli import main; main()"]
PATIENCE = 90.0  # seconds after which a command is killed
ESCAPE = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")


def at_a_terminal(words: list[str], until: Callable[[str], bool] = lambda seen: False) -> tuple[int, str]:
    """Run a command at a terminal and press Ctrl-C when ``until`` is true of what was seen; status and screen."""
    ours, theirs = pty.openpty()
    env = {**os.environ, "TERM": "xterm", "COLUMNS": "100"}
    env.pop("NO_COLOR", None)
    done = subprocess.Popen([*VEDUTE, *words], stdin=theirs, stdout=theirs, stderr=theirs, env=env)
    os.close(theirs)
    late = threading.Timer(PATIENCE, done.kill)
    late.start()
    seen, pressed = "", False
    while True:
        try:
            part = os.read(ours, 4096)
        except OSError:  # how Linux says that the other end is closed
            break
        if not part:
            break
        seen += ESCAPE.sub("", part.decode(errors="replace"))
        if not pressed and until(seen):
            done.send_signal(signal.SIGINT)
            pressed = True
    os.close(ours)
    status = done.wait()
    late.cancel()
    return status, seen


def test_a_bar_with_rounds_change_and_warnings_beside_it(toy: Path, tmp_path: Path) -> None:
    status, seen = at_a_terminal(["fit", str(toy), "--out", str(tmp_path / "run"), "--rounds", "3"])
    assert status == 0
    assert re.search(r"round 3/3 .*change \d\.\de-\d\d", seen)
    (before,) = re.findall(r"(.)vedute: warning: the rounds ran out", seen, re.DOTALL)
    assert before in "\r\n"
    assert seen.rstrip().endswith(f"3 centers, 2 components, ran 3 rounds: {tmp_path / 'run'}")


def test_ctrl_c_says_how_to_go_on(toy: Path, tmp_path: Path) -> None:
    words = ["fit", str(toy), "--out", str(tmp_path / "run"), "--rounds", "100000", "--tol", "none"]
    status, seen = at_a_terminal(words, lambda seen: re.search(r"round [1-9]\d*/", seen) is not None)
    assert status == 130
    (before,) = re.findall(r"(.)vedute: interrupted; continue with", seen, re.DOTALL)
    assert before in "\r\n"
    assert seen.rstrip().endswith("--resume")


def test_ctrl_c_elsewhere_says_that_nothing_was_written(toy: Path, tmp_path: Path) -> None:
    words = ["select", str(toy), "--components", "1-3", "--starts", "1000", "--jobs", "1"]
    words += ["--out", str(tmp_path / "s")]
    status, seen = at_a_terminal(words, lambda seen: "reading" in seen)
    assert status == 130
    assert "vedute: interrupted; nothing is half-written" in seen
    assert list(tmp_path.iterdir()) == []
