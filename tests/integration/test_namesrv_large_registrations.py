"""Registrations of thousands of topics: read in slices, in the order of a broker's requests."""

from __future__ import annotations

import asyncio
import zlib
from collections.abc import AsyncIterator

import msgspec
import pytest
from support.peers.transport import until

from pocketmq.namesrv import NameServer, NamesrvConfig
from pocketmq.namesrv.broker_registration import BrokerKey
from pocketmq.namesrv.broker_turns import AT_ONCE_SIZE_MAX
from pocketmq.protocol.bodies.topics import (
    DataVersion,
    RegisterBrokerBody,
    TopicConfig,
    TopicConfigTable,
)
from pocketmq.protocol.codes import ResponseCode
from pocketmq.protocol.messages.hosts import split_address
from pocketmq.protocol.requests.nameserver import (
    DeleteTopicInNamesrvRequest,
    RegisterBrokerRequest,
    UnregisterBrokerRequest,
)
from pocketmq.protocol.wire.command import Command
from pocketmq.protocol.wire.header import RequestHeader
from pocketmq.runtime.clock import SystemClock
from pocketmq.testing.clock import VirtualClock
from pocketmq.transport.connection import Connection, ConnectionOptions
from pocketmq.transport.errors import ConnectionClosedError

TOPICS = [f"Topic-{n:05d}" for n in range(2_000)]
KEY = BrokerKey("DefaultCluster", "broker-a:10911")
TIMEOUT_MS = 60_000


def body(topics: list[str], counter: int, queues: int = 4) -> bytes:
    table = {
        topic: TopicConfig(topic_name=topic, read_queue_nums=queues, write_queue_nums=queues)
        for topic in topics
    }
    return RegisterBrokerBody(
        topic_config_serialize_wrapper=TopicConfigTable(
            topic_config_table=table, data_version=DataVersion(counter=counter, timestamp=1)
        )
    ).encode()


ALL = body(TOPICS, 1)


def registering(content: bytes, *, partial: bool = False, crc: int = 0) -> Command:
    header = RegisterBrokerRequest(
        broker_name="broker-a", broker_addr=KEY.address, cluster_name=KEY.cluster,
        partial=partial or None, body_crc32=crc,
    )  # fmt: skip
    return Command(header.code, header=header, body=content)


class Broker:
    """A connection on which a broker registers."""

    def __init__(self, connection: Connection) -> None:
        self.connection = connection

    async def send(self, *commands: Command) -> list[Command]:
        """Sends requests without waiting between them; returns the answers."""
        calls = (self.connection.call(command, TIMEOUT_MS) for command in commands)
        return await asyncio.gather(*calls)

    async def ask(self, header: RequestHeader) -> Command:
        (answer,) = await self.send(Command(header.code, header=header))
        return answer


@pytest.fixture
async def server(clock: VirtualClock) -> AsyncIterator[NameServer]:
    config = NamesrvConfig(listen_port=0, bind_address="127.0.0.1")
    async with NameServer(config, clock) as server:
        yield server


@pytest.fixture
async def broker(server: NameServer) -> AsyncIterator[Broker]:
    _, connection = await asyncio.get_running_loop().create_connection(
        lambda: Connection(SystemClock(), {}, ConnectionOptions(dials=True)),
        *split_address(server.address),
    )
    yield Broker(connection)
    connection.close()
    await connection.wait_closed()


def queues(server: NameServer, topic: str) -> list[int]:
    return [data.read_queue_nums for data in server.routes.topics.queues(topic)]


async def test_all_topics_are_entered(server: NameServer, broker: Broker) -> None:
    assert len(ALL) > AT_ONCE_SIZE_MAX
    (answer,) = await broker.send(registering(ALL, crc=zlib.crc32(ALL) & 0x7FFFFFFF))
    assert answer.code == ResponseCode.SUCCESS
    assert sorted(server.routes.topics.topics()) == TOPICS
    assert server.routes.version_of(KEY) == DataVersion(counter=1, timestamp=1)


