"""PocketMQ's bulk append: the same records as single sends make, or none at all."""

from __future__ import annotations

import asyncio
import random
import struct
from collections.abc import Callable
from pathlib import Path

import pytest
from support.brokers.broker_parts import (
    TOPIC,
    Client,
    Stage,
    bulk_record,
    bulk_request,
    pull_request,
    send_request,
    tagged,
)
from support.store.disks import FailingFiles, SlowFiles

from pocketmq.broker.handlers.sending import bulk
from pocketmq.protocol.errors import ContentError
from pocketmq.protocol.messages import properties as props
from pocketmq.protocol.messages.message import ReceivedMessage
from pocketmq.protocol.messages.records import (
    MAGIC_V1,
    QUEUE_OFFSET_AT,
    RECORD_SIZE_MIN,
    STORE_TIMESTAMP_AT_V4,
    SYS_FLAG_AT,
    check_record,
    decode_records,
    topic_and_properties,
)
from pocketmq.protocol.requests.offsets import ViewMessageRequest
from pocketmq.protocol.requests.sending import BulkAppendRequest, BulkAppendResponse
from pocketmq.protocol.requests.topics import CreateTopicRequest
from pocketmq.testing.clock import START_MS, VirtualClock

BODY_AT = 88
GOOD = bulk_record(b"good", b"k\x01v\x02")


async def append(
    client: Client, *records: bytes, queue_id: int = 0, sizes: bool = False
) -> BulkAppendResponse:
    request = bulk_request(len(records), queue_id=queue_id, sizes=sizes)
    body = b"".join(records) + (sizes_of(*records) if sizes else b"")
    return (await client.ask(request, body)).read(BulkAppendResponse)


def sizes_of(*records: bytes) -> bytes:
    """What may stand behind records, so that the broker need not look for where each begins."""
    return b"".join(len(record).to_bytes(4, "big") for record in records)


# -- what is stored -----------------------------------------------------------------------------


async def test_records_get_their_places(client: Client, clock: VirtualClock) -> None:
    await client.send(b"before")
    await clock.advance(5)
    answer = await append(client, bulk_record(b"a"), bulk_record(b"bb"), bulk_record(b"ccc"))
    assert (answer.queue_offset, answer.count) == (1, 3)
    assert (await client.send(b"after")).queue_offset == 4
    messages = await client.everything()
    assert [m.body for m in messages] == [b"before", b"a", b"bb", b"ccc", b"after"]
    assert [m.queue_offset for m in messages] == list(range(5))
    assert {m.store_timestamp for m in messages[1:]} == {START_MS + 5000}
    assert {m.store_host for m in messages} == {client.broker.address}
    for message in messages:
        view = await client.ask(ViewMessageRequest(offset=message.physical_offset))
        assert next(decode_records(view.body)).body == message.body


def properties_of(chance: random.Random, index: int) -> dict[str, str]:
    """Properties as applications have them; some with tags, some beyond ASCII."""
    out = {"UNIQ_KEY": f"U{index}", "KEYS": f"key-{index}"}
    if chance.random() < 0.5:
        out["TAGS"] = chance.choice(["A", "B", "Zoë", "標籤"])
    if chance.random() < 0.3:
        out["NOTAGS"] = "x" * chance.randrange(1, 300)
    return out | {"WAIT": "true", "MSG_REGION": "DefaultRegion", "TRACE_ON": "true",
                  "CLUSTER": "DefaultCluster"}  # fmt: skip


async def test_the_files_equal_those_of_single_sends(
    stage: Stage, chance: random.Random, tmp_path: Path
) -> None:
    """Byte for byte, records and index: nothing can tell how a record came."""
    first = await stage.started_with_topic(store_path_root_dir=str(tmp_path / "single"))
    port = int(first.broker.address.rpartition(":")[2])
    for i in range(60):
        body = chance.randbytes(chance.choice([1, 7, 100, 1000]))
        await first.send(body, properties=props.encode(properties_of(chance, i)), queue_id=1)
    raw = (await first.call(pull_request(queue_id=1))).body
    raw += (await first.call(pull_request(32, queue_id=1))).body
    await first.pool.close()
    await first.broker.close()
    second = await stage.started_with_topic(
        store_path_root_dir=str(tmp_path / "bulk"), listen_port=port
    )
    records = split(raw)
    assert len(records) == 60
    for records_part, sizes in ((records[:1], True), (records[1:40], False), (records[40:], True)):
        await append(second, *map(without_place, records_part), queue_id=1, sizes=sizes)
    assert (await second.call(pull_request(queue_id=1))).body == raw[: sum(map(len, records[:32]))]
    for tag in ("A", "Zoë", "標籤"):
        tagged = await second.pull(queue_id=1, subscription=tag)
        assert {m.tags for m in tagged.messages} <= {tag}
    await second.broker.close()
    folder = Path("queues") / TOPIC / "1"
    files = sorted(p.name for p in (tmp_path / "single" / folder).iterdir())
    assert len(files) == 2
    for name in files:
        single = (tmp_path / "single" / folder / name).read_bytes()
        assert single == (tmp_path / "bulk" / folder / name).read_bytes(), name


