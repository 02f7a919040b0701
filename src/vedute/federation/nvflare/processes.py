"""Starting NVFlare from a kit, watching over it, and ending it with all that it started; and as a unit of systemd.

A hospital may start before the server, and a server may restart: NVFlare calls again by itself while it lives, and is
started again here when it does not; systemd does the same for us, after a crash or a restart of the machine. What
NVFlare says goes to ``log.txt`` in the kit; the user sees a line where the state changes.
"""

from __future__ import annotations

import getpass
import json
import os
import re
import subprocess
import sys
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path

from vedute.data.files import write_private
from vedute.data.study import Study
from vedute.errors import UserError
from vedute.federation.nvflare import local_files
from vedute.federation.nvflare.engine import end_children
from vedute.federation.nvflare.kits import Kit, check_port, held
from vedute.federation.nvflare.names import AGREEMENT, AT_HOME, BEGAN, CONNECTED, ENDED, LOST

Say = Callable[[str], None]
KEPT = re.compile(
    r"PATH|HOME|USER|LANG|LC_\w+|TZ|TMPDIR|VIRTUAL_ENV|LD_LIBRARY_PATH|SYSTEMROOT"
    r"|(OMP|OPENBLAS|MKL|NPY)_\w+|(?i:(https?|no|grpc|all)_proxy)"
)  # of the environment, what decides the last bits included; NVFlare would let variables of its own override the kit
WAITS = (1, 2, 4, 8, 15, 30)  # seconds before another start
HOPELESS = 3  # starts of a server that came to nothing; a center waits for others, and never gives up
LIVED = 60.0  # a process that lived this long had started well
UNIT = """\
{before}[Unit]
Description=vedute federation: {who}
Wants=network-online.target
After=network-online.target

[Service]
ExecStart={command}
User={user}
Restart=always
RestartSec=10
UMask=0077
NoNewPrivileges=yes
PrivateTmp=yes
ProtectSystem=strict
ProtectHome=read-only
ProtectKernelTunables=yes
ProtectControlGroups=yes
RestrictSUIDSGID=yes
RestrictAddressFamilies=AF_INET AF_INET6 AF_UNIX
ReadWritePaths={writable}

[Install]
WantedBy=multi-user.target
"""


def serve(kit: Kit, say: Say) -> None:
    """Be the federation's server until interrupted."""
    with held(kit):
        check_port(kit)
        settings = Study.load_shared(kit.study).federation
        resources = local_files.server_resources(settings, str(kit.path / "storage"))
        write_private(kit.path / "local/resources.json", json.dumps(resources, indent=2).encode())
        _watch(kit, say, [(re.compile("root: Server started"), f"listening on {kit.address}"), *SERVER_LINES])


def join(kit: Kit, say: Say) -> None:
    """Be a center of the federation until interrupted."""
    lines = [
        (re.compile(f"vedute.presence: {CONNECTED}"), f"connected to {kit.address} as {kit.file.name!r}"),
        (re.compile(f"vedute.presence: {LOST}"), f"{kit.address} does not answer; trying again"),
        (re.compile(f"vedute.presence: ({BEGAN}|{ENDED})"), r"\1"),
        (re.compile(f" {AT_HOME}: (.*)"), r"\1"),
        (re.compile("registration rejected: (.*)"), rf"{kit.address} refuses this kit: \1"),
    ]
    with held(kit):
        say(f"calling {kit.address}")
        _watch(kit, say, lines)


SERVER_LINES = [
    (re.compile(r"New client (\S+)@\S+ joined"), r"center '\1' is here"),
    (re.compile(r"Re-activate the client: (\S+)"), r"center '\1' is here again"),
    (re.compile(r"Remove the dead Client. Name: (\S+)\. "), r"center '\1' is gone"),
]


def settle(kit: Kit, node: Path, home: Path) -> None:
    """Note in the kit where this center's files and its own folder are: its executor reads it, no job can."""
    home.mkdir(mode=0o700, parents=True, exist_ok=True)
    found = {"node": str(node), "home": str(home)}
    write_private(kit.path / "local" / AGREEMENT, json.dumps(found, indent=2).encode() + b"\n")


