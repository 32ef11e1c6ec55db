"""Delayed messages: when they come, as what, and what becomes of them when anything fails."""

from __future__ import annotations

import errno
import os
import random
from pathlib import Path

import pytest
from support.brokers.broker_parts import TOPIC, Stage, pull_request, send_request
from support.brokers.delay_parts import QUIET, SetClock, bodies, in_log, set_back
from support.peers.transport import until
from support.store.disks import FailingFiles
from support.store.stores import abandon, copy_of

from pocketmq.broker.delay.delivery import LOOK_AGAIN_MS_MAX, RETRY_MS
from pocketmq.broker.store.mending.check import check_directory
from pocketmq.broker.store.settings import StoreSettings
from pocketmq.broker.store.store import MessageStore
from pocketmq.protocol.messages import properties as props
from pocketmq.protocol.messages.batch import BatchEntry, encode_batch
from pocketmq.protocol.names import names
from pocketmq.protocol.requests.topics import DeleteTopicRequest
from pocketmq.testing.clock import START_MS

pytestmark = pytest.mark.usefixtures("checked")


@pytest.fixture
def clock() -> SetClock:
    return SetClock()


def delayed(level: int | str, **more: str) -> str:
    """The properties of a delayed message."""
    return props.encode({props.DELAY: str(level), **more})


async def test_a_delayed_message_waits_and_comes_as_it_was_sent(
    stage: Stage, clock: SetClock
) -> None:
    client = await stage.started_with_topic(**QUIET)
    answer = await client.send(
        b"late", queue_id=2, flag=7, properties=delayed(2, TAGS="a", KEYS="k", UNIQ_KEY="U")
    )
    assert (answer.queue_id, answer.queue_offset) == (2, 0), "the offset is the waiting place's"
    (waiting,) = in_log(client.broker, names.SCHEDULE_TOPIC, 1)
    assert waiting.offset_msg_id == answer.msg_id
    held = await client.hold(queue_id=2)
    await clock.advance(4.998)
    assert not held.done(), "it came early"
    await clock.advance(0.004)
    await until(held.done)
    (message,) = held.result().messages
    assert (message.body, message.flag, message.topic, message.queue_id) == (b"late", 7, TOPIC, 2)
    assert message.store_timestamp == waiting.store_timestamp + 5000, "to the millisecond"
    assert message.born_timestamp == waiting.born_timestamp == 1_699_999_999_000
    assert message.born_host == waiting.born_host
    assert message.properties == waiting.properties
    assert message.properties == {
        "DELAY": "2", "TAGS": "a", "KEYS": "k", "UNIQ_KEY": "U", "REAL_TOPIC": TOPIC,
        "REAL_QID": "2", "MSG_REGION": "DefaultRegion", "TRACE_ON": "true",
        "CLUSTER": "DefaultCluster",
    }  # fmt: skip
    assert (await client.pull(queue_id=2, subscription="a")).bodies == [b"late"]
    assert not (await client.pull(queue_id=2, subscription="b")).messages
    await clock.advance(60)
    assert bodies(client.broker, queue_id=2) == [b"late"], "once"


@pytest.mark.usefixtures("rare_rounds")
async def test_every_level_keeps_its_time_and_too_high_ones_are_the_last(
    stage: Stage, clock: SetClock
) -> None:
    client = await stage.started_with_topic(**QUIET)
    levels = list(range(1, 21))
    random.Random(stage.seed).shuffle(levels)
    for level in levels:
        await client.send(str(level).encode(), properties=delayed(level))
    for seconds in (0.9, 1, 3, 5, 20, 30, *(60,) * 9, 600, 600, 1800, 3598):
        await clock.advance(seconds)
    before_last = bodies(client.broker)
    assert before_last == [str(level).encode() for level in range(1, 18)]
    await clock.advance(3)
    assert set(bodies(client.broker)[17:]) == {b"18", b"19", b"20"}
    times = [m.store_timestamp - START_MS for m in in_log(client.broker)]
    assert times[:5] == [1000, 5000, 10_000, 30_000, 60_000]
    assert times[-4:] == [3_600_000, 7_200_000, 7_200_000, 7_200_000]
    assert {m.properties["DELAY"] for m in in_log(client.broker)[17:]} == {"18"}


