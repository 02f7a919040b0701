"""The last look at what leaves a center: a filter of the center's own ``privacy.json``, which no job can avoid."""

from __future__ import annotations

from typing import Any

from nvflare.apis.filter import Filter
from nvflare.apis.fl_constant import ReturnCode
from nvflare.apis.fl_context import FLContext
from nvflare.apis.shareable import Shareable, make_reply

from vedute.errors import Refused
from vedute.federation.messages import is_reply
from vedute.federation.nvflare.names import ANSWER


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


_FAILED = ReturnCode.EXECUTION_EXCEPTION
