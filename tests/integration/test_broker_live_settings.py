"""Each setting that may change at run time is changed by 25 on a running broker, and takes effect.

The table `EFFECTS` has an entry for every key that is not fixed: the new value, and a function that
shows what the broker does before and after the change. A new key without an entry fails the test.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import pytest
import pytest_asyncio
from support.brokers.broker_parts import (
    GROUP,
    LOCALHOST,
    SEGMENT_SIZE,
    TOPIC,
    Client,
    Stage,
    advance_until,
    pulled,
    send_request,
)
from support.brokers.pop_parts import FULL as POPS_FULL
from support.brokers.pop_parts import NOTHING, held_pop, pop
from support.brokers.transaction_parts import (
    PRODUCERS,
    QUIET,
    bodies,
    half_request,
    in_log,
    send_half,
)
from support.peers.transport import until
from support.store.disks import SlowFiles

from pocketmq.broker import BrokerConfig
from pocketmq.broker.config.live_settings import FIXED_KEYS
from pocketmq.broker.reading.filters import EVERYTHING
from pocketmq.broker.reading.read_advice import LeaderAdvice, ReadAdviceSettings
from pocketmq.broker.reading.reader import ReadQuery
from pocketmq.broker.replica.replica_reader import ReplicaReader
from pocketmq.protocol.bodies.clients import GroupConfig, Subscription
from pocketmq.protocol.bodies.popping import AssignedQueues, Assignment
from pocketmq.protocol.codes import RequestCode, ResponseCode
from pocketmq.protocol.errors import PocketMQError
from pocketmq.protocol.messages import properties as props
from pocketmq.protocol.names import names
from pocketmq.protocol.requests.brokers import UpdateBrokerConfigRequest
from pocketmq.protocol.requests.groups import ResetOffsetRequest
from pocketmq.protocol.requests.nameserver import QueryDataVersionResponse
from pocketmq.protocol.requests.offsets import UpdateConsumerOffsetRequest
from pocketmq.protocol.requests.popping import QueryAssignmentRequest
from pocketmq.protocol.requests.pulling import PULL_SUBSCRIPTION, PULL_SUSPEND, BulkPullRequest
from pocketmq.protocol.requests.sending import RecallMessageRequest, SendReplyRequest
from pocketmq.protocol.requests.topics import GroupConfigRequest
from pocketmq.protocol.wire.command import Command
from pocketmq.testing.clock import VirtualClock, settle
from pocketmq.transport.connection import Connection
from pocketmq.transport.server import Server

REPLY_TOPIC = names.reply_topic("DefaultCluster")
SUBSCRIPTION = Subscription(topic=TOPIC, sub_string="*")
KIB = 1024
FULL = 1 << 60
"""More free bytes than a disk has: with it the shares of the disk's space count."""


class CountingNameServer:
    """A name server that counts what brokers tell it.

    Attributes:
        counts: the requests by code.
        answers: set while it answers.
    """

    def __init__(self, clock: VirtualClock) -> None:
        self.counts, self.answers = Counter[int](), asyncio.Event()
        self.answers.set()
        codes = (
            RequestCode.REGISTER_BROKER,
            RequestCode.UNREGISTER_BROKER,
            RequestCode.QUERY_DATA_VERSION,
            RequestCode.REGISTER_TOPIC_IN_NAMESRV,
        )
        self.server = Server(clock, dict.fromkeys(codes, self._take))

    async def _take(self, command: Command, _: Connection) -> Command:
        self.counts[command.code] += 1
        await self.answers.wait()
        return Command(ResponseCode.SUCCESS, header=QueryDataVersionResponse(changed=False))

    @property
    def address(self) -> str:
        return self.server.address


@pytest_asyncio.fixture
async def nameserver(clock: VirtualClock) -> AsyncIterator[CountingNameServer]:
    nameserver = CountingNameServer(clock)
    await nameserver.server.listen(LOCALHOST, 0)
    yield nameserver
    nameserver.answers.set()
    await nameserver.server.close()