@pytest.mark.parametrize("level", ["0", "-1"])
async def test_no_level_is_no_delay(stage: Stage, level: str) -> None:
    client = await stage.started_with_topic()
    await client.send(b"now", properties=delayed(level))
    (message,) = (await client.pull()).messages
    assert "REAL_TOPIC" not in message.properties


async def test_what_cannot_be_delayed_is_refused(stage: Stage) -> None:
    client = await stage.started_with_topic()
    for properties, code, reason in (
        (delayed("soon"), 13, "'soon'"),
        (delayed(3) + "k\x01" + "v" * 32_700 + "\x02", 13, "limit is 32767"),
        (delayed(3, TRAN_MSG="true"), 13, "TRAN_MSG"),
    ):
        refusal = await client.refusal(send_request(properties=properties), b"x")
        assert refusal.code == code
        assert reason in refusal.remark
    batch = encode_batch([BatchEntry(0, b"a", b""), BatchEntry(0, b"b", delayed(1).encode())])
    refusal = await client.refusal(send_request(batch=True), batch)
    assert (refusal.code, "one by one" in refusal.remark) == (13, True)
    assert not bodies(client.broker, names.SCHEDULE_TOPIC, 2)


async def test_a_level_wins_over_timers(stage: Stage) -> None:
    client = await stage.started_with_topic()
    await client.send(properties=delayed(1, TIMER_DELAY_SEC="9", TIMER_DELIVER_MS="9", a="b"))
    (waiting,) = in_log(client.broker, names.SCHEDULE_TOPIC)
    assert not set(props.TIMER_PROPERTIES) & waiting.properties.keys()
    assert waiting.properties["a"] == "b"


async def test_a_thousand_due_at_once_come_in_order(stage: Stage, clock: SetClock) -> None:
    client = await stage.started_with_topic(queues=1, **QUIET)
    sent = [b"%d" % index for index in range(1000)]
    for body in sent:
        await client.send(body, properties=delayed(1))
    await clock.advance(0.998)
    assert not bodies(client.broker)
    await clock.advance(0.004)
    await until(lambda: len(bodies(client.broker)) == 1000)  # turns of the loop, not time
    assert bodies(client.broker) == sent
    # Some turns came after the clock had gone on to the end of `advance`.
    assert {m.store_timestamp - START_MS for m in in_log(client.broker)} <= {1000, 1001, 1002}


async def test_large_messages_are_delivered_a_few_a_turn(stage: Stage, clock: SetClock) -> None:
    client = await stage.started_with_topic(**QUIET)
    for index in range(5):
        await client.send(bytes((index,)) * 2_000_000, properties=delayed(1))
    await clock.advance(1.01)
    assert [body[0] for body in bodies(client.broker)] == list(range(5))


async def test_a_restart_in_the_middle_delivers_the_rest_and_nothing_twice(
    stage: Stage, clock: SetClock
) -> None:
    client = await stage.started_with_topic(**QUIET)
    for index in range(10):
        await client.send(b"%d" % index, properties=delayed(2))
        await clock.advance(1)
    assert bodies(client.broker) == [b"0", b"1", b"2", b"3", b"4", b"5"]
    await client.broker.close()
    await clock.advance(1.5)  # nobody delivers meanwhile
    client = await stage.start(**QUIET)
    await until(lambda: len(bodies(client.broker)) == 7)
    await clock.advance(60)
    assert bodies(client.broker) == [b"%d" % index for index in range(10)]
    await client.broker.close()
    client = await stage.start(**QUIET)
    await clock.advance(60)
    assert len(bodies(client.broker)) == 10


async def test_after_a_kill_everything_comes_at_least_once_and_never_early(
    stage: Stage, clock: SetClock, tmp_path: Path
) -> None:
    """The directory is copied at chosen moments, as a kill leaves it, and opened again."""
    client = await stage.started_with_topic(flush_delay_offset_interval=3000)
    sent = []
    copies = []
    for index in range(20):
        sent.append(b"%d" % index)
        await client.send(sent[-1], properties=delayed(2))
        if index % 4 == 3:
            copies.append((copy_of(tmp_path / "store", f"killed-{index}"), index + 1))
        await clock.advance(0.7)
    for directory, count in copies:
        killed = await stage.start(store_path_root_dir=str(directory), **QUIET)
        await clock.advance(10)
        found = in_log(killed.broker)
        assert {m.body for m in found} == set(sent[:count])
        assert len(found) <= 2 * count
        stored = {m.body: m.store_timestamp for m in in_log(killed.broker, names.SCHEDULE_TOPIC, 1)}
        assert all(m.store_timestamp >= stored[m.body] + 5000 for m in found)
        await killed.broker.close()


