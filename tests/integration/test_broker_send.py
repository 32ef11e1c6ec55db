"""Sends: what is checked, what is added, where messages go, and when they are answered."""

from __future__ import annotations

import asyncio
import random
import socket
import zlib
from pathlib import Path
from typing import Any

import pytest
from support.brokers.broker_parts import (
    GROUP,
    TIMEOUT_MS,
    TOPIC,
    Client,
    Stage,
    pull_request,
    send_request,
    tagged,
)
from support.peers.transport import until
from support.store.disks import FailingFiles, SlowFiles
from support.store.stores import measure_disk

from pocketmq.broker.store.disk.disk import DiskUse
from pocketmq.protocol.flags import TRANSACTION_PREPARED
from pocketmq.protocol.messages import properties as props
from pocketmq.protocol.messages.batch import BatchEntry, encode_batch
from pocketmq.protocol.messages.hosts import split_address
from pocketmq.protocol.messages.ids import parse_offset_msg_id
from pocketmq.protocol.names import names
from pocketmq.protocol.requests.sending import (
    SendBatchRequest,
    SendMessageRequest,
    SendMessageResponse,
)
from pocketmq.protocol.requests.topics import RuntimeInfoRequest, TopicConfigRequest
from pocketmq.protocol.wire import frames
from pocketmq.protocol.wire.command import Codec, Command
from pocketmq.testing.clock import START_MS, VirtualClock, settle

ADDED = {"MSG_REGION": "DefaultRegion", "TRACE_ON": "true", "CLUSTER": "DefaultCluster"}
"""What the broker gives to every single message."""


# -- what is stored -----------------------------------------------------------------------------


async def test_a_message_is_stored_as_sent_with_what_the_broker_knows(client: Client) -> None:
    given = {"TAGS": "A", "KEYS": "k1 k2", "UNIQ_KEY": "U1", "WAIT": "true", "mine": "ä€"}
    answer = await client.send(b"body", properties=props.encode(given), flag=7, queue_id=2)
    assert (answer.queue_id, answer.queue_offset, answer.transaction_id) == (2, 0, "U1")
    assert (answer.region, answer.trace_on) == ("DefaultRegion", True)
    (message,) = (await client.pull(queue_id=2)).messages
    assert message.body == b"body"
    assert message.properties == given | ADDED
    assert (message.topic, message.queue_id, message.queue_offset) == (TOPIC, 2, 0)
    assert (message.flag, message.sys_flag, message.reconsume_times) == (7, 0, 0)
    assert (message.born_timestamp, message.store_timestamp) == (1_699_999_999_000, START_MS)
    assert message.store_host == client.broker.address
    assert message.born_host.startswith("127.0.0.1:")
    assert answer.msg_id == message.offset_msg_id
    assert parse_offset_msg_id(answer.msg_id).store_host == client.broker.address


LARGE_SIZES = [frames.LARGE_FRAME_SIZE, 40_000, 300_000, 1_500_000]
"""Bodies that come within a read, in one behind the other, and in places of their own."""


async def test_large_messages_are_stored_as_sent_among_small_ones(client: Client) -> None:
    bodies = [random.Random(size).randbytes(size) for size in LARGE_SIZES] * 2 + [b"small"] * 8
    random.Random(1).shuffle(bodies)
    given = props.encode({"TAGS": "A", "UNIQ_KEY": "U1"})
    answers = await asyncio.gather(*(client.send(body, properties=given) for body in bodies))
    assert [a.queue_offset for a in answers] == list(range(len(bodies)))
    found = await client.everything()
    assert [m.body for m in found] == bodies
    assert [m.body_crc for m in found] == [zlib.crc32(body) & 0x7FFFFFFF for body in bodies]
    tagged_only = await client.everything(subscription="A")
    assert [m.body for m in tagged_only] == bodies


