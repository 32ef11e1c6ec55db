"""A push consumer against scripted brokers, in virtual time."""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from support.peers.client import Cluster, Log, Peer, code, done, offset, ok, pulled, silent
from support.peers.messages import record
from support.peers.transport import until

from pocketmq.client import (
    MessageQueue,
    NoNameServerError,
    OffsetFileError,
    PushConsumer,
    ReceivedMessage,
)
from pocketmq.client.rebalance.allocate_strategies import allocate_by_circle
from pocketmq.protocol.bodies.clients import Heartbeat
from pocketmq.protocol.codes import RequestCode
from pocketmq.protocol.errors import ConfigError, UsageError
from pocketmq.protocol.requests.clients import ConsumerIdsChangedRequest, UnregisterClientRequest
from pocketmq.protocol.requests.consuming import ConsumerSendMsgBackRequest
from pocketmq.protocol.requests.offsets import UpdateConsumerOffsetRequest
from pocketmq.protocol.requests.pulling import PULL_COMMIT_OFFSET, PullMessageRequest
from pocketmq.protocol.wire.command import Command
from pocketmq.transport.connection import Connection

BACK = RequestCode.CONSUMER_SEND_MSG_BACK
PULL = RequestCode.PULL_MESSAGE
COMMIT = RequestCode.UPDATE_CONSUMER_OFFSET
MEMBERS = RequestCode.GET_CONSUMER_LIST_BY_GROUP


class Seen:
    """A listener that remembers."""

    def __init__(self) -> None:
        self.messages: list[ReceivedMessage] = []

    async def __call__(self, messages: list[ReceivedMessage]) -> None:
        self.messages.extend(messages)

    @property
    def bodies(self) -> list[bytes]:
        return [m.body for m in self.messages]


async def stage(cluster: Cluster, *, queues: int = 2) -> tuple[Peer, Log]:
    await cluster.add_namesrv()
    broker = await cluster.add_broker("a")
    cluster.topic("T", "a", queues=queues)
    log = Log()
    broker.answers[PULL] = log.pull
    return broker, log


async def consumer(cluster: Cluster, listener: Any, **settings: Any) -> PushConsumer:
    client = cluster.client()
    await client.start()
    made = PushConsumer("cg", instance=client, listener=listener, **settings)
    made.subscribe("T")
    await done(made.start())
    return made


def commits(broker: Peer) -> dict[int, int]:
    """The last offset that was stored for each queue."""
    requests = [r.read(UpdateConsumerOffsetRequest) for r in broker.requests if r.code == COMMIT]
    return {r.queue_id: r.commit_offset for r in requests}


def notify(broker: Peer) -> None:
    """Tells all clients that the group changed."""
    for connection in broker.server.connections:
        header = ConsumerIdsChangedRequest(consumer_group="cg")
        connection.notify(Command(header.code, header=header))


async def test_a_lone_member_has_all_queues_and_gets_all_messages(cluster: Cluster) -> None:
    broker, log = await stage(cluster)
    log.add(0, *(record(i, b"0.%d" % i) for i in range(40)))
    seen = Seen()
    c = await consumer(cluster, seen)
    assert c.queues == [MessageQueue("T", "a", 0), MessageQueue("T", "a", 1)]
    await until(lambda: len(seen.messages) == 40)
    log.add(1, record(0, b"1.0", queue_id=1))
    await until(lambda: len(seen.messages) == 41)
    assert seen.bodies[:40] == [b"0.%d" % i for i in range(40)]
    beat = Heartbeat.decode(broker.last(RequestCode.HEART_BEAT).body)
    (data,) = beat.consumer_data_set
    assert (data.consume_type, data.message_model) == ("CONSUME_PASSIVELY", "CLUSTERING")
    await done(c.close())
    assert commits(broker) == {0: 40, 1: 1}
    goodbye = broker.last(RequestCode.UNREGISTER_CLIENT).read(UnregisterClientRequest)
    assert goodbye.consumer_group == "cg"


async def test_offsets_are_stored_every_five_seconds_if_they_changed(cluster: Cluster) -> None:
    broker, log = await stage(cluster, queues=1)
    c = await consumer(cluster, Seen())
    await cluster.clock.advance(5)
    await until(lambda: commits(broker) == {0: 0})
    count = broker.count(COMMIT)
    await cluster.clock.advance(5)
    assert broker.count(COMMIT) == count
    log.add(0, record(0), record(1))
    await until(lambda: broker.count(PULL) >= 2)
    await cluster.clock.advance(5)
    await until(lambda: commits(broker) == {0: 2})
    await done(c.close())