async def test_the_index_is_made_again_with_the_deliver_times(
    tmp_path: Path, stage: Stage, clock: SetClock
) -> None:
    client = await stage.started_with_topic(message_delay_level="7s 1m", **QUIET)
    for index in range(3):
        await client.send(b"%d" % index, properties=delayed(1, TAGS="a"))
        await clock.advance(1)
    await client.broker.close()
    directory = tmp_path / "store"
    index_path = next(directory.glob(f"queues/{names.SCHEDULE_TOPIC}/0/*.idx"))
    before = index_path.read_bytes()
    index_path.unlink()
    # Other levels than those of the messages: what was promised once is kept.
    client = await stage.start(message_delay_level="1s", **QUIET)
    await clock.advance(3.9)
    assert not bodies(client.broker)
    assert index_path.read_bytes() == before
    await clock.advance(0.2)
    assert bodies(client.broker) == [b"0"]
    await clock.advance(3)
    assert bodies(client.broker) == [b"0", b"1", b"2"]


async def test_levels_that_are_gone_still_deliver(stage: Stage, clock: SetClock) -> None:
    client = await stage.started_with_topic(**QUIET)
    await client.send(b"old", properties=delayed(18))
    await client.broker.close()
    client = await stage.start(message_delay_level="1s 2s", **QUIET)
    await client.send(b"new", properties=delayed(18))
    await clock.advance(3)
    assert bodies(client.broker) == [b"new"]
    await clock.advance(7200)
    assert bodies(client.broker) == [b"new", b"old"]
    assert in_log(client.broker)[1].store_timestamp == START_MS + 7_200_000


async def test_a_topic_deleted_meanwhile_takes_its_messages_with_it(
    stage: Stage, clock: SetClock
) -> None:
    client = await stage.started_with_topic(**QUIET)
    await client.create_topic("Other")
    for topic in (TOPIC, "Other", TOPIC, "Other"):
        await client.send(topic.encode(), topic=topic, properties=delayed(1))
    await client.ask(DeleteTopicRequest(topic=TOPIC))
    await clock.advance(2)
    assert bodies(client.broker, "Other") == [b"Other", b"Other"]
    assert TOPIC not in client.broker.topics
    assert client.broker.store.find_log(TOPIC, 0) is None


async def test_a_topic_that_shrank_takes_its_messages_into_other_queues(
    stage: Stage, clock: SetClock
) -> None:
    client = await stage.started_with_topic(queues=4, **QUIET)
    await client.send(b"x", queue_id=3, properties=delayed(1))
    await client.create_topic(TOPIC, 2, 2)
    await clock.advance(2)
    assert (await client.pull(queue_id=1)).bodies == [b"x"]


async def test_while_the_disk_takes_nothing_the_messages_wait(
    stage: Stage, clock: SetClock
) -> None:
    files = FailingFiles()
    client = await stage.started_with_topic(files=files, **QUIET)
    await client.create_topic("Other")
    for index in range(6):
        topic = (TOPIC, "Other")[index % 2]
        await client.send(b"%d" % index, topic=topic, properties=delayed(1))
    files.fail_after(3, errno.EIO)  # the first topic's segment is begun, the second's is not
    await clock.advance(1.002)
    assert bodies(client.broker) + bodies(client.broker, "Other") in (
        [b"0", b"2", b"4"], [b"1", b"3", b"5"], [],
    )  # fmt: skip
    files.heal()
    await clock.advance(RETRY_MS / 1000 + 0.1)
    assert bodies(client.broker) == [b"0", b"2", b"4"], "none twice, and in order"
    assert bodies(client.broker, "Other") == [b"1", b"3", b"5"]


