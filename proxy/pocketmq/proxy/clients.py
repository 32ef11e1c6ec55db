"""The clients of the service: who they are, what they have said, how to reach them."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Iterator
from typing import Any

from pocketmq.protocol.wire.command import Command
from pocketmq.proxy.backend import Backend, Session
from pocketmq.proxy.calls import Call
from pocketmq.proxy.rpc import messaging_pb2 as pb
from pocketmq.proxy.statuses import Refusal
from pocketmq.runtime.tasks import Tasks

log = logging.getLogger("pocketmq.proxy")

EXPIRED_S = 120.0
"""A client without a call for so long is forgotten (RocketMQ's channelExpiredTimeout)."""

CLIENTS_MAX = 20_000
"""Clients that may be known; further ones are refused."""

CLIENT_ID_LENGTH_MAX = 512

CLIENT_ID = "x-mq-client-id"

OnRequest = Callable[["Client", Command], Awaitable[Command | None] | None]
"""Answers what a broker asks a client."""


class Client:
    """A client by its id and user.

    Attributes:
        client_id: as it calls itself.
        session: asks brokers in its name.
        settings: what it has said of itself last; None before.
        stream: its newest telemetry call; None without one.
        language: as its metadata says.
        seen_s: when it called last, by the machine's clock.
        calls: how many of its calls are under way.
        held: the messages whose invisible times are renewed for it, see `renewal`.
    """

    __slots__ = (
        "__weakref__",
        "calls",
        "client_id",
        "held",
        "language",
        "seen_s",
        "session",
        "settings",
        "stream",
    )

    def __init__(self, client_id: str, language: str, seen_s: float) -> None:
        self.client_id, self.language, self.seen_s = client_id, language, seen_s
        self.session: Session
        self.settings: pb.Settings | None = None
        self.stream: Call | None = None
        self.calls = 0
        self.held: dict[tuple[str, str, str, int, int], Any] = {}

    @property
    def is_consumer(self) -> bool:
        """Whether it has said that it consumes."""
        return self.settings is not None and self.settings.HasField("subscription")

    @property
    def group(self) -> str:
        """Its consumer group, if it has one."""
        return "" if self.settings is None else self.settings.subscription.group.name

    @property
    def can_answer(self) -> bool:
        """Whether commands reach it."""
        return self.stream is not None and self.stream.is_open

    def tell(self, command: pb.TelemetryCommand) -> bool:
        """Sends it a command over its telemetry call; False if there is none."""
        return (
            self.stream is not None
            and self.stream.is_open
            and self.stream.write_nowait(command.SerializeToString())
        )

    def cut_off(self) -> None:
        """Cuts its connection, so that it begins anew: what brokers knew of it is gone."""
        if self.stream is not None:
            self.stream.cut_off("the broker has ended the session")


class Clients:
    """The clients that are known.

    Args:
        backend: opens their sessions.
        on_request: answers what brokers ask them.

    Attributes:
        forgotten: gives back what a client holds that is forgotten.
    """

    def __init__(self, backend: Backend, on_request: OnRequest) -> None:
        self._backend, self._on_request = backend, on_request
        self._clock = backend.clock.machine
        self._clients: dict[tuple[str, str], Client] = {}
        self._tasks = Tasks()
        self.forgotten: Callable[[Client], Awaitable[None]] = _nothing

    def __len__(self) -> int:
        return len(self._clients)

    def __iter__(self) -> Iterator[Client]:
        return iter(list(self._clients.values()))

    def of(self, call: Call) -> Client:
        """Returns the client that calls.

        Raises:
            Refusal: UNAUTHORIZED; CLIENT_ID_REQUIRED; TOO_MANY_REQUESTS, there are too many.
        """
        user = self._backend.authenticate(call.metadata)
        client_id = call.metadata.get(CLIENT_ID, "")
        if not client_id:
            raise Refusal(pb.CLIENT_ID_REQUIRED, "client id cannot be empty")
        now_s = self._clock.monotonic()
        client = self._clients.get((user, client_id))
        if client is not None and client.session.is_open:
            client.seen_s = now_s
            return client
        if client is not None:
            self.forget(client, "the broker has ended its session")
        if len(client_id) > CLIENT_ID_LENGTH_MAX:
            raise Refusal(
                pb.CLIENT_ID_REQUIRED, f"the client id is longer than {CLIENT_ID_LENGTH_MAX}"
            )
        if len(self._clients) >= CLIENTS_MAX:
            raise Refusal(
                pb.TOO_MANY_REQUESTS, f"{CLIENTS_MAX} clients are known, which is the limit"
            )
        client = Client(client_id, call.metadata.get("x-mq-language", ""), now_s)

        def ask_client(command: Command) -> Awaitable[Command | None] | None:
            return self._on_request(client, command)

        client.session = self._backend.open(user, call.remote_address, ask_client)
        self._clients[user, client_id] = client
        return client

    def forget(self, client: Client, reason: str) -> None:
        """Ends a client's session, and gives back what it holds. May be called again."""
        key = client.session.user, client.client_id
        if self._clients.get(key) is not client:
            return
        del self._clients[key]
        self._tasks.spawn(self._end(client, reason), "end a client's session")

    async def _end(self, client: Client, reason: str) -> None:
        try:
            await self.forgotten(client)
        finally:
            client.session.close(reason)

    async def expire(self) -> None:
        """Forgets the clients that have not called for too long."""
        limit_s = self._clock.monotonic() - EXPIRED_S
        for client in self:
            if client.seen_s < limit_s and not client.calls:
                log.info("forgetting %s: no call in %g s", client.client_id, EXPIRED_S)
                self.forget(client, "no call")

    async def close(self) -> None:
        """Ends all sessions; what clients hold comes again when its time is over."""
        await self._tasks.close()
        for client in self:
            client.session.close("the service stops")
        self._clients.clear()


async def _nothing(_: Client) -> None:
    return
