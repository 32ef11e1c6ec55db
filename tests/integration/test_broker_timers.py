"""Timer messages: when they come, as what, how they are recalled, and what becomes of faults."""

from __future__ import annotations

import errno
import random
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
from support.brokers.broker_parts import TOPIC, Client, Refusal, Stage, send_request
from support.brokers.delay_parts import QUIET, SetClock, bodies, in_log, set_back
from support.peers.transport import until
from support.store.disks import FailingFiles
from support.store.stores import copy_of, damage

from pocketmq.broker.appending.stored_message import read_stored
from pocketmq.broker.delay.delivery import LOOK_AGAIN_MS_MAX, RETRY_MS
from pocketmq.broker.delay.timer_delivery import INDEXED_PER_TURN_MAX
from pocketmq.protocol.messages import properties as props
from pocketmq.protocol.messages.batch import BatchEntry, encode_batch
from pocketmq.protocol.messages.recall_handle import RecallHandle, parse_recall_handle
from pocketmq.protocol.names import names
from pocketmq.protocol.requests.sending import RecallMessageRequest, RecallMessageResponse
from pocketmq.testing.clock import START_MS

pytestmark = pytest.mark.usefixtures("checked")

DAY_S = 86_400
DAY_MS = 86_400_000


@pytest.fixture
def clock() -> SetClock:
    return SetClock()


def timer(deliver_ms: int | str, **more: str) -> str:
    """The properties of a message for a time."""
    return props.encode({props.TIMER_DELIVER_MS: str(deliver_ms), **more})


async def send_timer(
    client: Client, body: bytes, deliver_ms: int, key: str = "", queue_id: int = 0
) -> str:
    """Sends a message for a time; returns its recall handle."""
    key = key or f"KEY-{body.decode()}"
    properties = timer(deliver_ms, UNIQ_KEY=key)
    answer = await client.send(body, properties=properties, queue_id=queue_id)
    assert answer.recall_handle is not None
    return answer.recall_handle


async def recall(client: Client, handle: str, topic: str = TOPIC) -> str:
    """Recalls a message, which must be accepted."""
    request = RecallMessageRequest(producer_group="p", topic=topic, recall_handle=handle)
    return (await client.ask(request)).read(RecallMessageResponse).msg_id


async def recall_refusal(client: Client, handle: str, topic: str = TOPIC) -> Refusal:
    request = RecallMessageRequest(topic=topic, recall_handle=handle)
    return await client.refusal(request)


# -- delivery -----------------------------------------------------------------------------------


async def test_a_timer_message_waits_and_comes_with_rocketmq_s_properties(
    stage: Stage, clock: SetClock
) -> None:
    """The properties are those that a broker of RocketMQ 5.5.0 delivers."""
    client = await stage.started_with_topic(**QUIET)
    deliver_ms = START_MS + 5_123_456
    answer = await client.send(
        b"late", queue_id=2, flag=7,
        properties=timer(deliver_ms, TAGS="a", KEYS="k", UNIQ_KEY="U", TIMER_DEQUEUE_MS="1"),
    )  # fmt: skip
    assert (answer.queue_id, answer.queue_offset) == (2, 0), "the offset is the waiting place's"
    slot_ms = deliver_ms // 1000 * 1000
    assert answer.recall_handle is not None
    assert parse_recall_handle(answer.recall_handle) == RecallHandle(
        TOPIC, "broker-a", slot_ms + 1, "U"
    )
    (waiting,) = in_log(client.broker, names.TIMER_TOPIC)
    added = {"MSG_REGION": "DefaultRegion", "TRACE_ON": "true", "CLUSTER": "DefaultCluster"}
    assert waiting.properties == added | {
        "TAGS": "a", "KEYS": "k", "UNIQ_KEY": "U", "TIMER_DELIVER_MS": str(deliver_ms),
        "TIMER_OUT_MS": str(slot_ms), "REAL_TOPIC": TOPIC, "REAL_QID": "2",
    }  # fmt: skip
    await clock.advance(5120)
    held = await client.hold(queue_id=2)
    await clock.advance(3.455)
    assert not held.done(), "it came early"
    await clock.advance(0.001)
    await until(held.done)
    (message,) = held.result().messages
    assert (message.body, message.flag, message.topic, message.queue_id) == (b"late", 7, TOPIC, 2)
    assert message.store_timestamp == deliver_ms, "to the millisecond"
    assert (message.born_timestamp, message.born_host) == (
        waiting.born_timestamp,
        waiting.born_host,
    )
    assert message.properties == waiting.properties | {
        "TIMER_ENQUEUE_MS": str(START_MS), "TIMER_DEQUEUE_MS": str(deliver_ms),
    }  # fmt: skip
    assert message.prepared_transaction_offset == 0
    assert (await client.pull(queue_id=2, subscription="a")).bodies == [b"late"]


