"""Units of systemd, so that a server or a center comes back after a crash or a restart of the machine."""

from __future__ import annotations

import getpass
import sys
from pathlib import Path

from vedute.federation.nvflare.kits import Kit

TEMPLATE = """\
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
    return TEMPLATE.format(
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