@pytest.mark.parametrize("size", LARGE_SIZES)
@pytest.mark.parametrize("kind", ["long names", "delayed", "half", "batch"])
async def test_large_messages_of_every_kind(
    client: Client, clock: VirtualClock, kind: str, size: int
) -> None:
    body = random.Random(size).randbytes(size)
    topic = TOPIC
    if kind == "long names":
        header = SendMessageRequest(
            producer_group="p", topic=TOPIC, queue_id=0, born_timestamp=1, properties=""
        )
        await client.ask(header, body)
    elif kind == "delayed":
        await client.send(body, properties=props.encode({"DELAY": "1"}))
        await clock.advance(2)
    elif kind == "half":
        half = props.encode({"TRAN_MSG": "true", "PGROUP": "producers"})
        await client.send(body, properties=half, sys_flag=TRANSACTION_PREPARED)
        topic = names.HALF_TOPIC
    else:
        await client.ask(send_request(batch=True), encode_batch([BatchEntry(0, body, b"")] * 2))
    (message, *others) = await client.everything(topic=topic)
    assert message.body == body
    assert len(others) == (kind == "batch")


async def test_a_message_without_a_key_gets_one(client: Client) -> None:
    answers = [await client.send(properties="mine\x01x") for _ in range(3)]
    messages = (await client.pull()).messages
    keys = [m.unique_key for m in messages]
    assert keys == [answer.transaction_id for answer in answers]
    assert len(set(keys)) == 3
    assert all(m.properties["mine"] == "x" for m in messages)


async def test_what_the_broker_adds_is_set_anew_and_pop_marks_go(client: Client) -> None:
    stale = dict.fromkeys(["MSG_REGION", "TRACE_ON", "CLUSTER", "POP_CK"], "stale") | {"k": "v"}
    await client.send(properties=props.encode(stale))
    (message,) = (await client.pull()).messages
    assert message.properties.pop("UNIQ_KEY")
    assert message.properties == {"k": "v"} | ADDED


async def test_the_answer_to_a_first_send_says_that_this_is_pocketmq(
    stage: Stage, client: Client
) -> None:
    other = stage.client(client.broker)
    connection = await other.pool.get(client.broker.address)
    answers = []
    for codec in (Codec.JSON, Codec.MSGPACK, Codec.MSGPACK):
        assert connection.codec is codec
        answers.append(await other.send())
    assert [answer.queue_offset for answer in answers] == [0, 1, 2]


async def test_long_names_mean_the_same(client: Client) -> None:
    request = SendMessageRequest(
        producer_group="p", topic=TOPIC, queue_id=1, born_timestamp=1, properties=tagged("A")
    )
    answer = (await client.ask(request, b"long")).read(SendMessageResponse)
    assert (answer.queue_id, answer.queue_offset) == (1, 0)
    assert (await client.pull(queue_id=1)).bodies == [b"long"]


async def test_offsets_of_a_queue_follow_each_other_over_all_clients(
    stage: Stage, client: Client
) -> None:
    others = [client, *(stage.client(client.broker) for _ in range(6))]
    answers = await asyncio.gather(*(c.send(f"{i}".encode()) for i in range(20) for c in others))
    assert sorted(a.queue_offset for a in answers) == list(range(140))


async def test_a_one_way_send_is_stored_and_never_answered(client: Client) -> None:
    connection = await client.pool.get(client.broker.address)
    unanswered: list[Command] = []
    for request in (send_request(), send_request(topic="bad name"), send_request(queue_id=99)):
        command = Command(request.code, header=request, body=b"x")
        await connection.oneway(command)
        unanswered.append(command)
    connection.send_request(
        Command(RuntimeInfoRequest.code, header=RuntimeInfoRequest()),
        TIMEOUT_MS,
        unanswered.append,  # type: ignore[arg-type]
    )
    await until(lambda: len(unanswered) > 3)
    assert unanswered[-1].code == 0, "the first answer is that of the last request"
    assert await client.max_offset() == 1


# -- topics made on the first message -----------------------------------------------------------


@pytest.mark.parametrize(
    ("broker_nums", "client_nums", "queues"),
    [(8, 4, 4), (8, 16, 8), (8, 8, 8), (2, 4, 2), (8, 0, 1), (8, -5, 1)],
)
async def test_a_new_topic_takes_the_smaller_number_of_queues(
    stage: Stage, broker_nums: int, client_nums: int, queues: int
) -> None:
    client = await stage.start(default_topic_queue_nums=broker_nums)
    await client.send(topic="New", default_topic_queue_nums=client_nums)
    topic = client.broker.topics.get("New")
    assert topic is not None
    assert (topic.read_queue_nums, topic.write_queue_nums, topic.perm) == (queues, queues, 6)
    await client.ask(TopicConfigRequest(topic="New"))


