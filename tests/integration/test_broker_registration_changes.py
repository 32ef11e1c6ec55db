"""What a broker sends its name server: all topics once, then only what changes."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio
from support.brokers.broker_parts import LOCALHOST, Client, Stage, advance_until
from support.peers.transport import until

from pocketmq.namesrv import NamesrvConfig
from pocketmq.namesrv.handlers import handler_table
from pocketmq.namesrv.kv_config import KVConfig
from pocketmq.namesrv.route_table import RouteTable
from pocketmq.protocol.bodies.topics import DataVersion, RegisterBrokerBody
from pocketmq.protocol.codes import RequestCode, ResponseCode
from pocketmq.protocol.requests.nameserver import RegisterBrokerRequest
from pocketmq.protocol.requests.topics import DeleteTopicRequest
from pocketmq.protocol.wire.command import Command
from pocketmq.testing.clock import VirtualClock
from pocketmq.transport.connection import Connection, Handler, Reply
from pocketmq.transport.server import Server


class WatchedNameServer:
    """A name server whose every request is seen.

    Attributes:
        asked: the codes of requests.
        told: the topics of each registration, removed ones with a "-"; a trailing "…" says that
            these are not all.
    """

    def __init__(self, clock: VirtualClock, config: NamesrvConfig) -> None:
        self.routes = RouteTable()
        handlers = handler_table(self.routes, KVConfig(None), config, clock)
        self.asked: list[int] = []
        self.told: list[list[str]] = []
        self.refusals: list[ResponseCode] = []
        self.loses_answers = False
        self._register = handlers[RequestCode.REGISTER_BROKER]
        watched = {code: self._watch(handler) for code, handler in handlers.items()}
        watched[RequestCode.REGISTER_BROKER] = self._watch(self._take)
        self.server = Server(clock, watched)

    def _watch(self, handler: Handler) -> Handler:
        def watched(command: Command, connection: Connection) -> Reply:
            self.asked.append(command.code)
            return handler(command, connection)

        return watched

    def _take(self, command: Command, connection: Connection) -> Reply:
        header = command.read(RegisterBrokerRequest)
        body = RegisterBrokerBody.decode(command.body)
        removed = [f"-{topic}" for topic in body.removed_topics or ()]
        topics = body.topic_config_serialize_wrapper.topic_config_table
        self.told.append([*topics, *removed, *(["…"] if header.partial else [])])
        if self.refusals:
            return Command(self.refusals.pop())
        reply = self._register(command, connection)
        return None if self.loses_answers else reply

    def queues(self, topic: str) -> int:
        return sum(queue.write_queue_nums for queue in self.routes.topics.queues(topic))


@pytest_asyncio.fixture
async def name_server(clock: VirtualClock) -> AsyncIterator[WatchedNameServer]:
    name_server = WatchedNameServer(
        clock, NamesrvConfig(delete_topic_with_broker_registration=True)
    )
    await name_server.server.listen(LOCALHOST, 0)
    yield name_server
    await name_server.server.close()


async def started(stage: Stage, name_server: WatchedNameServer, **settings: Any) -> Client:
    """A client of a broker that has registered."""
    client = await stage.start(namesrv_addr=name_server.server.address, **settings)
    name_server.asked.clear()
    name_server.told.clear()
    return client


async def test_only_the_topics_that_changed_are_told(
    stage: Stage, name_server: WatchedNameServer
) -> None:
    """And the others stay, even where a name server drops what is no longer registered."""
    client = await started(stage, name_server)
    await client.create_topic("One")
    await until(lambda: name_server.queues("One"))
    await client.create_topic("Two")
    await client.create_topic("One", read=7, write=7)
    await until(lambda: name_server.queues("One") == 7)
    told = [topic for topics in name_server.told for topic in topics]
    assert set(told) == {"One", "Two", "…"}
    assert all(topics[-1] == "…" for topics in name_server.told)
    assert (name_server.queues("Two"), name_server.queues("TBW102")) == (4, 8)


async def test_nothing_is_told_while_nothing_changes(
    stage: Stage, name_server: WatchedNameServer, clock: VirtualClock
) -> None:
    client = await started(stage, name_server)
    await client.create_topic("One")
    await until(lambda: name_server.queues("One"))
    name_server.told.clear()
    name_server.asked.clear()
    for _ in range(4):
        await clock.advance(30)
    assert name_server.told == []
    assert name_server.asked == [RequestCode.QUERY_DATA_VERSION] * 4


async def test_of_a_deleted_topic_the_name_is_told(
    stage: Stage, name_server: WatchedNameServer, clock: VirtualClock
) -> None:
    client = await started(stage, name_server)
    await client.create_topic("One")
    await until(lambda: name_server.queues("One"))
    await client.ask(DeleteTopicRequest(topic="One"))
    await until(lambda: not name_server.queues("One"))
    assert name_server.told[-1] == ["-One", "…"]
    assert name_server.queues("TBW102") == 8
    await client.create_topic("One")
    await until(lambda: name_server.queues("One"))
    assert name_server.told[-1] == ["One", "…"]
    name_server.told.clear()
    await clock.advance(60)
    assert name_server.told == [], "both have the same version"


async def test_apaches_name_servers_are_told_all_topics_after_a_deletion(
    stage: Stage, name_server: WatchedNameServer
) -> None:
    client = await started(stage, name_server)
    await client.create_topic("One")
    await until(lambda: name_server.queues("One"))
    pool = client.broker.registration._pool
    (await pool.get(name_server.server.address)).peer_is_pocketmq = False
    await client.ask(DeleteTopicRequest(topic="One"))
    await until(lambda: not name_server.queues("One"))
    assert "TBW102" in name_server.told[-1]
    assert name_server.told[-1][-1] != "…"


async def test_all_topics_are_told_on_a_new_connection(
    stage: Stage, name_server: WatchedNameServer, clock: VirtualClock
) -> None:
    """Behind it may be a name server that was started anew."""
    await started(stage, name_server)
    (connection,) = name_server.server.connections
    connection.abort("the network failed")
    await advance_until(clock, lambda: name_server.told)
    assert "TBW102" in name_server.told[0]
    assert name_server.told[0][-1] != "…"


@pytest.mark.parametrize("refusal", [ResponseCode.SYSTEM_ERROR, ResponseCode.SYSTEM_BUSY])
async def test_a_name_server_that_refuses_changes_is_told_all(
    stage: Stage, name_server: WatchedNameServer, refusal: ResponseCode
) -> None:
    client = await started(stage, name_server)
    name_server.refusals.append(refusal)
    await client.create_topic("One")
    await until(lambda: name_server.queues("One"))
    assert name_server.told[0] == ["One", "…"]
    assert {"One", "TBW102"} <= set(name_server.told[1])


async def test_after_a_lost_answer_all_topics_are_told_with_the_next_change(
    stage: Stage, name_server: WatchedNameServer, clock: VirtualClock
) -> None:
    """The versions say that the name server has taken the change; what it lacks is not known."""
    client = await started(stage, name_server)
    name_server.loses_answers = True
    await client.create_topic("One")
    await until(lambda: name_server.queues("One"))
    await clock.advance(60)
    name_server.loses_answers = False
    assert name_server.told == [["One", "…"]]
    await client.create_topic("Two")
    await until(lambda: name_server.queues("Two"))
    assert {"One", "Two", "TBW102"} <= set(name_server.told[1])
    await client.create_topic("Three")
    await until(lambda: name_server.queues("Three"))
    assert name_server.told[2:] == [["Three", "…"]]


async def test_a_name_server_with_another_version_is_told_all(
    stage: Stage, name_server: WatchedNameServer, clock: VirtualClock
) -> None:
    await started(stage, name_server)
    (key,) = name_server.routes.live
    broker = name_server.routes.live.get(key)
    assert broker is not None
    broker.version = DataVersion(counter=1)
    await clock.advance(30)
    await until(lambda: name_server.told)
    assert "TBW102" in name_server.told[0]


async def test_single_topics_are_told_without_a_version_if_that_is_set(
    stage: Stage, name_server: WatchedNameServer, clock: VirtualClock
) -> None:
    """As Apache's name server needs it where it drops what is no longer registered."""
    client = await started(stage, name_server, enable_single_topic_register=True)
    await client.create_topic("One", read=3, write=5, perm=4)
    await until(lambda: name_server.queues("One"))
    assert name_server.told == []
    assert name_server.asked == [RequestCode.REGISTER_TOPIC_IN_NAMESRV]
    (queues,) = name_server.routes.topics.queues("One")
    assert (queues.read_queue_nums, queues.write_queue_nums, queues.perm) == (3, 5, 4)
    await clock.advance(30)
    await until(lambda: name_server.told)
    assert {"One", "TBW102"} <= set(name_server.told[0])