async def test_pulls_carry_the_offset_too(cluster: Cluster) -> None:
    broker, log = await stage(cluster, queues=1)
    log.add(0, record(0), record(1))
    c = await consumer(cluster, Seen())
    await until(lambda: broker.count(PULL) == 2)
    request = broker.last(PULL).read(PullMessageRequest)
    assert request.sys_flag & PULL_COMMIT_OFFSET
    assert (request.commit_offset, request.suspend_timeout_millis) == (0, 20_000)
    await done(c.close())


@pytest.mark.parametrize(
    ("where", "asked", "begin"),
    [
        ("CONSUME_FROM_LAST_OFFSET", RequestCode.GET_MAX_OFFSET, 50),
        ("CONSUME_FROM_FIRST_OFFSET", RequestCode.GET_MIN_OFFSET, 10),
        ("CONSUME_FROM_TIMESTAMP", RequestCode.SEARCH_OFFSET_BY_TIMESTAMP, 30),
    ],
)
async def test_where_a_new_group_begins(
    cluster: Cluster, where: str, asked: RequestCode, begin: int
) -> None:
    broker, _ = await stage(cluster, queues=1)
    broker.answers[PULL] = silent
    broker.answers[RequestCode.GET_MAX_OFFSET] = offset(50)
    broker.answers[RequestCode.GET_MIN_OFFSET] = offset(10)
    broker.answers[RequestCode.SEARCH_OFFSET_BY_TIMESTAMP] = offset(30)
    c = await consumer(cluster, Seen(), consume_from_where=where)
    await until(lambda: broker.count(PULL) == 1)
    assert broker.last(PULL).read(PullMessageRequest).queue_offset == begin
    assert broker.count(asked) == 1
    await done(c.close())


@pytest.mark.parametrize("where", ["CONSUME_FROM_LAST_OFFSET", "CONSUME_FROM_TIMESTAMP"])
async def test_no_failed_message_is_skipped_wherever_a_group_begins(
    cluster: Cluster, where: str
) -> None:
    broker, _ = await stage(cluster, queues=0)
    cluster.topic("%RETRY%cg", "a", queues=1)
    broker.answers[PULL] = silent
    broker.answers[RequestCode.GET_MAX_OFFSET] = offset(50)
    broker.answers[RequestCode.GET_MIN_OFFSET] = offset(10)
    c = await consumer(cluster, Seen(), consume_from_where=where)
    await until(lambda: broker.count(PULL) == 1)
    request = broker.last(PULL).read(PullMessageRequest)
    assert (request.topic, request.queue_offset) == ("%RETRY%cg", 10)
    await done(c.close())


async def test_a_known_group_continues(cluster: Cluster) -> None:
    broker, _ = await stage(cluster, queues=1)
    broker.answers[PULL] = silent
    broker.answers[RequestCode.QUERY_CONSUMER_OFFSET] = offset(33)
    c = await consumer(cluster, Seen())
    await until(lambda: broker.count(PULL) == 1)
    assert broker.last(PULL).read(PullMessageRequest).queue_offset == 33
    await done(c.close())


async def test_queues_are_given_up_and_taken_when_members_come_and_go(cluster: Cluster) -> None:
    broker, log = await stage(cluster, queues=4)
    log.add(2, *(record(i, queue_id=2) for i in range(3)))
    seen = Seen()
    c = await consumer(cluster, seen)
    await until(lambda: len(seen.messages) == 3)
    cluster.members.append("zzz")
    notify(broker)
    await cluster.clock.advance(0)
    await until(lambda: len(c.queues) == 2)
    await until(lambda: commits(broker).get(2) == 3)
    assert [q.queue_id for q in c.queues] == [0, 1]
    cluster.members.remove("zzz")
    await cluster.clock.advance(20)
    await until(lambda: len(c.queues) == 4)
    await done(c.close())


async def test_another_strategy(cluster: Cluster) -> None:
    await stage(cluster, queues=4)
    cluster.members.append("zzz")
    c = await consumer(cluster, Seen(), allocate=allocate_by_circle)
    assert [q.queue_id for q in c.queues] == [0, 2]
    await done(c.close())


