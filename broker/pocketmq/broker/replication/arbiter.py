"""The arbiter: keeps the state of a broker set, and changes it by compare-and-set only."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol

from pocketmq.protocol.errors import (
    NoPermissionError,
    OperatingError,
    PocketMQError,
    ResponseError,
    UnsupportedRequestError,
)
from pocketmq.protocol.requests.extensions.replication import (
    ArbiterReadRequest,
    ArbiterReadResponse,
    ArbiterWriteRequest,
    ArbiterWriteResponse,
)
from pocketmq.transport.errors import CallTimeoutError
from pocketmq.transport.pool import ConnectionPool

TIMEOUT_MS = 2000
"""How long one arbiter may take to answer."""


class ArbiterError(OperatingError):
    """The arbiter does not answer: nobody knows whether a write took place."""


class Versioned(NamedTuple):
    """A value and its version; version 0 says that there is none."""

    value: bytes
    version: int


class Arbiter(Protocol):
    """Keeps small values by key; durable, and the same for everybody who asks."""

    async def read(self, key: str) -> Versioned:
        """Returns the value of a key.

        Raises:
            ArbiterError: the arbiter does not answer.
        """

    async def write(self, key: str, value: bytes, version: int) -> int | None:
        """Replaces the value of a key if it still has a version; 0 if there must be none.

        Returns:
            the new version; None if somebody else was faster.

        Raises:
            ArbiterError: the arbiter does not answer.
        """


class NameServerArbiter:
    """The arbiter in a name server (arbiterPath), for clusters with a single one.

    Args:
        pool: connects.
        addresses: of name servers, of which exactly one is to have the arbiter: others refuse.
    """

    def __init__(self, pool: ConnectionPool, addresses: Sequence[str]) -> None:
        self._pool, self._addresses = pool, tuple(addresses)

    async def read(self, key: str) -> Versioned:
        """See `Arbiter`."""
        (address,) = self._addresses
        try:
            answer = await self._pool.ask(address, ArbiterReadRequest(key=key), TIMEOUT_MS)
            return Versioned(bytes(answer.body), answer.read(ArbiterReadResponse).version)
        except PocketMQError as e:
            raise self._failed(address, e) from e

    async def write(self, key: str, value: bytes, version: int) -> int | None:
        """See `Arbiter`."""
        (address,) = self._addresses
        request = ArbiterWriteRequest(key=key, version=version)
        try:
            answer = await self._pool.ask_for(
                address, request, ArbiterWriteResponse, TIMEOUT_MS, value
            )
        except PocketMQError as e:
            raise self._failed(address, e) from e
        return answer.version if answer.replaced else None

    def _failed(self, address: str, error: PocketMQError) -> ArbiterError:
        if isinstance(error, CallTimeoutError):
            # After a cut link TCP would send again only after a pause, as long as the cut was.
            self._pool.drop(address, "the arbiter did not answer in time")
        return _failed(address, error)


def _failed(address: str, error: PocketMQError) -> ArbiterError:
    if isinstance(error, UnsupportedRequestError):
        return ArbiterError(
            f"the name server at {address} has no arbiter: set arbiterPath in its configuration, "
            f"or controllerAddr of the members to where the arbiter is"
        )
    if isinstance(error, NoPermissionError):
        return ArbiterError(
            f"the arbiter at {address} refuses this member ({error}): its "
            f"innerClientAuthenticationCredentials must be those of the name server"
        )
    verb = "refuses" if isinstance(error, ResponseError) else "does not answer"
    return ArbiterError(f"the arbiter at {address} {verb}: {error}")


class FencedArbiter:
    """An arbiter whose writes of unknown fate are decided before anything else is read.

    A write that was not answered may still be on its way, and take place after a read that did not
    see it. So the first read after it writes the value that it has found once more, as it is: with
    the new version, the write that was on its way can succeed no more.

    Args:
        arbiter: keeps the values.
    """

    def __init__(self, arbiter: Arbiter) -> None:
        self._arbiter = arbiter
        self._doubtful: dict[str, int] = {}

    async def read(self, key: str) -> Versioned:
        """See `Arbiter`."""
        found = await self._arbiter.read(key)
        doubtful = self._doubtful.get(key)
        if doubtful is None:
            return found
        if found.version < doubtful:  # it was read before that write was made
            found = await self._arbiter.read(key)
        if found.version and found.version == doubtful:
            version = await self._arbiter.write(key, found.value, found.version)
            found = (
                await self._arbiter.read(key)
                if version is None
                else (Versioned(found.value, version))
            )
        # Another read may have decided it meanwhile, and another write have become doubtful since.
        if self._doubtful.get(key) == doubtful:
            del self._doubtful[key]
        return found

    async def write(self, key: str, value: bytes, version: int) -> int | None:
        """See `Arbiter`."""
        try:
            return await self._arbiter.write(key, value, version)
        except ArbiterError:
            self._doubtful[key] = version
            raise


def state_key(cluster: str, broker_name: str) -> str:
    """The key of a broker set's state."""
    return f"/pocketmq/{cluster}/{broker_name}"
