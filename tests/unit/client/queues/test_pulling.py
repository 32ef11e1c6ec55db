"""Pulls, and what their answers mean."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from support.peers.client import Cluster, Peer, code, done, offset, ok, pulled, silent
from support.peers.messages import record
from support.peers.transport import until

from pocketmq.client import (
    BrokerDownError,
    ClosedError,
    MessageQueue,
    PullConsumer,
    PullStatus,
    UnknownTopicError,
)
from pocketmq.protocol.codes import RequestCode, ResponseCode
from pocketmq.protocol.errors import ContentError, GroupMissingError, ResponseError
from pocketmq.protocol.requests.offsets import (
    QueryConsumerOffsetRequest,
    SearchOffsetRequest,
    TimestampResponse,
    UpdateConsumerOffsetRequest,
)
from pocketmq.protocol.requests.pulling import (
    PULL_SUBSCRIPTION,
    PULL_SUSPEND,
    PullMessageRequest,
)
from pocketmq.transport.errors import CallTimeoutError

PULL = RequestCode.PULL_MESSAGE
Q = MessageQueue("T", "a", 1)


async def consumer(cluster: Cluster, **settings: Any) -> tuple[PullConsumer, Peer]:
    await cluster.add_namesrv()
    broker = await cluster.add_broker("a")
    cluster.topic("T", "a")
    client = cluster.client()
    await client.start()
    made = PullConsumer("cg", instance=client, **settings)
    await made.start()
    return made, broker


async def test_queues(cluster: Cluster) -> None:
    c, _ = await consumer(cluster)
    assert await done(c.queues("T")) == [MessageQueue("T", "a", 0), Q]
    with pytest.raises(UnknownTopicError):
        await done(c.queues("Nope"))


async def test_the_request(cluster: Cluster) -> None:
    c, broker = await consumer(cluster)
    broker.answers[PULL] = lambda r, _: pulled(19, next_offset=5)
    await done(c.pull(Q, 5, 16, expression="A || B", max_bytes=1000))
    request = broker.last(PULL).read(PullMessageRequest)
    assert (request.consumer_group, request.topic, request.queue_id) == ("cg", "T", 1)
    assert (request.queue_offset, request.max_msg_nums, request.max_msg_bytes) == (5, 16, 1000)
    assert request.sys_flag == PULL_SUBSCRIPTION
    assert (request.subscription, request.expression_type) == ("A || B", "TAG")
    await done(c.pull(Q, 5, hold_ms=2000))
    request = broker.last(PULL).read(PullMessageRequest)
    assert request.sys_flag == PULL_SUBSCRIPTION | PULL_SUSPEND
    assert request.suspend_timeout_millis == 2000


@pytest.mark.parametrize(
    ("status", "expected"),
    [
        (0, PullStatus.FOUND),
        (19, PullStatus.NO_NEW_MESSAGE),
        (20, PullStatus.NO_MATCHED_MESSAGE),
        (21, PullStatus.OFFSET_ILLEGAL),
    ],
)
async def test_statuses(cluster: Cluster, status: int, expected: PullStatus) -> None:
    c, broker = await consumer(cluster)
    broker.answers[PULL] = lambda r, _: pulled(status, next_offset=9, low=3, high=12)
    result = await done(c.pull(Q, 5))
    assert result.status is expected
    assert (result.next_offset, result.min_offset, result.max_offset) == (9, 3, 12)


async def test_messages(cluster: Cluster) -> None:
    c, broker = await consumer(cluster)
    body = record(5, b"five", queue_id=1) + record(6, b"six", queue_id=1)
    broker.answers[PULL] = lambda r, _: pulled(0, body, next_offset=7, low=3, high=12)
    messages = (await done(c.pull(Q, 5))).messages
    assert [(m.queue_offset, m.body) for m in messages] == [(5, b"five"), (6, b"six")]
    assert messages[0].queue == Q
    assert messages[0].properties == {"MIN_OFFSET": "3", "MAX_OFFSET": "12"}


async def test_tags_are_checked_exactly(cluster: Cluster) -> None:
    """A broker compares hash codes: "Aa" and "BB" have the same one."""
    c, broker = await consumer(cluster)
    body = record(5, properties=b"TAGS\x01Aa\x02") + record(6, properties=b"TAGS\x01BB\x02")
    body += record(7)
    broker.answers[PULL] = lambda r, _: pulled(0, body, next_offset=8)
    assert [m.tags for m in (await done(c.pull(Q, 5, expression="Aa"))).messages] == ["Aa"]
    assert len((await done(c.pull(Q, 5))).messages) == 3


@pytest.mark.parametrize("body", [b"x" * 200, record(5)[:-1]])
async def test_an_unreadable_answer(cluster: Cluster, body: bytes) -> None:
    c, broker = await consumer(cluster)
    broker.answers[PULL] = lambda r, _: pulled(0, body, next_offset=7)
    with pytest.raises(ContentError):
        await done(c.pull(Q, 5))


async def test_refusals(cluster: Cluster) -> None:
    c, broker = await consumer(cluster)
    broker.answers[PULL] = code(ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST, "no group")
    with pytest.raises(GroupMissingError, match="no group"):
        await done(c.pull(Q, 5))


async def test_a_held_pull_may_take_its_time(cluster: Cluster) -> None:
    c, broker = await consumer(cluster)
    broker.answers[PULL] = silent
    pulling = asyncio.ensure_future(c.pull(Q, 5, hold_ms=20_000))
    await until(lambda: broker.count(PULL) == 1)
    await cluster.clock.advance(29.9)
    assert not pulling.done()
    await cluster.clock.advance(0.1)
    await until(pulling.done)
    assert isinstance(pulling.exception(), CallTimeoutError)
    await until(lambda: not broker.server.connections)


async def test_the_suggested_broker_is_asked_next(cluster: Cluster) -> None:
    c, master = await consumer(cluster)
    slave = await cluster.add_broker("slave")
    cluster.routes["T"].broker_datas[0].broker_addrs = {0: master.address, 1: slave.address}
    master.answers[PULL] = lambda r, _: pulled(19, next_offset=5, broker=1)
    slave.answers[PULL] = lambda r, _: pulled(19, next_offset=5, broker=0)
    for _ in range(4):
        await done(c.pull(Q, 5))
    assert (master.count(PULL), slave.count(PULL)) == (2, 2)


async def test_a_suggested_broker_that_refuses_is_left(cluster: Cluster) -> None:
    c, master = await consumer(cluster)
    slave = await cluster.add_broker("slave")
    cluster.routes["T"].broker_datas[0].broker_addrs = {0: master.address, 1: slave.address}
    master.answers[PULL] = lambda r, _: pulled(19, next_offset=5, broker=1)
    slave.answers[PULL] = code(ResponseCode.SYSTEM_BUSY, "[REJECTREQUEST]")
    await done(c.pull(Q, 5))
    with pytest.raises(ResponseError, match="REJECTREQUEST"):
        await done(c.pull(Q, 5))
    await done(c.pull(Q, 5))
    assert (master.count(PULL), slave.count(PULL)) == (2, 1)


async def test_offsets(cluster: Cluster) -> None:
    c, broker = await consumer(cluster)
    broker.answers[RequestCode.GET_MIN_OFFSET] = offset(3)
    broker.answers[RequestCode.GET_MAX_OFFSET] = offset(12)
    broker.answers[RequestCode.SEARCH_OFFSET_BY_TIMESTAMP] = offset(7)
    broker.answers[RequestCode.GET_EARLIEST_MSG_STORETIME] = lambda r, _: ok(
        TimestampResponse(timestamp=99)
    )
    assert await done(c.min_offset(Q)) == 3
    assert await done(c.max_offset(Q)) == 12
    assert await done(c.search_offset(Q, 1000)) == 7
    assert await done(c.search_offset(Q, 1000, upper=True)) == 7
    request = broker.last(RequestCode.SEARCH_OFFSET_BY_TIMESTAMP).read(SearchOffsetRequest)
    assert (request.timestamp, request.boundary_type) == (1000, "UPPER")
    assert await done(c.earliest_store_time_ms(Q)) == 99


async def test_committed_offsets(cluster: Cluster) -> None:
    c, broker = await consumer(cluster)
    assert await done(c.committed_offset(Q)) is None
    broker.answers[RequestCode.QUERY_CONSUMER_OFFSET] = offset(4)
    assert await done(c.committed_offset(Q)) == 4
    request = broker.last(RequestCode.QUERY_CONSUMER_OFFSET).read(QueryConsumerOffsetRequest)
    assert (request.consumer_group, request.queue_id) == ("cg", 1)
    await done(c.commit(Q, 9))
    update = broker.last(RequestCode.UPDATE_CONSUMER_OFFSET).read(UpdateConsumerOffsetRequest)
    assert (update.topic, update.commit_offset) == ("T", 9)
    broker.answers[RequestCode.UPDATE_CONSUMER_OFFSET] = code(26, "no group")
    with pytest.raises(ResponseError):
        await done(c.commit(Q, 9))


async def test_a_broker_that_nobody_knows(cluster: Cluster) -> None:
    c, _ = await consumer(cluster)
    with pytest.raises(BrokerDownError, match="the broker x"):
        await done(c.pull(MessageQueue("T", "x", 0), 0))


async def test_it_must_run(cluster: Cluster) -> None:
    c = PullConsumer("cg", "127.0.0.1:9", clock=cluster.clock)
    with pytest.raises(ClosedError):
        await c.queues("T")
    async with c:
        pass
    with pytest.raises(ClosedError):
        await c.max_offset(Q)
    await c.close()
