"""The process that is NVFlare: ``python -m vedute.federation.nvflare.engine center|server HEARTBEAT ...``, in a kit.

It is NVFlare's own program with what ``patches`` changes, and it ends, with the processes it started, when its standard
input does: whoever started it has then died.
"""

from __future__ import annotations

import contextlib
import os
import runpy
import signal
import sys
import threading

from vedute.federation.nvflare import patches

MODULES = {
    "center": "nvflare.private.fed.app.client.client_train",
    "server": "nvflare.private.fed.app.server.server_train",
}


def main(role: str, heartbeat: float, arguments: list[str]) -> None:
    """Run NVFlare until it ends."""
    threading.Thread(target=_end_with_stdin, daemon=True).start()
    if role == "center":
        patches.answer_only_runs()
        patches.come_back_within(heartbeat)
    else:
        patches.wait_less_for_jobs()
    sys.argv = [MODULES[role], *arguments]
    runpy.run_module(MODULES[role], run_name="__main__", alter_sys=True)


def end_children(pid: int) -> None:
    """Kill the processes below a process; those of jobs are in sessions of their own."""
    import psutil

    with contextlib.suppress(psutil.NoSuchProcess):
        for child in psutil.Process(pid).children(recursive=True):
            with contextlib.suppress(psutil.NoSuchProcess):
                child.kill()


def _end_with_stdin() -> None:
    while os.read(0, 1024):
        pass
    end_children(os.getpid())
    os.kill(os.getpid(), signal.SIGKILL)


if __name__ == "__main__":
    main(sys.argv[1], float(sys.argv[2]), sys.argv[3:])
