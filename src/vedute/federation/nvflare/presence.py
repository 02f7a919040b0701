"""Tells, in a center's log, whether the server is there: NVFlare itself notes only attempts."""

from __future__ import annotations

import logging
from typing import Any

from nvflare.apis.event_type import EventType
from nvflare.apis.fl_component import FLComponent

CONNECTED, LOST, BEGAN, ENDED = "the server is there", "the server does not answer", "a run began", "a run ended"


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