class Scene:
    """A broker whose setting is changed.

    Args:
        stage: starts the broker.
        clock: of the broker.
        key, value: the change.
        nameserver: for brokers that register.
        caplog: what the broker logs.
    """

    def __init__(
        self,
        stage: Stage,
        clock: VirtualClock,
        key: str,
        value: object,
        nameserver: CountingNameServer,
        caplog: pytest.LogCaptureFixture,
    ) -> None:
        self.stage, self.clock, self.caplog = stage, clock, caplog
        self._key, self._value, self.nameserver = key, value, nameserver
        self.files = SlowFiles()
        self._tasks: list[asyncio.Task[Command]] = []

    async def client(self, **settings: Any) -> Client:
        """A client of a broker with a topic, on a disk that may be slow."""
        self._client = await self.stage.started_with_topic(files=self.files, **settings)
        return self._client

    async def change(self) -> None:
        """Changes the setting."""
        text = f"{self._key}={self._value}\n"
        await self._client.ask(UpdateBrokerConfigRequest(), text.encode())

    async def waiting_send(self, body: bytes = b"x") -> asyncio.Task[Command]:
        """Sends a message that waits for the disk; returns when the broker has it."""
        flusher = self._client.broker.store.flusher
        before = flusher.waiting_size
        task = asyncio.ensure_future(self._client.call(send_request(), body))
        self._tasks.append(task)
        await until(lambda: flusher.waiting_size > before or task.done())
        return task

    async def close(self) -> None:
        """Lets the disk go on."""
        self.files.gate.set()
        await asyncio.gather(*self._tasks)


Effect = Callable[[Scene], Awaitable[None]]

EFFECTS: dict[str, tuple[object, Effect]] = {}


def effect(key: str, value: object) -> Callable[[Effect], Effect]:
    """Enters a function in the table; it shows what a change to the value does."""

    def enter(function: Effect) -> Effect:
        EFFECTS[key] = value, function
        return function

    return enter


# -- the store ----------------------------------------------------------------------------------


@effect("flushDiskType", "SYNC_FLUSH")
async def flush_type(scene: Scene) -> None:
    client = await scene.client()
    scene.files.gate.clear()
    await client.send(b"in the system's memory")
    await scene.change()
    assert not (await scene.waiting_send()).done()


@effect("flushIntervalCommitLog", 100_000)
async def checkpoints(scene: Scene) -> None:
    client = await scene.client()
    await client.send()
    await scene.clock.advance(2)
    await until(lambda: not client.broker.store.committer.unflushed_size)
    await scene.change()
    await scene.clock.advance(2)
    await client.send()
    await scene.clock.advance(90)
    assert client.broker.store.committer.unflushed_size
    await advance_until(scene.clock, lambda: not client.broker.store.committer.unflushed_size)


@effect("syncFlushTimeout", 50)
async def flush_timeout(scene: Scene) -> None:
    await scene.client(flush_disk_type="SYNC_FLUSH")
    scene.files.gate.clear()
    waits = await scene.waiting_send()
    await scene.clock.advance(1)
    assert not waits.done()
    await scene.change()
    gives_up = await scene.waiting_send(b"y")
    await scene.clock.advance(0.05)
    assert (await gives_up).code == ResponseCode.FLUSH_DISK_TIMEOUT
    assert not waits.done()


@effect("brokerFastFailureEnable", "false")
async def busy_or_not(scene: Scene) -> None:
    client = await scene.client(flush_disk_type="SYNC_FLUSH")
    scene.files.gate.clear()
    await scene.waiting_send()
    await scene.clock.advance(2)
    assert (await client.refusal(send_request(), b"x")).code == ResponseCode.SYSTEM_BUSY
    await scene.change()
    assert not (await scene.waiting_send()).done()


@effect("osPageCacheBusyTimeOutMills", 3000)
async def busy_disk(scene: Scene) -> None:
    client = await scene.client(flush_disk_type="SYNC_FLUSH")
    scene.files.gate.clear()
    await scene.waiting_send()
    await scene.clock.advance(2)
    assert (await client.refusal(send_request(), b"x")).code == ResponseCode.SYSTEM_BUSY
    await scene.change()
    assert not (await scene.waiting_send()).done()
    await scene.clock.advance(1.1)
    assert "is 3000" in (await client.refusal(send_request(), b"x")).remark