@pytest.mark.parametrize(
    ("properties", "delay_ms"),
    [
        ({"TIMER_DELAY_SEC": "3"}, 3000),
        ({"TIMER_DELAY_SEC": "+3"}, 3000),
        ({"TIMER_DELAY_MS": "2500"}, 2500),
        ({"TIMER_DELIVER_MS": str(START_MS + 1)}, 1),
        ({"TIMER_DELAY_SEC": "1", "TIMER_DELAY_MS": "9999", "TIMER_DELIVER_MS": "5"}, 1000),
        ({"TIMER_DELAY_MS": "20", "TIMER_DELIVER_MS": "x"}, 20),
    ],
)
async def test_the_first_property_counts(
    stage: Stage, clock: SetClock, properties: dict[str, str], delay_ms: int
) -> None:
    client = await stage.started_with_topic(**QUIET)
    await client.send(b"x", properties=props.encode(properties))
    await clock.advance((delay_ms - 1) / 1000)
    assert not bodies(client.broker)
    await clock.advance(0.001)
    (message,) = in_log(client.broker)
    assert message.store_timestamp == START_MS + delay_ms


@pytest.mark.parametrize(
    "properties",
    [
        {"TIMER_DELAY_SEC": "0"},
        {"TIMER_DELAY_SEC": "-5"},
        {"TIMER_DELAY_MS": "0"},
        {"TIMER_DELIVER_MS": str(START_MS)},
        {"TIMER_DELIVER_MS": "0"},
        {"TIMER_DELAY_SEC": "9", "TIMER_OUT_MS": "5"},
        {"MY_TIMER_DELAY_SEC": "9"},
    ],
)
async def test_what_is_due_already_is_stored_at_once(
    stage: Stage, properties: dict[str, str]
) -> None:
    client = await stage.started_with_topic(**QUIET)
    answer = await client.send(b"now", properties=props.encode(properties))
    assert answer.recall_handle is None
    (message,) = (await client.pull()).messages
    assert "REAL_TOPIC" not in message.properties
    assert message.properties.items() >= properties.items()


async def test_what_cannot_be_a_timer_is_refused(stage: Stage) -> None:
    client = await stage.started_with_topic(**QUIET)
    for given, reason in (
        ({"TIMER_DELAY_SEC": "x"}, "TIMER_DELAY_SEC is 'x'"),
        ({"TIMER_DELAY_SEC": " 1"}, "TIMER_DELAY_SEC is ' 1'"),
        ({"TIMER_DELAY_MS": "1_0"}, "TIMER_DELAY_MS"),
        ({"TIMER_DELIVER_MS": "9" * 30}, "TIMER_DELIVER_MS"),
        ({"TIMER_DELAY_SEC": "259201"}, "max delay 259200000ms"),
        ({"TIMER_DELIVER_MS": str(1 << 59)}, "max delay 259200000ms"),
        ({"TIMER_DELIVER_MS": "5", "TIMER_DEL_UNIQKEY": "K"}, "time that is not over"),
        ({"TIMER_DELAY_SEC": "3", "TRAN_MSG": "true"}, "TRAN_MSG"),
        ({"TIMER_DELAY_SEC": "3", "k": "v" * 32_600}, "limit is 32767"),
    ):
        refusal = await client.refusal(send_request(properties=props.encode(given)), b"x")
        assert refusal.code == 13
        assert reason in refusal.remark
    batch = encode_batch([BatchEntry(0, b"a", b""), BatchEntry(0, b"b", timer(START_MS).encode())])
    refusal = await client.refusal(send_request(batch=True), batch)
    assert (refusal.code, "one by one" in refusal.remark) == (13, True)
    assert not in_log(client.broker, names.TIMER_TOPIC)
    assert not bodies(client.broker)
    await client.send(properties="TIMER_DELAY_SEC\x01259200\x02")
    assert len(in_log(client.broker, names.TIMER_TOPIC)) == 1


