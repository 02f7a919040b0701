"""What is changed in NVFlare, each for the process that calls it: what is answered, and how long is waited.

NVFlare is imported where it is changed, since the processes of jobs must start light.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterable
from typing import Any

ANSWERED = (
    "ClientStatusProcessor", "CheckResourceProcessor", "CancelResourceProcessor", "DeployProcessor",
    "StartJobProcessor", "AbortAppProcessor", "AbortTaskProcessor", "NotifyJobStatusProcessor",
)  # fmt: skip
SHORTEST, LONGEST = 1.0, 10.0  # seconds; NVFlare begins with the one, and takes the other at last
GRACE_SECONDS = 0.2  # NVFlare sleeps 3 after the last connection is closed, "to let pending activities finish"
TENSORS = "nvflare.app_opt.pt.tensor_downloader"  # imported at the end to tidy up; it imports torch where there is one


def answer_only_runs() -> None:
    """Forget how to answer anything that no run asks.

    NVFlare asks the center's ``authorization.json`` only if the server's message says so; a malicious server would not,
    and could read files of the center.
    """
    from nvflare.private.fed.client.client_req_processors import ClientRequestProcessors

    kept = [one for one in ClientRequestProcessors.request_processors if type(one).__name__ in ANSWERED]
    if len(kept) != len(ANSWERED):
        raise RuntimeError("this nvflare answers other requests than the version that vedute was made for")
    ClientRequestProcessors.request_processors[:] = kept


def wait_less_for_jobs() -> None:
    """Ask the process of a job how far it is, and give up after a second, not five.

    One that just starts does not answer, and all else waits meanwhile.
    """
    from nvflare.private.fed.server.server_engine import ServerEngine

    asking = ServerEngine.send_command_to_child_runner_process
    if asking.__defaults__ != (5.0, False):  # timeout, optional
        raise RuntimeError("this nvflare asks jobs in another way than the version that vedute was made for")
    asking.__defaults__ = (1.0, False)


def come_back_within(heartbeat: float) -> None:
    """A center that lost the server is back within the study's heartbeat; for all connections of this process.

    NVFlare would wait 30 seconds for the answer to a heartbeat although the connection that could bring it has closed,
    and up to 10 between two attempts to connect. Then it would ask the jobs of the server that died to end, and wait up
    to 10 more. Until then no heartbeat leaves, so that a server with a short one drops the center again, and the next
    job is refused its run, whose lock the last one holds.
    """
    from nvflare.fuel.f3.sfm import conn_manager

    conn_manager.MAX_WAIT = min(max(heartbeat / 4, SHORTEST), LONGEST)  # as often as a center sends its heartbeats
    _give_up_with_the_connection()
    _kill_jobs_without_server()


def _give_up_with_the_connection() -> None:
    from nvflare.fuel.f3.cellnet.core_cell import CoreCell
    from nvflare.fuel.f3.endpoint import EndpointState

    changed = CoreCell.state_change

    def state_change(cell: Any, endpoint: Any) -> None:
        changed(cell, endpoint)
        if endpoint.state == EndpointState.DISCONNECTED:
            give_up(list(cell.waiters.values()), endpoint.name)

    CoreCell.state_change = state_change


def give_up(waiting: Iterable[Any], lost: str) -> None:
    """Answer the requests to ``lost``, and to the cells behind it, as NVFlare answers what it could not even send."""
    from nvflare.fuel.f3.cellnet.defs import ReturnCode
    from nvflare.fuel.f3.cellnet.fqcn import FQCN
    from nvflare.fuel.f3.cellnet.utils import make_reply

    for request in waiting:
        for target in request.targets:
            if target not in request.reply_time and (target == lost or FQCN.is_ancestor(lost, target)):
                request.received_replies[target] = make_reply(ReturnCode.COMM_ERROR, "the connection was closed")
                request.reply_time[target] = time.time()
        if all(target in request.reply_time for target in request.targets):
            request.set()


def _kill_jobs_without_server() -> None:
    from nvflare.private.fed.client.client_executor import JobExecutor

    ask_to_end = JobExecutor._terminate_job

    def terminate(executor: Any, job_handle: Any, job_id: str, heartbeat_cleanup: bool = False) -> None:
        if heartbeat_cleanup:  # the server does not know the job; a center that is killed loses nothing
            job_handle.terminate(heartbeat_cleanup=True)
        else:
            ask_to_end(executor, job_handle, job_id)

    JobExecutor._terminate_job = terminate


def end_without_delay() -> None:
    """End this process, a job's own, without what NVFlare would wait for in vain: the next job starts only then.

    A job ends with every fault, so these seconds are part of how long a fault takes.
    """
    from nvflare.fuel.f3.mpm import MainProcessMonitor

    sys.modules.setdefault(TENSORS, None)  # type: ignore[arg-type]
    shut_down = MainProcessMonitor._start_shutdown.__func__

    def start_shutdown(cls: type, shutdown_grace_time: float, cleanup_grace_time: float) -> None:
        shut_down(cls, min(shutdown_grace_time, GRACE_SECONDS), cleanup_grace_time)

    MainProcessMonitor._start_shutdown = classmethod(start_shutdown)