def split(data: bytes) -> list[bytes]:
    out, at = [], 0
    while at < len(data):
        size = check_record(data, at, len(data))
        assert size
        out.append(data[at : at + size])
        at += size
    return out


def without_place(record: bytes) -> bytes:
    """The record as its sender would have made it: what only the broker knows is zero."""
    out = bytearray(record)
    for at in (QUEUE_OFFSET_AT, STORE_TIMESTAMP_AT_V4):
        out[at : at + 16] = bytes(16)
    return bytes(out)


async def test_one_append_may_fill_many_segments(stage: Stage) -> None:
    client = await stage.started_with_topic(segment_size=64 * 1024)
    for _ in range(3):
        await append(client, *[bulk_record(bytes(1000)) for _ in range(100)])
    assert [m.queue_offset for m in await client.everything()] == list(range(300))


async def test_it_answers_after_the_flush_if_that_is_wanted(stage: Stage) -> None:
    files = SlowFiles()
    client = await stage.started_with_topic(files=files, flush_disk_type="SYNC_FLUSH")
    before = files.synced[".log"]
    await append(client, GOOD, GOOD)
    assert files.synced[".log"] == before + 1


async def test_a_disk_without_room_keeps_nothing_of_it(stage: Stage, clock: VirtualClock) -> None:
    files = FailingFiles()
    client = await stage.started_with_topic(files=files)
    await append(client, GOOD)
    files.fail_after(0)
    code, remark = await client.refusal(bulk_request(50), GOOD * 50)
    assert code == 14
    assert str(client.broker.store.directory) in remark
    assert (await client.refusal(bulk_request(1), GOOD)).code == 14
    assert len(await client.everything()) == 1
    await clock.advance(11)
    assert (await append(client, GOOD, GOOD)).queue_offset == 1
    assert len(await client.everything()) == 3


# -- large requests, which are worked in turns ---------------------------------------------------

LARGE = 3000
"""Records of a request that is not handled at once."""


