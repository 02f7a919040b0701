"""A center is back within the study's heartbeat when its server is.

NVFlare would wait 30 seconds for the answer to a heartbeat although the connection that could bring it has closed, and
up to 10 between two attempts to connect. Then it would end the jobs of the server that died, and send no heartbeat
before they have ended, so that a server with a short heartbeat drops the center again.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable
from typing import Any

from nvflare.fuel.f3.cellnet.core_cell import CoreCell
from nvflare.fuel.f3.cellnet.defs import ReturnCode
from nvflare.fuel.f3.cellnet.fqcn import FQCN
from nvflare.fuel.f3.cellnet.utils import make_reply
from nvflare.fuel.f3.endpoint import EndpointState
from nvflare.fuel.f3.sfm import conn_manager
from nvflare.private.fed.client.communicator import Communicator

SHORTEST, LONGEST = 1.0, 10.0  # seconds; NVFlare begins with the one, and takes the other at last


def come_back_within(heartbeat: float) -> None:
    """For all connections of the process that this is called in."""
    conn_manager.MAX_WAIT = min(max(heartbeat / 4, SHORTEST), LONGEST)  # as often as a center sends its heartbeats
    _give_up_with_the_connection()
    _call_while_jobs_end()


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


def _call_while_jobs_end() -> None:
    end = Communicator._clean_up_runs
    ending: set[str] = set()  # the server names them in every answer, until they have ended

    def end_some(communicator: Any, engine: Any, jobs: list[str]) -> None:
        try:
            end(communicator, engine, jobs)
        finally:
            ending.difference_update(jobs)

    def clean_up_runs(communicator: Any, engine: Any, abort_runs: list[str]) -> None:
        if jobs := [job for job in abort_runs if job not in ending]:
            ending.update(jobs)
            threading.Thread(target=end_some, args=(communicator, engine, jobs), daemon=True).start()

    Communicator._clean_up_runs = clean_up_runs