async def test_while_the_store_refuses_writes_nothing_is_lost(
    stage: Stage, clock: SetClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    client = await stage.started_with_topic(**QUIET)
    await client.send(b"x", properties=delayed(1))
    disk = client.broker.store.disk
    disk.refuse(os.strerror(errno.ENOSPC))
    await clock.advance(8)
    assert not bodies(client.broker)
    disk.full_reason = None
    await clock.advance(RETRY_MS / 1000 + 0.1)
    assert bodies(client.broker) == [b"x"]


# -- the clock ----------------------------------------------------------------------------------


async def test_a_clock_set_forward_is_noticed(stage: Stage, clock: SetClock) -> None:
    client = await stage.started_with_topic(**QUIET)
    await client.send(b"x", properties=delayed(18))
    await clock.advance(60)
    clock.set_by_ms += 7_200_000
    await clock.advance(LOOK_AGAIN_MS_MAX / 1000)
    assert bodies(client.broker) == [b"x"]


@pytest.mark.parametrize("with_restart", [False, True])
async def test_a_clock_set_back_delivers_after_a_whole_delay(
    stage: Stage, clock: SetClock, with_restart: bool
) -> None:
    client = await stage.started_with_topic(**QUIET)
    for index in range(3):
        await client.send(b"old %d" % index, properties=delayed(4))
        await clock.advance(2)
    set_back(clock, 3600)
    if with_restart:
        await client.broker.close()
        client = await stage.start(**QUIET)
    await client.send(b"new", properties=delayed(4))
    await clock.advance(23.9)
    assert not bodies(client.broker), "30 s have not passed since any was sent"
    await clock.advance(6.2)
    assert bodies(client.broker) == [b"old 0", b"old 1", b"old 2", b"new"]
    await client.send(b"newer", properties=delayed(4))
    await clock.advance(29.9)
    assert len(bodies(client.broker)) == 4
    await clock.advance(0.2)
    assert bodies(client.broker)[-1] == b"newer"


# -- what is kept -------------------------------------------------------------------------------


@pytest.mark.usefixtures("rare_rounds")
async def test_retention_leaves_what_is_not_delivered_yet(stage: Stage, clock: SetClock) -> None:
    settings = QUIET | {"clean_resource_interval": 60_000, "flush_interval_commit_log": 30_000}
    client = await stage.started_with_topic(
        file_reserved_time=1, message_delay_level="1s 4h", **settings
    )
    await client.send(b"patient", properties=delayed(2))
    await clock.advance(3.9 * 3600)
    await clock.advance(0.2 * 3600)
    assert bodies(client.broker) == [b"patient"]
    await clock.advance(2 * 3600)
    assert not in_log(client.broker, names.SCHEDULE_TOPIC, 1), "and removes what is"


async def test_a_power_cut_after_a_delivery_cannot_lose_the_copy(
    stage: Stage, clock: SetClock, tmp_path: Path
) -> None:
    client = await stage.started_with_topic(**QUIET)
    await client.send(b"x", properties=delayed(1))
    await client.broker.store.checkpoint()
    await clock.advance(1.1)
    assert bodies(client.broker) == [b"x"]
    client.broker.parts.schedule.save()
    killed = copy_of(tmp_path / "store", "cut")
    for path in killed.glob(f"queues/{TOPIC}/0/*"):
        path.unlink()  # the copy was only in the system's memory
    again = await stage.start(store_path_root_dir=str(killed), **QUIET)
    await until(lambda: bodies(again.broker) == [b"x"])


async def test_idle_levels_cost_no_timer_and_no_file(stage: Stage, clock: SetClock) -> None:
    client = await stage.started_with_topic(**QUIET)
    await client.send()
    await clock.advance(0.1)  # the watch of the loop rests when nothing happens
    before = clock.pending_timers
    await client.send(b"x", properties=delayed(1))
    await clock.advance(0.1)
    assert clock.pending_timers == before + 1
    await clock.advance(5)
    assert clock.pending_timers == before
    assert client.broker.store.queue_ids(names.SCHEDULE_TOPIC) == [0]
    assert (await client.call(pull_request(topic="nowhere"))).code == 17


async def test_a_store_that_was_abandoned_is_checked_by_the_same_rule(
    tmp_path: Path, clock: SetClock
) -> None:
    async with Stage(tmp_path / "stage", clock, 1) as stage:
        client = await stage.started_with_topic(**QUIET)
        for level in range(1, 19):
            await client.send(b"x", properties=delayed(level, TAGS="t"))
        killed = copy_of(tmp_path / "stage" / "store", "killed")
    store = MessageStore(killed, StoreSettings(disk_free_min=0), clock)
    abandon(store)
    report = check_directory(killed)
    assert (report.records, report.problems) == (18, [])