async def test_topics_that_do_not_inherit_make_none(client: Client) -> None:
    for default in ("", "Unknown", TOPIC):
        refusal = await client.refusal(send_request(topic="New", default_topic=default), b"x")
        assert refusal.code == 17
    assert "New" not in client.broker.topics
    await client.send(topic="New", default_topic="DefaultCluster", default_topic_queue_nums=16)
    new = client.broker.topics.get("New")
    assert new is not None
    assert new.write_queue_nums == 8, "also when the model has more queues than the broker allows"


async def test_without_auto_creation_the_refusal_says_what_to_do(stage: Stage) -> None:
    client = await stage.start(auto_create_topic_enable=False)
    code, remark = await client.refusal(send_request(topic="New"), b"x")
    assert code == 17
    assert remark.startswith("topic[New] not exist, apply first please!")
    assert "autoCreateTopicEnable is off" in remark
    assert "`pocketmq topic create New`" in remark
    assert "New" not in client.broker.topics
    await client.create_topic("New")
    await client.send(topic="New")


async def test_retry_topics_are_made_with_one_queue(client: Client) -> None:
    await client.send(topic="%RETRY%group-r", default_topic="")
    topic = client.broker.topics.get("%RETRY%group-r")
    assert topic is not None
    assert (topic.read_queue_nums, topic.write_queue_nums, topic.perm) == (1, 1, 6)
    assert client.broker.groups.get("group-r") is not None


async def test_retry_topics_need_their_group_where_groups_are_not_made(stage: Stage) -> None:
    client = await stage.start(auto_create_subscription_group=False)
    code, remark = await client.refusal(send_request(topic="%RETRY%group-r"), b"x")
    assert code == 26
    assert "autoCreateSubscriptionGroup is off" in remark


# -- names, permissions, queues -----------------------------------------------------------------


@pytest.mark.parametrize(
    ("topic", "reason"),
    [
        ("", "blank"),
        (" ", "blank"),
        ("a b", "illegal characters"),
        ("a/b", "illegal characters"),
        ("../up", "illegal characters"),
        ("thé", "illegal characters"),
        ("t" * 128, "max length: 127"),
        ("%DLQ%" + "t" * 251, "max length: 255"),
    ],
)
async def test_bad_topic_names_are_refused(client: Client, topic: str, reason: str) -> None:
    code, remark = await client.refusal(send_request(topic=topic), b"x")
    assert code == 29
    assert reason in remark


@pytest.mark.parametrize("topic", ["t" * 127, "%|-_09azAZ", "%DLQ%" + "g" * 250])
async def test_the_longest_and_oddest_names_that_are_legal(client: Client, topic: str) -> None:
    await client.send(b"odd", topic=topic)
    (message,) = (await client.pull(topic=topic)).messages
    assert (message.topic, message.body) == (topic, b"odd")


@pytest.mark.parametrize("topic", sorted(names.SEND_FORBIDDEN_TOPICS))
async def test_topics_of_the_broker_take_no_messages(client: Client, topic: str) -> None:
    code, remark = await client.refusal(send_request(topic=topic), b"x")
    assert (code, remark) == (16, f"Sending message to topic[{topic}] is forbidden.")


async def test_a_broker_without_write_permission_refuses_and_makes_no_topic(stage: Stage) -> None:
    client = await stage.start(broker_permission=4)
    for request in (send_request(topic="New"), send_request(topic="BenchmarkTest")):
        code, remark = await client.refusal(request, b"x")
        assert code == 16
        assert "brokerPermission is 4" in remark
    assert "New" not in client.broker.topics
    assert (await client.pull(topic="BenchmarkTest")).code == 19


async def test_the_permission_of_a_topic_does_not_stop_a_plain_send(client: Client) -> None:
    await client.create_topic(perm=4)
    await client.send()


async def test_queues_that_the_topic_does_not_have_are_refused(client: Client) -> None:
    await client.create_topic(read=2, write=6)
    await client.send(queue_id=5)
    await client.create_topic(read=6, write=2)
    await client.send(queue_id=5)
    code, remark = await client.refusal(send_request(queue_id=6), b"x")
    assert code == 29
    assert "queueId[6] is illegal, topic:[TopicTest] topicConfig.writeQueueNums:[2]" in remark


