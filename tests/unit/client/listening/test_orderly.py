"""An orderly push consumer against scripted brokers, in virtual time."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from support.peers.client import Cluster, Log, Peer, code, done, ok, stored
from support.peers.messages import record
from support.peers.transport import until

from pocketmq.client import (
    ConsumeResult,
    MessageQueue,
    OrderlyResult,
    PushConsumer,
    ReceivedMessage,
    RetryLater,
    SuspendQueue,
)
from pocketmq.protocol.bodies.locks import LockBatchBody, LockBatchResult
from pocketmq.protocol.codes import RequestCode
from pocketmq.protocol.errors import ConfigError
from pocketmq.protocol.requests.clients import ConsumerIdsChangedRequest
from pocketmq.protocol.requests.offsets import UpdateConsumerOffsetRequest
from pocketmq.protocol.requests.pulling import PullMessageRequest
from pocketmq.protocol.requests.sending import SendMessageV2Request
from pocketmq.protocol.wire.command import Command
from pocketmq.transport.connection import Connection

LOCK, UNLOCK = RequestCode.LOCK_BATCH_MQ, RequestCode.UNLOCK_BATCH_MQ
PULL, COMMIT = RequestCode.PULL_MESSAGE, RequestCode.UPDATE_CONSUMER_OFFSET
SEND = RequestCode.SEND_MESSAGE_V2

Q0, Q1 = MessageQueue("T", "a", 0), MessageQueue("T", "a", 1)


class LockBroker:
    """Lends queues, but for those that another member has."""

    def __init__(self, broker: Peer) -> None:
        self._broker = broker
        self.others: set[MessageQueue] = set()
        self.lent: set[MessageQueue] = set()
        broker.answers[LOCK], broker.answers[UNLOCK] = self._lock, self._unlock

    def _lock(self, request: Command, connection: Connection) -> Command:
        free = [q for q in LockBatchBody.decode(request.body).queues if q not in self.others]
        self.lent.update(free)
        return ok(body=LockBatchResult.of(free).encode())

    def _unlock(self, request: Command, connection: Connection) -> Command:
        self.lent.difference_update(LockBatchBody.decode(request.body).queues)
        return ok()


class Listener:
    """Notes what it gets; a test decides what becomes of it."""

    def __init__(self, *results: object) -> None:
        self.seen: list[tuple[int, int, int]] = []
        self.results = list(results)
        self.gate = asyncio.Event()
        self.gate.set()

    async def __call__(self, messages: list[ReceivedMessage]) -> object:
        self.seen += [(m.queue_id, m.queue_offset, m.reconsume_times) for m in messages]
        await self.gate.wait()
        result = self.results.pop(0) if self.results else None
        if isinstance(result, Exception):
            raise result
        return result

    @property
    def offsets(self) -> list[int]:
        return [offset for _, offset, _ in self.seen]


async def stage(cluster: Cluster, *, queues: int = 1) -> tuple[Peer, Log, LockBroker]:
    await cluster.add_namesrv()
    broker = await cluster.add_broker("a")
    cluster.topic("T", "a", queues=queues)
    log = Log()
    broker.answers[PULL] = log.pull
    return broker, log, LockBroker(broker)


async def consumer(cluster: Cluster, listener: Any, **settings: Any) -> PushConsumer:
    client = cluster.client()
    await client.start()
    made = PushConsumer("cg", instance=client, listener=listener, orderly=True, **settings)
    made.subscribe("T")
    await done(made.start())
    return made


def committed(broker: Peer, queue_id: int = 0) -> int | None:
    """The last offset that was stored for a queue."""
    requests = [r.read(UpdateConsumerOffsetRequest) for r in broker.requests if r.code == COMMIT]
    return next((r.commit_offset for r in reversed(requests) if r.queue_id == queue_id), None)


def notify(broker: Peer) -> None:
    for connection in broker.server.connections:
        header = ConsumerIdsChangedRequest(consumer_group="cg")
        connection.notify(Command(header.code, header=header))


async def joined(cluster: Cluster, broker: Peer) -> None:
    """Another member takes all queues: it is the first, and there is one queue."""
    cluster.members.insert(0, "0")
    notify(broker)
    await cluster.clock.advance(0)


async def test_one_batch_of_a_queue_at_a_time_and_queues_side_by_side(cluster: Cluster) -> None:
    broker, log, locks = await stage(cluster, queues=2)
    for queue_id in range(2):
        log.add(queue_id, *(record(i, queue_id=queue_id) for i in range(5)))
    listener = Listener()
    listener.gate.clear()
    c = await consumer(cluster, listener, consume_message_batch_max_size=2)
    await until(lambda: len(listener.seen) == 4)
    await cluster.clock.advance(5)
    assert sorted(listener.seen) == [(q, i, 0) for q in range(2) for i in range(2)]
    listener.gate.set()
    await until(lambda: len(listener.seen) == 10)
    for queue_id in range(2):
        assert [o for q, o, _ in listener.seen if q == queue_id] == list(range(5))
    assert locks.lent == {Q0, Q1}
    await done(c.close())
    assert (committed(broker, 0), committed(broker, 1)) == (5, 5)
    assert locks.lent == set()


async def test_the_lock_is_taken_before_the_offset_is_asked_for(cluster: Cluster) -> None:
    """Else the offset may be of the time before the last owner's last batch."""
    broker, _, _ = await stage(cluster)
    c = await consumer(cluster, Listener())
    codes = [r.code for r in broker.requests]
    assert codes.index(LOCK) < codes.index(RequestCode.QUERY_CONSUMER_OFFSET)
    await done(c.close())
    codes = [r.code for r in broker.requests]
    last_commit = len(codes) - codes[::-1].index(COMMIT)
    assert last_commit <= codes.index(UNLOCK)


