"""Messages that a group could not handle: sent back, handed out again later, given up."""

from __future__ import annotations

import asyncio
import errno
from pathlib import Path
from typing import Any

import pytest
from support.brokers.broker_parts import (
    GROUP,
    TIMEOUT_MS,
    TOPIC,
    Client,
    Pulled,
    Refusal,
    Stage,
    send_request,
)
from support.peers.transport import until
from support.store.disks import FailingFiles, SlowFiles
from support.store.stores import copy_of

from pocketmq.protocol.bodies.clients import GroupConfig
from pocketmq.protocol.codes import Version
from pocketmq.protocol.messages import properties as props
from pocketmq.protocol.messages.batch import BatchEntry, encode_batch
from pocketmq.protocol.messages.message import ReceivedMessage
from pocketmq.protocol.names.names import SCHEDULE_TOPIC, dlq_topic, retry_topic
from pocketmq.protocol.requests.consuming import ConsumerSendMsgBackRequest
from pocketmq.protocol.requests.sending import SendMessageV2Request
from pocketmq.protocol.requests.topics import (
    CreateTopicRequest,
    DeleteTopicRequest,
    UpdateGroupRequest,
)
from pocketmq.protocol.wire.command import Command
from pocketmq.testing.clock import VirtualClock, settle

pytestmark = pytest.mark.usefixtures("checked")

RETRY, DEAD = retry_topic(GROUP), dlq_topic(GROUP)

QUIET: dict[str, Any] = {
    "connection_idle_timeout": 86_400_000,
    "flush_interval_commit_log": 600_000,
    "flush_delay_offset_interval": 600_000,
    "flush_consumer_offset_interval": 600_000,
    "clean_resource_interval": 3_600_000,
}
"""Settings with which little happens by itself, so that hours pass quickly."""

LADDER_S = (10, 30, *(60 * minutes for minutes in (*range(1, 11), 20, 30)), 3600, 7200)
"""What RocketMQ's consumers wait before each of the 16 repetitions."""


def back(message: ReceivedMessage, **fields: Any) -> ConsumerSendMsgBackRequest:
    """Sends a message back and lets the broker choose the delay, but for the fields given."""
    given: dict[str, Any] = {
        "offset": message.physical_offset, "group": GROUP, "delay_level": 0,
        "origin_msg_id": message.offset_msg_id, "origin_topic": message.topic,
        "max_reconsume_times": 16, "unit_mode": False,
    }  # fmt: skip
    return ConsumerSendMsgBackRequest(**(given | fields))


async def sent(client: Client, **fields: Any) -> ReceivedMessage:
    """A message as a consumer gets it that is to fail with it."""
    given = {"properties": props.encode({"TAGS": "a", "KEYS": "k", "UNIQ_KEY": "U", "x": "y"})}
    await client.send(b"body", flag=3, **(given | fields))
    return (await client.pull()).messages[0]


async def as_old_client(client: Client, request: Any, body: bytes = b"") -> Command:
    """The answer to a client of before 3.4.9."""
    connection = await client.pool.get(client.broker.address)
    command = Command(request.code, header=request, body=body, version=Version.V3_4_9 - 1)
    return await connection.call(command, TIMEOUT_MS)