async def test_a_negative_queue_leaves_the_choice_to_the_broker(
    stage: Stage, tmp_path: Path
) -> None:
    chosen = []
    for directory in ("first", "second"):
        path = str(tmp_path / directory)
        client = await stage.start(seed=7, store_path_root_dir=path)
        await client.create_topic(read=8, write=4)
        answers = [await client.send(queue_id=-1) for _ in range(40)]
        chosen.append([answer.queue_id for answer in answers])
        assert {q for q, t in (await client.stats()).items() if t.max_offset} == {0, 1, 2, 3}
    assert chosen[0] == chosen[1], "the seed decides"
    await client.create_topic(read=4, write=0)
    assert (await client.refusal(send_request(queue_id=-1), b"x")).code == 29


# -- sizes and kinds ----------------------------------------------------------------------------


async def test_bodies_have_a_limit(stage: Stage) -> None:
    client = await stage.started_with_topic(max_message_size=1000)
    await client.send(bytes(1000))
    code, remark = await client.refusal(send_request(), bytes(1001))
    assert code == 13
    assert "1001 bytes" in remark
    assert "maxMessageSize of this broker is 1000" in remark
    assert (await client.refusal(send_request())).code == 13
    assert await client.max_offset() == 1


async def test_the_default_limit_is_4_mib(client: Client) -> None:
    await client.send(bytes(4 << 20))
    assert (await client.refusal(send_request(), bytes((4 << 20) + 1))).code == 13


