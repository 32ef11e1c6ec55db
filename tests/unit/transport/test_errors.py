from __future__ import annotations

import pickle

import pytest

from pocketmq.protocol.errors import OperatingError
from pocketmq.transport import errors

EXAMPLES = [
    (errors.ConnectError("b:1", "refused"), "cannot connect to b:1: refused"),
    (errors.ConnectionClosedError("b:1", "reset"), "the connection to b:1 was closed: reset"),
    (errors.CallTimeoutError("b:1", 3000.4), "no answer from b:1 in 3000 ms"),
    (
        errors.TooMuchRequestError("async", 5),
        "too much request: all 5 async permits are taken; "
        "wait for answers before more is sent, or raise the limit",
    ),
]


@pytest.mark.parametrize(("error", "text"), EXAMPLES, ids=lambda e: type(e).__name__)
def test_texts_and_journeys(error: OperatingError, text: str) -> None:
    assert str(error) == text
    copy = pickle.loads(pickle.dumps(error))
    assert type(copy) is type(error)
    assert (str(copy), vars(copy)) == (text, vars(error))


def test_a_time_out_is_one_of_python_s_too() -> None:
    assert issubclass(errors.CallTimeoutError, TimeoutError)
