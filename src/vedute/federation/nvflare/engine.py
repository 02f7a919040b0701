"""The process that is NVFlare: ``python -m vedute.federation.nvflare.engine center|server HEARTBEAT ...``, in a kit.

It is NVFlare's own program with four things changed:

* It ends, with the processes it started, when its standard input does: whoever started it has then died.
* At a center, only the requests that a run needs are answered. NVFlare asks the center's ``authorization.json`` only
  if the server's message says so; a malicious server would not, and could read files of the center.
* A center that lost the server is back within the study's heartbeat (``reconnection``).
* The server waits a second, not five, for a job that is asked how far it is: one that just starts does not answer, and
  all else waits meanwhile.
"""

from __future__ import annotations

import contextlib
import os
import runpy
import signal
import sys
import threading

MODULES = {
    "center": "nvflare.private.fed.app.client.client_train",
    "server": "nvflare.private.fed.app.server.server_train",
}
ANSWERED = (
    "ClientStatusProcessor", "CheckResourceProcessor", "CancelResourceProcessor", "DeployProcessor",
    "StartJobProcessor", "AbortAppProcessor", "AbortTaskProcessor", "NotifyJobStatusProcessor",
)  # fmt: skip


def main(role: str, heartbeat: float, arguments: list[str]) -> None:
    """Run NVFlare until it ends."""
    threading.Thread(target=_end_with_stdin, daemon=True).start()
    if role == "center":
        from vedute.federation.nvflare.reconnection import come_back_within

        answer_only_runs()
        come_back_within(heartbeat)
    else:
        wait_less_for_jobs()
    sys.argv = [MODULES[role], *arguments]
    runpy.run_module(MODULES[role], run_name="__main__", alter_sys=True)


def answer_only_runs() -> None:
    """Forget how to answer anything that no run asks."""
    from nvflare.private.fed.client.client_req_processors import ClientRequestProcessors

    kept = [one for one in ClientRequestProcessors.request_processors if type(one).__name__ in ANSWERED]
    if len(kept) != len(ANSWERED):
        raise RuntimeError("this nvflare answers other requests than the version that vedute was made for")
    ClientRequestProcessors.request_processors[:] = kept


def wait_less_for_jobs() -> None:
    """Ask the process of a job, and give up after a second."""
    from nvflare.private.fed.server.server_engine import ServerEngine

    asking = ServerEngine.send_command_to_child_runner_process
    if asking.__defaults__ != (5.0, False):  # timeout, optional
        raise RuntimeError("this nvflare asks jobs in another way than the version that vedute was made for")
    asking.__defaults__ = (1.0, False)


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
