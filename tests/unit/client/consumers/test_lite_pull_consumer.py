"""A lite pull consumer against scripted brokers, in virtual time."""

from __future__ import annotations

import asyncio
import logging
from pathlib import Path
from typing import Any

import pytest
from support.peers.client import Cluster, Log, Peer, code, done, offset, ok, pulled
from support.peers.messages import received, record
from support.peers.transport import until

from pocketmq.client import (
    ClosedError,
    LitePullConsumer,
    MessageQueue,
    MessageSelector,
    NoNameServerError,
    SeekError,
)
from pocketmq.protocol.bodies.clients import Heartbeat
from pocketmq.protocol.codes import RequestCode
from pocketmq.protocol.errors import ConfigError, ResponseError, UsageError
from pocketmq.protocol.messages import properties as props
from pocketmq.protocol.requests.clients import UnregisterClientRequest
from pocketmq.protocol.requests.offsets import UpdateConsumerOffsetRequest
from pocketmq.protocol.requests.pulling import (
    PULL_LITE,
    PULL_SUBSCRIPTION,
    PULL_SUSPEND,
    LitePullMessageRequest,
)
from pocketmq.testing.clock import settle

PULL = RequestCode.LITE_PULL_MESSAGE
COMMIT = RequestCode.UPDATE_CONSUMER_OFFSET
CHECK = RequestCode.CHECK_CLIENT_CONFIG
Q0, Q1 = MessageQueue("T", "a", 0), MessageQueue("T", "a", 1)


async def stage(cluster: Cluster, *, queues: int = 1) -> tuple[Peer, Log]:
    await cluster.add_namesrv()
    broker = await cluster.add_broker("a")
    cluster.topic("T", "a", queues=queues)
    log = Log()
    broker.answers[PULL] = log.pull
    return broker, log


async def consumer(
    cluster: Cluster, *, subscribes: bool = True, **settings: Any
) -> LitePullConsumer:
    client = cluster.client()
    await client.start()
    settings = {"consume_from_where": "CONSUME_FROM_FIRST_OFFSET"} | settings
    made = LitePullConsumer("cg", instance=client, **settings)
    if subscribes:
        made.subscribe("T")
    await done(made.start())
    return made


def fill(log: Log, count: int, queue_id: int = 0) -> None:
    log.add(queue_id, *(record(i, b"%d" % i, queue_id=queue_id) for i in range(count)))


def commits(broker: Peer) -> dict[int, int]:
    """The last offset that was stored for each queue."""
    requests = [r.read(UpdateConsumerOffsetRequest) for r in broker.requests if r.code == COMMIT]
    return {r.queue_id: r.commit_offset for r in requests}


async def polled(c: LitePullConsumer, timeout_ms: float | None = None) -> list[bytes]:
    return [m.body for m in await done(c.poll(timeout_ms))]


async def test_messages_come_in_order_and_in_batches(cluster: Cluster) -> None:
    broker, log = await stage(cluster)
    fill(log, 25)
    c = await consumer(cluster)
    bodies = []
    for size in (10, 10, 5):
        batch = await polled(c)
        assert len(batch) == size
        bodies += batch
    assert bodies == [b"%d" % i for i in range(25)]
    request = broker.last(PULL).read(LitePullMessageRequest)
    assert request.sys_flag == PULL_SUBSCRIPTION | PULL_SUSPEND | PULL_LITE
    assert (request.max_msg_nums, request.suspend_timeout_millis) == (10, 20_000)
    (data,) = Heartbeat.decode(broker.last(RequestCode.HEART_BEAT).body).consumer_data_set
    assert (data.consume_type, data.message_model) == ("CONSUME_ACTIVELY", "CLUSTERING")
    assert [s.topic for s in data.subscription_data_set] == ["T"]
    await done(c.close())
    assert commits(broker) == {0: 25}
    goodbye = broker.last(RequestCode.UNREGISTER_CLIENT).read(UnregisterClientRequest)
    assert goodbye.consumer_group == "cg"