async def test_a_queue_that_another_member_has_is_asked_for_again(cluster: Cluster) -> None:
    broker, log, locks = await stage(cluster)
    locks.others.add(Q0)
    log.add(0, record(0))
    listener = Listener()
    c = await consumer(cluster, listener)
    assert c.queues == []
    await cluster.clock.advance(0.5)
    await until(lambda: broker.count(LOCK) == 2)
    locks.others.clear()
    await cluster.clock.advance(0.5)
    await until(lambda: len(listener.seen) == 1)
    await done(c.close())


async def test_locks_are_renewed(cluster: Cluster) -> None:
    broker, _, _ = await stage(cluster, queues=2)
    c = await consumer(cluster, Listener())
    assert broker.count(LOCK) == 1
    await cluster.clock.advance(1)
    await until(lambda: broker.count(LOCK) == 2)
    for count in (3, 4):
        await cluster.clock.advance(19.9)
        assert broker.count(LOCK) == count - 1
        await cluster.clock.advance(0.1)
        await until(lambda n=count: broker.count(LOCK) == n)  # type: ignore[misc]
    body = LockBatchBody.decode(broker.last(LOCK).body)
    assert sorted(body.queues) == [Q0, Q1]
    assert (body.consumer_group, body.client_id) == ("cg", c.instance.client_id)
    await done(c.close())


async def test_without_renewal_nothing_is_begun_after_half_a_minute(cluster: Cluster) -> None:
    """What is at work goes on; when the broker is back within its minute, so does the queue."""
    broker, log, _ = await stage(cluster)
    listener = Listener()
    c = await consumer(cluster, listener)
    answer = broker.answers[LOCK]
    broker.answers[LOCK] = code(2, "busy")
    await cluster.clock.advance(29.9)
    log.add(0, record(0))
    await until(lambda: len(listener.seen) == 1)
    await cluster.clock.advance(0.2)
    log.add(0, record(1))
    await cluster.clock.advance(5)
    assert listener.offsets == [0]
    broker.answers[LOCK] = answer
    await cluster.clock.advance(10)  # the renewal at 41 s
    await until(lambda: listener.offsets == [0, 1])
    assert broker.count(RequestCode.QUERY_CONSUMER_OFFSET) == 1
    await done(c.close())
    assert committed(broker) == 2