def _watch(kit: Kit, say: Say, lines: list[tuple[re.Pattern[str], str]]) -> None:
    """Keep the engine running; a line of its log that matches is told in our words."""
    failures = 0
    while True:
        began, told = time.monotonic(), False
        last: deque[str] = deque(maxlen=5)
        with engine(kit) as process:
            assert process.stdout is not None
            for line in process.stdout:
                last.append(line.rstrip())
                for pattern, words in lines:
                    if found := pattern.search(line):
                        say(found.expand(words))
                        told = True
        failures = 0 if told or time.monotonic() - began > LIVED else failures + 1
        if failures >= HOPELESS and kit.file.role == "server":
            raise UserError("\n  ".join([f"the server does not start; {kit.path / 'log.txt'} ends with", *last]))
        wait = WAITS[min(failures, len(WAITS) - 1)]
        say(f"NVFlare ended; starting it again in {wait} s (see {kit.path / 'log.txt'})")
        time.sleep(wait)


@contextmanager
def engine(kit: Kit) -> Iterator[subprocess.Popen[str]]:
    """NVFlare, running; when this is left it has ended, and so has every process that it started."""
    process = subprocess.Popen(
        command(kit),
        cwd=kit.path,
        env=environment(os.environ, kit.file.role),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        start_new_session=True,  # a Ctrl-C of the user is for us
    )
    try:
        yield process
    finally:
        end_children(process.pid)
        process.kill()
        with suppress(subprocess.TimeoutExpired):  # somebody else may still hold the other end of the pipe
            process.communicate(timeout=5)


def command(kit: Kit) -> list[str]:
    """The command line of the engine, whose current folder is the kit."""
    settings = Study.load_shared(kit.study).federation
    role = kit.file.role
    words = [sys.executable, "-m", "vedute.federation.nvflare.engine", role, str(settings.heartbeat), "-m", "."]
    words += ["-s", "fed_server.json" if role == "server" else "fed_client.json"]
    words += ["--set", "secure_train=true", "org=vedute", "config_folder=config"]
    if role == "center":
        # NVFlare sleeps in steps of two seconds between heartbeats
        words += [f"uid={kit.file.name}", f"heart_beat_interval={max(2.0, settings.heartbeat / 4)}"]
    return words


def environment(given: Mapping[str, str], role: str) -> dict[str, str]:
    """What the engine sees of the environment.

    NVFlare keeps the errors of a job for whoever asks: a center's must not quote an exception, which may quote data.
    """
    kept = {name: value for name, value in given.items() if KEPT.fullmatch(name)}
    return {**kept, "PYTHONUNBUFFERED": "1", "GRPC_VERBOSITY": "ERROR", "NVFLARE_SECURE_LOGGING": str(role == "center")}


def unit(kit: Kit, data: Path | None = None, home: Path | None = None) -> str:
    """The unit of a server, or of a center with its node file and home; its consent is given by installing it."""
    words = [str(Path(sys.executable).with_name("vedute")), "federation"]
    if kit.file.role == "server":
        words += ["serve", str(kit.path)]
    else:
        words += ["join", str(kit.path), "--data", str(data), "--home", str(home), "--yes"]
    writable = [str(path) for path in (kit.path, home) if path is not None]
    before = "# Run the command once by hand before: it tells what will leave, asks, and makes the home folder.\n"
    who = f"center {kit.file.name}" if kit.file.role == "center" else "the server"
    return UNIT.format(
        before=before if kit.file.role == "center" else "",
        who=who,
        command=" ".join(map(_quoted, words)),
        user=getpass.getuser(),
        writable=" ".join(map(_quoted, writable)),
    )


def _quoted(word: str) -> str:
    """A word as systemd reads it: '%' begins a specifier, '$' a variable."""
    escaped = word.replace("\\", "\\\\").replace('"', '\\"').replace("%", "%%").replace("$", "$$")
    return f'"{escaped}"' if escaped != word or " " in word else word