async def test_queues_are_kept_while_the_members_cannot_be_told(cluster: Cluster) -> None:
    broker, _ = await stage(cluster)
    c = await consumer(cluster, Seen())
    await cluster.clock.advance(19.5)
    answer = broker.answers[MEMBERS]
    broker.answers[MEMBERS] = code(1, "no consumer for this group, cg")
    asked = broker.count(MEMBERS)
    await cluster.clock.advance(20)
    await until(lambda: broker.count(MEMBERS) > asked)
    assert len(c.queues) == 2
    broker.answers[MEMBERS] = answer
    cluster.members.clear()  # a broker that was restarted knows nobody
    beats, asked = broker.count(RequestCode.HEART_BEAT), broker.count(MEMBERS)
    await cluster.clock.advance(1)
    await until(lambda: broker.count(RequestCode.HEART_BEAT) > beats)
    await until(lambda: broker.count(MEMBERS) == asked + 1)
    assert len(c.queues) == 2
    await done(c.close())


async def test_a_topic_that_comes_later_is_found_within_a_second(cluster: Cluster) -> None:
    broker, _ = await stage(cluster)
    c = await consumer(cluster, Seen())
    c.subscribe("Later")
    await cluster.clock.advance(5)
    assert {q.topic for q in c.queues} == {"T"}
    cluster.topic("Later", "a", queues=1)
    await cluster.clock.advance(1)
    await until(lambda: {q.topic for q in c.queues} == {"T", "Later"})
    beat = Heartbeat.decode(broker.last(RequestCode.HEART_BEAT).body)
    topics = [s.topic for s in beat.consumer_data_set[0].subscription_data_set]
    assert topics == ["%RETRY%cg", "Later", "T"]
    c.unsubscribe("Later")
    await cluster.clock.advance(0)
    await until(lambda: {q.topic for q in c.queues} == {"T"})
    await done(c.close())


async def test_an_offset_that_cannot_be_asked_for_is_asked_for_again(cluster: Cluster) -> None:
    broker, _ = await stage(cluster, queues=1)
    answer = broker.answers[RequestCode.QUERY_CONSUMER_OFFSET]
    broker.answers[RequestCode.QUERY_CONSUMER_OFFSET] = code(2, "busy")
    c = await consumer(cluster, Seen())
    assert c.queues == []
    broker.answers[RequestCode.QUERY_CONSUMER_OFFSET] = answer
    await cluster.clock.advance(1)
    await until(lambda: len(c.queues) == 1)
    await done(c.close())


class RetryBroker:
    """Takes messages back: puts them into the retry topic, or the dead letters, at once."""

    def __init__(self, cluster: Cluster, broker: Peer, log: Log) -> None:
        self._cluster, self._broker, self._log = cluster, broker, log
        self.retry_log = Log()
        self.backs: list[ConsumerSendMsgBackRequest] = []
        self.dead: list[int] = []
        broker.answers[PULL] = self._pull
        broker.answers[BACK] = self._back

    def create_topic(self) -> None:
        self._cluster.topic("%RETRY%cg", "a", queues=1)

    def _pull(self, request: Command, connection: Connection) -> Command | None:
        is_retry = request.read(PullMessageRequest).topic == "%RETRY%cg"
        return (self.retry_log if is_retry else self._log).pull(request, connection)

    def _back(self, request: Command, connection: Connection) -> Command:
        header = request.read(ConsumerSendMsgBackRequest)
        self.create_topic()
        self.backs.append(header)
        times = sum(b.origin_msg_id == header.origin_msg_id for b in self.backs)
        if times > (header.max_reconsume_times or 0):
            self.dead.append(header.offset)
            return ok()
        offset = len(self.retry_log.records.get(0, []))
        again = record(
            offset,
            b"again",
            topic="%RETRY%cg",
            properties=b"RETRY_TOPIC\x01T\x02UNIQ_KEY\x01U0\x02",
            reconsume_times=times,
        )
        self.retry_log.add(0, again)
        return ok()


class FailingAlways:
    """A listener that fails and remembers what it saw."""

    def __init__(self) -> None:
        self.seen: list[tuple[str, int]] = []

    async def __call__(self, messages: list[ReceivedMessage]) -> None:
        self.seen += [(m.topic, m.reconsume_times) for m in messages]
        raise ValueError("poison")