@pytest.mark.usefixtures("rare_rounds")
async def test_the_whole_ladder_to_the_dead_letters(stage: Stage, clock: VirtualClock) -> None:
    client = await stage.started_with_topic(**QUIET)
    first = message = await sent(client)
    for times, seconds in enumerate(LADDER_S, 1):
        await client.ask(back(message))
        sent_ms = clock.now_ms()
        await clock.advance(seconds - 0.002)
        assert not (await client.pull(times - 1, topic=RETRY)).messages, f"{seconds} s: early"
        await clock.advance(0.004)
        (message,) = (await client.pull(times - 1, topic=RETRY)).messages
        assert message.store_timestamp - sent_ms == seconds * 1000
        assert message.reconsume_times == times
        assert (message.body, message.flag, message.topic) == (b"body", 3, RETRY)
        assert message.properties == first.properties | {
            "RETRY_TOPIC": TOPIC,
            "ORIGIN_MESSAGE_ID": first.offset_msg_id,
            "WAIT": "false",
            "DELAY": str(2 + times),
            "REAL_TOPIC": RETRY,
            "REAL_QID": "0",
        }
        assert message.born_timestamp == first.born_timestamp
        assert message.born_host == first.born_host
    assert DEAD not in client.broker.topics
    await client.ask(back(message))
    (dead,) = (await client.pull(topic=DEAD)).messages
    assert (dead.body, dead.reconsume_times, dead.tags, dead.keys) == (b"body", 17, "a", ("k",))
    assert dead.properties == message.properties | {"DELAY": "0"}
    topic = client.broker.topics.get(DEAD)
    assert topic is not None
    assert (topic.read_queue_nums, topic.write_queue_nums, topic.perm) == (1, 1, 6)
    await clock.advance(8000)
    assert await client.max_offset(topic=RETRY) == 16
    assert await client.max_offset(topic=DEAD) == 1


async def test_the_ladder_goes_on_after_a_kill(
    stage: Stage, clock: VirtualClock, tmp_path: Path
) -> None:
    client = await stage.started_with_topic(**QUIET)
    await client.ask(back(await sent(client)))
    await clock.advance(4)
    killed = copy_of(tmp_path / "store", "killed")
    client = await stage.start(store_path_root_dir=str(killed), **QUIET)
    await clock.advance(5.9)
    assert not (await client.pull(topic=RETRY)).messages
    await clock.advance(0.2)
    (message,) = (await client.pull(topic=RETRY)).messages
    await client.ask(back(message))
    await clock.advance(30.1)
    first, second = (await client.pull(topic=RETRY)).messages
    assert (first.reconsume_times, second.reconsume_times) == (1, 2)
    assert second.store_host == client.broker.address != first.store_host


async def dead_count(client: Client) -> int:
    return await client.max_offset(topic=DEAD)


@pytest.mark.parametrize(
    ("level", "schedule_queue"), [(1, 0), (5, 4), (18, 17), (19, 17), (1000, 17)]
)
async def test_a_consumer_may_choose_the_delay(
    stage: Stage, level: int, schedule_queue: int
) -> None:
    client = await stage.started_with_topic()
    await client.ask(back(await sent(client), delay_level=level))
    assert client.broker.store.queue_ids(SCHEDULE_TOPIC) == [schedule_queue]


async def test_a_negative_level_gives_up_at_once(stage: Stage) -> None:
    client = await stage.started_with_topic()
    await client.ask(back(await sent(client), delay_level=-1))
    (dead,) = (await client.pull(topic=DEAD)).messages
    assert dead.reconsume_times == 1
    assert dead.properties["DELAY"] == "0"


@pytest.mark.parametrize(
    ("of_group", "of_request", "is_old", "is_dead"),
    [
        (16, 0, False, True),
        (0, 16, False, False),
        (0, None, False, True),
        (16, None, False, False),
        (0, 16, True, True),
        (16, 0, True, False),
    ],
)
async def test_whose_maximum_counts(
    stage: Stage, of_group: int, of_request: int | None, is_old: bool, is_dead: bool
) -> None:
    client = await stage.started_with_topic()
    config = GroupConfig(group_name=GROUP, retry_max_times=of_group)
    await client.ask(UpdateGroupRequest(), config.encode())
    request = back(await sent(client), max_reconsume_times=of_request)
    answer = await (as_old_client(client, request) if is_old else client.call(request))
    assert answer.code == 0
    assert await dead_count(client) == is_dead


