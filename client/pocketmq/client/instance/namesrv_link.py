"""The client's connection to the name servers: to one of them for as long as it answers."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from random import Random

from pocketmq.client.errors import NoNameServerError
from pocketmq.protocol.errors import OperatingError, ResponseError
from pocketmq.protocol.wire.command import Command
from pocketmq.protocol.wire.header import RequestHeader
from pocketmq.transport.errors import CallTimeoutError
from pocketmq.transport.pool import ConnectionPool

log = logging.getLogger("pocketmq.client")


class NamesrvLink:
    """Asks the name servers, whichever of them is up.

    All calls go to one name server for as long as it answers. The first one is chosen by chance, so
    that clients spread; when it fails, the next in the list is tried (`NettyRemotingClient`,
    getAndCreateNameserverChannel).

    Args:
        pool: the instance's connections.
        addresses: of all name servers; not empty.
        random: chooses the first.
        timeout_ms: of a call.
    """

    def __init__(
        self,
        pool: ConnectionPool,
        addresses: Sequence[str],
        random: Random,
        timeout_ms: float,
    ) -> None:
        assert addresses
        self.addresses = tuple(addresses)
        self._pool = pool
        self._timeout_ms = timeout_ms
        self._turn = random.randrange(len(self.addresses))
        self._current: str | None = None
        self._choosing = asyncio.Lock()

    @property
    def current(self) -> str | None:
        """The name server in use, if its connection is open."""
        current = self._current
        return current if current is not None and self._pool.peek(current) else None

    async def ask(self, request: RequestHeader, body: bytes = b"") -> Command:
        """Asks the name server in use, and the others when it fails.

        Raises:
            NoNameServerError: none of them answers.
            ResponseError: it refused; another one would not know better.
        """
        tried: dict[str, str] = {}
        while True:
            address = self.current or await self._choose(tried)
            try:
                return await self._pool.ask(address, request, self._timeout_ms, body)
            except ResponseError:
                raise
            except OperatingError as e:
                if isinstance(e, CallTimeoutError):
                    self._pool.drop(address, "a name server did not answer")
                tried[address] = str(e)
                self._leave(address)

    async def ask_all(self, request: RequestHeader, body: bytes = b"") -> list[Command]:
        """Asks every name server, since they do not pass changes on to each other.

        Raises:
            OperatingError: the first one's error, after all were asked.
        """
        asks = (self._pool.ask(a, request, self._timeout_ms, body) for a in self.addresses)
        answers = await asyncio.gather(*asks, return_exceptions=True)
        for answer in answers:
            if isinstance(answer, BaseException):
                raise answer
        return [a for a in answers if isinstance(a, Command)]

    def _leave(self, address: str) -> None:
        if self._current == address:
            self._current = None

    async def _choose(self, tried: dict[str, str]) -> str:
        async with self._choosing:
            # While this call waited for the lock, another may have found a server that is up.
            if (current := self.current) is not None and current not in tried:
                return current
            for _ in self.addresses:
                address = self.addresses[self._turn % len(self.addresses)]
                self._turn += 1
                if address in tried:
                    continue
                try:
                    await self._pool.get(address)
                except OperatingError as e:
                    tried[address] = str(e)
                    continue
                if self._current != address:
                    log.info("using the name server %s", address)
                self._current = address
                return address
            raise NoNameServerError(tried)
