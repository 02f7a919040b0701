"""A center is back within the study's heartbeat when its server is.

NVFlare would wait 30 seconds for the answer to a heartbeat although the connection that could bring it has closed, and
up to 10 between two attempts to connect. Then it would ask the jobs of the server that died to end, and wait up to 10
more. Until then no heartbeat leaves, so that a server with a short one drops the center again, and the next job is
refused its run, whose lock the last one holds.
"""

from __future__ import annotations

import time
from collections.abc import Iterable
from typing import Any

from nvflare.fuel.f3.cellnet.core_cell import CoreCell
from nvflare.fuel.f3.cellnet.defs import ReturnCode
from nvflare.fuel.f3.cellnet.fqcn import FQCN
from nvflare.fuel.f3.cellnet.utils import make_reply
from nvflare.fuel.f3.endpoint import EndpointState
from nvflare.fuel.f3.sfm import conn_manager
from nvflare.private.fed.client.client_executor import JobExecutor

SHORTEST, LONGEST = 1.0, 10.0  # seconds; NVFlare begins with the one, and takes the other at last


def come_back_within(heartbeat: float) -> None:
    """For all connections of the process that this is called in."""
    conn_manager.MAX_WAIT = min(max(heartbeat / 4, SHORTEST), LONGEST)  # as often as a center sends its heartbeats
    _give_up_with_the_connection()
    _kill_jobs_without_server()


def _give_up_with_the_connection() -> None:
    changed = CoreCell.state_change

    def state_change(cell: Any, endpoint: Any) -> None:
        changed(cell, endpoint)
        if endpoint.state == EndpointState.DISCONNECTED:
            give_up(list(cell.waiters.values()), endpoint.name)

    CoreCell.state_change = state_change


def give_up(waiting: Iterable[Any], lost: str) -> None:
    """Answer the requests to ``lost``, and to the cells behind it, as NVFlare answers what it could not even send."""
    for request in waiting:
        for target in request.targets:
            if target not in request.reply_time and (target == lost or FQCN.is_ancestor(lost, target)):
                request.received_replies[target] = make_reply(ReturnCode.COMM_ERROR, "the connection was closed")
                request.reply_time[target] = time.time()
        if all(target in request.reply_time for target in request.targets):
            request.set()


def _kill_jobs_without_server() -> None:
    ask_to_end = JobExecutor._terminate_job

    def terminate(executor: Any, job_handle: Any, job_id: str, heartbeat_cleanup: bool = False) -> None:
        if heartbeat_cleanup:  # the server does not know the job; a center that is killed loses nothing
            job_handle.terminate(heartbeat_cleanup=True)
        else:
            ask_to_end(executor, job_handle, job_id)

    JobExecutor._terminate_job = terminate
