"""Messages by key (12), and what a queue's index holds (321)."""

from __future__ import annotations

from typing import Any

import pytest
from support.brokers.broker_parts import GROUP, SEGMENT_SIZE, TOPIC, Client, Stage, advance_until

from pocketmq.broker.handlers.consuming import queries
from pocketmq.protocol.bodies.clients import Subscription
from pocketmq.protocol.bodies.queries import ConsumeQueueEntries
from pocketmq.protocol.messages import properties as props
from pocketmq.protocol.messages.message import ReceivedMessage
from pocketmq.protocol.messages.records import decode_records
from pocketmq.protocol.requests.queries import (
    QueryConsumeQueueRequest,
    QueryMessageRequest,
    QueryMessageResponse,
)
from pocketmq.testing.clock import START_MS, VirtualClock

NOT_FOUND = (22, "can not find message, maybe time range not correct")
FOREVER_MS = 2**63 - 1


def by_key(key: str, **fields: Any) -> QueryMessageRequest:
    given: dict[str, Any] = {
        "topic": TOPIC,
        "key": key,
        "max_num": 32,
        "begin_timestamp": 0,
        "end_timestamp": FOREVER_MS,
    }
    return QueryMessageRequest(**(given | fields))


def properties(unique_key: str = "", keys: str = "", tags: str = "") -> str:
    given = {props.UNIQ_KEY: unique_key, props.KEYS: keys, props.TAGS: tags}
    return props.encode({name: value for name, value in given.items() if value})


async def found(client: Client, request: QueryMessageRequest) -> list[ReceivedMessage]:
    return list(decode_records((await client.ask(request)).body))


async def bodies(client: Client, key: str, **fields: Any) -> list[bytes]:
    return [m.body for m in await found(client, by_key(key, **fields))]


async def fill(client: Client, count: int = 300) -> None:
    """More than one segment of messages, in two queues."""
    for i in range(count):
        text = properties(f"UNIQUE{i:06d}", f"k{i} all", "TagA")
        await client.send(b"%d" % i + bytes(400), queue_id=i % 2, properties=text)


async def test_messages_are_found_by_unique_key_key_and_tag(client: Client) -> None:
    await client.send(b"one", properties=properties("U1", "order-1 customer-9", "T1"))
    await client.send(b"two", queue_id=3, properties=properties("U2", "order-2 customer-9", "T2"))
    await client.send(b"none")
    assert await bodies(client, "order-1") == [b"one"]
    assert await bodies(client, "customer-9") == [b"one", b"two"]
    assert await bodies(client, "U2") == [b"two"], "RocketMQ has one index for both kinds of keys"
    assert await bodies(client, "order-2", unique_key_query="true") == [b"two"]
    assert await bodies(client, "T1", index_type="T") == [b"one"]
    for request in (
        by_key("T1"),
        by_key("order"),
        by_key("order-1 customer-9"),
        by_key("order-1", index_type="T"),
        by_key("order-1", topic="Unknown"),
        by_key(""),
    ):
        assert await client.refusal(request) == NOT_FOUND


async def test_the_answer_says_up_to_where_was_searched(client: Client) -> None:
    await client.send(b"one", properties=properties("U1"))
    answer = await client.ask(by_key("U1"))
    header = answer.read(QueryMessageResponse)
    assert header.index_last_update_timestamp == START_MS
    assert header.index_last_update_phyoffset > 0
    nothing = await client.call(by_key("none"))
    assert nothing.read(QueryMessageResponse) == QueryMessageResponse()


async def test_both_ends_of_the_time_range_belong_to_it(
    client: Client, clock: VirtualClock
) -> None:
    for i in range(4):
        await client.send(b"%d" % i, queue_id=i % 2, properties=properties(f"U{i}", "k"))
        await clock.advance(1)
    times = {"begin_timestamp": START_MS + 1000, "end_timestamp": START_MS + 2000}
    assert await bodies(client, "k", **times) == [b"1", b"2"]
    assert await bodies(client, "k", begin_timestamp=START_MS + 2001) == [b"3"]
    assert await bodies(client, "k", end_timestamp=START_MS) == [b"0"]
    assert await bodies(client, "k", begin_timestamp=-FOREVER_MS) == [b"0", b"1", b"2", b"3"]
    swapped = by_key("k", begin_timestamp=START_MS + 2000, end_timestamp=START_MS + 1000)
    assert await client.refusal(swapped) == NOT_FOUND


async def test_the_newest_messages_are_taken_in_the_order_of_their_times(
    client: Client, clock: VirtualClock
) -> None:
    for i in range(80):
        await client.send(b"%d" % i, queue_id=i % 3, properties=properties("same", "k"))
        await clock.advance(0.001)
    assert await bodies(client, "k", max_num=3) == [b"77", b"78", b"79"]
    assert len(await bodies(client, "k", max_num=1000)) == 64
    assert len(await bodies(client, "same", max_num=1, unique_key_query="true")) == 32
    for nonsense in (0, -1):
        assert await client.refusal(by_key("k", max_num=nonsense)) == NOT_FOUND