async def test_what_is_refused(stage: Stage) -> None:
    client = await stage.started_with_topic(auto_create_subscription_group=False)
    message = await sent_without_pull(client)
    assert (await client.refusal(back(message))).code == 26
    await client.ask(UpdateGroupRequest(), GroupConfig(group_name=GROUP).encode())
    for offset in (-1, 1, 1 << 62, message.physical_offset + 1):
        code, remark = await client.refusal(back(message, offset=offset))
        assert (code, remark) == (1, f"look message by offset failed, {offset}")
    await client.ask(CreateTopicRequest(topic=RETRY, read_queue_nums=1, write_queue_nums=1, perm=4))
    assert (await client.refusal(back(message))).code == 16
    assert not client.broker.store.queue_ids(SCHEDULE_TOPIC)


async def sent_without_pull(client: Client) -> ReceivedMessage:
    message = ReceivedMessage()
    answer = await client.send()
    message.topic, message.offset_msg_id = TOPIC, answer.msg_id
    message.physical_offset = int(answer.msg_id[16:], 16)
    return message


async def test_a_broker_that_takes_no_messages(stage: Stage) -> None:
    client = await stage.started_with_topic()
    message = await sent(client)
    await client.broker.close()
    client = await stage.start(broker_permission=4)
    assert (await client.refusal(back(message))).code == 16


async def test_a_group_without_retry_queues_wants_no_retries(stage: Stage) -> None:
    client = await stage.started_with_topic()
    config = GroupConfig(group_name=GROUP, retry_queue_nums=0)
    await client.ask(UpdateGroupRequest(), config.encode())
    await client.ask(back(await sent(client)))
    assert not client.broker.store.queue_ids(SCHEDULE_TOPIC)
    assert await dead_count(client) == 0


async def test_retries_spread_over_the_retry_queues(stage: Stage, clock: VirtualClock) -> None:
    client = await stage.started_with_topic(**QUIET)
    config = GroupConfig(group_name=GROUP, retry_queue_nums=3)
    await client.ask(UpdateGroupRequest(), config.encode())
    message = await sent(client)
    for _ in range(60):
        await client.ask(back(message, unit_mode=True))
    await clock.advance(10.1)
    counts = [await client.max_offset(queue_id, RETRY) for queue_id in range(3)]
    assert sum(counts) == 60
    assert all(counts)
    topic = client.broker.topics.get(RETRY)
    assert topic is not None
    assert (topic.read_queue_nums, topic.topic_sys_flag) == (3, 2)


async def test_a_retry_topic_without_write_queues_still_takes_retries(
    stage: Stage, clock: VirtualClock
) -> None:
    client = await stage.started_with_topic(**QUIET)
    message = await sent(client)
    await client.create_topic(RETRY, read=1, write=0)
    await client.ask(back(message, delay_level=1))
    await clock.advance(1.001)
    assert (await client.pull(topic=RETRY)).bodies == [b"body"]


async def test_a_retry_topic_deleted_meanwhile_is_made_again(
    stage: Stage, clock: VirtualClock
) -> None:
    client = await stage.started_with_topic(**QUIET)
    await client.ask(back(await sent(client)))
    await client.ask(DeleteTopicRequest(topic=RETRY))
    await clock.advance(11)
    assert (await client.pull(topic=RETRY)).bodies == [b"body"]


async def test_what_the_disk_does_not_take_stays_with_the_consumer(stage: Stage) -> None:
    files = FailingFiles()
    client = await stage.started_with_topic(files=files)
    message = await sent(client)
    files.fail_after(0, errno.EIO)
    assert (await client.refusal(back(message))).code == 1
    files.heal()
    await client.ask(back(message))
    assert await client.max_offset(2, SCHEDULE_TOPIC) == 1


async def test_sync_flush_answers_when_the_disk_has_the_message_again(stage: Stage) -> None:
    """Else a power cut could take what its consumer has already finished with."""
    files = SlowFiles()
    client = await stage.started_with_topic(files=files, flush_disk_type="SYNC_FLUSH")
    message = await sent(client)
    files.gate.clear()
    try:
        task = asyncio.ensure_future(client.ask(back(message)))
        await until(lambda: client.broker.store.counters.total.messages == 2)
        await settle()
        assert not task.done()
    finally:
        files.gate.set()
    assert (await task).code == 0


