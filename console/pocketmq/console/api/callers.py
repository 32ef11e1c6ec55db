"""The clients with which requests are carried out: each caller has clients with the own rights."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from contextvars import ContextVar
from typing import Any, TypeVar

from msgspec import Struct

from pocketmq.client import Producer
from pocketmq.client.instance.instance import ClientInstance
from pocketmq.console.api.reach import (
    Reach,
    ReachableAdmin,
    ReachableReader,
    is_writing,
    note_writing,
)
from pocketmq.console.api.strangers import Strangers
from pocketmq.console.web.operations import Call
from pocketmq.console.web.problems import ProblemError
from pocketmq.console.web.streams import Stream
from pocketmq.console.web.visitors import current_visitor
from pocketmq.protocol.requests.claims import Claim
from pocketmq.protocol.signing import Credentials
from pocketmq.protocol.wire.command import Command
from pocketmq.runtime.clock import Clock, SystemClock
from pocketmq.transport.tls.settings import ClientTls

T = TypeVar("T", bound=Struct)

CALLERS_MAX = 64
"""Callers whose clients are kept; further ones take the place of the one that asked longest ago."""

GROUP = "pocketmq_console"
"""The group of its producers."""

READER_GROUP = "TOOLS_CONSUMER"
"""The group of its readers, which all brokers have; they never register, and never commit."""


_claim: ContextVar[Claim | None] = ContextVar("claim", default=None)
"""For whom the requests of this context are sent."""


def _claiming(command: Command) -> None:
    """Says in a request for whom it is sent; the brokers' audit tells that."""
    claim = _claim.get()
    if claim is not None:
        command.extra = {**(command.extra or {}), **claim.fields}


class Clients:
    """The clients of one caller, which share connections.

    Args:
        namesrv: the name servers.
        credentials: sign each request; None for nobody.
        tls: how to speak TLS; None for plain connections.
        clock: the source of time.

    Attributes:
        admin, reader, producer: the clients, started.
        users: how many requests are under way with them.
    """

    def __init__(
        self,
        namesrv: str,
        credentials: Credentials | None,
        tls: ClientTls | None,
        clock: Clock,
    ) -> None:
        # Whoever names no user gets no rights of the environment's.
        self._instance = ClientInstance(
            namesrv,
            clock=clock,
            credentials=credentials or False,
            tls=tls,
            before_request=(_claiming,),
        )
        self.admin = ReachableAdmin(instance=self._instance)
        self.reader = ReachableReader(READER_GROUP, instance=self._instance, register=False)
        self.producer = Producer(GROUP, instance=self._instance)
        self.users = 0

    async def start(self) -> None:
        """Starts all of them."""
        await self._instance.start()
        await self.admin.start()
        await self.reader.start()
        await self.producer.start()

    async def close(self) -> None:
        """Ends them."""
        await self.producer.close()
        await self.reader.close()
        await self.admin.close()
        await self._instance.close()


Carried = Callable[[Clients, Call], Awaitable[T]]
"""Carries an operation out with the clients of its caller."""


class Callers:
    """The clients of those who asked lately.

    Args:
        namesrv: the name servers.
        tls: how to speak TLS; None for plain connections.
        writes: whether requests may change something.
        bodies: whether bodies of messages may be shown.
        clock: of the clients.
        heard: is told of each change that was carried out: by which function, its call and what
            it gave; None for nobody.

    Attributes:
        namesrv, clock: the same.
        reach: the brokers that do not answer.
    """

    def __init__(
        self,
        namesrv: str,
        tls: ClientTls | None = None,
        *,
        writes: bool = True,
        bodies: bool = True,
        clock: Clock | None = None,
        heard: Callable[[str, Call, Any], None] | None = None,
    ) -> None:
        self._heard = heard
        self.namesrv, self._tls = namesrv, tls
        self._writes, self._bodies = writes, bodies
        self.clock = clock or SystemClock()
        self.reach = Reach(self.clock)
        self._strangers = Strangers(self.clock)
        self._kept: OrderedDict[Credentials | None, Clients] = OrderedDict()
        self._turn = asyncio.Lock()

    def serve(self, function: Carried[T]) -> Callable[[Call], Awaitable[T]]:
        """Makes what carries an operation out, of a function that gets the caller's clients too."""

        async def carry_out(call: Call) -> T:
            clients = await self._clients_of(call.caller)
            clients.users += 1
            visitor = current_visitor()
            token = _claim.set(Claim(visitor.person, visitor.address, call.reason or ""))
            try:

                async def look() -> T:
                    return await self.reach.look(
                        function,
                        lambda: self._carried_out(function, clients, call),
                        clients.admin.cluster_info,
                    )

                if call.caller is not None:
                    return await look()
                return await self._strangers.ask(getattr(function, "__qualname__", ""), look)
            finally:
                _claim.reset(token)
                clients.users -= 1

        return carry_out

    async def _carried_out(self, function: Carried[T], clients: Clients, call: Call) -> T:
        found = await function(clients, call)
        if self._heard is not None and is_writing():
            self._heard(getattr(function, "__qualname__", ""), call, found)
        return found

    def stream(
        self, function: Callable[[Clients, Call], Awaitable[Stream]]
    ) -> Callable[[Call], Awaitable[Stream]]:
        """Makes what begins an answer that goes on; the caller's clients stay until its end."""

        async def carry_out(call: Call) -> Stream:
            clients = await self._clients_of(call.caller)
            clients.users += 1
            try:
                stream = await function(clients, call)
            except BaseException:
                clients.users -= 1
                raise

            def leave() -> None:
                clients.users -= 1

            stream.closed.append(leave)
            return stream

        return carry_out

    async def _clients_of(self, caller: Credentials | None) -> Clients:
        """Returns the clients of a caller, started.

        Raises:
            ProblemError: 503, too many callers have requests under way.
        """
        async with self._turn:
            found = self._kept.get(caller)
            if found is None:
                await self._make_room()
                found = Clients(self.namesrv, caller, self._tls, self.clock)
                try:
                    await found.start()
                except BaseException:
                    await found.close()
                    raise
                self._kept[caller] = found
            self._kept.move_to_end(caller)
            return found

    async def _make_room(self) -> None:
        if len(self._kept) < CALLERS_MAX:
            return
        for caller, clients in self._kept.items():
            if not clients.users:
                del self._kept[caller]
                await clients.close()
                return
        raise ProblemError(
            503,
            "Too many users",
            f"requests of {CALLERS_MAX} users are under way, which is the limit",
            "try again in a moment",
        )

    def check_writes(self) -> None:
        """Refuses to change anything where the console is read-only.

        Raises:
            ProblemError: 403.
        """
        if not self._writes:
            raise ProblemError(
                403,
                "This console is read-only",
                "it was started with --read-only, and changes nothing",
                "use another console, or the command line",
            )
        note_writing()

    def check_bodies(self) -> None:
        """Refuses to show contents where the console shows none.

        Raises:
            ProblemError: 403.
        """
        if not self._bodies:
            raise ProblemError(
                403,
                "This console shows no bodies",
                "it was started with --no-bodies: what messages contain stays hidden",
                "use another console, or the command line",
            )

    @property
    def may_write(self) -> bool:
        """Whether requests may change something."""
        return self._writes

    @property
    def shows_bodies(self) -> bool:
        """Whether bodies of messages may be shown."""
        return self._bodies

    async def close(self) -> None:
        """Ends all clients. Idempotent."""
        async with self._turn:
            clients = list(self._kept.values())
            self._kept.clear()
        for each in clients:
            await each.close()