async def test_queues_take_turns(cluster: Cluster) -> None:
    _, log = await stage(cluster, queues=2)
    fill(log, 20, 0)
    fill(log, 20, 1)
    c = await consumer(cluster)
    seen = [(await done(c.poll()))[0].queue_id for _ in range(4)]
    assert sorted(seen) == [0, 0, 1, 1]
    await done(c.close())


async def test_a_poll_waits_as_long_as_it_is_told(cluster: Cluster) -> None:
    _, log = await stage(cluster)
    c = await consumer(cluster)
    assert await polled(c, 0) == []
    waiting = asyncio.ensure_future(c.poll())
    await cluster.clock.advance(4.9)
    assert not waiting.done()
    await cluster.clock.advance(0.1)
    assert await done(waiting) == []
    waiting = asyncio.ensure_future(c.poll(60_000))
    await cluster.clock.advance(10)
    fill(log, 1)
    assert [m.body for m in await done(waiting)] == [b"0"]
    with pytest.raises(UsageError, match="negative"):
        await c.poll(-1)
    await done(c.close())


async def test_the_next_poll_says_that_the_last_one_was_handled(cluster: Cluster) -> None:
    broker, log = await stage(cluster)
    fill(log, 25)
    c = await consumer(cluster)
    await polled(c)
    await cluster.clock.advance(5)
    assert commits(broker) == {0: 0}
    await polled(c)
    assert commits(broker) == {0: 0}
    await cluster.clock.advance(5)
    assert commits(broker) == {0: 10}
    assert await done(c.committed(Q0)) == 10
    await done(c.close())
    assert commits(broker) == {0: 20}


async def test_what_nobody_wants_is_passed_without_a_poll(cluster: Cluster) -> None:
    broker, _ = await stage(cluster)
    answers = iter([pulled(20, next_offset=500, high=500)])
    broker.answers[PULL] = lambda request, connection: next(answers, None)
    c = await consumer(cluster)
    await until(lambda: broker.count(PULL) == 2)
    await cluster.clock.advance(5)
    assert commits(broker) == {0: 500}
    await done(c.close())


async def test_an_error_in_the_block_leaves_the_last_poll_to_others(cluster: Cluster) -> None:
    broker, log = await stage(cluster)
    fill(log, 25)
    client = cluster.client()
    await client.start()
    c = LitePullConsumer("cg", instance=client)
    c.subscribe("T")

    async def work() -> None:
        async with c:
            await c.poll()
            await c.poll()
            raise KeyError("the handler failed")

    with pytest.raises(KeyError):
        await done(work())
    assert commits(broker) == {0: 10}


async def test_without_auto_commit_only_commit_says_so(cluster: Cluster) -> None:
    broker, log = await stage(cluster)
    fill(log, 25)
    c = await consumer(cluster, auto_commit=False)
    await polled(c)
    await polled(c)
    await cluster.clock.advance(30)
    assert commits(broker) == {0: 0}
    await done(c.commit({Q0: 7, Q1: 3}))  # the second one is not its own
    assert commits(broker) == {0: 7}
    await done(c.seek_to_begin(Q0))
    await cluster.clock.advance(30)
    assert commits(broker) == {0: 7}
    assert len(await polled(c) + await polled(c)) == 20
    await done(c.commit())
    assert commits(broker) == {0: 20}
    await polled(c)
    with pytest.raises(UsageError, match="negative"):
        await c.commit({Q0: -1})
    await done(c.close())
    assert commits(broker) == {0: 20}


async def test_what_a_broker_does_not_store_is_stored_later(cluster: Cluster) -> None:
    broker, log = await stage(cluster)
    fill(log, 5)
    c = await consumer(cluster, auto_commit=False)
    await polled(c)
    broker.answers[COMMIT] = code(1, "not now")
    await done(c.commit())
    broker.answers[COMMIT] = lambda request, connection: ok()
    count = broker.count(COMMIT)
    await cluster.clock.advance(5)
    assert broker.count(COMMIT) == count + 1
    assert commits(broker) == {0: 5}
    await done(c.close())