async def test_properties_that_would_grow_too_long(stage: Stage) -> None:
    client = await stage.started_with_topic()
    message = await sent(client, properties=props.encode({"k": "v" * 32_600}))
    code, remark = await client.refusal(back(message))
    assert (code, "limit is 32767" in remark) == (1, True)


# -- sends to a retry topic: what clients do when 36 failed --------------------------------------


def retry(times: int, times_max: int | None = 16, **fields: Any) -> SendMessageV2Request:
    """A message sent anew to the retry topic, as clients do."""
    given = {
        "topic": RETRY, "reconsume_times": times, "max_reconsume_times": times_max,
        "properties": props.encode(
            {"RETRY_TOPIC": TOPIC, "RECONSUME_TIME": str(times), "DELAY": str(3 + times)}
        ),
    }  # fmt: skip
    return send_request(**(given | fields))


async def found(client: Client) -> tuple[Pulled, Pulled]:
    return await client.pull(topic=RETRY), await client.pull(topic=DEAD)


async def test_a_retry_that_is_sent_anew(stage: Stage, clock: VirtualClock) -> None:
    client = await stage.started_with_topic(**QUIET)
    await client.ask(retry(1), b"again")
    await clock.advance(29.9)
    assert not (await client.pull(topic=RETRY)).messages
    await clock.advance(0.2)
    (message,) = (await client.pull(topic=RETRY)).messages
    assert (message.body, message.reconsume_times) == (b"again", 1)
    assert message.properties["RETRY_TOPIC"] == TOPIC


@pytest.mark.parametrize(
    ("times", "of_group", "of_request", "is_old", "is_dead"),
    [
        (16, 16, 16, False, False),
        (17, 16, 16, False, True),
        (17, 16, None, False, True),
        (3, 16, 2, False, True),
        (3, 2, 16, False, False),
        (3, 2, 16, True, True),
        (3, 16, 2, True, False),
    ],
)
async def test_when_a_retry_sent_anew_is_given_up(
    stage: Stage,
    times: int,
    of_group: int,
    of_request: int | None,
    is_old: bool,
    is_dead: bool,
) -> None:
    client = await stage.started_with_topic()
    config = GroupConfig(group_name=GROUP, retry_max_times=of_group)
    await client.ask(UpdateGroupRequest(), config.encode())
    request = retry(times, of_request)
    answer = await (as_old_client(client, request, b"x") if is_old else client.call(request, b"x"))
    assert answer.code == 0
    assert await dead_count(client) == is_dead
    if is_dead:
        (dead,) = (await client.pull(topic=DEAD)).messages
        assert dead.properties["DELAY"] == "-1"
        assert dead.reconsume_times == times
        assert not client.broker.store.queue_ids(SCHEDULE_TOPIC)


async def test_a_retry_for_a_group_that_does_not_exist(stage: Stage) -> None:
    client = await stage.started_with_topic(auto_create_subscription_group=False)
    await client.create_topic(RETRY, 1, 1)
    assert (await client.refusal(retry(1), b"x")).code == 26


async def test_a_retry_may_still_say_that_it_was_a_transaction(stage: Stage) -> None:
    """Clients before 4.6.1 leave the property on what they send anew."""
    client = await stage.started_with_topic()
    properties = props.encode({"TRAN_MSG": "true", "DELAY": "4"})
    await client.ask(retry(1, properties=properties), b"x")
    refusal: Refusal = await client.refusal(retry(0, properties=properties), b"x")
    assert refusal.code == 13


async def test_batches_of_retries_are_refused(stage: Stage) -> None:
    client = await stage.started_with_topic()
    batch = encode_batch([BatchEntry(0, b"a", b"")])
    assert (await client.refusal(retry(1, batch=True), batch)).code == 13
