"""What the service uses of a gRPC call; `pocketmq.transport.grpc` has it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping
from typing import Protocol


class Call(Protocol):
    """One rpc.

    Attributes:
        metadata: of the request, by lower-case name.
        remote_address: of the client, ``host:port``.
        is_open: False once it was cancelled, or its connection is gone.
    """

    @property
    def metadata(self) -> Mapping[str, str]: ...  # noqa: D102

    @property
    def remote_address(self) -> str: ...  # noqa: D102

    @property
    def is_open(self) -> bool: ...  # noqa: D102

    def remaining_s(self) -> float | None:
        """Seconds until the client's deadline; None without one."""

    def on_close(self, callback: Callable[[], object]) -> None:
        """Calls something once the call ends, for whatever reason."""

    async def write(self, message: bytes) -> None:
        """Sends one message of a streaming answer."""

    def write_nowait(self, message: bytes) -> bool:
        """Sends one if that is possible at once; else False."""

    def cut_off(self, reason: str) -> None:
        """Cuts the connection that the call came by."""

    def messages(self) -> AsyncIterator[bytes]:
        """The messages of a streaming request."""