@pytest.mark.parametrize("exists_before", [True, False])
async def test_the_way_of_a_poison_message(
    cluster: Cluster, exists_before: bool, caplog: pytest.LogCaptureFixture
) -> None:
    broker, log = await stage(cluster, queues=1)
    retries = RetryBroker(cluster, broker, log)
    if exists_before:
        retries.create_topic()
    listener = FailingAlways()
    c = await consumer(cluster, listener, max_reconsume_times=2)
    if not exists_before:
        await cluster.clock.advance(10)  # by then it does not expect a retry topic any more
    with caplog.at_level(logging.WARNING):
        log.add(0, record(0, properties=b"UNIQ_KEY\x01U0\x02"))
        await until(lambda: len(retries.backs) == 1)
        await cluster.clock.advance(0)
        await until(lambda: len(listener.seen) == 3)
        await until(lambda: len(retries.dead) == 1)
    assert listener.seen == [("T", 0), ("T", 1), ("T", 2)]
    assert [b.delay_level for b in retries.backs] == [0, 0, 0]
    assert sum("did not handle message U0" in r.message for r in caplog.records) == 1
    assert c.queues == [MessageQueue("T", "a", 0)]
    await done(c.close())
    requests = [r.read(UpdateConsumerOffsetRequest) for r in broker.requests if r.code == COMMIT]
    assert {(r.topic, r.commit_offset) for r in requests} >= {("T", 1), ("%RETRY%cg", 2)}


async def test_on_an_older_pocketmq_failures_come_again_here(cluster: Cluster) -> None:
    broker, log = await stage(cluster, queues=1)
    listener = FailingAlways()
    log.add(0, record(0))
    c = await consumer(cluster, listener, concurrency=1)
    for times in range(1, 4):
        await until(lambda n=times: len(listener.seen) == n)  # type: ignore[misc]
        await cluster.clock.advance(1)
    assert broker.count(BACK) >= 3
    beats = broker.count(RequestCode.HEART_BEAT)
    await cluster.clock.advance(20)
    assert broker.count(RequestCode.HEART_BEAT) <= beats + 1  # it does not look for ever
    await done(c.close())
    assert commits(broker) == {0: 0}


