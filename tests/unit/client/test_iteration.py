"""A push consumer without a listener, and one that is paused."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from support.peers.client import Cluster, Log, Peer, done, ok
from support.peers.messages import record
from support.peers.transport import until

from pocketmq.client import ClosedError, PushConsumer, ReceivedMessage
from pocketmq.protocol.codes import RequestCode
from pocketmq.protocol.errors import ConfigError, UsageError
from pocketmq.protocol.requests.consuming import ConsumerSendMsgBackRequest
from pocketmq.protocol.requests.offsets import UpdateConsumerOffsetRequest
from pocketmq.testing.clock import settle

BACK = RequestCode.CONSUMER_SEND_MSG_BACK
COMMIT = RequestCode.UPDATE_CONSUMER_OFFSET
PULL = RequestCode.PULL_MESSAGE


async def stage(cluster: Cluster, count: int) -> tuple[Peer, Log]:
    """A broker whose one queue holds so many messages."""
    await cluster.add_namesrv()
    broker = await cluster.add_broker("a")
    cluster.topic("T", "a", queues=1)
    log = Log()
    log.add(0, *(record(i, b"%d" % i) for i in range(count)))
    broker.answers[PULL] = log.pull
    broker.answers[BACK] = lambda request, connection: ok()
    return broker, log


async def consumer(cluster: Cluster, **settings: Any) -> PushConsumer:
    client = cluster.client()
    await client.start()
    made = PushConsumer("cg", instance=client, **settings)
    made.subscribe("T")
    await done(made.start())
    return made


def committed(broker: Peer) -> int:
    """The last offset that was stored."""
    return broker.last(COMMIT).read(UpdateConsumerOffsetRequest).commit_offset


async def test_messages_are_acknowledged_one_by_one(cluster: Cluster) -> None:
    broker, _ = await stage(cluster, 50)
    c = await consumer(cluster, concurrency=4)
    bodies = []
    for _ in range(50):
        message = await done(anext(c))
        bodies.append(message.body)
        c.ack(message)
    assert bodies == [b"%d" % i for i in range(50)]
    await done(c.close())
    assert committed(broker) == 50


async def test_async_for_ends_with_the_consumer(cluster: Cluster) -> None:
    await stage(cluster, 3)
    c = await consumer(cluster)
    seen: list[bytes] = []

    async def work() -> None:
        async for message in c:
            seen.append(message.body)
            c.ack(message)

    workers = [asyncio.ensure_future(work()) for _ in range(3)]
    await until(lambda: len(seen) == 3)
    await done(c.close())
    await until(lambda: all(w.done() for w in workers))
    assert sorted(seen) == [b"0", b"1", b"2"]


async def test_no_more_are_held_than_may_be_at_work(cluster: Cluster) -> None:
    await stage(cluster, 50)
    c = await consumer(cluster, concurrency=4)
    held = [await done(anext(c)) for _ in range(4)]
    fifth = asyncio.ensure_future(anext(c))
    await settle()
    assert not fifth.done()
    c.ack(held[2])
    await until(fifth.done)
    assert fifth.result().body == b"4"
    await done(c.close())


async def test_what_is_to_come_again_goes_back(cluster: Cluster) -> None:
    broker, _ = await stage(cluster, 2)
    c = await consumer(cluster)
    c.retry(await done(anext(c)), delay_level=5)
    c.retry(await done(anext(c)))
    await until(lambda: broker.count(BACK) == 2)
    requests = [r.read(ConsumerSendMsgBackRequest) for r in broker.requests if r.code == BACK]
    assert [(r.offset, r.delay_level) for r in requests] == [(0, 5), (100, 0)]
    await done(c.close())
    assert committed(broker) == 2


async def test_close_gives_up_what_was_not_acknowledged_at_once(cluster: Cluster) -> None:
    broker, _ = await stage(cluster, 50)
    c = await consumer(cluster, concurrency=5)
    first, second = await done(anext(c)), await done(anext(c))
    c.ack(first)
    await done(c.close())  # in virtual time: without waiting for close_timeout_ms
    assert (committed(broker), broker.count(BACK)) == (1, 0)
    with pytest.raises(UsageError, match="comes again"):
        c.ack(second)
    with pytest.raises(StopAsyncIteration):
        await anext(c)


async def test_a_message_is_settled_once(cluster: Cluster) -> None:
    await stage(cluster, 1)
    c = await consumer(cluster)
    message = await done(anext(c))
    c.ack(message)
    with pytest.raises(UsageError):
        c.retry(message)
    await settle()
    with pytest.raises(UsageError):
        c.ack(message)
    await done(c.close())


async def test_who_does_not_want_its_turn_any_more_leaves_it_to_the_next(cluster: Cluster) -> None:
    _, log = await stage(cluster, 0)
    c = await consumer(cluster)
    waiters = [asyncio.ensure_future(anext(c)) for _ in range(2)]
    await settle()
    waiters[0].cancel()
    log.add(0, record(0, b"x"))
    await until(waiters[1].done)
    assert waiters[1].result().body == b"x"
    await done(c.close())


async def test_what_does_not_go_together(cluster: Cluster) -> None:
    await stage(cluster, 1)
    client = cluster.client()
    with pytest.raises(ConfigError, match="for listeners"):
        PushConsumer("cg", instance=client, consume_message_batch_max_size=2)
    with pytest.raises(ConfigError, match="message_model='BOTH'"):
        PushConsumer("cg", instance=client, message_model="BOTH")
    with pytest.raises(ConfigError, match="max_reconsume_times"):
        PushConsumer("cg", instance=client, max_reconsume_times=-2)
    with pytest.raises(ConfigError, match="consume_timeout_ms"):
        PushConsumer("cg", instance=client, consume_timeout_ms=-1)
    with pytest.raises(ClosedError):
        await anext(PushConsumer("cg", instance=client))
    c = await consumer(cluster, listener=print)
    with pytest.raises(UsageError, match="has a listener"):
        await anext(c)
    with pytest.raises(UsageError, match="has a listener"):
        c.ack(ReceivedMessage())
    await done(c.close())


async def test_it_can_be_started_again(cluster: Cluster) -> None:
    await stage(cluster, 3)
    c = await consumer(cluster)
    await done(anext(c))
    await done(c.close())
    await done(c.start())
    assert (await done(anext(c))).body == b"0"
    await done(c.close())


async def test_a_paused_consumer_takes_and_hands_out_nothing(cluster: Cluster) -> None:
    broker, log = await stage(cluster, 10)
    seen: list[bytes] = []

    async def listener(messages: list[ReceivedMessage]) -> None:
        seen.extend(m.body for m in messages)
        await cluster.clock.sleep(1)

    c = await consumer(cluster, listener=listener, concurrency=2)
    await until(lambda: len(seen) == 2)
    c.pause()
    c.pause()
    assert c.is_paused
    await cluster.clock.advance(5)
    pulls = broker.count(PULL)
    log.add(0, record(10, b"10"))  # answers the pull that is under way
    await cluster.clock.advance(30)
    assert (len(seen), broker.count(PULL)) == (2, pulls)
    assert len(c.queues) == 1
    c.resume()
    c.resume()
    await cluster.clock.advance(10)
    await until(lambda: len(seen) == 11)
    assert broker.count(PULL) == pulls + 1
    await done(c.close())


async def test_a_consumer_that_is_started_paused(cluster: Cluster) -> None:
    broker, _ = await stage(cluster, 3)
    client = cluster.client()
    await client.start()
    seen: list[bytes] = []
    c = PushConsumer("cg", instance=client, listener=lambda ms: seen.extend(m.body for m in ms))
    c.subscribe("T")
    c.pause()
    await done(c.start())
    await cluster.clock.advance(30)
    assert (broker.count(PULL), seen) == (0, [])
    c.resume()
    await until(lambda: broker.count(PULL) == 2)
    while len(seen) < 3:
        await settle(1)
    await done(c.close())
