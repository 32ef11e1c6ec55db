"""Handlers for request codes that a server knows and does not serve."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from pocketmq.protocol.codes import RequestCode, ResponseCode
from pocketmq.protocol.errors import response_error
from pocketmq.protocol.wire.command import Command
from pocketmq.transport.connection import Connection, Handler


class Refusal(msgspec.Struct, frozen=True):
    """The handler that refuses one request code.

    Attributes:
        code: the request code.
        reason: why the server does not serve it, and what to use instead.
    """

    code: RequestCode
    reason: str

    def __call__(self, command: Command, connection: Connection) -> None:
        """Refuses a request with 3, as the transport refuses codes that nobody knows.

        Raises:
            ResponseError: always; its remark ends with the reason.
        """
        raise response_error(
            ResponseCode.REQUEST_CODE_NOT_SUPPORTED,
            f" request type {int(self.code)} not supported: {self.reason}",
        )


def unsupported_handlers(reasons: Mapping[RequestCode, str]) -> dict[int, Handler]:
    """Makes a handler table in which each of these codes is refused with its reason."""
    return {int(code): Refusal(code, reason) for code, reason in reasons.items()}