async def test_iteration_hands_out_one_by_one(cluster: Cluster) -> None:
    broker, log = await stage(cluster)
    fill(log, 25)
    c = await consumer(cluster)
    seen: list[bytes] = []

    async def work() -> None:
        async for message in c:
            seen.append(message.body)

    worker = asyncio.ensure_future(work())
    await until(lambda: len(seen) == 25)
    await cluster.clock.advance(5)
    assert commits(broker) == {0: 25}
    await done(c.close())
    await until(worker.done)
    assert worker.exception() is None
    with pytest.raises(StopAsyncIteration):
        await anext(c)


async def test_a_closed_one_refuses(cluster: Cluster) -> None:
    await stage(cluster)
    c = await consumer(cluster)
    waiting = asyncio.ensure_future(c.poll(60_000))
    await settle()
    await done(c.close())
    with pytest.raises(ClosedError):
        await done(waiting)
    for call in (c.poll(), c.commit(), c.committed(Q0), c.seek(Q0, 0), c.queues("T")):
        with pytest.raises(ClosedError):
            await call
    with pytest.raises(ClosedError):
        c.pause([Q0])
    assert c.assignment == []
    await done(c.start())
    assert c.assignment == [Q0]
    await done(c.close())


# -- seeking and pausing ----------------------------------------------------------------------


async def test_seeking_goes_on_elsewhere(cluster: Cluster) -> None:
    broker, log = await stage(cluster)
    fill(log, 50)
    broker.answers[RequestCode.GET_MAX_OFFSET] = offset(50)
    broker.answers[RequestCode.SEARCH_OFFSET_BY_TIMESTAMP] = offset(33)
    c = await consumer(cluster)
    assert (await polled(c))[0] == b"0"
    await done(c.seek(Q0, 45))
    assert await polled(c) == [b"45", b"46", b"47", b"48", b"49"]
    await done(c.seek_to_begin(Q0))
    assert (await polled(c))[0] == b"0"
    await done(c.seek_to_time(Q0, 1))
    assert (await polled(c))[0] == b"33"
    await done(c.seek_to_end(Q0))
    assert await polled(c, 0) == []
    log.add(0, record(50, b"50"))
    assert await polled(c) == [b"50"]
    await done(c.seek(Q0, 5))
    await done(c.close())
    assert commits(broker) == {0: 5}


async def test_seeking_does_not_wait_for_a_held_pull(cluster: Cluster) -> None:
    broker, log = await stage(cluster)
    fill(log, 3)
    broker.answers[RequestCode.GET_MAX_OFFSET] = offset(3)
    c = await consumer(cluster)
    assert len(await polled(c)) == 3
    await until(lambda: broker.count(PULL) == 2)  # held
    await done(c.seek(Q0, 1))
    assert await polled(c) == [b"1", b"2"]
    await done(c.close())


async def test_an_offset_that_is_not_there(cluster: Cluster) -> None:
    broker, _ = await stage(cluster)
    broker.answers[RequestCode.GET_MIN_OFFSET] = offset(10)
    broker.answers[RequestCode.GET_MAX_OFFSET] = offset(20)
    c = await consumer(cluster)
    for wrong in (9, 21, -1):
        with pytest.raises(SeekError, match=f"{wrong} is outside .* 10 to 20"):
            await done(c.seek(Q0, wrong))
    with pytest.raises(UsageError, match="not among the queues"):
        await done(c.seek(Q1, 15))
    await done(c.close())


async def test_an_offset_that_the_broker_moves(cluster: Cluster) -> None:
    broker, log = await stage(cluster)
    fill(log, 30)
    c = await consumer(cluster)
    await polled(c)
    answers = iter([pulled(21, next_offset=25, low=25, high=30)])
    broker.answers[PULL] = lambda request, connection: (
        next(answers, None) or log.pull(request, connection)
    )
    while (await polled(c))[-1] != b"29":
        pass
    await done(c.close())
    assert commits(broker) == {0: 30}