async def test_settings_limit_timers(stage: Stage, clock: SetClock) -> None:
    client = await stage.started_with_topic(
        timer_max_delay_sec=400 * DAY_S, timer_congest_num_each_slot=10, **QUIET
    )
    await client.send(properties=timer(START_MS + 400 * DAY_MS))
    refused = 0
    for _ in range(60):
        answer = await client.call(send_request(properties=timer(START_MS + 77_500)), b"x")
        if answer.code:
            assert (answer.code, "timerCongestNumEachSlot" in (answer.remark or "")) == (1, True)
            refused += 1
    waiting = 60 - refused
    assert 11 <= waiting <= 20, "from the limit to twice the limit"
    await client.send(properties=timer(START_MS + 78_001))
    await clock.advance(80)
    assert len(bodies(client.broker)) == waiting + 1
    await client.send(properties=timer(clock.now_ms() + 500))
    await client.broker.close()
    client = await stage.start(timer_wheel_enable=False, **QUIET)
    refusal = await client.refusal(send_request(properties=timer(clock.now_ms() + 9)), b"x")
    assert (refusal.code, "timerWheelEnable" in refusal.remark) == (1, True)
    await clock.advance(1)
    assert len(bodies(client.broker)) == waiting + 2, "what waits is delivered anyway"


@pytest.mark.usefixtures("rare_rounds")
async def test_timers_of_hours_come_in_order_over_restarts_and_kills(
    stage: Stage, clock: SetClock, tmp_path: Path, chance: random.Random
) -> None:
    """Ten hours of 300 timers: a clean restart repeats nothing, a kill loses nothing."""
    settings = QUIET | {"file_reserved_time": 24 * 365}
    client = await stage.started_with_topic(queues=1, **settings)
    due: dict[bytes, int] = {}
    copies: list[tuple[Path, int]] = []

    async def send_some(count: int) -> None:
        for _ in range(count):
            body = b"%d" % len(due)
            due[body] = clock.now_ms() + round(10 ** chance.uniform(1, 7.55))
            await send_timer(client, body, due[body])

    for number in range(5):
        await send_some(60)
        await clock.advance(10 ** chance.uniform(2, 4))
        if number % 2:
            await client.broker.close()
            client = await stage.start(**settings)
        else:
            client.broker.parts.schedule.save()
            await clock.advance(10 ** chance.uniform(2, 4))  # done, but not written down
            copies.append((copy_of(tmp_path / "store", f"killed-{number}"), len(due)))
    await clock.advance(10 * 3600)
    found = in_log(client.broker)
    assert sorted(m.body for m in found) == sorted(due), "each of them, once"
    stopped = {m.body for m in found if m.store_timestamp != due[m.body]}
    assert all(m.store_timestamp >= due[m.body] for m in found), "never early"
    assert not stopped, "the broker was never down"
    order = [(due[m.body], int(m.body)) for m in found]
    assert order == sorted(order)
    for directory, count in copies:
        killed = await stage.start(store_path_root_dir=str(directory), **settings)
        # All of them were due long ago.
        index = killed.broker.parts.schedule.timers.delivery.index
        await until(lambda: {int(b) for b in bodies(killed.broker)} == set(range(count)))  # noqa: B023
        await until(lambda: len(index) == 0)  # noqa: B023
        assert len(in_log(killed.broker)) < 2 * count
        await killed.broker.close()