async def test_after_a_minute_without_renewal_the_queue_is_begun_anew(cluster: Cluster) -> None:
    """Another member may have had it in between, whatever the broker says now."""
    broker, _, _ = await stage(cluster)
    c = await consumer(cluster, Listener())
    answer = broker.answers[LOCK]
    broker.answers[LOCK] = code(2, "busy")
    await cluster.clock.advance(60)
    broker.answers[LOCK] = answer
    asked = broker.count(RequestCode.QUERY_CONSUMER_OFFSET)
    await cluster.clock.advance(2)
    await until(lambda: broker.count(RequestCode.QUERY_CONSUMER_OFFSET) == asked + 1)
    await until(lambda: c.queues == [Q0])
    await done(c.close())


async def test_a_lock_that_was_lost(cluster: Cluster, caplog: pytest.LogCaptureFixture) -> None:
    broker, log, locks = await stage(cluster)
    log.add(0, record(0), record(1))
    listener = Listener()
    listener.gate.clear()
    c = await consumer(cluster, listener)
    await until(lambda: len(listener.seen) == 1)
    locks.others.add(Q0)
    await cluster.clock.advance(1)
    await until(lambda: c.queues == [])
    assert "lost" in caplog.text
    locks.others.clear()
    await cluster.clock.advance(1)
    assert c.queues == []  # the listener still has a batch of it
    stored_before = broker.count(COMMIT)
    listener.gate.set()
    await cluster.clock.advance(1)
    await until(lambda: c.queues == [Q0])
    await until(lambda: listener.offsets == [0, 0, 1])
    assert broker.count(COMMIT) == stored_before
    await done(c.close())
    assert committed(broker) == 2


@pytest.mark.parametrize(
    ("result", "pause_s"),
    [
        (ValueError("no"), 1.0),
        (OrderlyResult.SUSPEND, 1.0),
        (ConsumeResult.RETRY, 1.0),
        (SuspendQueue(), 1.0),
        (RetryLater(delay_level=5), 1.0),
        (OrderlyResult.ROLLBACK, 1.0),
        (SuspendQueue(250), 0.25),
        (SuspendQueue(0), 0.01),
        (SuspendQueue(60_000), 30.0),
    ],
)
async def test_a_batch_that_fails_is_repeated_before_anything_else(
    cluster: Cluster, result: object, pause_s: float
) -> None:
    broker, log, _ = await stage(cluster)
    log.add(0, *(record(i) for i in range(3)))
    listener = Listener(None, result, result)
    c = await consumer(cluster, listener)
    await until(lambda: len(listener.seen) == 2)
    for count in (3, 5):
        await cluster.clock.advance(pause_s * 0.8)
        assert len(listener.seen) == (2 if count == 3 else 3)
        await cluster.clock.advance(pause_s * 0.25)
        await until(lambda n=count: len(listener.seen) >= n)  # type: ignore[misc]
    counts = result is not OrderlyResult.ROLLBACK
    assert listener.seen == [(0, 0, 0), (0, 1, 0), (0, 1, 1 * counts), (0, 1, 2 * counts),
                             (0, 2, 0)]  # fmt: skip
    assert broker.count(RequestCode.CONSUMER_SEND_MSG_BACK) == 0
    await done(c.close())
    assert committed(broker) == 3


async def test_the_time_is_a_setting_and_the_failure_is_logged_once(
    cluster: Cluster, caplog: pytest.LogCaptureFixture
) -> None:
    _, log, _ = await stage(cluster)
    log.add(0, record(0, properties=b"UNIQ_KEY\x01U0\x02"))
    listener = Listener(*[ValueError("no")] * 3)
    c = await consumer(cluster, listener, suspend_current_queue_time_ms=50)
    for count in range(1, 5):
        await until(lambda n=count: len(listener.seen) == n)  # type: ignore[misc]
        await cluster.clock.advance(0.05)
    assert sum("did not handle message U0" in r.message for r in caplog.records) == 1
    await done(c.close())