@effect("waitTimeMillsInSendQueue", 10)
async def busy_loop(scene: Scene) -> None:
    client = await scene.client()
    broker, connection = client.broker, Connection(scene.clock, {})

    def refuses_after(wait_s: float) -> bool:
        """Whether a send is refused that comes so long after another one of the same turn."""
        broker.store.schedule_commit(broker.store.queue_log(TOPIC, 0))
        scene.clock.block(wait_s)
        connection._last_activity = scene.clock.monotonic()
        count = broker.parts.back_pressure.backlog.refused_count
        with contextlib.suppress(PocketMQError):  # refused as busy, or because it is empty
            broker.handlers[RequestCode.BULK_APPEND](Command(RequestCode.BULK_APPEND), connection)
        return broker.parts.back_pressure.backlog.refused_count > count

    assert not refuses_after(0.1)
    await settle()
    await scene.change()
    assert refuses_after(0.1)
    await settle()


@effect("flushBacklogSizeMax", 64 * KIB)
async def held_senders(scene: Scene) -> None:
    client = await scene.client(flush_disk_type="SYNC_FLUSH")
    backlog = client.broker.parts.back_pressure.backlog
    scene.files.gate.clear()
    await scene.waiting_send(bytes(100 * KIB))
    await scene.waiting_send()
    assert backlog.held_count == 0
    await scene.change()
    await scene.waiting_send()
    assert backlog.held_count == 1


@effect("flushConsumerOffsetInterval", 100_000)
async def saved_offsets(scene: Scene) -> None:
    client = await scene.client()
    saved = client.broker.store.metadata.consumer_offsets
    await scene.change()
    await scene.clock.advance(5)
    client.broker.offsets.commit(GROUP, TOPIC, 0, 3)
    await scene.clock.advance(99)
    assert saved() == []
    await scene.clock.advance(2)
    assert saved() == [(GROUP, TOPIC, 0, 3)]


@effect("fileReservedTime", 1)
async def old_messages(scene: Scene) -> None:
    client = await scene.client(
        flush_interval_commit_log=600_000, flush_delay_offset_interval=600_000
    )
    await client.send(b"old")
    await scene.clock.advance(2 * 3600)
    queue_log = client.broker.store.queue_log(TOPIC, 0)
    assert queue_log.min_offset == 0
    await scene.change()
    await advance_until(scene.clock, lambda: queue_log.min_offset == 1, step_s=10)


@effect("cleanResourceInterval", 100_000)
async def rounds_of_retention(scene: Scene) -> None:
    client = await scene.client()
    disk = client.broker.store.disk

    async def accepts_after(seconds: float) -> bool:
        """Whether the round that looks at the disk comes within a time."""
        disk.refuse("full")
        await scene.clock.advance(seconds)
        return disk.full_reason is None

    assert await accepts_after(10)
    await scene.change()
    assert await accepts_after(10), "the round that was due"
    assert not await accepts_after(99)
    assert await accepts_after(1)


@effect("diskSpaceWarningLevelRatio", 1)
async def full_disk(scene: Scene) -> None:
    client = await scene.client(disk_space_free_min=FULL, disk_space_warning_level_ratio=100)
    await client.send()
    await scene.change()
    assert (await client.refusal(send_request(), b"x")).code == 14


@effect("diskSpaceFreeMin", FULL)
async def little_room(scene: Scene) -> None:
    client = await scene.client(disk_space_warning_level_ratio=1)
    await client.send()
    await scene.change()
    assert (await client.refusal(send_request(), b"x")).code == 14


