from __future__ import annotations

import errno
import pickle
import socket

import pytest

from pocketmq.protocol.errors import PocketMQError
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
    (
        errors.CannotListenError("broker-a", "::1", 80, OSError(errno.EACCES, "at ('::1', 80)")),
        "broker-a cannot listen on [::1]:80: Permission denied; change listenPort or bindAddress, "
        "or stop what uses the port",
    ),
    (
        errors.CannotListenError("broker-a", "nowhere", 80, socket.gaierror(-2, "Unknown name")),
        "broker-a cannot listen on nowhere:80: Unknown name; change listenPort or bindAddress, "
        "or stop what uses the port",
    ),
]


@pytest.mark.parametrize(("error", "text"), EXAMPLES, ids=lambda e: type(e).__name__)
def test_texts_and_journeys(error: PocketMQError, text: str) -> None:
    assert str(error) == text
    copy = pickle.loads(pickle.dumps(error))
    assert type(copy) is type(error)
    assert (str(copy), vars(copy)) == (text, vars(error))


def test_a_time_out_is_one_of_python_s_too() -> None:
    assert issubclass(errors.CallTimeoutError, TimeoutError)
