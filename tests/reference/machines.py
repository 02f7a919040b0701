"""A federation of real processes on loopback, whose parts can be killed, stopped, cut off and started again."""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import psutil

from hospitals import CENTERS, make_hospitals
from ports import free_port

VEDUTE = (str(Path(sys.executable).with_name("vedute")),)
PATIENCE = 400.0  # seconds until something counts as hanging; ten times what a run takes on an idle machine


def wait_until(what: Callable[[], object], why: str, seconds: float = PATIENCE) -> None:
    end = time.monotonic() + seconds
    while not what():
        if time.monotonic() > end:
            raise AssertionError(f"waited {seconds:g} s in vain: {why}")
        time.sleep(0.1)


class Machines:
    """One server and three hospitals; every process is known, and ended by its id."""

    def __init__(
        self, folder: Path, *, federation: str = "", privacy: str = "", server_kit: Path | None = None
    ) -> None:
        self.folder, self.port = folder, free_port()
        self.shared, self.nodes = make_hospitals(folder, federation=federation, privacy=privacy, n=90)
        self.processes: dict[str, subprocess.Popen[bytes]] = {}
        self.leads: list[Lead] = []
        words = ["federation", "init", str(self.shared), "--centers", ",".join(CENTERS), "--server", "localhost"]
        kits = folder / "the kits"  # with a space, as somebody's folder will have
        subprocess.run([*VEDUTE, *words, "--port", str(self.port), "--out", str(kits)], check=True)
        self.kits = {name: kits / name for name in ("server", "lead", *CENTERS)}
        if server_kit is not None:
            shutil.copytree(self.kits["server"], server_kit)
            self.kits["server"] = server_kit

    def start(self, *names: str) -> None:
        for name in names:
            words = ["serve", str(self.kits[name])]
            if name != "server":
                words = ["join", str(self.kits[name]), "--data", str(self.nodes[name]), "--yes"]
            with open(self.folder / f"{name}.out", "ab") as out:
                self.processes[name] = subprocess.Popen(
                    [*VEDUTE, "federation", *words], stdout=out, stderr=out, stdin=subprocess.DEVNULL
                )
        for name in names:
            if name == "server":
                wait_until(lambda: "listening" in self.said("server"), "the server does not listen")

    def said(self, name: str) -> str:
        path = self.folder / f"{name}.out"
        return path.read_text() if path.exists() else ""

    def tree(self, name: str) -> list[psutil.Process]:
        try:
            top = psutil.Process(self.processes[name].pid)
            return [top, *top.children(recursive=True)]
        except psutil.NoSuchProcess:
            return []

    def kill(self, name: str) -> None:
        """As if the power had failed."""
        self.signal(name, signal.SIGKILL)
        self.processes.pop(name).wait()

    def signal(self, name: str, number: int) -> None:
        for process in self.tree(name):
            try:
                process.send_signal(number)
            except psutil.NoSuchProcess:
                continue

    def lead(self, out: str, *options: str) -> Lead:
        lead = Lead(self, out, options)
        self.leads.append(lead)
        return lead

    def close(self) -> None:
        for lead in self.leads:
            lead.kill()
        for name in list(self.processes):
            self.kill(name)


class Lead:
    """``vedute federation run`` in a process of its own; its JSON lines tell how far it is."""

    def __init__(self, machines: Machines, out: str, options: tuple[str, ...]) -> None:
        self.out, self.log = machines.folder / out, machines.folder / f"{out}.lead"
        words = ["federation", "run", str(machines.shared), "--kit", str(machines.kits["lead"]), "--out", str(self.out)]
        with open(self.log, "ab") as log:
            self.process = subprocess.Popen([*VEDUTE, *words, "--json", *options], stdout=log, stderr=log)

    def rounds(self) -> int:
        lines = [line for line in self.log.read_text().splitlines() if line.startswith("{")]
        return max((json.loads(line).get("round", 0) for line in lines), default=0)

    def reach(self, round_: int) -> None:
        wait_until(lambda: self.rounds() >= round_ or self.process.poll() is not None, f"round {round_}: {self.said()}")
        assert self.rounds() >= round_, self.said()

    def said(self) -> str:
        return self.log.read_text()

    def kill(self) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()

    def finish(self) -> None:
        try:
            status = self.process.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            raise AssertionError(f"the run does not end: {self.said()}") from None
        assert status == 0, self.said()


class Cable:
    """Carries bytes between a hospital and the server; cut, it carries nothing and says nothing about it."""

    def __init__(self, target: int) -> None:
        self.target, self.whole, self.called = target, threading.Event(), threading.Event()
        self.whole.set()
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = int(self.listener.getsockname()[1])
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        while True:
            here, _ = self.listener.accept()
            self.called.set()
            self.whole.wait()
            try:
                there = socket.create_connection(("127.0.0.1", self.target))
            except OSError:  # nobody is there, so far
                here.close()
                continue
            for a, b in ((here, there), (there, here)):
                threading.Thread(target=self._carry, args=(a, b), daemon=True).start()

    def _carry(self, source: socket.socket, sink: socket.socket) -> None:
        try:
            while data := source.recv(65536):
                self.whole.wait()
                sink.sendall(data)
        except OSError:
            pass
        for end in (source, sink):
            try:
                end.shutdown(socket.SHUT_RDWR)
            except OSError:
                continue


def call_through(kit: Path, port: int) -> None:
    """Let a hospital call the server through a cable."""
    path = kit / "startup" / "fed_client.json"
    content = json.loads(path.read_text())
    content["servers"][0]["service"]["target"] = f"localhost:{port}"
    os.chmod(path, 0o600)
    path.write_text(json.dumps(content))
