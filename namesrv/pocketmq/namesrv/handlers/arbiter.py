"""Handlers of the arbiter of broker sets: 31013 read, 31014 compare-and-set."""

from __future__ import annotations

from pocketmq.namesrv.arbiter import VALUE_SIZE_MAX, ArbiterFile
from pocketmq.protocol.codes import ResponseCode
from pocketmq.protocol.errors import ResponseError
from pocketmq.protocol.requests.extensions.replication import (
    ArbiterReadRequest,
    ArbiterReadResponse,
    ArbiterWriteRequest,
    ArbiterWriteResponse,
)
from pocketmq.protocol.wire.command import Command
from pocketmq.transport.connection import Connection, Handler

_NO_ARBITER = (
    "this name server has no arbiter for broker sets: set arbiterPath in its configuration, or "
    "have the brokers ask etcd (controllerAddr: etcd://host:2379)"
)


class ArbiterHandlers:
    """Answers the members of broker sets.

    Args:
        file: where the states of broker sets are kept; None without an arbiter.
    """

    def __init__(self, file: ArbiterFile | None) -> None:
        self._file = file

    def table(self) -> dict[int, Handler]:
        """Returns the handlers by request code."""
        return {ArbiterReadRequest.code: self.read, ArbiterWriteRequest.code: self.write}

    def _opened(self) -> ArbiterFile:
        if self._file is None:
            raise ResponseError(ResponseCode.REQUEST_CODE_NOT_SUPPORTED, _NO_ARBITER)
        return self._file

    def read(self, request: Command, _: Connection) -> Command:
        """31013: tells the state of a broker set, and its version."""
        entry = self._opened().read(request.read(ArbiterReadRequest).key)
        header = ArbiterReadResponse(version=entry.version)
        return Command(ResponseCode.SUCCESS, header=header, body=entry.value)

    def write(self, request: Command, _: Connection) -> Command:
        """31014: replaces the state of a broker set, if nobody else has replaced it."""
        file, header = self._opened(), request.read(ArbiterWriteRequest)
        if len(request.body) > VALUE_SIZE_MAX:
            raise ResponseError(
                ResponseCode.INVALID_PARAMETER,
                f"a state of {len(request.body)} bytes: {VALUE_SIZE_MAX} is the limit",
            )
        version, replaced = file.write(header.key, bytes(request.body), header.version)
        answer = ArbiterWriteResponse(version=version, replaced=replaced)
        return Command(ResponseCode.SUCCESS, header=answer)
