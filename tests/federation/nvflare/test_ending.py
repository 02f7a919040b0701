"""What is changed in NVFlare so that jobs end and answer without delay; each in a process of its own, as in a job."""

import subprocess
import sys


def said_by(code: str) -> list[str]:
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return done.stdout.split()


def test_the_process_of_a_job_ends_without_a_pause_and_without_torch():
    code = """
import sys
from nvflare.fuel.f3 import mpm
from vedute.federation.nvflare.ending import end_without_delay
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
from vedute.federation.nvflare.engine import wait_less_for_jobs
from nvflare.private.fed.server.server_engine import ServerEngine

wait_less_for_jobs()
print(signature(ServerEngine.send_command_to_child_runner_process).parameters["timeout"].default)
"""
    assert said_by(code) == ["1.0"]
