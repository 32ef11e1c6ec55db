"""What brokers say against orders and questions about dead letters, as problems."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from pocketmq.console.web.problems import ProblemError
from pocketmq.protocol.codes import ResponseCode
from pocketmq.protocol.errors import ResponseError

UNKNOWN = "the brokers of this cluster know no redrives, which are PocketMQ's own"


def is_unknown(error: ResponseError) -> bool:
    """Whether a broker does not know the request, as Apache's does not."""
    return error.code == ResponseCode.REQUEST_CODE_NOT_SUPPORTED


@contextmanager
def worded(status: int, title: str, remedy: str) -> Iterator[None]:
    """Words the refusals of brokers.

    Args:
        status, title, remedy: of the problem when a broker says that something does not fit.

    Raises:
        ProblemError: as said, or 501 if the brokers know no redrives.
    """
    try:
        yield
    except ResponseError as e:
        if is_unknown(e):
            raise ProblemError(
                501,
                "These brokers redrive nothing",
                UNKNOWN,
                "read the messages of %DLQ% topics, and send them again one by one",
            ) from e
        if e.code == ResponseCode.INVALID_PARAMETER:
            raise ProblemError(status, title, e.remark or str(e), remedy) from e
        raise