@pytest.mark.usefixtures("rare_rounds")
async def test_more_timers_than_a_turn_handles(stage: Stage, clock: SetClock) -> None:
    """As many as several turns index, split and deliver, over a restart too."""
    client = await stage.started_with_topic(queues=1, **QUIET)
    count = INDEXED_PER_TURN_MAX + 500
    queue_log = client.broker.store.queue_log(names.TIMER_TOPIC, 0)
    await client.send(b"x", properties=timer(START_MS + DAY_MS))
    record, _, _ = queue_log.read(0, 1, 1)
    message = read_stored(record)
    store = client.broker.store
    for index in range(1, count):
        deliver_ms = START_MS + DAY_MS + index % 3
        copy = message._replace(body=b"%d" % index)
        copied = copy.record_for(queue_log, store.store_time(queue_log), deliver_ms)
        queue_log.append(copied, deliver_ms, None)
    store.schedule_commit(queue_log)
    await client.broker.close()
    client = await stage.start(**QUIET)
    await clock.advance(DAY_S - 0.001)
    assert not bodies(client.broker)
    await clock.advance(0.01)
    await until(lambda: client.broker.store.queue_log(TOPIC, 0).end_offset == count)
    assert len(set(bodies(client.broker))) == count


# -- recall -------------------------------------------------------------------------------------


async def test_a_recalled_message_is_never_delivered(stage: Stage, clock: SetClock) -> None:
    client = await stage.started_with_topic(**QUIET)
    handles = {
        name: await send_timer(client, name.encode(), START_MS + due_ms)
        for name, due_ms in (("a", 5000), ("b", 5001), ("c", 5500), ("d", 6000), ("e", 6001))
    }
    assert await recall(client, handles["c"]) == "KEY-c"
    assert await recall(client, handles["a"]) == "KEY-a"
    assert await recall(client, handles["a"]) == "KEY-a", "again, as on RocketMQ"
    await clock.advance(5)  # the slot of the others has just begun
    assert await recall(client, handles["d"]) == "KEY-d"
    await clock.advance(0.1)
    late = await recall_refusal(client, handles["b"])
    assert (late.code, "timestamp invalid" in late.remark) == (604, True)
    await clock.advance(10)
    assert bodies(client.broker) == [b"b", b"e"]
    delivery = client.broker.parts.schedule.timers.delivery
    assert len(delivery.index) == 0, "recalls do not stay either"
    await client.broker.close()
    client = await stage.start(**QUIET)
    await clock.advance(100)
    assert bodies(client.broker) == [b"b", b"e"]


async def test_a_recall_survives_restarts_and_kills(
    stage: Stage, clock: SetClock, tmp_path: Path
) -> None:
    client = await stage.started_with_topic(**QUIET)
    for index in range(6):
        due_ms = START_MS + 3_600_000 + index * 400
        handle = await send_timer(client, b"%d" % index, due_ms)
        if index % 2:
            await recall(client, handle)
    early = copy_of(tmp_path / "store", "killed-early")
    await clock.advance(3600.9)
    middle = copy_of(tmp_path / "store", "killed-in-the-slot")
    await client.broker.close()
    for directory in (tmp_path / "store", early, middle):
        client = await stage.start(store_path_root_dir=str(directory), **QUIET)
        await clock.advance(10)
        assert set(bodies(client.broker)) == {b"0", b"2", b"4"}
        await client.broker.close()


async def test_a_recall_means_one_message_of_one_topic_and_slot(
    stage: Stage, clock: SetClock
) -> None:
    client = await stage.started_with_topic(**QUIET)
    await client.create_topic("Other")
    await send_timer(client, b"kept", START_MS + 9000, key="K")
    await recall(client, RecallHandle("Other", "broker-a", START_MS + 8001, "K").encode(), "Other")
    await recall(client, RecallHandle(TOPIC, "broker-a", START_MS + 5001, "K").encode())
    await recall(client, RecallHandle(TOPIC, "broker-a", START_MS + 8001, "KK").encode())
    await clock.advance(20)
    assert bodies(client.broker) == [b"kept"]
    assert not bodies(client.broker, "Other")


