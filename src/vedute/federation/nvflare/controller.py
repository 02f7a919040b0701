"""The server's side of a job: carries the conductor's questions to the centers, and tells the lead how far it is."""

from __future__ import annotations

import json
import shutil
import threading
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from nvflare.apis.client import Client
from nvflare.apis.controller_spec import ClientTask, Task
from nvflare.apis.fl_constant import ReturnCode
from nvflare.apis.fl_context import FLContext
from nvflare.apis.impl.controller import Controller
from nvflare.apis.shareable import Shareable
from nvflare.apis.signal import Signal
from nvflare.widgets.info_collector import InfoCollector

from vedute.data.study import Study
from vedute.errors import UserError
from vedute.federation.nvflare.names import ANSWER, OUTCOME, QUESTION, RESULT, STATS, TASK
from vedute.federation.nvflare.patches import end_without_delay
from vedute.federation.remote import RemoteRun, SilentCenters, TooFewCenters, fit_remote
from vedute.run.fitted_model import build_settings
from vedute.run.protocol import Progress
from vedute.run.run_folder import Run, tidy

START_SECONDS = 30  # that a center may need to start its part of a job
HEARD_SECONDS = 5
CHECK_SECONDS = 0.05  # how often NVFlare looks whether a task is done
TOLD_ROUNDS = 50  # more than can pass between two looks of the lead


class FitController(Controller):  # type: ignore[misc, unused-ignore]
    """One job: the rounds of a run that are still to be done, with the centers that were there when it began."""

    def __init__(self, run: str, settings: dict[str, Any], centers: list[str]) -> None:
        super().__init__(task_check_period=CHECK_SECONDS)
        self.run, self.settings, self.centers = run, settings, centers
        self._told: dict[str, Any] = {"round": 0}
        self._said: list[str] = []
        self._heard = threading.Event()  # set when the lead asked how far the job is

    def start_controller(self, fl_ctx: FLContext) -> None:
        """Before the rounds: this process is the job's own."""
        end_without_delay()

    def control_flow(self, abort_signal: Signal, fl_ctx: FLContext) -> None:
        """The whole job. Whatever ends it is told to the lead in words that tell nothing of the data."""
        workspace = fl_ctx.get_engine().get_workspace()
        home = Path(workspace.get_root_dir())
        result = Path(workspace.get_run_dir(fl_ctx.get_job_id())) / RESULT
        try:
            study = Study.load_shared(home / "study.toml")
            run = RemoteRun(
                study, build_settings(self.settings), self.run, home / "runs" / self.run, tuple(self.centers)
            )
            ask = self._ask(study, fl_ctx, abort_signal)
            self._hand_over(run.folder, result, fit_remote(run, ask, self._say, self._note))
        except TooFewCenters as error:
            self._end(result, fl_ctx, "too few centers", str(error))
        except SilentCenters as error:
            self._end(result, fl_ctx, "silent", str(error), error.names)
        except UserError as error:
            self._end(result, fl_ctx, "stopped", str(error))
        except Exception as error:
            self._end(result, fl_ctx, "failed", f"a fault of vedute at the server ({type(error).__name__})")
            raise

    def stop_controller(self, fl_ctx: FLContext) -> None:
        """Nothing after them."""

    def process_result_of_unknown_task(
        self, client: Client, task_name: str, client_task_id: str, result: Shareable, fl_ctx: FLContext
    ) -> None:
        """An answer that came too late: its round is over, so it is dropped."""

    def handle_event(self, event_type: str, fl_ctx: FLContext) -> None:
        """Tell the lead, when it asks, which round this is and who is missing."""
        super().handle_event(event_type, fl_ctx)
        if event_type == InfoCollector.EVENT_TYPE_GET_STATS:
            self._heard.set()
            collector = fl_ctx.get_prop(InfoCollector.CTX_KEY_STATS_COLLECTOR)
            if collector is not None:
                collector.set_info(STATS, {**self._told, "said": list(self._said)})

    def _ask(self, study: Study, fl_ctx: FLContext, abort_signal: Signal) -> Any:
        patience = [START_SECONDS]  # the first question waits for the centers' processes to start

        def ask(data: bytes, centers: Sequence[str]) -> dict[str, bytes]:
            found: dict[str, bytes] = {}
            timeout = max(1, round(study.federation.timeout + (patience.pop() if patience else 0)))

            def received(client_task: ClientTask, fl_ctx: FLContext) -> None:
                result = client_task.result
                if isinstance(result, Shareable) and result.get_return_code() == ReturnCode.OK:
                    answer = result.get(ANSWER, b"")  # an answer without words: heard, and nothing to say
                    if isinstance(answer, bytes):
                        found[client_task.client.name] = answer
                client_task.result = None  # answers are not kept by the engine

            task = Task(name=TASK, data=Shareable({QUESTION: data}), timeout=timeout, result_received_cb=received)
            self.broadcast_and_wait(
                task=task, fl_ctx=fl_ctx, targets=list(centers), min_responses=len(centers),
                wait_time_after_min_received=0, abort_signal=abort_signal,
            )  # fmt: skip
            if abort_signal.triggered:
                raise UserError("the job was stopped")
            return found

        return ask

    def _say(self, message: str) -> None:
        self.log_warning(None, message)
        self._said.append(message)

    def _note(self, progress: Progress) -> None:
        rounds = [{**asdict(record), "change": repr(record.change)} for record in progress.history[-TOLD_ROUNDS:]]
        self._told = {"round": rounds[-1]["round"], "centers": list(rounds[-1]["centers"]), "rounds": rounds}

    def _hand_over(self, folder: Path, result: Path, finished: Run) -> None:
        tidy(folder)
        shutil.copytree(folder, result / "run", dirs_exist_ok=True)
        _write(result, {"outcome": "finished", "rounds": len(finished.history), "said": self._said})

    def _end(self, result: Path, fl_ctx: FLContext, outcome: str, reason: str, silent: Sequence[str] = ()) -> None:
        self._say(reason)
        try:
            _write(result, {"outcome": outcome, "reason": reason, "said": self._said, "silent": list(silent)})
        except OSError:  # a full disk: the lead can only be told while the job lives
            self._heard.clear()
            self._heard.wait(HEARD_SECONDS)
        self.system_panic(reason, fl_ctx)


def _write(result: Path, outcome: dict[str, Any]) -> None:
    result.mkdir(parents=True, exist_ok=True)
    (result / OUTCOME).write_text(json.dumps(outcome))