async def test_a_paused_queue_gives_nothing(cluster: Cluster) -> None:
    broker, log = await stage(cluster, queues=2)
    fill(log, 15, 0)
    c = await consumer(cluster)
    await until(lambda: broker.count(PULL) == 4)
    c.pause([Q0, MessageQueue("T", "b", 0)])
    assert await polled(c, 0) == []
    fill(log, 1, 1)
    assert [m.queue_id for m in await done(c.poll())] == [1]
    c.resume([Q0, MessageQueue("T", "b", 0)])
    assert len(await polled(c, 0)) == 10
    assert len(await polled(c, 0)) == 5
    await done(c.close())


# -- limits -----------------------------------------------------------------------------------


async def test_no_more_is_pulled_than_may_wait(cluster: Cluster) -> None:
    broker, log = await stage(cluster, queues=2)
    fill(log, 100, 0)
    fill(log, 100, 1)
    c = await consumer(cluster, pull_threshold_for_queue=30)
    await until(lambda: broker.count(PULL) == 6)
    await settle()
    assert broker.count(PULL) == 6
    await done(c.poll())
    await until(lambda: broker.count(PULL) == 7)
    await settle()
    assert broker.count(PULL) == 7
    await done(c.close())


async def test_all_queues_together_have_a_limit(cluster: Cluster) -> None:
    broker, log = await stage(cluster, queues=2)
    fill(log, 100, 0)
    fill(log, 100, 1)
    c = await consumer(cluster, pull_threshold_for_all=40)
    await until(lambda: broker.count(PULL) >= 4)
    await settle()
    held = broker.count(PULL)
    assert held <= 5  # one more pull may have been under way
    bodies: list[bytes] = []
    while len(bodies) < 200:
        bodies += await polled(c)
        await settle()
    assert len(set(bodies)) == 100
    await done(c.close())


async def test_a_queue_that_waited_for_the_others_goes_on(cluster: Cluster) -> None:
    broker, log = await stage(cluster, queues=2)
    fill(log, 20, 0)
    c = await consumer(cluster, pull_threshold_for_all=10)
    await until(lambda: broker.count(PULL) == 2)
    await settle()
    fill(log, 1, 1)  # its next pull has to wait: the other queue fills all there is
    await settle()
    bodies: list[bytes] = []
    while len(bodies) < 21:
        bodies += await polled(c)
        await settle()
    log.add(1, record(1, b"last", queue_id=1))
    assert await polled(c) == [b"last"]
    await done(c.close())


async def test_paused_queues_do_not_stop_the_others(cluster: Cluster) -> None:
    broker, log = await stage(cluster, queues=2)
    fill(log, 20, 0)
    c = await consumer(cluster, pull_threshold_for_all=10)
    await until(lambda: broker.count(PULL) == 2)
    c.pause([Q0])
    fill(log, 50, 1)
    bodies: list[bytes] = []
    while len(bodies) < 50:
        bodies += await polled(c)
    await done(c.close())


async def test_bytes_have_a_limit(cluster: Cluster) -> None:
    broker, log = await stage(cluster)
    fill(log, 100)
    c = await consumer(cluster, pull_threshold_size_for_queue=100)
    await until(lambda: broker.count(PULL) == 1)
    await settle()
    assert broker.count(PULL) == 1
    await done(c.close())


# -- assigning --------------------------------------------------------------------------------


async def test_assigned_queues_are_pulled_and_nobody_is_asked(cluster: Cluster) -> None:
    broker, log = await stage(cluster, queues=2)
    fill(log, 5, 0)
    fill(log, 5, 1)
    c = await consumer(cluster, subscribes=False)
    assert await polled(c, 0) == []
    c.assign([Q1])
    assert await polled(c) == [b"%d" % i for i in range(5)]
    assert c.assignment == [Q1]
    assert broker.count(RequestCode.GET_CONSUMER_LIST_BY_GROUP) == 0
    (data,) = Heartbeat.decode(broker.last(RequestCode.HEART_BEAT).body).consumer_data_set
    assert data.subscription_data_set == []
    c.assign([Q0], "A")
    await until(lambda: c.assignment == [Q0])
    assert commits(broker) == {1: 0}  # given up before the next poll
    await until(lambda: broker.last(PULL).read(LitePullMessageRequest).subscription == "A")
    await done(c.close())