@effect("diskSpaceCleanForciblyRatio", 1)
async def forced_cleaning(scene: Scene) -> None:
    client = await scene.client(
        disk_space_free_min=FULL, disk_space_warning_level_ratio=100,
        disk_space_clean_forcibly_ratio=100, segment_size=SEGMENT_SIZE,
    )  # fmt: skip
    for _ in range(4):
        await client.send(bytes(SEGMENT_SIZE // 2))
    queue_log = client.broker.store.queue_log(TOPIC, 0)
    await scene.clock.advance(30)
    assert queue_log.min_offset == 0
    await scene.change()
    await advance_until(scene.clock, lambda: queue_log.min_offset > 0)


# -- topics, groups and messages ----------------------------------------------------------------


@effect("autoCreateTopicEnable", "false")
async def new_topics(scene: Scene) -> None:
    client = await scene.client()
    await client.send(topic="New1")
    await scene.change()
    assert (await client.refusal(send_request(topic="New2"), b"x")).code == 17


@effect("defaultTopicQueueNums", 2)
async def queues_of_new_topics(scene: Scene) -> None:
    client = await scene.client()
    nums: list[int] = []
    for topic in ("New1", "New2"):
        await client.send(topic=topic, default_topic_queue_nums=4)
        made = client.broker.topics.get(topic)
        assert made is not None
        nums.append(made.write_queue_nums)
        await scene.change()
    assert nums == [4, 2]


@effect("autoCreateSubscriptionGroup", "false")
async def new_groups(scene: Scene) -> None:
    client = await scene.client()
    await client.ask(GroupConfigRequest(group="g1"))
    await scene.change()
    assert (await client.refusal(GroupConfigRequest(group="g2"))).code == 26


@effect("maxTopics", 100)
async def number_of_topics(scene: Scene) -> None:
    client = await scene.client()
    for n in range(100 - len(client.broker.topics)):
        await client.create_topic(f"Topic-{n}")
    await client.send(topic="New1")
    await scene.change()
    assert "(maxTopics)" in (await client.refusal(send_request(topic="New2"), b"x")).remark


@effect("maxGroups", 100)
async def number_of_groups(scene: Scene) -> None:
    client = await scene.client()
    client.make_group(*(f"group-{n}" for n in range(100)))
    await scene.change()
    assert "(maxGroups)" in (await client.refusal(GroupConfigRequest(group="g"))).remark


@effect("maxNamesOfConnection", 1)
async def number_of_names(scene: Scene) -> None:
    client = await scene.client()
    await client.send(topic="New1")
    await client.send(topic="New2")
    await scene.change()
    refusal = await client.refusal(send_request(topic="New3"), b"x")
    assert "(maxNamesOfConnection)" in refusal.remark


@effect("idleGroupTimeout", 3_600_000)
async def idle_groups(scene: Scene) -> None:
    client = await scene.client(idle_group_timeout=1000)
    client.make_group("g1")
    await scene.clock.advance(2.5)
    assert client.broker.groups.get("g1") is None
    await scene.change()
    await scene.clock.advance(1)  # that round was under way
    client.make_group("g2")
    await scene.clock.advance(60)
    assert client.broker.groups.get("g2") is not None


@effect("maxMessageSize", 3)
async def large_messages(scene: Scene) -> None:
    client = await scene.client()
    await client.send(b"four")
    await scene.change()
    assert (await client.refusal(send_request(), b"four")).code == 13


@effect("brokerPermission", 4)
async def permission(scene: Scene) -> None:
    client = await scene.client()
    await client.send()
    await scene.change()
    assert (await client.refusal(send_request(), b"x")).code == 16
    assert (await client.pull()).code == 0


@effect("regionId", "Elsewhere")
async def region(scene: Scene) -> None:
    client = await scene.client()
    first = await client.send()
    await scene.change()
    second = await client.send()
    assert [first.region, second.region] == ["DefaultRegion", "Elsewhere"]
    regions = [m.properties[props.MSG_REGION] for m in await client.everything()]
    assert regions == ["DefaultRegion", "Elsewhere"]


@effect("traceOn", "false")
async def traces_wanted(scene: Scene) -> None:
    client = await scene.client()
    first = await client.send()
    await client.call(reply(), b"r")
    await scene.change()
    second = await client.send()
    await client.call(reply(), b"r")
    assert [first.trace_on, second.trace_on] == [True, False]
    for topic in (TOPIC, REPLY_TOPIC):
        stored = [m.properties[props.TRACE_ON] for m in in_log(client.broker, topic)]
        assert stored == ["true", "false"]


@effect("traceTopicEnable", "true")
async def trace_topic(scene: Scene) -> None:
    client = await scene.client()
    assert names.TRACE_TOPIC not in client.broker.topics
    await scene.change()
    assert names.TRACE_TOPIC in client.broker.topics


def reply() -> SendReplyRequest:
    """A reply to a requester that is not there: it may only be kept."""
    sent = send_request(topic=REPLY_TOPIC, properties=props.encode({"REPLY_TO_CLIENT": "gone"}))
    fields = {name: getattr(sent, name) for name in SendReplyRequest.__struct_fields__}
    return SendReplyRequest(**fields)


@effect("storeReplyMessageEnable", "false")
async def kept_replies(scene: Scene) -> None:
    client = await scene.client()
    await client.call(reply(), b"kept")
    await scene.change()
    await client.call(reply(), b"not kept")
    assert bodies(client.broker, REPLY_TOPIC) == [b"kept"]


# -- delays and transactions --------------------------------------------------------------------


@effect("messageDelayLevel", "30s 1m")
async def delays(scene: Scene) -> None:
    client = await scene.client(**QUIET)
    delayed = props.encode({props.DELAY: "1"})
    await client.send(b"after a second", properties=delayed)
    await scene.change()
    await client.send(b"after half a minute", properties=delayed)
    await scene.clock.advance(2)
    assert bodies(client.broker) == [b"after a second"]
    await scene.clock.advance(29)
    assert bodies(client.broker) == [b"after a second", b"after half a minute"]


@effect("flushDelayOffsetInterval", 100_000)
async def saved_deliveries(scene: Scene) -> None:
    client = await scene.client()
    await scene.change()
    await scene.clock.advance(2)
    await client.send(properties=props.encode({props.DELAY: "1"}))
    await scene.clock.advance(90)
    assert client.broker.store.metadata.state("delay_offsets") is None
    await scene.clock.advance(20)
    assert client.broker.store.metadata.state("delay_offsets") is not None


@effect("rejectTransactionMessage", "true")
async def half_messages(scene: Scene) -> None:
    client = await scene.client()
    await send_half(client, scene.clock)
    await scene.change()
    assert (await client.refusal(half_request(scene.clock), b"x")).code == 16


async def producing(scene: Scene, **settings: object) -> Client:
    """A client that the broker knows as a producer of transactions."""
    client = await scene.client(**QUIET | settings)
    await client.heartbeat(group="", producer=PRODUCERS)
    return client


@effect("transactionCheckInterval", 50_000)
async def rounds_of_checks(scene: Scene) -> None:
    client = await producing(scene, transaction_check_interval=5000, transaction_time_out=0)
    await scene.change()
    await scene.clock.advance(5)
    await send_half(client, scene.clock)
    await scene.clock.advance(49)
    assert not client.checks
    await scene.clock.advance(1)
    await until(lambda: len(client.checks) == 1)


@effect("transactionTimeOut", 40_000)
async def age_of_checks(scene: Scene) -> None:
    client = await producing(scene, transaction_check_interval=10_000)
    await scene.change()
    await send_half(client, scene.clock)
    await scene.clock.advance(39)
    await client.max_offset()
    assert not client.checks
    await scene.clock.advance(12)
    await until(lambda: len(client.checks) == 1)


@effect("transactionCheckMax", 1)
async def number_of_checks(scene: Scene) -> None:
    client = await producing(scene, transaction_check_interval=10_000)
    await send_half(client, scene.clock, b"x")
    await scene.clock.advance(10)
    await until(lambda: len(client.checks) == 1)
    assert not bodies(client.broker, names.CHECK_MAX_TIME_TOPIC)
    await scene.change()
    await scene.clock.advance(10)
    assert bodies(client.broker, names.CHECK_MAX_TIME_TOPIC) == [b"x"]


def timer(seconds: int) -> str:
    """The properties of a message that is to come in so many seconds."""
    return props.encode({props.TIMER_DELAY_SEC: str(seconds)})


@effect("timerWheelEnable", "false")
async def timers(scene: Scene) -> None:
    client = await scene.client()
    await client.send(properties=timer(10))
    await scene.change()
    assert (await client.refusal(send_request(properties=timer(10)), b"x")).code == 1


@effect("timerMaxDelaySec", 5)
async def far_timers(scene: Scene) -> None:
    client = await scene.client()
    await client.send(properties=timer(10))
    await scene.change()
    assert (await client.refusal(send_request(properties=timer(10)), b"x")).code == 13


@effect("recallMessageEnable", "false")
async def recalls(scene: Scene) -> None:
    client = await scene.client()
    handle = (await client.send(properties=timer(1000))).recall_handle
    recall = RecallMessageRequest(topic=TOPIC, recall_handle=handle or "")
    await client.ask(recall)
    await scene.change()
    assert (await client.refusal(recall)).code == 16


@effect("allowRecallWhenBrokerNotWriteable", "false")
async def recalls_without_sends(scene: Scene) -> None:
    client = await scene.client()
    handle = (await client.send(properties=timer(1000))).recall_handle
    recall = RecallMessageRequest(topic=TOPIC, recall_handle=handle or "")
    await client.ask(UpdateBrokerConfigRequest(), b"brokerPermission=4")
    await client.ask(recall)
    await scene.change()
    assert (await client.refusal(recall)).code == 14


# -- pulls --------------------------------------------------------------------------------------


@effect("enablePropertyFilter", "false")
async def filters(scene: Scene) -> None:
    client = await scene.client()
    await client.send()
    sql: dict[str, Any] = {"expression_type": "SQL92", "subscription": "a is null"}
    subscription = Subscription(
        topic=TOPIC, sub_string="a is null", expression_type="SQL92", sub_version=1
    )
    assert (await client.pull(**sql)).code == 0
    await client.heartbeat(subscription)
    assert (await client.pull(sys_flag=0)).code == 0
    await scene.change()
    assert (await client.pull(**sql)).code == 1
    assert (await client.pull(sys_flag=0)).code == 1


@effect("longPollingEnable", "false")
async def long_polling(scene: Scene) -> None:
    client = await scene.client()
    client.make_group()
    long = await client.hold()
    await scene.clock.advance(5)
    assert not long.done()
    await scene.change()
    short = await client.hold()
    await scene.clock.advance(1)
    assert (await short).code == 19
    assert not long.done()
    await client.send()
    assert (await long).code == 0


@effect("shortPollingTimeMills", 5000)
async def short_polling(scene: Scene) -> None:
    client = await scene.client(long_polling_enable=False)
    flags = PULL_SUBSCRIPTION | PULL_SUSPEND
    held = await client.hold(sys_flag=flags)
    await scene.clock.advance(1)
    assert (await held).code == 19
    await scene.change()
    held = await client.hold(sys_flag=flags)
    await scene.clock.advance(4.9)
    assert not held.done()
    await scene.clock.advance(0.1)
    assert (await held).code == 19


@effect("defaultMessageRequestMode", "POP")
async def consumption_by_pops(scene: Scene) -> None:
    client = await scene.client()
    assert await request_mode(client) == ("PULL", 0)
    await scene.change()
    assert await request_mode(client) == ("POP", -1)


@effect("defaultPopShareQueueNum", 1)
async def queues_of_neighbours(scene: Scene) -> None:
    client = await scene.client(default_message_request_mode="POP")
    for client_id in ("a", "b", "c"):
        await scene.stage.client(client.broker).heartbeat(SUBSCRIPTION, client_id=client_id)
    assert await request_mode(client) == ("POP", -1)
    await scene.change()
    assert await request_mode(client) == ("POP", 3), "the last member's own is the first"


async def request_mode(client: Client) -> tuple[str, int]:
    """How a group consumes, and the first of its queues."""
    await client.heartbeat(SUBSCRIPTION)
    body = Assignment(topic=TOPIC, consumer_group=GROUP, client_id="client-1")
    answer = await client.ask(QueryAssignmentRequest(), body.encode())
    first = AssignedQueues.decode(answer.body).message_queue_assignments[0]
    return first.mode, first.message_queue.queue_id


@effect("maxPopInFlight", 2)
async def popped_messages_of_all_groups(scene: Scene) -> None:
    client = await scene.client()
    for _ in range(4):
        await client.send()
    assert len((await pop(client, max_msg_nums=2)).messages) == 2
    await scene.change()
    assert (await pop(client, consumer_group="others")).code == NOTHING


@effect("maxPopInFlightOfGroup", 2)
async def popped_messages_of_a_group(scene: Scene) -> None:
    client = await scene.client()
    for _ in range(4):
        await client.send()
    assert len((await pop(client, max_msg_nums=2)).messages) == 2
    await scene.change()
    assert (await pop(client)).code == NOTHING
    assert (await pop(client, consumer_group="others")).code == 0


@effect("popPollingSize", 1)
async def pops_that_wait(scene: Scene) -> None:
    client = await scene.client()
    await held_pop(client)
    await held_pop(client)
    await scene.change()
    assert (await pop(client, poll_time=1000)).code == POPS_FULL


@effect("popFromRetryProbability", 100)
async def pops_of_the_retry_topic(scene: Scene) -> None:
    client = await scene.client(pop_from_retry_probability=0)
    for number in range(4):
        await client.send(b"%d" % number)
    await pop(client, invisible_time=1000, max_msg_nums=2)
    await scene.clock.advance(1)
    await until(lambda: client.broker.parts.popping.revival.count == 2)
    assert (await pop(client, max_msg_nums=1)).bodies == [b"2"]
    await scene.change()
    assert (await pop(client, max_msg_nums=1)).bodies == [b"0"]


@effect("maxTransferCountOnMessageInMemory", 1)
async def count_of_pulls(scene: Scene) -> None:
    client = await scene.client()
    for _ in range(3):
        await client.send()
    assert len((await client.pull(max_msg_nums=32)).messages) == 3
    await scene.change()
    assert len((await client.pull(max_msg_nums=32)).messages) == 1


@effect("maxTransferBytesOnMessageInMemory", 1)
async def size_of_pulls(scene: Scene) -> None:
    client = await scene.client()
    for _ in range(3):
        await client.send()
    assert len((await client.pull(max_msg_nums=32)).messages) == 3
    await scene.change()
    assert len((await client.pull(max_msg_nums=32)).messages) == 1


@effect("maxTransferBytesOnBulk", 64 * KIB)
async def size_of_bulk_pulls(scene: Scene) -> None:
    client = await scene.client()
    for _ in range(3):
        await client.send(bytes(40 * KIB))
    request = BulkPullRequest(
        consumer_group=GROUP, topic=TOPIC, queue_id=0, queue_offset=0, max_msg_nums=1000,
        sys_flag=PULL_SUBSCRIPTION, subscription="*",
    )  # fmt: skip
    assert len(pulled(await client.call(request)).messages) == 3
    await scene.change()
    assert len(pulled(await client.call(request)).messages) == 1


# -- clients ------------------------------------------------------------------------------------


@effect("channelExpiredTimeout", 5000)
async def silent_clients(scene: Scene) -> None:
    client = await scene.client()
    await client.heartbeat(Subscription.of_tags(TOPIC, "*", 1))
    consumers = client.broker.parts.members.consumers
    await scene.clock.advance(20)
    assert consumers.get(GROUP)
    await scene.change()
    await scene.clock.advance(10)
    await until(lambda: consumers.get(GROUP) is None)


@effect("notifyConsumerIdsChangedEnable", "false")
async def told_members(scene: Scene) -> None:
    client = await scene.client()
    subscription = Subscription.of_tags(TOPIC, "*", 1)
    await client.heartbeat(subscription)
    await until(lambda: client.notified == [GROUP])
    await scene.change()
    other = scene.stage.client(client.broker)
    await other.heartbeat(subscription, client_id="client-2")
    await other.close()
    await client.max_offset()
    assert client.notified == [GROUP]


@effect("useServerSideResetOffset", "false")
async def resets(scene: Scene) -> None:
    client = await scene.client(queues=1)
    await client.send()
    commit = UpdateConsumerOffsetRequest(
        consumer_group=GROUP, topic=TOPIC, queue_id=0, commit_offset=1
    )
    client.make_group()
    await client.ask(commit)
    reset = ResetOffsetRequest(group=GROUP, topic=TOPIC, timestamp=0)
    await client.ask(reset)
    await scene.change()
    await client.ask(commit)
    assert "Consumer not online" in (await client.refusal(reset)).remark


# -- name servers -------------------------------------------------------------------------------


@effect("registerNameServerPeriod", 60_000)
async def rounds_of_registration(scene: Scene) -> None:
    await scene.client(namesrv_addr=scene.nameserver.address)
    queries = scene.nameserver.counts
    await scene.change()
    await scene.clock.advance(30)
    await until(lambda: queries[RequestCode.QUERY_DATA_VERSION] == 1)
    await scene.clock.advance(59)
    assert queries[RequestCode.QUERY_DATA_VERSION] == 1
    await scene.clock.advance(1)
    await until(lambda: queries[RequestCode.QUERY_DATA_VERSION] == 2)


@effect("enableSingleTopicRegister", "true")
async def single_topics(scene: Scene) -> None:
    client = await scene.client(namesrv_addr=scene.nameserver.address)
    counts = scene.nameserver.counts
    await until(lambda: counts[RequestCode.REGISTER_BROKER] == 2)  # the start, and the topic
    await scene.change()
    await client.create_topic("Another")
    await until(lambda: counts[RequestCode.REGISTER_TOPIC_IN_NAMESRV] == 1)
    assert counts[RequestCode.REGISTER_BROKER] == 2


@effect("registerBrokerTimeoutMills", 1000)
async def slow_name_servers(scene: Scene) -> None:
    client = await scene.client(namesrv_addr=scene.nameserver.address)
    counts = scene.nameserver.counts
    await until(lambda: counts[RequestCode.REGISTER_BROKER] == 2)
    scene.nameserver.answers.clear()
    await scene.change()
    await client.create_topic("Another")
    await until(lambda: counts[RequestCode.REGISTER_BROKER] == 3)
    assert "cannot register" not in scene.caplog.text
    await scene.clock.advance(1)
    await until(lambda: "cannot register" in scene.caplog.text)


# -- reading from followers ---------------------------------------------------------------------


def advised(client: Client) -> int:
    """The member of a broker set from which its leader has a slow group read on."""
    advice = LeaderAdvice(client.broker.settings.view(ReadAdviceSettings.of), lambda: [1])
    queue_log = client.broker.store.find_log(TOPIC, 0)
    return advice.broker_id(GroupConfig(group_name=GROUP), queue_log, 0)


@effect("slaveReadEnable", "true")
async def followers_are_read(scene: Scene) -> None:
    client = await scene.client(access_message_in_memory_max_ratio=0)
    await client.send()
    assert advised(client) == 0
    await scene.change()
    assert advised(client) == 1


@effect("accessMessageInMemoryMaxRatio", 0)
async def who_is_far_behind(scene: Scene) -> None:
    client = await scene.client(slave_read_enable=True)
    await client.send()
    assert advised(client) == 0
    await scene.change()
    assert advised(client) == 1


@effect("offsetCheckInSlave", "true")
async def consumers_beyond_the_end(scene: Scene) -> None:
    client = await scene.client()
    await client.send()
    parts, store = client.broker.parts, client.broker.store
    reader = ReplicaReader(
        store, scene.clock, parts.data.offsets, parts.progress, parts.work_share, parts.catch_up,
        settings=client.broker.settings.view(lambda config: config), has_leader=lambda: True,
    )  # fmt: skip
    query = ReadQuery(GROUP, TOPIC, 0, 5, 32, 1 << 20, EVERYTHING, False)
    assert reader.read(query).code == ResponseCode.PULL_RETRY_IMMEDIATELY
    await scene.change()
    assert reader.read(query).code == ResponseCode.PULL_OFFSET_MOVED


# -- the walk -----------------------------------------------------------------------------------

CHANGEABLE = sorted(set(BrokerConfig.__struct_encode_fields__) - FIXED_KEYS)


def test_every_setting_that_is_not_fixed_is_shown_to_take_effect() -> None:
    assert sorted(EFFECTS) == CHANGEABLE


@pytest.mark.usefixtures("rare_rounds")
@pytest.mark.parametrize("key", CHANGEABLE)
async def test_a_change_at_run_time_takes_effect(
    stage: Stage,
    clock: VirtualClock,
    key: str,
    nameserver: CountingNameServer,
    caplog: pytest.LogCaptureFixture,
) -> None:
    value, show = EFFECTS[key]
    scene = Scene(stage, clock, key, value, nameserver, caplog)
    try:
        await show(scene)
    finally:
        await scene.close()
