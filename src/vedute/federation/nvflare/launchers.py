"""Starting the process of a job: as NVFlare does it, but also where the path of a kit has a space in it."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Iterable
from typing import Any

from nvflare.apis.fl_constant import FLContextKey
from nvflare.apis.job_launcher_spec import JobProcessArgs
from nvflare.app_common.job_launcher.client_process_launcher import ClientProcessJobLauncher
from nvflare.app_common.job_launcher.server_process_launcher import ServerProcessJobLauncher
from nvflare.utils.job_launcher_utils import get_client_job_args, get_server_job_args


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