async def test_assigned_before_the_start(cluster: Cluster) -> None:
    _, log = await stage(cluster, queues=2)
    fill(log, 1, 1)
    client = cluster.client()
    await client.start()
    c = LitePullConsumer("cg", instance=client)
    c.assign([Q1])
    await done(c.start())
    assert await polled(c) == [b"0"]
    c.unsubscribe("T")  # nothing to do with assigning
    await settle()
    assert c.assignment == [Q1]
    await done(c.close())


async def test_subscribing_and_assigning_exclude_each_other(cluster: Cluster) -> None:
    await stage(cluster)
    c = await consumer(cluster)
    with pytest.raises(UsageError, match="has subscribed"):
        c.assign([Q0])
    await done(c.close())
    other = LitePullConsumer("cg", instance=c.instance)
    other.assign([Q0])
    with pytest.raises(UsageError, match="has assigned"):
        other.subscribe("T")
    with pytest.raises(UsageError, match="at least one"):
        LitePullConsumer("cg", instance=c.instance).assign([])


# -- subscriptions ----------------------------------------------------------------------------


async def test_sql_is_checked_and_sent(cluster: Cluster) -> None:
    broker, _ = await stage(cluster)
    broker.answers[CHECK] = code(1, "SQL92 is off")
    client = cluster.client()
    await client.start()
    c = LitePullConsumer("cg", instance=client)
    await done(c.check_subscriptions())
    c.subscribe("T", MessageSelector.by_sql("a > 5"))
    with pytest.raises(ResponseError, match="SQL92 is off"):
        await done(c.start())
    broker.answers[CHECK] = lambda request, connection: ok()
    await done(c.start())
    await done(c.check_subscriptions())
    await until(lambda: broker.count(PULL) == 1)
    request = broker.last(PULL).read(LitePullMessageRequest)
    assert (request.subscription, request.expression_type) == ("a > 5", "SQL92")
    await done(c.close())


async def test_tags_are_compared_here_too(cluster: Cluster) -> None:
    _, log = await stage(cluster)
    for i, tag in enumerate("ABAB"):
        properties = props.encode({props.TAGS: tag}).encode()
        log.add(0, record(i, tag.encode(), properties=properties))
    client = cluster.client()
    await client.start()
    c = LitePullConsumer("cg", instance=client)
    c.subscribe("T", "A")
    await done(c.start())
    assert await polled(c) == [b"A", b"A"]
    await done(c.close())


async def test_a_topic_is_left(cluster: Cluster) -> None:
    broker, log = await stage(cluster)
    cluster.topic("U", "a", queues=1)
    fill(log, 5)
    c = await consumer(cluster)
    await polled(c)
    c.subscribe("U")
    await until(lambda: len(c.assignment) == 2)
    c.unsubscribe("T")
    await until(lambda: c.assignment == [MessageQueue("U", "a", 0)])
    await done(c.close())
    assert commits(broker)[0] == 0  # given up before the next poll


async def test_listeners_hear_of_shares_and_of_topics(
    cluster: Cluster, caplog: pytest.LogCaptureFixture
) -> None:
    await stage(cluster, queues=2)
    client = cluster.client()
    await client.start()
    c = LitePullConsumer("cg", instance=client)
    shares: list[tuple[str, list[MessageQueue], list[MessageQueue]]] = []
    topics: list[tuple[str, list[MessageQueue]]] = []

    async def on_share(*heard: Any) -> None:
        shares.append(heard)

    async def on_topic(*heard: Any) -> None:
        topics.append(heard)

    async def fails(*heard: Any) -> None:
        raise KeyError("listener")

    c.subscribe("T", listener=on_share)
    await c.listen_to_topic("T", on_topic)
    await done(c.start())
    assert shares == [("T", [Q0, Q1], [Q0, Q1])]
    await done(c.listen_to_topic("U", fails))
    assert await done(c.queues("T")) == [Q0, Q1]
    await cluster.clock.advance(10)
    assert topics == []
    cluster.topic("T", "a", queues=3)
    cluster.topic("U", "a", queues=1)
    await cluster.clock.advance(30)
    third = MessageQueue("T", "a", 2)
    await until(lambda: bool(topics))
    assert topics == [("T", [Q0, Q1, third])]
    await until(lambda: "KeyError: 'listener'" in caplog.text)
    await cluster.clock.advance(30)
    await until(lambda: len(shares) == 2)
    assert shares[1] == ("T", [Q0, Q1, third], [Q0, Q1, third])
    await done(c.close())


