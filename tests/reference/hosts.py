"""Hosts with addresses of their own on one machine: network namespaces on one switch. Needs root and iproute2.

Each host has a folder, knows the others by name, and is on no other network; nothing of the machine's own network
changes. Processes are started in a host, known by their number, and ended with it.
"""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

PATIENCE = 150.0  # seconds that anything may take on a busy machine
NAMES = Path("/etc/netns")  # where "ip netns exec" finds files that a namespace has instead of those in /etc


@dataclass
class Running:
    """A process that goes on; what it says is in a file."""

    process: subprocess.Popen[bytes]
    log: Path

    def said(self) -> str:
        return self.log.read_text(errors="replace")

    def wait_for(self, line: str, since: int = 0) -> int:
        """Until it says this line; where that ends."""
        end = time.monotonic() + PATIENCE
        while (place := f"\n{self.said()}".find(f"\n{line}\n", since)) < 0:
            if time.monotonic() > end or self.process.poll() is not None:
                raise AssertionError(f"{line!r} was told, but it said only:\n{self.said()[since:]}")
            time.sleep(0.1)
        return place + len(line) + 1

    def stop(self) -> str:
        """As a service manager does; all that it said."""
        if self.process.poll() is None:
            self.process.terminate()
        self.process.wait(PATIENCE)
        return self.said()


@dataclass
class Hosts:
    """A switch and its hosts; ``names`` are what each is called by the others."""

    folder: Path
    names: Mapping[str, str]
    running: list[Running] = field(default_factory=list)

    def __post_init__(self) -> None:
        if shutil.which("ip") is None or os.geteuid():
            raise RuntimeError("network namespaces need root and the command 'ip' (apt-get install iproute2)")
        self.prefix = f"vedute{os.getpid()}-"
        self.addresses = {host: f"10.77.0.{i}" for i, host in enumerate(self.names, 1)}

    def __enter__(self) -> Hosts:
        try:
            self._build()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        for running in self.running:
            with contextlib.suppress(subprocess.TimeoutExpired):
                running.stop()
        for host in ("switch", *self.names):
            left = subprocess.run(["ip", "netns", "pids", self.prefix + host], capture_output=True, text=True)
            for pid in left.stdout.split():
                with contextlib.suppress(ProcessLookupError):
                    os.kill(int(pid), signal.SIGKILL)
            subprocess.run(["ip", "netns", "del", self.prefix + host], capture_output=True)
            shutil.rmtree(NAMES / (self.prefix + host), ignore_errors=True)

    def _build(self) -> None:
        switch = self.prefix + "switch"
        known = "127.0.0.1 localhost\n" + "".join(f"{self.addresses[h]} {name}\n" for h, name in self.names.items())
        _ip(f"netns add {switch}", f"-n {switch} link add bridge type bridge", f"-n {switch} link set bridge up")
        for host, address in self.addresses.items():
            space, end = self.prefix + host, f"to-{host}"
            files = NAMES / space
            files.mkdir(parents=True)
            (files / "hosts").write_text(known)
            _ip(
                f"netns add {space}", f"-n {switch} link add {end} type veth peer name wire netns {space}",
                f"-n {switch} link set {end} master bridge up", f"-n {space} addr add {address}/24 dev wire",
                f"-n {space} link set wire up", f"-n {space} link set lo up",
            )  # fmt: skip
            self.home(host).mkdir(parents=True, exist_ok=True)

    def home(self, host: str) -> Path:
        return self.folder / host

    def command(self, host: str, words: Sequence[str]) -> list[str]:
        return ["ip", "netns", "exec", self.prefix + host, *words]

    def run(self, host: str, script: str) -> subprocess.CompletedProcess[str]:
        """A shell script in a host's folder."""
        words = self.command(host, ["bash", "-uc", script])
        return subprocess.run(
            words, cwd=self.home(host), env=_environment(), text=True, timeout=PATIENCE,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL,
        )  # fmt: skip

    def start(self, host: str, script: str, answer: bytes | None = None) -> Running:
        """A script that goes on; with an ``answer`` it has a terminal, at which that is typed."""
        log = self.folder / f"{host}-{len(self.running)}.log"
        typist = ["bash", "-uc", f"exec {script}"]
        if answer is not None:
            typist = [sys.executable, __file__, answer.decode(), *typist]
        with open(log, "wb") as out:
            process = subprocess.Popen(
                self.command(host, typist), cwd=self.home(host), env=_environment(),
                stdout=out, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL,
            )  # fmt: skip
        found = Running(process, log)
        self.running.append(found)
        return found

    def listeners(self, host: str) -> tuple[set[int], set[int]]:
        """The ports of a host on which somebody listens: for others, and for the host itself alone."""
        listed = subprocess.run(
            self.command(host, ["ss", "-H", "-l", "-t", "-u", "-n"]), check=True, capture_output=True, text=True
        ).stdout
        found = [re.fullmatch(r"(.*):(\d+)", line.split()[4]) for line in listed.splitlines()]
        own = {int(one[2]) for one in found if one and one[1].startswith(("127.", "[::1]", "[::ffff:127."))}
        return {int(one[2]) for one in found if one} - own, own

    def reaches(self, host: str, other: str, port: int) -> bool:
        """Whether a connection from one host to a port of another comes about."""
        code = f"import socket; socket.create_connection(({self.addresses[other]!r}, {port}), 3)"
        done = subprocess.run(self.command(host, [sys.executable, "-c", code]), capture_output=True)
        return done.returncode == 0


def _environment() -> dict[str, str]:
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    return {**os.environ, "PATH": path, "COLUMNS": "120", "OPENBLAS_NUM_THREADS": "1"}


def _ip(*lines: str) -> None:
    for line in lines:
        done = subprocess.run(["ip", *line.split()], capture_output=True, text=True)
        if done.returncode:
            raise RuntimeError(f"ip {line}: {done.stderr.strip()}")


def type_at_terminal(answer: str, words: Sequence[str]) -> int:
    """Run a command at a terminal of its own, show what it says, and type ``answer`` when it asks."""
    import pty

    pid, terminal = pty.fork()
    if pid == 0:
        os.execvp(words[0], list(words))
    signal.signal(signal.SIGTERM, lambda *_: os.kill(pid, signal.SIGTERM))
    typed = False
    try:
        while data := os.read(terminal, 65536):
            os.write(1, data.replace(b"\r\n", b"\n"))
            if not typed and data.rstrip().endswith(b":"):
                os.write(terminal, answer.encode() + b"\n")
                typed = True
    except OSError:  # the other end is gone
        pass
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


if __name__ == "__main__":
    sys.exit(type_at_terminal(sys.argv[1], sys.argv[2:]))
