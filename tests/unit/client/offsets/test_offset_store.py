"""Where a group stands, and when that is stored in the brokers."""

from __future__ import annotations

import asyncio

from support.peers.client import Cluster, done, ok
from support.peers.transport import until

from pocketmq.client.instance.queue_offsets import QueueOffsets
from pocketmq.client.offsets.offset_store import ConsumeFromWhere, RemoteBrokerOffsetStore
from pocketmq.protocol.bodies.clients import CONSUME_FROM_FIRST_OFFSET
from pocketmq.protocol.codes import RequestCode
from pocketmq.protocol.messages.message import MessageQueue
from pocketmq.protocol.requests.offsets import UpdateConsumerOffsetRequest
from pocketmq.protocol.wire.command import Command
from pocketmq.transport.connection import Connection

QUEUE = MessageQueue("T", "a", 0)
UPDATE = RequestCode.UPDATE_CONSUMER_OFFSET


async def offsets_of(cluster: Cluster) -> RemoteBrokerOffsetStore:
    await cluster.add_namesrv()
    await cluster.add_broker("a")
    cluster.topic("T", "a")
    client = cluster.client()
    await client.start()
    await done(client.routes.subscribe("T"))
    from_where = ConsumeFromWhere(CONSUME_FROM_FIRST_OFFSET, 0)
    return RemoteBrokerOffsetStore("g", QueueOffsets(client.pool, client.routes, 3000), from_where)


async def test_only_what_changed_is_stored(cluster: Cluster) -> None:
    offsets = await offsets_of(cluster)
    broker = cluster.brokers["a"]
    for offset in (5, 5, 6):
        await done(offsets.store([(QUEUE, offset)]))
    assert broker.count(UPDATE) == 2
    assert broker.last(UPDATE).read(UpdateConsumerOffsetRequest).commit_offset == 6


async def test_after_a_reset_the_same_offset_is_stored_anew(cluster: Cluster) -> None:
    """The broker stands at the reset's offset: what it had before must come again."""
    offsets = await offsets_of(cluster)
    broker = cluster.brokers["a"]
    await done(offsets.store([(QUEUE, 10)]))
    offsets.moved(QUEUE)
    await done(offsets.store([(QUEUE, 10)]))
    assert broker.count(UPDATE) == 2


async def test_what_was_under_way_at_a_reset_does_not_count_as_stored(cluster: Cluster) -> None:
    offsets = await offsets_of(cluster)
    broker = cluster.brokers["a"]
    waiting: list[tuple[Command, Connection]] = []
    broker.answers[UPDATE] = lambda request, connection: waiting.append((request, connection))
    storing = asyncio.ensure_future(offsets.store([(QUEUE, 10)]))
    await until(lambda: waiting)
    offsets.moved(QUEUE)
    ((request, connection),) = waiting
    connection.respond(request, ok())
    await done(storing)
    broker.answers[UPDATE] = lambda request, connection: ok()
    await done(offsets.store([(QUEUE, 10)]))
    assert broker.count(UPDATE) == 2
