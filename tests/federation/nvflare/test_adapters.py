"""What leaves a center through NVFlare: a release, or the bare word that there is none."""

from __future__ import annotations

import numpy as np
import pytest
from nvflare.apis.fl_constant import ReturnCode
from nvflare.apis.fl_context import FLContext
from nvflare.apis.shareable import Shareable, make_reply
from nvflare.apis.signal import Signal

from vedute.errors import Refused, UserError
from vedute.federation.messages import Reply, encode_reply
from vedute.federation.nvflare.components import ReleaseOnly
from vedute.federation.nvflare.executor import SiteExecutor
from vedute.federation.nvflare.names import ANSWER, QUESTION, TASK
from vedute.privacy.release import NonPrivate, Release

CANARY = "Ada Canary, born 1815"


class Failing:
    def __init__(self, error: Exception) -> None:
        self.error = error

    def respond(self, data: bytes) -> bytes:
        raise self.error


def executed(site: object, task: str = TASK) -> Shareable:
    executor = SiteExecutor()
    executor._site = site
    return executor.execute(task, Shareable({QUESTION: b"?"}), FLContext(), Signal())


@pytest.mark.parametrize("error", [UserError(CANARY), Refused(CANARY), ValueError(CANARY), KeyError(CANARY)])
def test_a_failing_center_says_only_that_it_failed(error):
    reply = executed(Failing(error))
    assert reply.get_return_code() in (ReturnCode.BAD_REQUEST_DATA, ReturnCode.EXECUTION_EXCEPTION)
    assert "Canary" not in repr(dict(reply))


def test_other_tasks_are_not_known():
    assert executed(None, "train").get_return_code() == ReturnCode.TASK_UNKNOWN


def passed(reply: Shareable) -> Shareable:
    return ReleaseOnly().process(reply, FLContext())


def test_only_a_release_passes_the_gate():
    release = Release({"sums": np.arange(3.0)}, (NonPrivate("exact"),), "none")
    answer = encode_reply(Reply("sums", "0" * 32, 0, ("a",), release))
    reply = make_reply(ReturnCode.OK)
    reply[ANSWER], reply["rows"] = answer, CANARY
    reply.set_header("note", CANARY)
    found = passed(reply)
    assert found[ANSWER] == answer
    assert "Canary" not in repr(dict(found))
    for content in (CANARY, CANARY.encode(), {"rows": [1.0]}, answer[:-3], 7):
        wrong = make_reply(ReturnCode.OK)
        wrong[ANSWER] = content
        refused = passed(wrong)
        assert refused.get_return_code() == ReturnCode.EXECUTION_EXCEPTION
        assert ANSWER not in refused


def test_errors_pass_without_what_they_say():
    reply = make_reply(ReturnCode.EXECUTION_EXCEPTION)
    reply["trace"] = CANARY
    found = passed(reply)
    assert found.get_return_code() == ReturnCode.EXECUTION_EXCEPTION
    assert "Canary" not in repr(dict(found))
    odd = make_reply(CANARY)
    assert passed(odd).get_return_code() == ReturnCode.EXECUTION_EXCEPTION
