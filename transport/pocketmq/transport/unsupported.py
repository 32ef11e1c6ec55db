"""Requests that a server knows of and does not serve: refused with words that help."""

from __future__ import annotations

from collections.abc import Mapping

from pocketmq.protocol.codes import RequestCode, ResponseCode
from pocketmq.protocol.errors import response_error
from pocketmq.protocol.wire.command import Command
from pocketmq.transport.connection import Connection, Handler


def unsupported_handlers(reasons: Mapping[RequestCode, str]) -> dict[int, Handler]:
    """A handler for each of these codes that answers 3, as to codes that nobody knows.

    Args:
        reasons: why, and what to use instead.
    """
    return {int(code): _refusing(code, reason) for code, reason in reasons.items()}


def _refusing(code: RequestCode, reason: str) -> Handler:
    def refuse(_: Command, __: Connection) -> None:
        raise response_error(
            ResponseCode.REQUEST_CODE_NOT_SUPPORTED,
            f" request type {int(code)} not supported: {reason}",
        )

    return refuse