async def test_a_change_that_follows_at_once_comes_after_it(
    server: NameServer, broker: Broker
) -> None:
    """And so does the next large one, whose topics are as they were."""
    change, later = body(TOPICS[:1], 2, queues=8), body(TOPICS[:1], 3, queues=16)
    answers = await broker.send(registering(ALL), registering(change, partial=True))
    assert [answer.code for answer in answers] == [ResponseCode.SUCCESS] * 2
    assert (queues(server, TOPICS[0]), queues(server, TOPICS[1])) == ([8], [4])
    await broker.send(registering(ALL), registering(later, partial=True))
    assert queues(server, TOPICS[0]) == [16]
    version = server.routes.version_of(KEY)
    assert version is not None
    assert version.counter == 3


async def test_unregistering_at_once_comes_after_it(server: NameServer, broker: Broker) -> None:
    header = UnregisterBrokerRequest(
        broker_name="broker-a", broker_addr=KEY.address, cluster_name=KEY.cluster, broker_id=0
    )
    answers = await broker.send(registering(ALL), Command(header.code, header=header))
    assert [answer.code for answer in answers] == [ResponseCode.SUCCESS] * 2
    assert server.routes.version_of(KEY) is None
    assert server.routes.topics.topics() == []


async def test_a_broker_that_goes_away_meanwhile_does_not_come_in(
    server: NameServer, broker: Broker
) -> None:
    await until(lambda: server._server.connections)
    (connection,) = server._server.connections
    reply = server.handlers[RegisterBrokerRequest.code](registering(ALL), connection)
    assert isinstance(reply, asyncio.Task)
    connection.abort("the network failed")
    with pytest.raises(ConnectionClosedError):
        await reply
    assert list(server.routes.live) == []
    assert server.routes.topics.topics() == []


async def test_the_same_again_is_a_sign_of_life_and_no_change(
    server: NameServer, broker: Broker, clock: VirtualClock
) -> None:
    """As Apache's brokers send it every 30 s, unless forceRegister is off."""
    await broker.send(registering(ALL))
    generation = server.routes.generation
    for _ in range(6):
        await clock.advance(100)
        await broker.send(registering(ALL))
    assert server.routes.generation == generation
    live = server.routes.live.get(KEY)
    assert live is not None
    assert live.updated_ms == clock.now_ms()
    await broker.ask(DeleteTopicInNamesrvRequest(topic=TOPICS[0]))
    assert queues(server, TOPICS[0]) == []
    await broker.send(registering(ALL))
    assert queues(server, TOPICS[0]) == [4], "the broker still has it"


@pytest.mark.parametrize(
    ("content", "crc", "reason"),
    [(ALL[:-1], 0, "JSON body"), (ALL, 1, "crc32 not match")],
)
async def test_a_damaged_one_is_refused_and_the_next_one_taken(
    server: NameServer, broker: Broker, content: bytes, crc: int, reason: str
) -> None:
    refused, taken = await broker.send(registering(content, crc=crc), registering(ALL))
    assert refused.code == ResponseCode.SYSTEM_ERROR
    assert reason in (refused.remark or "")
    assert taken.code == ResponseCode.SUCCESS
    assert len(server.routes.topics) == len(TOPICS)


async def test_the_dialect_of_static_topics_is_read_too(server: NameServer, broker: Broker) -> None:
    mapping = b'{"bname":"broker-a","currIdMap":{0:0,1:1},"topic":"%b","totalQueues":4}'
    first = TOPICS[0].encode()
    content = ALL.replace(
        b'"topicQueueMappingInfoMap":{}',
        b'"topicQueueMappingInfoMap":{"%b":%b}' % (first, mapping % first),
    )
    (answer,) = await broker.send(registering(content))
    assert answer.code == ResponseCode.SUCCESS
    (found,) = (server.routes.topics.mappings(TOPICS[0]) or {}).values()
    assert found.curr_id_map == {0: 0, 1: 1}
    with pytest.raises(msgspec.DecodeError):
        msgspec.json.decode(content)


async def test_many_at_once_take_no_room_in_the_end(server: NameServer, broker: Broker) -> None:
    contents = [body(TOPICS, counter, queues=counter) for counter in range(1, 9)]
    answers = await broker.send(*map(registering, contents))
    assert [answer.code for answer in answers] == [ResponseCode.SUCCESS] * len(contents)
    assert queues(server, TOPICS[-1]) == [8]
    assert server._budget.size == 0
