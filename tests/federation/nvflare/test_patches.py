"""What is changed in NVFlare so that nothing waits in vain; each in a process of its own, as there."""

import subprocess
import sys


def said_by(code: str) -> list[str]:
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return done.stdout.split()


def test_the_process_of_a_job_ends_without_a_pause_and_without_torch():
    code = """
import sys
from nvflare.fuel.f3 import mpm
from vedute.federation.nvflare.patches import end_without_delay
from nvflare.apis.impl.wf_comm_server import WFCommServer

end_without_delay()
slept, tidied = [], []
mpm.time.sleep = slept.append
mpm.MainProcessMonitor.add_cleanup_cb(lambda: tidied.append(True))
mpm.MainProcessMonitor._start_shutdown(3, 3)
WFCommServer(0.05)._cleanup_inflight_tensor_downloads(None)
print(max(slept), tidied == [True], "torch" in sys.modules)
"""
    assert said_by(code) == ["0.2", "True", "False"]


def test_the_server_waits_a_second_for_a_job_that_does_not_answer():
    code = """
from inspect import signature
from vedute.federation.nvflare.patches import wait_less_for_jobs
from nvflare.private.fed.server.server_engine import ServerEngine

wait_less_for_jobs()
print(signature(ServerEngine.send_command_to_child_runner_process).parameters["timeout"].default)
"""
    assert said_by(code) == ["1.0"]


def test_a_center_calls_a_server_that_is_gone_again_and_again_within_its_heartbeat():
    code = """
from threading import Event
from nvflare.fuel.f3.drivers.connector_info import ConnectorInfo, Mode
from nvflare.fuel.f3.sfm.conn_manager import ConnManager
from vedute.federation.nvflare.patches import come_back_within

class Gone:
    def connect(self, connector):
        raise ConnectionRefusedError

class Clock(Event):
    def wait(self, seconds):
        waits.append(seconds)
        if len(waits) == 6:
            self.set()

for heartbeat in (0.1, 4.0, 20.0, 400.0):
    come_back_within(heartbeat)
    waits = []
    url = {"url": "grpc://server:8002"}
    ConnManager.start_connector_task(ConnectorInfo("x", Gone(), url, Mode.ACTIVE, 0, 0, False, Clock()))
    print(float(max(waits)))
"""
    assert said_by(code) == ["1.0", "1.0", "5.0", "10.0"]


def test_only_requests_to_a_cell_that_is_lost_or_behind_it_are_given_up():
    code = """
from types import SimpleNamespace
from nvflare.fuel.f3.cellnet.core_cell import CoreCell, _Waiter
from nvflare.fuel.f3.cellnet.defs import MessageHeaderKey
from nvflare.fuel.f3.endpoint import EndpointState
from vedute.federation.nvflare.patches import come_back_within

heard = []
CoreCell.state_change = lambda cell, endpoint: heard.append(endpoint.state)
come_back_within(4.0)
asked = [["server"], ["server.job"], ["servers"], ["nice.job"], ["server", "nice.job"]]
waiters = {str(n): _Waiter(targets) for n, targets in enumerate(asked)}
answered = _Waiter(["server", "server.job"])
answered.received_replies["server"], answered.reply_time["server"] = "an answer", 1.0
waiters["answered"] = answered
cell = CoreCell.__new__(CoreCell)
cell.waiters = waiters
for state in (EndpointState.READY, EndpointState.DISCONNECTED):
    cell.state_change(SimpleNamespace(name="server", state=state))
    print(*[int(waiter.is_set()) for waiter in waiters.values()], sep="")
print(waiters["0"].received_replies["server"].get_header(MessageHeaderKey.RETURN_CODE))
print(answered.received_replies["server"], len(heard))
"""
    assert said_by(code) == ["000000", "110001", "comm_error", "an", "answer", "2"]


def test_a_job_whose_server_died_is_killed_at_once_and_others_are_asked_to_end():
    code = """
from types import SimpleNamespace
from nvflare.private.fed.client.client_executor import JobExecutor
from vedute.federation.nvflare.patches import come_back_within

JobExecutor._terminate_job = lambda executor, handle, job, heartbeat_cleanup=False: print("asked", job)
come_back_within(4.0)
handle = SimpleNamespace(terminate=lambda heartbeat_cleanup: print("killed"))
executor = JobExecutor.__new__(JobExecutor)
executor._terminate_job(handle, "its", True)
executor._terminate_job(handle, "aborted", False)
"""
    assert said_by(code) == ["killed", "asked", "aborted"]