def large_records(last: bytes) -> list[bytes]:
    records = [bulk_record(b"%4d" % i + bytes(300)) for i in range(LARGE - 1)]
    records[LARGE // 2] = bulk_record(b"tagged", tagged("red").encode())
    return [*records, last]


@pytest.mark.parametrize("at_once", [False, True])
async def test_a_large_request_is_as_many_small_ones(
    client: Client, monkeypatch: pytest.MonkeyPatch, *, at_once: bool
) -> None:
    if at_once:
        monkeypatch.setattr(bulk, "UNDER_CHECK_SIZE_MAX", 0)
    records = large_records(GOOD)
    # What comes behind it on its connection is stored behind it.
    large, small = await asyncio.gather(append(client, *records, sizes=True), client.send(b"next"))
    assert (large.queue_offset, large.count, small.queue_offset) == (0, LARGE, LARGE)
    assert [m.body for m in await client.everything()][-2:] == [b"good", b"next"]
    red = await client.pull(subscription="red")
    assert [(m.queue_offset, m.body) for m in red.messages] == [(LARGE // 2, b"tagged")]


async def test_others_have_their_turns_in_the_middle_of_a_large_request(
    client: Client, turns: list[Callable[[], object]]
) -> None:
    ends: list[int] = []
    queue_log = client.broker.store.queue_log(TOPIC, 0)
    turns += [lambda: ends.append(queue_log.next_offset)] * 2
    await append(client, *large_records(GOOD))
    assert ends == [0, 0]


async def test_a_bad_record_at_the_end_of_a_large_request_has_all_refused(client: Client) -> None:
    records = large_records(bulk_record(properties=b"k\x01\xff\x02"))
    code, remark = await client.refusal(bulk_request(LARGE), b"".join(records))
    assert (code, remark) == (1, f"the properties of message {LARGE - 1} are no UTF-8")
    assert await client.everything() == []
    await client.send(b"next")  # it is read from again


async def test_a_topic_that_goes_in_the_middle_of_a_large_request_gets_nothing(
    client: Client, turns: list[Callable[[], object]]
) -> None:
    turns.append(lambda: client.broker.topics.remove(TOPIC))
    code, _ = await client.refusal(bulk_request(LARGE), b"".join(large_records(GOOD)))
    assert code == 17
    assert client.broker.store.queue_log(TOPIC, 0).next_offset == 0


# -- who may append where -----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("fields", "code", "reason"),
    [
        ({"topic": "Unknown"}, 17, "apply first please"),
        ({"topic": "SCHEDULE_TOPIC_XXXX"}, 16, "is forbidden"),
        ({"queue_id": 4}, 29, "queueId[4] is illegal"),
        ({"queue_id": -1}, 29, "queueId[-1] is illegal"),
    ],
)
async def test_the_place_is_checked(
    client: Client, fields: dict[str, object], code: int, reason: str
) -> None:
    refusal = await client.refusal(bulk_request(1, **fields), GOOD)
    assert refusal.code == code
    assert reason in refusal.remark


async def test_a_broker_without_write_permission_takes_none(stage: Stage) -> None:
    client = await stage.started_with_topic(broker_permission=4)
    code, remark = await client.refusal(bulk_request(1), GOOD)
    assert code == 16
    assert "brokerPermission is 4" in remark


async def test_a_long_topic_name_has_no_place_in_these_records(client: Client) -> None:
    topic = "%DLQ%" + "g" * 123
    await client.ask(CreateTopicRequest(topic=topic, read_queue_nums=1, write_queue_nums=1, perm=6))
    code, remark = await client.refusal(bulk_request(1, topic=topic), GOOD)
    assert code == 13
    assert "127 characters" in remark
    assert await client.max_offset(topic=topic) == 0


# -- what is refused as a whole -----------------------------------------------------------------


def changed(at: int, data: bytes) -> bytes:
    return GOOD[:at] + data + GOOD[at + len(data) :]


def sized(size: int) -> bytes:
    return changed(0, struct.pack(">i", size))


def with_crc(record: bytes, body: bytes) -> bytes:
    """Another body of the same size under the old CRC."""
    return record[:BODY_AT] + body + record[BODY_AT + len(body) :]


LONG_PROPERTIES = b"k\x01" + b"v" * 32765 + b"\x02"
V6 = bytes(20)

UNSOUND = {
    "no record": b"garbage",
    "cut off by a byte": GOOD[:-1],
    "only its head": GOOD[:80],
    "only a size": GOOD[:4],
    "a byte too many": GOOD + b"\0",
    "size 0": sized(0),
    "size below any record": sized(RECORD_SIZE_MIN - 1),
    "negative size": sized(-1),
    "smallest size": sized(-(1 << 31)),
    "size too small": sized(len(GOOD) - 1),
    "size too large": sized(len(GOOD) + 1),
    "huge size": sized((1 << 31) - 1),
    "wrong magic": changed(4, b"\xda\xa3\x20\xab"),
    "no magic": changed(4, bytes(4)),
    "wrong CRC": changed(8, b"\x12\x34\x56\x78"),
    "CRC with a sign": changed(8, bytes((GOOD[8] | 0x80,))),
    "another body": with_crc(GOOD, b"evil"),
    "another queue": bulk_record(queue_id=1),
    "negative queue": bulk_record(queue_id=-1),
    "compressed": bulk_record(sys_flag=1),
    "transactional": bulk_record(sys_flag=4),
    "IPv6 sender": bulk_record(born_host=V6),
    "IPv6 broker": bulk_record(store_host=V6),
    "no body": bulk_record(b""),
    "negative body": changed(BODY_AT - 4, struct.pack(">i", -5)),
    "smallest body": changed(BODY_AT - 4, struct.pack(">i", -(1 << 31))),
    "huge body": changed(BODY_AT - 4, struct.pack(">i", (1 << 31) - 1)),
    "body beyond its record": changed(BODY_AT - 4, struct.pack(">i", 20)),
    "body too short": changed(BODY_AT - 4, struct.pack(">i", 3)),
    "another topic": bulk_record(topic=b"TopicTesT"),
    "longer topic": bulk_record(topic=TOPIC.encode() + b"x"),
    "shorter topic": bulk_record(topic=TOPIC.encode()[:-1]),
    "no topic": bulk_record(topic=b""),
    "properties too long by a byte": changed(len(GOOD) - 6, b"\0\5"),
    "properties too short by a byte": changed(len(GOOD) - 6, b"\0\3"),
    "properties no UTF-8": bulk_record(properties=b"k\x01\xff\x02"),
    "properties cut inside a character": bulk_record(properties=b"k\x01\xc3"),
    "properties begin inside a character": bulk_record(properties=b"\xa4"),
}
assert GOOD[len(GOOD) - 6 : len(GOOD) - 4] == b"\0\4", "here the size of the properties stands"


@pytest.mark.parametrize("where", ["alone", "first", "inside", "last"])
@pytest.mark.parametrize("kind", UNSOUND)
async def test_an_unsound_record_has_all_refused(client: Client, kind: str, where: str) -> None:
    bad = UNSOUND[kind]
    before = [] if where in ("alone", "first") else [GOOD] * 3
    after = [] if where in ("alone", "last") else [GOOD] * 2
    records = [*before, bad, *after]
    for sizes in (b"", sizes_of(*records)):
        request = bulk_request(len(records), sizes=bool(sizes))
        code, remark = await client.refusal(request, b"".join(records) + sizes)
        assert code == 1
        assert "record" in remark or "message" in remark
    assert await client.max_offset() == 0
    assert (await append(client, GOOD)).queue_offset == 0, "nothing of it waits in memory"


@pytest.mark.parametrize(
    ("count", "sizes", "reason"),
    [
        (2, [0, 2 * len(GOOD)], "the size of record 0 is said to be 0"),
        (2, [2 * len(GOOD) - RECORD_SIZE_MIN + 1, RECORD_SIZE_MIN - 1], "record 1 is said to be"),
        (2, [len(GOOD) - 1, len(GOOD) + 1], "the record at byte 0 of the bulk body is no sound"),
        (2, [len(GOOD) + 1, len(GOOD) - 1], "the record at byte 0 of the bulk body is no sound"),
        (2, [len(GOOD), len(GOOD) + 1], f"{2 * len(GOOD) + 1} bytes of records"),
        (2, [len(GOOD), (1 << 32) - 1], "bytes of records"),
        (1, [2 * len(GOOD)], "the record at byte 0"),
        (1, [len(GOOD), len(GOOD)], "bytes of records"),
        (3, [len(GOOD), len(GOOD)], "3 records and their sizes are announced"),
        (0, [], "0 records and their sizes are announced"),
        (-1, [len(GOOD), len(GOOD)], "-1 records"),
        (1 << 40, [len(GOOD), len(GOOD)], "records and their sizes are announced"),
    ],
)
async def test_sizes_that_lie_are_refused(
    client: Client, count: int, sizes: list[int], reason: str
) -> None:
    body = GOOD * 2 + b"".join(size.to_bytes(4, "big") for size in sizes)
    code, remark = await client.refusal(bulk_request(count, sizes=True), body)
    assert code == 1
    assert reason in remark
    assert await client.max_offset() == 0


async def test_tags_are_those_that_a_single_send_would_find(client: Client) -> None:
    texts = [
        b"TAGS\x01ab",
        b"k\x01v\x02TAGS\x01a\x02",
        b"TAGS\x01b\x02TAGS\x01c\x02",
        b"NOTAGS\x01a\x02",
        b"k\x01TAGS\x01a\x02",
        b"NOTAGS\x01a\x02TAGS\x01b\x02",
        b"k\x01v\x02TAGS\x01\x02",
        b"",
        b"k\x01" + b"v" * 300 + b"\x02TAGS\x01a\x02",
    ]
    await append(client, *[bulk_record(b"x", text) for text in texts], sizes=True)
    for tags in ("a", "ab", "b", "c"):
        found = await client.pull(subscription=tags)
        expected = [i for i, t in enumerate(texts) if props.value_of(t.decode(), "TAGS") == tags]
        assert [m.queue_offset for m in found.messages] == expected, tags


async def test_neighbours_do_not_complete_each_other_s_characters(client: Client) -> None:
    first, second = bulk_record(properties=b"k\x01\xc3"), bulk_record(properties=b"\xa4\x02")
    code, remark = await client.refusal(bulk_request(3), GOOD + first + second)
    assert (code, remark) == (1, "the properties of message 1 are no UTF-8")


@pytest.mark.parametrize("position", [0, 2])
async def test_what_is_over_a_limit_is_refused_with_the_limit(stage: Stage, position: int) -> None:
    client = await stage.started_with_topic(max_message_size=1000)
    largest = bulk_record(bytes(1000), b"k\x01" + b"v" * 32764 + b"\x02")
    await append(client, largest)
    records = [GOOD] * 4
    records[position] = bulk_record(bytes(1001))
    code, remark = await client.refusal(bulk_request(4), b"".join(records))
    assert (code, remark) == (
        13,
        f"the body of message {position} has 1001 bytes, the limit maxMessageSize of this broker "
        f"is 1000",
    )
    records[position] = bulk_record(properties=LONG_PROPERTIES)
    code, remark = await client.refusal(bulk_request(4), b"".join(records))
    assert (code, remark) == (
        13,
        f"the properties of message {position} have 32768 bytes, the limit is 32767",
    )
    assert len(await client.everything()) == 1


@pytest.mark.parametrize("count", [0, 1, 3, -1, 1 << 40])
async def test_the_count_must_be_right(client: Client, count: int) -> None:
    code, remark = await client.refusal(bulk_request(count), GOOD * 2)
    assert code == 1
    assert remark == f"{count} records are announced, 2 came"
    assert await client.max_offset() == 0


@pytest.mark.parametrize("count", [0, 1])
async def test_an_empty_body_is_refused(client: Client, count: int) -> None:
    code, remark = await client.refusal(bulk_request(count))
    assert code == 1
    assert "0 came" in remark


async def test_any_damage_is_refused_or_does_no_harm(client: Client, chance: random.Random) -> None:
    """The check of all records together equals one that reads record by record."""
    stored = 0
    for _ in range(400):
        count = chance.randrange(1, 6)
        body = b"".join(
            bulk_record(
                chance.randbytes(chance.randrange(1, 30)),
                props.encode(properties_of(chance, 0)).encode(),
            )
            for _ in range(count)
        )
        sizes = sizes_of(*split(body))
        body = damaged(body, chance)
        request = bulk_request(count, sizes=chance.random() < 0.5)
        answer = await client.call(request, body + (sizes if request.sizes else b""))
        assert (answer.code == 0) == is_sound(body, request), body.hex()
        stored += 0 if answer.code else count
        assert await client.max_offset() == stored
    messages: list[ReceivedMessage] = await client.everything()
    assert len(messages) == stored
    await client.ask(send_request(), b"x")


def damaged(body: bytes, chance: random.Random) -> bytes:
    out = bytearray(body)
    at = chance.randrange(len(out))
    kind = chance.randrange(5)
    if kind == 0:
        out[at] ^= 1 << chance.randrange(8)
    elif kind == 1:
        out[at] = chance.choice([0, 1, 0x7F, 0x80, 0xC3, 0xFF])
    elif kind == 2:
        del out[at : at + chance.randrange(1, 5)]
    elif kind == 3:
        out[at:at] = chance.randbytes(chance.randrange(1, 5))
    return bytes(out)


def is_sound(body: bytes, request: BulkAppendRequest) -> bool:
    at, count = 0, 0
    try:
        while at < len(body):
            size = check_record(body, at, len(body))
            record = body[at : at + size]
            if not size or record[4:8] != MAGIC_V1.to_bytes(4, "big"):
                return False
            if record[SYS_FLAG_AT : SYS_FLAG_AT + 4] != bytes(4):
                return False
            topic_and_properties(record)[1].decode()  # readers replace what is no UTF-8
            (message,) = decode_records(record)
            if (message.topic, message.queue_id) != (request.topic, request.queue_id):
                return False
            if not message.body:
                return False
            at, count = at + size, count + 1
    except (ContentError, UnicodeDecodeError):
        return False
    return count == request.count
