"""A center's side of a job: hands each question to the ``Site``, whose data and policy come from home, never from jobs.

The center stays in this process through the job, so its rows are read once. Whatever goes wrong, the server hears only
that it did; why is in the center's own log.
"""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

from nvflare.apis.executor import Executor
from nvflare.apis.fl_constant import ReturnCode
from nvflare.apis.fl_context import FLContext
from nvflare.apis.shareable import Shareable, make_reply
from nvflare.apis.signal import Signal

from vedute.data.files import from_json, read_whole
from vedute.data.study import Study
from vedute.errors import Refused, UserError
from vedute.federation.nvflare.names import AGREEMENT, ANSWER, AT_HOME, QUESTION, TASK
from vedute.federation.nvflare.patches import end_without_delay
from vedute.federation.site import Site


class SiteExecutor(Executor):  # type: ignore[misc, unused-ignore]
    """Answers the tasks of a job."""

    def __init__(self) -> None:
        super().__init__()
        self._site: Site | None = None

    def execute(self, task_name: str, shareable: Shareable, fl_ctx: FLContext, abort_signal: Signal) -> Shareable:
        """An answer, or the bare word that there is none."""
        if task_name != TASK:
            return make_reply(ReturnCode.TASK_UNKNOWN)
        try:
            if self._site is None:
                end_without_delay()
                kit = Path(fl_ctx.get_engine().get_workspace().get_root_dir())
                self._site = open_site(kit)
            answer = self._site.respond(shareable.get(QUESTION))
        except (Refused, UserError) as error:
            self.log_error(fl_ctx, f"refused: {error}")
            return make_reply(ReturnCode.EXECUTION_EXCEPTION)  # the same word as for a failure: it tells nothing
        except Exception as error:
            self.log_error(fl_ctx, f"failed: {type(error).__name__}: {error}")
            return make_reply(ReturnCode.EXECUTION_EXCEPTION)
        reply: Any = make_reply(ReturnCode.OK)
        if answer is not None:
            reply[ANSWER] = answer
        return reply


def open_site(kit: Path) -> Site:
    """The center of a kit, as it agreed when it joined."""
    path = kit / "local" / AGREEMENT
    agreed = from_json(read_whole(path), path)
    return Site(Study.load_node(kit / "study.toml", agreed["node"]), Path(agreed["home"]), _tell_at_home)


def _tell_at_home(message: str) -> None:
    logging.getLogger(AT_HOME).error(" ".join(message.split()))  # in one line, as logs are read
