"""Asks the servers of a cluster once for the facts of all checks."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from pocketmq.protocol.bodies.clients import GroupConfig, GroupConfigTable
from pocketmq.protocol.bodies.routes import ClusterInfo
from pocketmq.protocol.bodies.topics import KVTable, TopicConfig, TopicConfigTable
from pocketmq.protocol.errors import OperatingError, PeerError
from pocketmq.protocol.names.names import BUILT_IN_GROUPS, is_system_topic
from pocketmq.protocol.requests.nameserver import ClusterInfoRequest, ClusterInfoResponse
from pocketmq.protocol.requests.topics import (
    AllGroupConfigRequest,
    AllTopicConfigRequest,
    BrokerConfigRequest,
    RuntimeInfoRequest,
)
from pocketmq.protocol.wire.command import Command
from pocketmq.protocol.wire.header import RequestHeader
from pocketmq.runtime.clock import Clock
from pocketmq.runtime.settings import properties_from_text
from pocketmq.transport.pool import ConnectionPool

ASK_TIMEOUT_MS = 5_000

COUNT_MAX = 500
"""Topics, and groups, that are examined one by one."""

_AGE = re.compile(r"\[ ([\d,.]+) days, (\d+) hours, (\d+) minutes, (\d+) seconds \]")


@dataclass(frozen=True)
class NamesrvState:
    """The answer of a name server, or the reason why there is none.

    Attributes:
        release: of PocketMQ; None if it tells none, as Apache's and those before 0.2.0.
    """

    address: str
    info: ClusterInfo | None = None
    release: str | None = None
    error: str = ""


@dataclass
class BrokerState:
    """A broker as name servers know it, with the broker's own answers if it can be reached.

    Attributes:
        cluster, name, broker_id, address: as name servers tell this caller.
        namesrvs: the name servers that know the broker.
        error: why the broker cannot be asked; empty if it can.
        is_connected: the broker's address takes connections.
        figures, settings: the broker's statistics (28) and settings (26).
        asked_ms, answered_ms: times of request and answer, by the caller's clock.
        topics, groups: those that are not the broker's own.
    """

    cluster: str
    name: str
    broker_id: int
    address: str
    namesrvs: list[str] = field(default_factory=list)
    error: str = ""
    is_connected: bool = False
    figures: Mapping[str, str] = field(default_factory=dict)
    settings: Mapping[str, str] = field(default_factory=dict)
    asked_ms: int = 0
    answered_ms: int = 0
    topics: dict[str, TopicConfig] = field(default_factory=dict)
    groups: dict[str, GroupConfig] = field(default_factory=dict)

    def __str__(self) -> str:
        return self.name if not self.broker_id else f"{self.name}:{self.broker_id}"

    @property
    def is_pocketmq(self) -> bool:
        """Whether the broker is PocketMQ's, and not Apache's."""
        return "damagedQueues" in self.figures

    @property
    def now_ms(self) -> int | None:
        """The broker's time when it answered, up to a second less; None if it does not say.

        No answer of RocketMQ's brokers carries the time: start and age are added up.
        """
        age = _AGE.fullmatch(self.figures.get("runtime", ""))
        if age is None or "bootTimestamp" not in self.figures:
            return None
        days, hours, minutes, seconds = (int(re.sub(r"\D", "", text)) for text in age.groups())
        age_s = ((days * 24 + hours) * 60 + minutes) * 60 + seconds
        return int(self.figures["bootTimestamp"]) + age_s * 1000


@dataclass
class ClusterState:
    """A cluster as the caller sees it.

    Attributes:
        pool: connections to ask further questions by.
        clock: the caller's time.
        name_servers: all name servers that the caller named.
        brokers: all brokers that any name server knows, sorted.
        topic: the only topic to examine; None for all topics.
        lag_max: messages that a group may be behind.
        count_max: topics, and groups, that are examined one by one.
    """

    pool: ConnectionPool
    clock: Clock
    name_servers: Sequence[NamesrvState]
    brokers: Sequence[BrokerState]
    topic: str | None = None
    lag_max: int = 0
    count_max: int = COUNT_MAX

    @property
    def masters(self) -> list[BrokerState]:
        """Returns the brokers that can be asked about topics and groups."""
        return [b for b in self.brokers if not b.error and not b.broker_id]

    async def ask(self, address: str, request: RequestHeader) -> Command:
        """Sends one request to a server.

        Raises:
            OperatingError: the server does not answer, or refuses.
        """
        return await self.pool.ask(address, request, ASK_TIMEOUT_MS)


async def look_at(pool: ConnectionPool, namesrvs: Sequence[str], clock: Clock) -> ClusterState:
    """Asks all name servers, and all brokers that they know, concurrently."""
    states = await asyncio.gather(*(_look_at_namesrv(pool, address) for address in namesrvs))
    brokers: dict[tuple[str, int, str], BrokerState] = {}
    for state in states:
        for broker in _registered(state.info or ClusterInfo()):
            key = (broker.name, broker.broker_id, broker.address)
            brokers.setdefault(key, broker).namesrvs.append(state.address)
    await asyncio.gather(*(_look_at_broker(pool, broker, clock) for broker in brokers.values()))
    return ClusterState(pool, clock, states, [brokers[key] for key in sorted(brokers)])


async def _look_at_namesrv(pool: ConnectionPool, address: str) -> NamesrvState:
    try:
        answer = await pool.ask(address, ClusterInfoRequest(), ASK_TIMEOUT_MS)
        release = answer.read(ClusterInfoResponse).pocketmq_version
        return NamesrvState(address, ClusterInfo.decode(answer.body), release)
    except (OperatingError, PeerError) as e:
        return NamesrvState(address, error=str(e))


def _registered(info: ClusterInfo) -> list[BrokerState]:
    clusters = {name: c for c, names in info.cluster_addr_table.items() for name in names}
    return [
        BrokerState(clusters.get(name) or data.cluster or "", name, broker_id, address)
        for name, data in info.broker_addr_table.items()
        for broker_id, address in data.broker_addrs.items()
    ]


async def _look_at_broker(pool: ConnectionPool, broker: BrokerState, clock: Clock) -> None:
    async def ask(request: RequestHeader) -> bytes:
        return (await pool.ask(broker.address, request, ASK_TIMEOUT_MS)).body

    try:
        await pool.get(broker.address)  # so that dialling does not count as skew
        broker.is_connected = True
        broker.asked_ms = clock.now_ms()
        figures = await ask(RuntimeInfoRequest())
        broker.answered_ms = clock.now_ms()
        broker.figures = KVTable.decode(figures).table
        broker.settings = properties_from_text((await ask(BrokerConfigRequest())).decode())
        topics = TopicConfigTable.decode(await ask(AllTopicConfigRequest()))
        groups = GroupConfigTable.decode(await ask(AllGroupConfigRequest()))
    except (OperatingError, PeerError) as e:
        broker.error = str(e)
        return
    own = {broker.name, broker.cluster}
    broker.topics = {
        name: config
        for name, config in topics.topic_config_table.items()
        if not is_system_topic(name) and name not in own and not name.endswith("_REPLY_TOPIC")
    }
    broker.groups = {
        name: config
        for name, config in groups.subscription_group_table.items()
        if name not in BUILT_IN_GROUPS and not name.startswith("CID_RMQ_SYS_")
    }