async def test_part_of_a_batch(cluster: Cluster) -> None:
    broker, log, _ = await stage(cluster)
    log.add(0, *(record(i) for i in range(4)))
    listener = Listener(RetryLater(ack_index=1))
    c = await consumer(cluster, listener, consume_message_batch_max_size=4)
    await until(lambda: len(listener.seen) == 4)
    await cluster.clock.advance(1)
    await until(lambda: len(listener.seen) == 6)
    assert listener.seen[4:] == [(0, 2, 1), (0, 3, 1)]
    await done(c.close())
    assert committed(broker) == 4


async def test_after_its_repetitions_a_message_goes_to_the_dead_letters(cluster: Cluster) -> None:
    """As a message to the retry topic with too many repetitions, which any broker gives up."""
    broker, log, _ = await stage(cluster)
    cluster.topic("%RETRY%cg", "a", queues=1)
    log.add(0, record(0, b"poison"), record(1))
    refuse = code(2, "busy")
    broker.answers[PULL] = pull_only_t(log)
    broker.answers[SEND] = refuse
    listener = Listener(*[ValueError("no")] * 4)
    c = await consumer(cluster, listener, max_reconsume_times=2)
    for count in range(1, 4):
        await until(lambda n=count: len(listener.seen) == n)  # type: ignore[misc]
        if count < 3:
            await cluster.clock.advance(1)
    await until(lambda: broker.count(SEND) >= 1)
    broker.answers[SEND] = stored  # what cannot be given up is repeated
    await cluster.clock.advance(1)
    await until(lambda: listener.seen[-1] == (0, 1, 0))
    assert listener.seen == [(0, 0, 0), (0, 0, 1), (0, 0, 2), (0, 0, 3), (0, 1, 0)]
    sent = broker.last(SEND).read(SendMessageV2Request)
    assert sent.topic == "%RETRY%cg"
    assert (sent.reconsume_times, sent.max_reconsume_times) == (4, 2)
    assert "RETRY_TOPIC\x01T\x02" in (sent.properties or "")
    await done(c.close())
    assert committed(broker) == 2


def pull_only_t(log: Log) -> Callable[[Command, Connection], Command | None]:
    def answer(request: Command, connection: Connection) -> Command | None:
        is_t = request.read(PullMessageRequest).topic == "T"
        return log.pull(request, connection) if is_t else None

    return answer


async def test_a_listener_may_give_a_message_up_at_once(cluster: Cluster) -> None:
    broker, log, _ = await stage(cluster)
    cluster.topic("%RETRY%cg", "a", queues=1)
    broker.answers[PULL] = pull_only_t(log)
    log.add(0, record(0, b"poison"), record(1))
    listener = Listener(RetryLater(delay_level=-1))
    c = await consumer(cluster, listener)
    await until(lambda: listener.offsets == [0, 1])
    sent = broker.last(SEND).read(SendMessageV2Request)
    assert (sent.reconsume_times, sent.max_reconsume_times) == (1, 0)
    await done(c.close())
    assert committed(broker) == 2


async def test_what_is_handled_counts_when_it_is_committed(cluster: Cluster) -> None:
    broker, log, _ = await stage(cluster)
    log.add(0, *(record(i) for i in range(6)))
    success, commit, rollback = (
        OrderlyResult.SUCCESS, OrderlyResult.COMMIT, OrderlyResult.ROLLBACK,
    )  # fmt: skip
    listener = Listener(success, commit, None, success, rollback)
    c = await consumer(cluster, listener, auto_commit=False)
    await until(lambda: len(listener.seen) == 5)
    await cluster.clock.advance(0.9)
    assert listener.offsets == [0, 1, 2, 3, 4]
    listener.results = [None, OrderlyResult.SUSPEND, None, commit]
    await cluster.clock.advance(0.1)
    await until(lambda: len(listener.seen) == 7)
    await cluster.clock.advance(1)
    await until(lambda: len(listener.seen) == 10)
    assert listener.offsets == [0, 1, 2, 3, 4, 2, 3, 3, 4, 5]
    await cluster.clock.advance(5)
    assert committed(broker) == 5
    await done(c.close())
    assert committed(broker) == 5  # 5 was handled, but not committed