async def test_recalls_are_refused_as_by_rocketmq(stage: Stage, clock: SetClock) -> None:
    client = await stage.started_with_topic(**QUIET)
    good = RecallHandle(TOPIC, "broker-a", START_MS + 5000, "K")
    for handle, topic, code, reason in (
        ("nonsense", TOPIC, 604, "recall handle is invalid"),
        ("", TOPIC, 604, "recall handle is invalid"),
        (good._replace(topic="T2").encode(), TOPIC, 604, "topic not match"),
        (good._replace(broker_name="b").encode(), TOPIC, 604, "broker service not available"),
        (good._replace(timestamp_ms=START_MS).encode(), TOPIC, 604, "timestamp invalid"),
        (good._replace(timestamp_ms=-1).encode(), TOPIC, 604, "timestamp invalid"),
        (good._replace(timestamp_ms=START_MS + 3 * DAY_MS).encode(), TOPIC, 604, "timestamp"),
        (good._replace(unique_key="K\x01").encode(), TOPIC, 604, "recall handle is invalid"),
        (good._replace(topic="No").encode(), "No", 17, "topic[No] not exist"),
    ):
        refusal = await recall_refusal(client, handle, topic)
        assert refusal.code == code, handle
        assert reason in refusal.remark
    assert not in_log(client.broker, names.TIMER_TOPIC)
    for settings, code in (
        ({"recall_message_enable": False}, 16),
        ({"broker_permission": 4, "allow_recall_when_broker_not_writeable": False}, 14),
        ({"timer_wheel_enable": False}, 1),
    ):
        await client.broker.close()
        client = await stage.start(**QUIET, **settings)
        assert (await recall_refusal(client, good.encode())).code == code
    await client.broker.close()
    client = await stage.start(broker_permission=4, **QUIET)
    assert await recall(client, good.encode()) == "K"


async def test_retries_have_no_recall_handle(stage: Stage) -> None:
    client = await stage.started_with_topic(**QUIET)
    await client.heartbeat()
    topic = names.retry_topic("group-a")
    answer = await client.send(topic=topic, properties=timer(START_MS + 5000))
    assert answer.recall_handle is None
    assert len(in_log(client.broker, names.TIMER_TOPIC)) == 1


# -- faults and the clock -----------------------------------------------------------------------


async def test_a_failed_recall_changes_nothing(
    stage: Stage, clock: SetClock, tmp_path: Path
) -> None:
    files = FailingFiles()
    client = await stage.started_with_topic(files=files, **QUIET)
    handle = await send_timer(client, b"x", START_MS + 5000)
    files.fail_after(0, errno.EIO)
    refusal = await recall_refusal(client, handle)
    assert refusal.code == 1
    await clock.advance(6)
    assert bodies(client.broker) == [b"x"]


async def test_a_full_disk_holds_timers_up_and_they_come_later(
    stage: Stage, clock: SetClock
) -> None:
    client = await stage.started_with_topic(**QUIET)
    await send_timer(client, b"x", START_MS + 1000)
    client.broker.store.disk.failed_reason = "full"
    await clock.advance(5)
    assert not bodies(client.broker)
    client.broker.store.disk.failed_reason = None
    await clock.advance(RETRY_MS / 1000)
    assert bodies(client.broker) == [b"x"]
    due_ms = clock.now_ms() + 100
    await send_timer(client, b"y", due_ms)
    await clock.advance(0.1)
    assert in_log(client.broker)[1].store_timestamp == due_ms


async def test_a_damaged_timer_or_recall_holds_the_others_up_for_a_moment(
    tmp_path: Path, clock: SetClock, seed: int
) -> None:
    async with Stage(tmp_path, clock, seed) as stage:
        client = await stage.started_with_topic(queues=1, **QUIET)
        handles = [
            await send_timer(client, b"body-%d" % index, START_MS + 5000 + index)
            for index in range(4)
        ]
        await recall(client, handles[3])
        path = client.broker.store.queue_log(names.TIMER_TOPIC, 0).segments[0].log_path
        sound = path.read_bytes()
        damage(path, sound.index(b"body-1"))
        damage(path, sound.rindex(b"0\x13rmq_sys_wheel_timer"))
        await clock.advance(10)
        assert bodies(client.broker) == [b"body-0", b"body-2", b"body-3"], "it cannot be read"
        assert client.broker.parts.schedule.timers.delivery.durable_offset <= 1, (
            "and is not given up"
        )
        path.write_bytes(sound)
        await clock.advance(LOOK_AGAIN_MS_MAX / 1000)
        assert bodies(client.broker) == [b"body-0", b"body-2", b"body-3", b"body-1"]
        await clock.advance(LOOK_AGAIN_MS_MAX / 1000)
        assert len(client.broker.parts.schedule.timers.delivery.index) == 0