async def test_broadcasting(
    cluster: Cluster, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """All queues, offsets in a file, and what fails is dropped."""
    broker, log = await stage(cluster, queues=2)
    cluster.members.append("zzz")
    path = tmp_path / "offsets.json"
    settings = {"message_model": "BROADCASTING", "local_offsets_path": str(path)}
    listener = FailingAlways()
    c = await consumer(cluster, listener, **settings)
    assert [q.queue_id for q in c.queues] == [0, 1]
    log.add(0, record(0, b"a"), record(1, b"b"))
    await until(lambda: len(listener.seen) == 2)
    await cluster.clock.advance(20)
    await c.close()
    assert listener.seen == [("T", 0)] * 2
    assert "is dropped" in caplog.text
    assert (broker.count(BACK), broker.count(COMMIT), broker.count(MEMBERS)) == (0, 0, 0)
    assert not broker.last(PULL).read(PullMessageRequest).sys_flag & PULL_COMMIT_OFFSET
    (data,) = Heartbeat.decode(broker.last(RequestCode.HEART_BEAT).body).consumer_data_set
    assert data.message_model == "BROADCASTING"
    assert [s.topic for s in data.subscription_data_set] == ["T"]

    log.add(0, record(2, b"c"))
    seen = Seen()
    c = await consumer(cluster, seen, **settings)
    await until(lambda: seen.bodies == [b"c"])
    await c.close()
    path.write_text("broken")
    with pytest.raises(OffsetFileError):
        await consumer(cluster, seen, **settings)


async def test_pulls_that_fail_are_repeated(cluster: Cluster) -> None:
    broker, log = await stage(cluster, queues=1)
    log.add(0, record(0))
    broker.answers[PULL] = code(2, "busy")
    seen = Seen()
    c = await consumer(cluster, seen)
    await until(lambda: broker.count(PULL) == 1)
    await cluster.clock.advance(1)
    await until(lambda: broker.count(PULL) == 2)
    broker.answers[PULL] = code(215, "flow control")
    await cluster.clock.advance(1)
    await until(lambda: broker.count(PULL) == 3)
    await cluster.clock.advance(0.02)
    await until(lambda: broker.count(PULL) == 4)
    broker.answers[PULL] = log.pull
    await cluster.clock.advance(0.02)
    await until(lambda: len(seen.messages) == 1)
    await done(c.close())


async def test_an_offset_outside_of_the_queue(cluster: Cluster) -> None:
    broker, _ = await stage(cluster, queues=1)
    broker.answers[RequestCode.QUERY_CONSUMER_OFFSET] = offset(5)

    def answer(request: Command, connection: object) -> Command | None:
        if request.read(PullMessageRequest).queue_offset == 5:
            return pulled(21, next_offset=20, low=20, high=30)
        return None

    broker.answers[PULL] = answer
    c = await consumer(cluster, Seen())
    await until(lambda: broker.count(PULL) == 2)
    request = broker.last(PULL).read(PullMessageRequest)
    assert (request.queue_offset, request.commit_offset) == (20, 20)
    await cluster.clock.advance(5)
    await until(lambda: commits(broker) == {0: 20})
    await done(c.close())


async def test_flow_control(cluster: Cluster) -> None:
    broker, log = await stage(cluster, queues=1)
    log.add(0, *(record(i) for i in range(500)))
    held: list[ReceivedMessage] = []
    is_open = False

    async def listener(messages: list[ReceivedMessage]) -> None:
        held.extend(messages)
        while not is_open:
            await cluster.clock.sleep(1)

    c = await consumer(cluster, listener, pull_threshold_for_queue=100, concurrency=1)
    await until(lambda: broker.count(PULL) == 4)
    await cluster.clock.advance(10)
    assert broker.count(PULL) == 4  # 4 times 32 messages are more than 100
    assert len(held) == 1
    is_open = True
    await cluster.clock.advance(1)
    await until(lambda: len(held) == 500)
    await done(c.close())
    assert commits(broker) == {0: 500}


@pytest.mark.parametrize(
    "settings",
    [{"pull_threshold_size_for_queue": 500}, {"consume_concurrently_max_span": 10}],
)
async def test_flow_control_by_size_and_span(cluster: Cluster, settings: dict[str, int]) -> None:
    broker, log = await stage(cluster, queues=1)
    log.add(0, *(record(i) for i in range(100)))

    async def listener(messages: list[ReceivedMessage]) -> None:
        await cluster.clock.sleep(1000)

    c = await consumer(cluster, listener, close_timeout_ms=0, **settings)
    await until(lambda: broker.count(PULL) == 1)
    await cluster.clock.advance(20)
    assert broker.count(PULL) == 1
    closing = c.close()
    await done(closing)


async def test_close_finishes_what_is_at_work_and_stores_just_that(cluster: Cluster) -> None:
    broker, log = await stage(cluster, queues=1)
    log.add(0, *(record(i) for i in range(10)))
    begun: list[int] = []

    async def listener(messages: list[ReceivedMessage]) -> None:
        begun.append(messages[0].queue_offset)
        await cluster.clock.sleep(2)

    c = await consumer(cluster, listener, concurrency=3)
    await until(lambda: len(begun) == 3)
    closing = asyncio.ensure_future(c.close())
    await cluster.clock.advance(2)
    await until(closing.done)
    assert begun == [0, 1, 2]
    assert commits(broker) == {0: 3}


async def test_without_name_servers_it_does_not_start(cluster: Cluster) -> None:
    await stage(cluster)
    client = cluster.client()
    await client.start()
    await done(cluster.namesrvs[0].server.close())
    c = PushConsumer("cg", instance=client, listener=Seen())
    c.subscribe("T")
    with pytest.raises(NoNameServerError):
        await done(c.start())
    assert client.groups.consumers == {}


async def test_a_group_is_there_once_in_an_instance(cluster: Cluster) -> None:
    await stage(cluster)
    c = await consumer(cluster, Seen())
    second = PushConsumer("cg", instance=c.instance, listener=Seen())
    with pytest.raises(UsageError):
        await done(second.start())
    assert c.instance.groups.consumers == {"cg": c}
    await done(c.close())


async def test_a_changed_subscription_does_not_wait_for_the_held_pull(cluster: Cluster) -> None:
    """Its broker would pass over what only the new one wants."""
    broker, _ = await stage(cluster, queues=1)
    c = await consumer(cluster, Seen())
    await until(lambda: broker.count(PULL) == 1)
    c.subscribe("T", "A")
    await until(lambda: broker.count(PULL) == 2)
    request = broker.last(PULL).read(PullMessageRequest)
    assert (request.subscription, request.queue_offset) == ("A", 0)
    await done(c.close())


async def test_a_later_subscription_has_a_later_version_whatever_the_clock_says(
    cluster: Cluster,
) -> None:
    await cluster.add_namesrv()
    client = cluster.client()
    consumer = PushConsumer("cg", instance=client, listener=Seen())
    versions = []
    for expression in ("A", "B", "C"):  # in the same millisecond
        consumer.subscribe("T", expression)
        versions.append(consumer.describe().subscription_data_set[-1].sub_version)
    assert versions == sorted(set(versions))
    await cluster.clock.advance(10)
    consumer.subscribe("T")
    assert consumer.describe().subscription_data_set[-1].sub_version == cluster.clock.now_ms()


async def test_who_waits_for_its_first_subscription_is_no_member_yet(cluster: Cluster) -> None:
    broker, log = await stage(cluster)
    listener, client = Seen(), cluster.client()
    await client.start()
    consumer = PushConsumer("cg", instance=client, listener=listener)
    await done(consumer.start())
    await cluster.clock.advance(60)
    assert broker.count(RequestCode.HEART_BEAT) == 0
    consumer.subscribe("T")
    log.add(0, record(0))
    await until(lambda: listener.messages)
    heartbeat = Heartbeat.decode(broker.last(RequestCode.HEART_BEAT).body)
    (data,) = heartbeat.consumer_data_set
    assert [s.topic for s in data.subscription_data_set] == ["%RETRY%cg", "T"]
    await done(consumer.close())


async def test_the_number_of_handlers_can_be_changed(cluster: Cluster) -> None:
    _, log = await stage(cluster, queues=1)
    log.add(0, *(record(i) for i in range(20)))
    held: list[ReceivedMessage] = []
    gate = asyncio.Event()

    async def listener(messages: list[ReceivedMessage]) -> None:
        held.extend(messages)
        await gate.wait()

    c = await consumer(cluster, listener, concurrency=1)
    await until(lambda: len(held) == 1)
    c.concurrency = 3
    assert c.concurrency == 3
    await until(lambda: len(held) == 3)
    for wrong in (0, 32_768):
        with pytest.raises(ConfigError, match="concurrency"):
            c.concurrency = wrong
    gate.set()
    await until(lambda: len(held) == 20)
    await done(c.close())
    c.concurrency = 2  # it holds for the next start


@pytest.mark.parametrize(
    "settings", [{"pull_threshold_for_topic": 128}, {"pull_threshold_size_for_topic": 128 * 93}]
)
async def test_flow_control_of_a_topic_is_shared_out_over_its_queues(
    cluster: Cluster, settings: dict[str, int]
) -> None:
    """Records have 93 bytes; a pull brings 32 of them."""
    broker, log = await stage(cluster, queues=2)
    cluster.topic("%RETRY%cg", "a", queues=1)  # its queue takes nothing from the topic's share

    def answer(request: Command, connection: Connection) -> Command | None:
        is_t = request.read(PullMessageRequest).topic == "T"
        return log.pull(request, connection) if is_t else None

    broker.answers[PULL] = answer
    for queue_id in range(2):
        log.add(queue_id, *(record(i, queue_id=queue_id) for i in range(500)))

    async def listener(messages: list[ReceivedMessage]) -> None:
        await cluster.clock.sleep(100_000)

    def pulls() -> dict[int, int]:
        requests = [r.read(PullMessageRequest) for r in broker.requests if r.code == PULL]
        return dict(Counter(r.queue_id for r in requests if r.topic == "T"))

    c = await consumer(cluster, listener, close_timeout_ms=0, concurrency=1, **settings)
    await until(lambda: pulls() == {0: 2, 1: 2})
    await cluster.clock.advance(5)
    assert pulls() == {0: 2, 1: 2}
    cluster.members.append("zzz")  # now there is one queue, which has the whole share
    notify(broker)
    await cluster.clock.advance(0)
    await until(lambda: pulls() == {0: 4, 1: 2})
    await cluster.clock.advance(5)
    assert pulls() == {0: 4, 1: 2}
    await done(c.close())


async def test_topic_thresholds_must_be_positive(cluster: Cluster) -> None:
    await stage(cluster)
    client = cluster.client()
    with pytest.raises(ConfigError, match="pull_threshold_for_topic"):
        PushConsumer("cg", instance=client, pull_threshold_for_topic=0)
    with pytest.raises(ConfigError, match="pull_threshold_size_for_topic"):
        PushConsumer("cg", instance=client, pull_threshold_size_for_topic=-2)