async def test_properties_have_a_limit_with_what_the_broker_adds(client: Client) -> None:
    added = len(props.encode(ADDED | {"UNIQ_KEY": "U"}))
    room = 32767 - added - len("k\x01\x02")
    given = {"UNIQ_KEY": "U", "k": "v" * room}
    await client.send(properties=props.encode(given))
    (message,) = (await client.pull()).messages
    assert message.properties["k"] == "v" * room
    given["k"] += "v"
    code, remark = await client.refusal(send_request(properties=props.encode(given)), b"x")
    assert code == 13
    assert "32768 bytes, the limit is 32767" in remark
    given["k"] = "€" * (room // 3 + 1)
    assert (await client.refusal(send_request(properties=props.encode(given)), b"x")).code == 13
    assert await client.max_offset() == 1


@pytest.mark.parametrize(
    ("fields", "code", "reason"),
    [
        ({"properties": "TRAN_MSG\x01true\x02"}, 13, "PGROUP"),
        ({"sys_flag": TRANSACTION_PREPARED}, 13, "TRAN_MSG"),
        ({"flag": 1 << 40}, 13, "does not fit"),
        ({"born_timestamp": 1 << 63}, 13, "does not fit"),
    ],
)
async def test_what_cannot_be_stored_yet_is_refused_and_not_taken_for_plain(
    client: Client, fields: dict[str, Any], code: int, reason: str
) -> None:
    refusal = await client.refusal(send_request(**fields), b"x")
    assert refusal.code == code
    assert reason in refusal.remark
    if "flag" not in fields:  # which a batch has for each message
        batch = two(b"")
        assert (await client.refusal(send_request(batch=True, **fields), batch)).code == code
    assert await client.max_offset() == 0
    assert not (await client.pull()).messages


async def test_properties_that_only_look_alike_are_plain(client: Client) -> None:
    given = {"MYDELAY": "3", "x": "DELAY", "DELAY": "0", "TIMER_DELAY_MS": "0", "TRAN_MSG": "false"}
    await client.send(properties=props.encode(given))
    (message,) = (await client.pull()).messages
    assert given.items() <= message.properties.items()


# -- batches ------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["320", "310"])
async def test_a_batch_becomes_neighbours_in_one_queue(client: Client, kind: str) -> None:
    entries = [
        BatchEntry(i, f"body {i}".encode(), props.encode({"TAGS": f"T{i}", "UNIQ_KEY": f"U{i}"})
                   .encode())
        for i in range(5)
    ]  # fmt: skip
    given = send_request(queue_id=3, batch=True)
    request = given if kind == "310" else SendBatchRequest(**_fields(given))
    answer = (await client.ask(request, encode_batch(entries))).read(SendMessageResponse)
    messages = (await client.pull(queue_id=3)).messages
    assert [(m.flag, m.body) for m in messages] == [(e.flag, e.body) for e in entries]
    assert [m.queue_offset for m in messages] == list(range(5))
    assert (answer.queue_id, answer.queue_offset) == (3, 0)
    assert answer.msg_id.split(",") == [m.offset_msg_id for m in messages]
    assert [m.properties for m in messages] == [
        {"TAGS": f"T{i}", "UNIQ_KEY": f"U{i}"} for i in range(5)
    ], "entries of a batch keep only what the client gave them"
    tagged_3 = await client.pull(queue_id=3, subscription="T3")
    assert tagged_3.bodies == [b"body 3"]


def _fields(request: Any) -> dict[str, Any]:
    return {name: getattr(request, name) for name in request.__struct_fields__}


def two(properties: bytes = b"") -> bytes:
    """A batch of two messages; these are the properties of the second."""
    return encode_batch([BatchEntry(0, b"a", b""), BatchEntry(0, b"b", properties)])


@pytest.mark.parametrize(
    ("topic", "body", "code", "reason"),
    [
        (TOPIC, b"", 13, "no body"),
        (TOPIC, b"garbage", 1, "ends inside the entry at byte 0"),
        (TOPIC, encode_batch([BatchEntry(0, b"a", b"")])[:-1], 1, "a body of 1 bytes"),
        (TOPIC, encode_batch([BatchEntry(0, b"abc", b"k")])[:-1], 1, "announces"),
        (TOPIC, encode_batch([BatchEntry(0, b"a", b"")] * 2) + b"\0", 1, "entry at byte 46"),
        (TOPIC, two(bytes(32768)), 13,
         "message 1 of the batch have 32768 bytes, the limit is 32767"),
        (TOPIC, two(b"k\x01\xff\x02"), 13,
         "message 1 of the batch are no UTF-8"),
        (TOPIC, two(b"DELAY\x011\x02"), 13,
         "property DELAY"),
        (TOPIC, bytes((4 << 20) + 1), 13, "limit maxMessageSize"),
        ("%RETRY%group-r", encode_batch([BatchEntry(0, b"a", b"")]), 13, "retry topic"),
        ("%DLQ%" + "g" * 127, encode_batch([BatchEntry(0, b"a", b"")]), 13, "127"),
        ("a b", encode_batch([BatchEntry(0, b"a", b"")]), 29, "illegal characters"),
    ],
)  # fmt: skip
async def test_a_bad_batch_is_refused_as_a_whole(
    client: Client, topic: str, body: bytes, code: int, reason: str
) -> None:
    refusal = await client.refusal(send_request(topic=topic, batch=True), body)
    assert refusal.code == code
    assert reason in refusal.remark
    assert await client.max_offset(topic=topic) == 0
    assert (await client.send()).queue_offset == 0, "nothing of it waits in memory"


async def test_the_largest_properties_of_a_batch_entry(client: Client) -> None:
    entry = BatchEntry(0, b"b", b"k\x01" + b"v" * 32764 + b"\x02")
    await client.ask(send_request(batch=True), encode_batch([entry, entry]))
    assert [len(m.properties["k"]) for m in (await client.pull()).messages] == [32764] * 2


# -- the disk -----------------------------------------------------------------------------------


async def test_sync_flush_answers_when_the_disk_has_it(stage: Stage, clock: VirtualClock) -> None:
    files = SlowFiles()
    client = await stage.started_with_topic(files=files, flush_disk_type="SYNC_FLUSH")
    await until(lambda: not client.broker.store.flusher._running)
    files.gate.clear()
    try:
        batch = encode_batch([BatchEntry(0, b"1", b""), BatchEntry(0, b"2", b"")])
        plain = asyncio.ensure_future(client.send(b"0"))
        await until(lambda: client.broker.store.counters.total.messages == 1)
        others = [
            asyncio.ensure_future(client.ask(send_request(batch=True), batch)),
            asyncio.ensure_future(client.send(b"3", properties=props.encode({"AWAIT": "false"}))),
        ]
        await until(lambda: client.broker.store.counters.total.messages == 4)
        unsynced = await client.send(b"4", properties=props.encode({"WAIT": "false"}))
        assert unsynced.queue_offset == 4, "it does not want to wait"
        await settle()
        assert not plain.done()
        assert not any(task.done() for task in others)
        assert files.synced[".log"] == 0
        assert (await client.pull()).bodies == [b"0", b"1", b"2", b"3", b"4"]
    finally:
        files.gate.set()
    assert (await plain).queue_offset == 0
    await asyncio.gather(*others)
    assert 1 <= files.synced[".log"] <= 2, "those that waited share a flush"


async def test_a_slow_disk_is_answered_with_10_and_the_place(
    stage: Stage, clock: VirtualClock
) -> None:
    files = SlowFiles()
    client = await stage.started_with_topic(
        files=files, flush_disk_type="SYNC_FLUSH", sync_flush_timeout=5000
    )
    files.gate.clear()
    try:
        task = asyncio.ensure_future(client.call(send_request(), b"x"))
        await until(lambda: client.broker.store.counters.total.messages == 1)
        await clock.advance(4.9)
        assert not task.done()
        await clock.advance(0.2)
        answer = await task
    finally:
        files.gate.set()
    assert answer.code == 10
    assert "longer than 5000 ms" in (answer.remark or "")
    assert answer.read(SendMessageResponse).queue_offset == 0


async def test_a_full_disk_refuses_sends_while_pulls_go_on(
    stage: Stage, clock: VirtualClock
) -> None:
    client = await stage.started_with_topic()
    await client.send(b"before")
    store = client.broker.store
    used = 95

    def measure(_: Path) -> DiskUse:
        return DiskUse(100 << 20, used << 20, (100 - used) << 20)

    measure_disk(store, 90, 85, 10 << 20, measure)
    code, remark = await client.refusal(send_request(), b"x")
    assert code == 14
    assert remark.startswith("service not available now: ")
    assert f"the disk of {store.directory} is 95.0 % full" in remark
    assert "diskSpaceWarningLevelRatio=90" in remark
    batch = encode_batch([BatchEntry(0, b"a", b"")])
    assert (await client.refusal(send_request(batch=True), batch)).code == 14
    assert (await client.pull()).bodies == [b"before"]
    info = await client.ask(RuntimeInfoRequest())
    assert b'"writable":"false"' in info.body.replace(b" ", b"")
    used = 50
    await clock.advance(11)
    await client.send(b"after")
    assert [m.body for m in await client.everything()] == [b"before", b"after"]


async def test_a_write_that_finds_no_room_is_refused_and_leaves_no_trace(
    stage: Stage, clock: VirtualClock
) -> None:
    files = FailingFiles()
    client = await stage.started_with_topic(files=files)
    await client.send(b"before")
    files.fail_after(0)
    code, remark = await client.refusal(send_request(), b"x" * 1000)
    assert code == 14
    assert str(client.broker.store.directory) in remark
    assert "No space left on device" in remark
    code, again = await client.refusal(send_request(), b"y")
    assert code == 14, "until the disk is looked at again"
    assert "no room left" in again
    assert (await client.pull()).bodies == [b"before"]
    await clock.advance(11)
    assert (await client.send(b"after")).queue_offset == 1
    assert [m.body for m in await client.everything()] == [b"before", b"after"]


# -- bad peers ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "garbage",
    [
        b"GET / HTTP/1.1\r\n\r\n",
        b"\xff\xff\xff\xff\xff\xff\xff\xff",
        b"\x7f\xff\xff\xff\x00\x00\x00\x08",
        b"\x00\x00\x00\x06\x00\x00\x00\x02{]",
    ],
)
async def test_garbage_ends_its_own_connection_only(
    stage: Stage, client: Client, garbage: bytes
) -> None:
    held = await client.hold()
    loop = asyncio.get_running_loop()
    with socket.create_connection(split_address(client.broker.address)) as bad:
        bad.setblocking(False)
        await loop.sock_sendall(bad, garbage)
        assert await loop.sock_recv(bad, 1) == b""
    assert not held.done()
    await client.send(b"sound")
    assert (await held).bodies == [b"sound"]


async def test_unreadable_and_unknown_requests_are_refused(client: Client) -> None:
    connection = await client.pool.get(client.broker.address)
    for command, code, reason in (
        (Command(9999), 3, "request type 9999 not supported"),
        (Command(310), 1, "missing"),
        (Command(310, extra={"a": "p", "b": TOPIC, "e": "many", "g": "1"}, body=b"x"), 1, "e"),
        (Command(11, extra={"consumerGroup": GROUP}), 1, "missing"),
        (Command(34, body=b"{"), 1, "body"),
        (Command(200, body=b"[]"), 1, "body"),
        (Command(31001), 1, "missing"),
    ):
        answer = await connection.call(command, TIMEOUT_MS)
        assert answer.code == code
        assert reason in (answer.remark or "")
    assert (await client.call(pull_request())).code == 19
