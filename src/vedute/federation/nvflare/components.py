"""Classes that the settings of a kit name, and NVFlare builds: they are the machine's own, and no job can avoid them.

``privacy.json`` of a center has the last look at what leaves; ``resources.json`` what starts the process of a job, as
NVFlare does it but also where the path of a kit has a space in it, and at a center what tells whether the server is
there, of which NVFlare itself notes only attempts.
"""

from __future__ import annotations

import logging
import shlex
import sys
from collections.abc import Iterable
from typing import Any

from nvflare.apis.event_type import EventType
from nvflare.apis.filter import Filter
from nvflare.apis.fl_component import FLComponent
from nvflare.apis.fl_constant import FLContextKey, ReturnCode
from nvflare.apis.fl_context import FLContext
from nvflare.apis.job_launcher_spec import JobProcessArgs
from nvflare.apis.shareable import Shareable, make_reply
from nvflare.app_common.job_launcher.client_process_launcher import ClientProcessJobLauncher
from nvflare.app_common.job_launcher.server_process_launcher import ServerProcessJobLauncher
from nvflare.utils.job_launcher_utils import get_client_job_args, get_server_job_args

from vedute.errors import Refused
from vedute.federation.messages import is_reply
from vedute.federation.nvflare.names import ANSWER, BEGAN, CONNECTED, ENDED, LOST

_FAILED = ReturnCode.EXECUTION_EXCEPTION


class ReleaseOnly(Filter):  # type: ignore[misc, unused-ignore]
    """Lets an encoded release pass, or the bare word that there is none; everything else is left out."""

    def process(self, shareable: Shareable, fl_ctx: FLContext) -> Shareable:
        """A new reply with nothing in it but what was checked."""
        code = shareable.get_return_code()
        if code != ReturnCode.OK:
            return make_reply(code if code == ReturnCode.TASK_UNKNOWN else _FAILED)
        reply: Any = make_reply(ReturnCode.OK)
        answer = shareable.get(ANSWER)
        if answer is not None:
            try:
                is_reply(answer)
            except Refused as reason:
                self.log_error(fl_ctx, f"kept back: {reason}")
                return make_reply(_FAILED)
            reply[ANSWER] = answer
        return reply


class CenterLauncher(ClientProcessJobLauncher):  # type: ignore[misc, unused-ignore]
    """Stands in ``resources.json`` of a center."""

    def get_command(self, job_meta: dict[str, Any], fl_ctx: Any) -> str:
        """The command line, quoted: NVFlare splits it at spaces."""
        return quoted(fl_ctx.get_prop(FLContextKey.JOB_PROCESS_ARGS), get_client_job_args())


class ServerLauncher(ServerProcessJobLauncher):  # type: ignore[misc, unused-ignore]
    """Stands in ``resources.json`` of the server."""

    def get_command(self, job_meta: dict[str, Any], fl_ctx: Any) -> str:
        """The command line, quoted: NVFlare splits it at spaces."""
        return quoted(fl_ctx.get_prop(FLContextKey.JOB_PROCESS_ARGS), get_server_job_args())


def quoted(arguments: dict[str, tuple[str, str]], names: Iterable[str]) -> str:
    """Options and their values; only the settings of ``--set`` are several words on purpose."""
    words = [sys.executable]
    for name in names:
        if name in arguments:
            option, value = arguments[name]
            words += [option, *(value.split() if name == JobProcessArgs.OPTIONS else [str(value)])]
    return shlex.join(words)


class Presence(FLComponent):  # type: ignore[misc, unused-ignore]
    """Stands in ``resources.json`` of a center; says a thing once, when it changes."""

    def __init__(self) -> None:
        super().__init__()
        self.said: str | None = None
        self.asked = False  # a heartbeat went out and its answer did not come yet
        self.log = logging.getLogger("vedute.presence")

    def handle_event(self, event_type: str, fl_ctx: Any) -> None:
        """Called by NVFlare whenever anything happens."""
        if event_type in (EventType.AFTER_CLIENT_REGISTER, EventType.AFTER_CLIENT_HEARTBEAT):
            self.asked = False
            self._say(CONNECTED)
        elif event_type == EventType.BEFORE_CLIENT_HEARTBEAT:
            if self.asked:
                self._say(LOST)
            self.asked = True
        elif event_type == EventType.AFTER_JOB_LAUNCH:
            self.log.info(BEGAN)
        elif event_type == EventType.JOB_COMPLETED:
            self.log.info(ENDED)

    def _say(self, what: str) -> None:
        if what != self.said:
            self.log.info(what)
        self.said = what
