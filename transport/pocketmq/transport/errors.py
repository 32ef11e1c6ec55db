"""Errors between two peers: leaves of `OperatingError` (see `pocketmq.protocol.errors`).

OperatingError
├── ConnectError             the address cannot be reached
├── ConnectionClosedError    the connection went away before the answer came
├── CallTimeoutError         no answer in time; the request may have been carried out
└── TooMuchRequestError      all permits are taken: the caller sends faster than peers answer

and of `ConfigError`: CannotListenError, an address is in use or not of this machine.
"""

from __future__ import annotations

import os

from pocketmq.protocol.errors import ConfigError, OperatingError
from pocketmq.protocol.messages.hosts import join_address


class ConnectError(OperatingError):
    """The address cannot be reached; nothing was sent."""

    def __init__(self, address: str, reason: str) -> None:
        super().__init__(address, reason)
        self.address, self.reason = address, reason

    def __str__(self) -> str:
        return f"cannot connect to {self.address}: {self.reason}"


class ConnectionClosedError(OperatingError):
    """The connection went away before the answer came; the request may have been carried out."""

    def __init__(self, address: str, reason: str) -> None:
        super().__init__(address, reason)
        self.address, self.reason = address, reason

    def __str__(self) -> str:
        return f"the connection to {self.address} was closed: {self.reason}"


class CallTimeoutError(OperatingError, TimeoutError):
    """No answer came in time; the request may have been carried out."""

    def __init__(self, address: str, timeout_ms: float) -> None:
        super().__init__(address, timeout_ms)
        self.address, self.timeout_ms = address, timeout_ms

    def __str__(self) -> str:
        return f"no answer from {self.address} in {self.timeout_ms:.0f} ms"


class TooMuchRequestError(OperatingError):
    """All permits are taken: the caller sends faster than its peers answer."""

    def __init__(self, kind: str, limit: int) -> None:
        super().__init__(kind, limit)
        self.kind, self.limit = kind, limit

    def __str__(self) -> str:
        return (
            f"too much request: all {self.limit} {self.kind} permits are taken; "
            f"wait for answers before more is sent, or raise the limit"
        )


class CannotListenError(ConfigError):
    """A server cannot listen on its address.

    Args:
        server: which one, as a sentence begins with it.
        host, port: the address.
        error: what the system says.

    Attributes:
        seen: server, address and cause, for those who know a better remedy.
    """

    def __init__(self, server: str, host: str, port: int, error: OSError) -> None:
        super().__init__(server, host, port, error)
        self.server = server
        # asyncio repeats the address in its text; numbers below 0 are those of name resolution.
        is_systems = error.errno is not None and error.errno > 0
        reason = os.strerror(error.errno or 0) if is_systems else error.strerror or str(error)
        self.seen = f"{server} cannot listen on {join_address(host, port)}: {reason}"

    def __str__(self) -> str:
        return f"{self.seen}; change listenPort or bindAddress, or stop what uses the port"