async def test_large_messages_are_left_out_before_the_answer_is_too_large(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(queries, "QUERY_SIZE_MAX", 3000)
    for i in range(4):
        await client.send(b"%d" % i * 1000, properties=properties(f"U{i}", "k"))
    assert await bodies(client, "k") == [b"2" * 1000, b"3" * 1000]
    await client.send(b"4" * 5000, properties=properties("U4", "k"))
    assert await bodies(client, "k") == [b"4" * 5000]


async def test_indexed_messages_are_found_as_those_that_are_not(
    stage: Stage, clock: VirtualClock
) -> None:
    client = await stage.started_with_topic(segment_size=SEGMENT_SIZE)
    await fill(client)
    before = await bodies(client, "k7") + await bodies(client, "all")
    store = client.broker.store
    await advance_until(clock, lambda: list(store.directory.rglob("*.keys")))
    assert await bodies(client, "k7") + await bodies(client, "all") == before
    assert len(await bodies(client, "all", max_num=64)) == 64


async def test_messages_are_found_after_a_restart_and_without_their_key_files(
    stage: Stage, clock: VirtualClock
) -> None:
    settings: dict[str, Any] = {"segment_size": SEGMENT_SIZE}
    client = await stage.started_with_topic(**settings)
    await fill(client)
    await clock.advance(3)
    before = await bodies(client, "all")
    await client.broker.close()
    again = await stage.start(**settings)
    assert await bodies(again, "all") == before
    directory = again.broker.store.directory
    await again.broker.close()
    for path in list(directory.rglob("*.keys")):
        path.unlink()
    last = await stage.start(**settings)
    assert await bodies(last, "all") == before
    assert await bodies(last, "UNIQUE000003", unique_key_query="true") != []
    await clock.advance(3)
    assert list(directory.rglob("*.keys")), "they are made again"
    assert await bodies(last, "all") == before


async def test_what_retention_took_and_what_was_deleted_is_not_found(
    stage: Stage, clock: VirtualClock
) -> None:
    client = await stage.started_with_topic(segment_size=SEGMENT_SIZE)
    await fill(client)
    await clock.advance(3)
    store = client.broker.store
    retention = client.broker.parts.retention
    retention.reserved_ms.replace(0)
    await retention.run()
    await store.checkpoint()
    await retention.run()
    await store.checkpoint()
    assert await client.refusal(by_key("k1")) == NOT_FOUND
    await client.send(b"new", properties=properties("U", "k1"))
    assert await bodies(client, "k1") == [b"new"]
    await store.delete_topic(TOPIC)
    assert await client.refusal(by_key("k1")) == NOT_FOUND
    await client.send(b"newer", properties=properties("U", "k1"))
    assert await bodies(client, "k1") == [b"newer"]


# -- what a queue's index holds -----------------------------------------------------------------


def entries(index: int = 0, count: int = 10, **fields: Any) -> QueryConsumeQueueRequest:
    given: dict[str, Any] = {"topic": TOPIC, "queue_id": 0, "index": index, "count": count}
    return QueryConsumeQueueRequest(**(given | fields))


async def test_entries_of_a_queue_are_shown(client: Client) -> None:
    for tags in ("A", "B", ""):
        await client.send(b"x", properties=properties("U", tags=tags))
    shown = ConsumeQueueEntries.decode((await client.ask(entries())).body)
    assert (shown.min_queue_index, shown.max_queue_index) == (0, 3)
    assert [e.tags_code for e in shown.queue_data] == [props.tags_code(t) for t in ("A", "B", "")]
    pulled = (await client.pull()).messages
    assert [(e.physic_offset, e.physic_size) for e in shown.queue_data] == [
        (m.physical_offset, m.store_size) for m in pulled
    ]
    assert (shown.subscription_data, shown.filter_data) == (None, None)
    part = ConsumeQueueEntries.decode((await client.ask(entries(1, 1))).body)
    assert part.queue_data == shown.queue_data[1:2]
    for index, count in ((0, 0), (0, -1)):
        none = ConsumeQueueEntries.decode((await client.ask(entries(index, count))).body)
        assert none.queue_data == []


async def test_the_filter_of_a_group_is_shown_with_them(client: Client) -> None:
    await client.send(b"x")
    offline = ConsumeQueueEntries.decode((await client.ask(entries(consumer_group=GROUP))).body)
    assert offline.filter_data == f"{GROUP}@{TOPIC} is not online!"
    await client.heartbeat(Subscription.of_tags(TOPIC, "A || B", 1))
    online = ConsumeQueueEntries.decode((await client.ask(entries(consumer_group=GROUP))).body)
    assert online.subscription_data is not None
    assert online.subscription_data.sub_string == "A || B"


async def test_there_is_no_such_queue_or_entry(client: Client) -> None:
    assert await client.refusal(entries(queue_id=7)) == (1, f"7@{TOPIC} is not exist!")
    await client.send(b"x")
    for index in (-1, 1, 2):
        answer = await client.ask(entries(index))
        assert answer.remark == f"Index {index} of 0@{TOPIC} is not exist!"
        nothing = ConsumeQueueEntries.decode(answer.body)
        assert (nothing.queue_data, nothing.max_queue_index) == ([], 1)