async def test_a_broker_that_fails_does_not_hold_up_the_others(
    cluster: Cluster, caplog: pytest.LogCaptureFixture
) -> None:
    first, log = await stage(cluster)
    second = await cluster.add_broker("b")
    cluster.topic("T", "a", "b", queues=1)
    second.answers[PULL] = code(1, "out of order")
    fill(log, 15)
    with caplog.at_level(logging.WARNING, "pocketmq.client"):
        c = await consumer(cluster)
        assert len(await polled(c)) + len(await polled(c)) == 15
        assert "out of order" in caplog.text
    second.answers[PULL] = log.pull
    await cluster.clock.advance(1)
    assert [m.broker_name for m in await done(c.poll())] == ["b"] * 10
    await done(c.close())
    assert commits(first) == {0: 15}
    assert commits(second) == {0: 10}


async def test_broadcasting_keeps_offsets_in_a_file(cluster: Cluster, tmp_path: Path) -> None:
    broker, log = await stage(cluster)
    fill(log, 5)
    for bodies, before in (([b"%d" % i for i in range(5)], None), ([b"5"], 5)):
        client = cluster.client()
        await client.start()
        c = LitePullConsumer(
            "cg",
            instance=client,
            message_model="BROADCASTING",
            local_offsets_path=str(tmp_path / "offsets.json"),
            consume_from_where="CONSUME_FROM_FIRST_OFFSET",
        )
        c.subscribe("T")
        await c.start()  # not `done`: a thread reads the file
        assert await c.committed(Q0) == before
        assert await polled(c) == bodies
        await c.close()
        log.add(0, record(5, b"5"))
    assert broker.count(COMMIT) == 0


async def test_what_a_broker_sees_and_moves(cluster: Cluster) -> None:
    broker, log = await stage(cluster)
    fill(log, 25)
    c = await consumer(cluster)
    await polled(c)
    await until(lambda: broker.count(PULL) == 4)
    inspection = c.instance.groups.inspections["cg"]
    info = inspection.running_info()
    (queue_info,) = info.mq_table.values()
    assert (queue_info.commit_offset, queue_info.cached_msg_count) == (0, 15)
    assert info.properties["pullThresholdForAll"] == "10000"
    assert [s.topic for s in info.subscription_set] == ["T"]
    assert list(inspection.offsets_of("T").values()) == [0]
    await done(inspection.move({Q0: 22, Q1: 3}))
    assert commits(broker) == {0: 22}
    assert await polled(c) == [b"22", b"23", b"24"]
    with pytest.raises(ResponseError, match="no listener"):
        await inspection.handle_directly(received(0))
    await done(c.close())
    assert "cg" not in c.instance.groups.inspections


async def test_settings_that_do_not_fit(cluster: Cluster) -> None:
    await cluster.add_namesrv()
    client = cluster.client()
    for wrong in ({"pull_batch_size": 0}, {"message_model": "BOTH"}, {"concurrency": 3}):
        with pytest.raises(ConfigError):
            LitePullConsumer("cg", instance=client, **wrong)


async def test_no_name_server_ends_the_start(cluster: Cluster) -> None:
    peer = await cluster.add_namesrv()
    await done(peer.server.close())
    client = cluster.client()
    await client.start()
    c = LitePullConsumer("cg", instance=client)
    c.subscribe("T")
    with pytest.raises(NoNameServerError):
        await done(c.start())
    assert "cg" not in client.groups.consumers
