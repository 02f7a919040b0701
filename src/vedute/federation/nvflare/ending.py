"""The end of a job's process without what NVFlare would wait for in vain: the next job starts only when it is over.

A job ends with every fault, so these seconds are part of how long a fault takes.
"""

from __future__ import annotations

import sys

from nvflare.fuel.f3.mpm import MainProcessMonitor

GRACE_SECONDS = 0.2  # NVFlare sleeps 3 after the last connection is closed, "to let pending activities finish"
TENSORS = "nvflare.app_opt.pt.tensor_downloader"  # imported at the end to tidy up; it imports torch where there is one


def end_without_delay() -> None:
    """For the process that this is called in."""
    sys.modules.setdefault(TENSORS, None)  # type: ignore[arg-type]
    shut_down = MainProcessMonitor._start_shutdown.__func__

    def start_shutdown(cls: type, shutdown_grace_time: float, cleanup_grace_time: float) -> None:
        shut_down(cls, min(shutdown_grace_time, GRACE_SECONDS), cleanup_grace_time)

    MainProcessMonitor._start_shutdown = classmethod(start_shutdown)
