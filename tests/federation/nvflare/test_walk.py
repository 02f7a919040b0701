"""docs/federation.md, played on five hosts of their own; meanwhile nobody opens a port but the server its one."""

from __future__ import annotations

import re
import threading
from pathlib import Path

import pytest

from hosts import Hosts
from playing import blocks, difference
from walking import HELD, NAMES, Walk, told, write_tables

ROOT = Path(__file__).parents[3]
PAGE = ROOT / "docs" / "federation.md"
PORT = 8002


class Guard(threading.Thread):
    """Looks again and again who listens where, while the page is played."""

    def __init__(self, hosts: Hosts) -> None:
        super().__init__()
        self.hosts, self.over = hosts, threading.Event()
        self.seen: dict[str, set[int]] = {host: set() for host in NAMES}
        self.own: dict[str, set[int]] = {host: set() for host in NAMES}
        self.reached: set[tuple[str, int]] = set()

    def run(self) -> None:
        while not self.over.wait(1.0):
            for host in NAMES:
                others, own = self.hosts.listeners(host)
                self.seen[host] |= others
                for port in {*others, *(own - self.own[host])}:
                    if (host, port) not in self.reached and self.hosts.reaches("lead", host, port):
                        self.reached.add((host, port))
                self.own[host] |= own


def test_the_page_does_what_it_says_and_only_one_port_is_open(tmp_path):
    page = PAGE.read_text()
    found = blocks(page)
    with Hosts(tmp_path, NAMES) as hosts:
        write_tables(hosts)
        guard = Guard(hosts)
        guard.start()
        try:
            said = told(found, Walk(hosts).play(PAGE.name, page))
        finally:
            guard.over.set()
            guard.join()
    wrong = [
        f"{PAGE.name}:{found[i].line}: {what}" for i, text in said.items() if (what := difference(found[i].text, text))
    ]
    assert not wrong, "\n".join(wrong)
    assert guard.seen == {host: {PORT} if host == "server" else set() for host in NAMES}
    assert guard.reached == {("server", PORT)}
    assert all(
        guard.own[host] for host in (*HELD, "server")
    )  # those for jobs on the same host were seen, and not reached


@pytest.mark.parametrize("heading", ["When it does not work", "When something dies"])
def test_messages_in_the_tables_are_those_of_the_program(heading):
    section = PAGE.read_text().split(f"## {heading}\n")[1].split("\n## ")[0]
    column = 0 if heading == "When it does not work" else 1
    rows = [line.strip("| ").split(" | ") for line in section.splitlines() if line.startswith("| ")]
    source = "\n".join(path.read_text() for path in sorted((ROOT / "src" / "vedute").rglob("*.py")))
    source = re.sub(r'"\s*\n\s*f?"', "", source)  # texts that go on in the next line
    words = [word for row in rows for word in re.findall(r"`([^`]+)`", row[column]) if " " in word]
    assert len(words) > 5
    for message in words:
        pattern = ".{1,60}?".join(map(re.escape, re.split(r"'paris'|\d+", message)))  # names and numbers differ
        assert re.search(pattern, source), message
