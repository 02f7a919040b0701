"""Ports for servers that start later, or die and start again: nobody else takes them meanwhile."""

from __future__ import annotations

import random
import socket

LOWEST, HIGHEST = 20_000, 30_000  # below those that systems give to outgoing connections and to who asks for any port
_kept: list[socket.socket] = []


def free_port() -> int:
    """A port that is free for TCP; its UDP twin is held, so that no other process of the tests is given it too."""
    for port in random.SystemRandom().sample(range(LOWEST, HIGHEST), 100):
        twin = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        try:
            twin.bind(("127.0.0.1", port))
            with socket.socket() as probe:
                probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                probe.bind(("", port))
        except OSError:
            twin.close()
            continue
        _kept.append(twin)
        return port
    raise AssertionError(f"no free port between {LOWEST} and {HIGHEST}")