async def test_nothing_is_committed_before_the_listener_says_so(cluster: Cluster) -> None:
    broker, log, _ = await stage(cluster)
    log.add(0, *(record(i) for i in range(3)))
    listener = Listener(None, SuspendQueue(10, is_rollback=True))
    c = await consumer(cluster, listener, auto_commit=False)
    await until(lambda: len(listener.seen) == 2)
    await cluster.clock.advance(0.01)
    await until(lambda: len(listener.seen) == 5)
    assert listener.offsets == [0, 1, 0, 1, 2]
    await done(c.close())
    assert committed(broker) == 0


async def test_a_queue_that_is_lost_is_released_when_its_batch_is_done(cluster: Cluster) -> None:
    broker, log, locks = await stage(cluster)
    log.add(0, record(0), record(1))
    listener = Listener()
    listener.gate.clear()
    c = await consumer(cluster, listener)
    await until(lambda: len(listener.seen) == 1)
    await joined(cluster, broker)
    await until(lambda: c.queues == [])
    await cluster.clock.advance(10)
    assert locks.lent == {Q0}
    listener.gate.set()
    await until(lambda: locks.lent == set())
    assert listener.offsets == [0]
    assert committed(broker) == 1  # what was finished is not repeated by the next owner
    await done(c.close())


async def test_a_suspended_queue_is_released_at_once(cluster: Cluster) -> None:
    broker, log, locks = await stage(cluster)
    log.add(0, record(0), record(1))
    listener = Listener(SuspendQueue(30_000))
    c = await consumer(cluster, listener)
    await until(lambda: len(listener.seen) == 1)
    await joined(cluster, broker)
    await until(lambda: locks.lent == set())
    await cluster.clock.advance(31)
    assert listener.offsets == [0]
    assert committed(broker) == 0
    await done(c.close())


async def test_a_batch_that_outlives_its_lock_does_not_count(cluster: Cluster) -> None:
    broker, log, _ = await stage(cluster)
    log.add(0, record(0))
    listener = Listener()
    listener.gate.clear()
    c = await consumer(cluster, listener)
    await until(lambda: len(listener.seen) == 1)
    await joined(cluster, broker)
    await until(lambda: c.queues == [])
    await cluster.clock.advance(61)  # the broker has lent the queue to its next owner by now
    commits = broker.count(COMMIT)
    listener.gate.set()
    await until(lambda: broker.count(UNLOCK) == 1)
    assert broker.count(COMMIT) == commits
    await done(c.close())


async def test_a_queue_that_comes_back_waits_for_the_batch_that_is_at_work(
    cluster: Cluster,
) -> None:
    broker, log, _ = await stage(cluster)
    log.add(0, record(0), record(1))
    listener = Listener()
    listener.gate.clear()
    c = await consumer(cluster, listener)
    await until(lambda: len(listener.seen) == 1)
    await joined(cluster, broker)
    await until(lambda: c.queues == [])
    cluster.members.remove("0")
    notify(broker)
    await cluster.clock.advance(5)
    assert c.queues == []
    listener.gate.set()
    await cluster.clock.advance(0.5)
    await until(lambda: c.queues == [Q0])
    await until(lambda: len(listener.seen) >= 2)
    assert listener.offsets[0] == 0
    assert listener.offsets[-1] <= 1
    await done(c.close())


async def test_close_waits_for_the_batch_and_then_releases(cluster: Cluster) -> None:
    broker, log, locks = await stage(cluster)
    log.add(0, record(0), record(1))
    listener = Listener()
    listener.gate.clear()
    c = await consumer(cluster, listener, close_timeout_ms=50_000)
    await until(lambda: len(listener.seen) == 1)
    closing = asyncio.ensure_future(c.close())
    renewals = broker.count(LOCK)
    await cluster.clock.advance(41)
    assert broker.count(LOCK) > renewals  # the next owner has to wait
    assert (locks.lent, closing.done()) == ({Q0}, False)
    listener.gate.set()
    await until(closing.done)
    assert (locks.lent, committed(broker), listener.offsets) == (set(), 1, [0])