@pytest.mark.usefixtures("rare_rounds")
async def test_jumps_of_the_clock(stage: Stage, clock: SetClock) -> None:
    client = await stage.started_with_topic(queues=1, **QUIET)
    await send_timer(client, b"day", START_MS + DAY_MS)
    await send_timer(client, b"hour", START_MS + 3_600_000)
    set_back(clock, -2 * 3600)  # forward
    await clock.advance(LOOK_AGAIN_MS_MAX / 1000)
    assert bodies(client.broker) == [b"hour"]
    set_back(clock, 3 * 3600)
    due_ms = clock.now_ms() + 1500
    await send_timer(client, b"soon", due_ms)
    await clock.advance(1.499)
    assert bodies(client.broker) == [b"hour"]
    await clock.advance(0.001)
    assert bodies(client.broker) == [b"hour", b"soon"], "although a later time was seen already"
    await client.broker.close()
    client = await stage.start(**QUIET)
    await clock.advance(3600)
    assert bodies(client.broker) == [b"hour", b"soon"], "nothing comes twice"
    await clock.advance(DAY_S)
    assert bodies(client.broker) == [b"hour", b"soon", b"day"]


@pytest.mark.usefixtures("rare_rounds")
async def test_retention_leaves_timers_that_wait(stage: Stage, clock: SetClock) -> None:
    settings = QUIET | {"clean_resource_interval": 60_000, "flush_interval_commit_log": 30_000}
    client = await stage.started_with_topic(file_reserved_time=1, **settings)
    await send_timer(client, b"patient", START_MS + 4 * 3_600_000)
    await send_timer(client, b"soon", START_MS + 1000)
    await clock.advance(3.9 * 3600)
    assert len(in_log(client.broker, names.TIMER_TOPIC)) == 2
    await clock.advance(0.2 * 3600)
    assert bodies(client.broker) == [b"patient"]
    await clock.advance(2 * 3600)
    assert not in_log(client.broker, names.TIMER_TOPIC), "and removes what is delivered"


async def test_a_power_cut_that_takes_timers_from_the_log_hides_no_later_ones(
    stage: Stage, clock: SetClock, tmp_path: Path
) -> None:
    """Offsets that were delivered are given to other messages after the log lost them."""
    client = await stage.started_with_topic(**QUIET)
    for index in range(3):
        await send_timer(client, b"%d" % index, START_MS + 1000)
    await clock.advance(2)
    await client.broker.store.checkpoint()
    client.broker.parts.schedule.save()
    killed = copy_of(tmp_path / "store", "cut")
    for path in killed.glob(f"queues/{names.TIMER_TOPIC}/0/*"):
        path.unlink()
    with closing(sqlite3.connect(killed / "meta.db")) as metadata:  # as if it was never synced
        metadata.execute(
            "UPDATE queue_logs SET position = 0, offset = 0 WHERE topic = ?", (names.TIMER_TOPIC,)
        )
        metadata.commit()
    again = await stage.start(store_path_root_dir=str(killed), **QUIET)
    await send_timer(again, b"new", clock.now_ms() + 3_600_000)
    second = copy_of(killed, "second")
    await again.broker.close()
    third = await stage.start(store_path_root_dir=str(second), **QUIET)
    await clock.advance(3600)
    await until(lambda: b"new" in bodies(third.broker))


async def test_idle_timers_cost_no_timer_and_no_file(stage: Stage, clock: SetClock) -> None:
    client = await stage.started_with_topic(**QUIET)
    await clock.advance(0.1)  # the watch of the loop has its own timer while something happens
    before = clock.pending_timers
    await client.send(properties=timer(START_MS - 1))
    await clock.advance(0.1)
    assert clock.pending_timers == before
    await send_timer(client, b"x", START_MS + 1000)
    await clock.advance(0.1)
    assert clock.pending_timers == before + 1
    await clock.advance(5)
    assert clock.pending_timers == before


async def test_nobody_else_writes_to_the_timer_log(stage: Stage) -> None:
    client = await stage.started_with_topic(**QUIET)
    refusal = await client.refusal(send_request(topic=names.TIMER_TOPIC), b"x")
    assert (refusal.code, "is forbidden" in refusal.remark) == (16, True)
