"""Keeps all name servers informed: every 30 s, at once when topics change, and at the stop."""

from __future__ import annotations

import asyncio
import logging

import msgspec

from pocketmq.broker.config import BrokerConfig
from pocketmq.broker.topics import TopicTable
from pocketmq.protocol import loose_json
from pocketmq.protocol.bodies.topics import RegisterBrokerBody, TopicConfig, TopicConfigTable
from pocketmq.protocol.errors import PocketMQError
from pocketmq.protocol.flags import PERM_READ, PERM_WRITE
from pocketmq.protocol.requests.nameserver import (
    QueryDataVersionRequest,
    QueryDataVersionResponse,
    RegisterBrokerRequest,
    UnregisterBrokerRequest,
)
from pocketmq.transport.clock import Clock
from pocketmq.transport.connection import Connection
from pocketmq.transport.pool import ConnectionPool
from pocketmq.transport.tasks import Tasks

log = logging.getLogger("pocketmq.broker")

_RW = PERM_READ | PERM_WRITE

UNREGISTER_TIMEOUT_MS = 3000

RECONNECT_DELAY_S = 0.5
"""How soon a name server that went away is looked for; the pause doubles up to the period."""


def name_server_list(text: str) -> list[str]:
    """The addresses of a list such as ``host1:9876;host2:9876``."""
    return [part.strip() for part in text.replace(",", ";").split(";") if part.strip()]


class Registration:
    """Registers one broker with every name server; one that does not answer holds up no other.

    Args:
        config: the broker's settings; may be changed, but not who and where the broker is.
        address: what clients are told, ``host:port``.
        topics: what is registered.
        clock: for time limits.
    """

    def __init__(
        self, config: BrokerConfig, address: str, topics: TopicTable, clock: Clock
    ) -> None:
        self.config, self._address = config, address
        self._topics, self._clock = topics, clock
        self._servers = name_server_list(config.namesrv_addr)
        self._pool = ConnectionPool(clock, on_close=self._disconnected)
        self._reachable: dict[str, bool] = {}
        self._wanted = asyncio.Event()
        self._advertise = config.advertise_text or None
        self._is_leaving = False
        self._reconnecting: set[str] = set()
        self._tasks = Tasks()

    @property
    def servers(self) -> list[str]:
        """The name servers."""
        return self._servers

    def want(self) -> None:
        """Has the broker registered as soon as this turn is over: its topics changed."""
        self._wanted.set()

    async def run_wanted(self) -> None:
        """Registers whenever it is wanted, forever."""
        while True:
            await self._wanted.wait()
            self._wanted.clear()
            await self.register()

    async def register(self) -> int:
        """Sends the topics to all name servers; returns how many have them now."""
        request, body = self._registration()
        done = await asyncio.gather(
            *(self._register_with(server, request, body) for server in self._servers)
        )
        return sum(done)

    def _registration(self) -> tuple[RegisterBrokerRequest, bytes]:
        request = RegisterBrokerRequest(
            broker_name=self.config.broker_name,
            broker_addr=self._address,
            cluster_name=self.config.broker_cluster_name,
            broker_id=self.config.broker_id,
            advertise=self._advertise,
        )
        body = RegisterBrokerBody(
            topic_config_serialize_wrapper=TopicConfigTable(
                topic_config_table={t.topic_name: self._registered(t) for t in self._topics},
                data_version=self._topics.version,
            )
        ).encode()
        return request, body

    def _registered(self, topic: TopicConfig) -> TopicConfig:
        """The topic with no more permission than the broker has (brokerPermission)."""
        permission = self.config.broker_permission
        if permission & _RW == _RW:
            return topic
        return msgspec.structs.replace(topic, perm=topic.perm & permission)

    async def register_if_changed(self) -> None:
        """The periodic round: name servers that know this version get a short message only."""
        version = loose_json.encode(self._topics.version)
        request = QueryDataVersionRequest(
            broker_name=self.config.broker_name,
            broker_addr=self._address,
            cluster_name=self.config.broker_cluster_name,
            broker_id=self.config.broker_id,
        )
        answers = await asyncio.gather(
            *(self._knows(server, request, version) for server in self._servers)
        )
        if not all(answers):
            await self.register()

    async def _knows(self, server: str, request: QueryDataVersionRequest, version: bytes) -> bool:
        try:
            answer = await self._pool.ask_for(
                server,
                request,
                QueryDataVersionResponse,
                self.config.register_broker_timeout_mills,
                version,
            )
        except PocketMQError as e:
            log.debug("name server %s does not tell what it knows: %s", server, e)
            return False
        return not answer.changed

    async def _register_with(
        self, server: str, request: RegisterBrokerRequest, body: bytes
    ) -> bool:
        try:
            await self._pool.ask(server, request, self.config.register_broker_timeout_mills, body)
        except PocketMQError as e:
            if self._reachable.get(server, True):
                log.warning("cannot register with name server %s: %s", server, e)
            self._reachable[server] = False
            return False
        if not self._reachable.get(server, False):
            log.info("registered with name server %s as %s", server, self._address)
        self._reachable[server] = True
        return True

    def _disconnected(self, connection: Connection) -> None:
        """Looks for a name server that went away: when it is back it knows nothing of us."""
        server = connection.attributes.get("address")
        if server is None or self._is_leaving or server in self._reconnecting:
            return
        self._reconnecting.add(server)
        self._tasks.spawn(self._reconnect(server), f"reconnect to {server}")

    async def _reconnect(self, server: str) -> None:
        period_s = self.config.register_name_server_period / 1000
        pause_s = RECONNECT_DELAY_S
        try:
            await self._clock.sleep(pause_s)
            while not await self._register_with(server, *self._registration()):
                pause_s = min(2 * pause_s, period_s)
                await self._clock.sleep(pause_s)
        finally:
            self._reconnecting.discard(server)

    async def unregister(self) -> None:
        """Says goodbye to all name servers; those that do not answer will notice by themselves."""
        self._is_leaving = True
        await self._tasks.close()
        request = UnregisterBrokerRequest(
            broker_name=self.config.broker_name,
            broker_addr=self._address,
            cluster_name=self.config.broker_cluster_name,
            broker_id=self.config.broker_id,
        )
        reachable = [server for server in self._servers if self._reachable.get(server)]
        results = await asyncio.gather(
            *(self._pool.ask(server, request, UNREGISTER_TIMEOUT_MS) for server in reachable),
            return_exceptions=True,
        )
        for server, result in zip(reachable, results, strict=True):
            if isinstance(result, BaseException):
                log.info("cannot unregister from name server %s: %s", server, result)

    async def close(self) -> None:
        """Closes the connections."""
        self._is_leaving = True
        await self._tasks.close()
        await self._pool.close()