async def test_what_runs_on_in_a_thread_keeps_its_queue(cluster: Cluster) -> None:
    import threading

    _, log, locks = await stage(cluster, queues=2)
    log.add(0, record(0))
    begun, gate = threading.Event(), threading.Event()

    def listener(messages: list[ReceivedMessage]) -> None:
        begun.set()
        gate.wait()

    c = await consumer(cluster, listener, close_timeout_ms=1_000)
    await until(begun.is_set)
    closing = asyncio.ensure_future(c.close())
    await cluster.clock.advance(1)
    await until(closing.done)
    assert locks.lent == {Q0}  # until it expires
    gate.set()


async def test_broadcasting_in_order_needs_no_locks(cluster: Cluster, tmp_path: Path) -> None:
    broker, log, _ = await stage(cluster)
    cluster.members.append("0")
    log.add(0, *(record(i) for i in range(3)))
    listener = Listener(None, *[OrderlyResult.SUSPEND] * 2)
    c = await consumer(
        cluster,
        listener,
        message_model="BROADCASTING",
        local_offsets_path=str(tmp_path / "offsets.json"),
        max_reconsume_times=1,
    )
    await until(lambda: len(listener.seen) == 2)
    await cluster.clock.advance(100)
    await until(lambda: len(listener.seen) == 4)
    assert listener.seen == [(0, 0, 0), (0, 1, 0), (0, 1, 1), (0, 2, 0)]
    assert (broker.count(LOCK), broker.count(SEND)) == (0, 0)
    await c.close()
    assert broker.count(UNLOCK) == 0


async def test_iteration_in_order(cluster: Cluster) -> None:
    broker, log, locks = await stage(cluster, queues=2)
    for queue_id in range(2):
        log.add(queue_id, *(record(i, queue_id=queue_id) for i in range(3)))
    c = await consumer(cluster, None)
    held = [await done(anext(c)) for _ in range(2)]
    assert sorted((m.queue_id, m.queue_offset) for m in held) == [(0, 0), (1, 0)]
    waiting = asyncio.ensure_future(anext(c))
    await cluster.clock.advance(5)
    assert not waiting.done()
    first, second = sorted(held, key=lambda m: m.queue_id)
    c.retry(first)
    await cluster.clock.advance(1)
    await until(waiting.done)
    again = waiting.result()
    assert (again.queue_id, again.queue_offset, again.reconsume_times) == (0, 0, 1)
    c.ack(second)
    following = await done(anext(c))
    assert (following.queue_id, following.queue_offset) == (1, 1)
    await done(c.close())
    assert (committed(broker, 0), committed(broker, 1)) == (0, 1)
    assert locks.lent == set()


async def test_an_offset_outside_of_the_queue(
    cluster: Cluster, caplog: pytest.LogCaptureFixture
) -> None:
    """The batch that is at work ends before the first of the new ones begins."""
    from support.peers.client import pulled

    broker, log, _ = await stage(cluster)
    log.add(0, record(0))
    moved = False

    def answer(request: Command, connection: Connection) -> Command | None:
        asked = request.read(PullMessageRequest).queue_offset
        if asked == 1 and moved:
            return pulled(21, next_offset=20, low=20, high=21)
        if asked == 20:
            return pulled(0, record(20), next_offset=21, low=20, high=21)
        return log.pull(request, connection) if asked == 0 else None

    broker.answers[PULL] = answer
    listener = Listener()
    listener.gate.clear()
    moved = True
    with caplog.at_level(logging.WARNING):
        c = await consumer(cluster, listener)
        await until(lambda: broker.count(PULL) == 4)
    await cluster.clock.advance(1)
    assert listener.offsets == [0]
    listener.gate.set()
    await until(lambda: listener.offsets == [0, 20])
    await done(c.close())
    assert committed(broker) == 21


async def test_what_does_not_go_together(cluster: Cluster) -> None:
    await stage(cluster)
    client = cluster.client()
    for settings in (
        {"auto_commit": False, "listener": print},
        {"auto_commit": False, "orderly": True},
        {"orderly": True, "listener": print, "suspend_current_queue_time_ms": 9},
        {"orderly": True, "listener": print, "suspend_current_queue_time_ms": 30_001},
    ):
        with pytest.raises(ConfigError, match=r"auto_commit|suspend_current"):
            PushConsumer("cg", instance=client, **settings)
