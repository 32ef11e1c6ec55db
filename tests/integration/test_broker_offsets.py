"""Offsets of groups (14, 15), of queues (29 to 32), and messages by their place (33)."""

from __future__ import annotations

import pytest
import pytest_asyncio
from support.brokers.broker_parts import GROUP, TOPIC, Client, Stage

from pocketmq.protocol.messages.ids import parse_offset_msg_id
from pocketmq.protocol.messages.records import decode_records
from pocketmq.protocol.requests.offsets import (
    EarliestStoreTimeRequest,
    MinOffsetRequest,
    OffsetResponse,
    QueryConsumerOffsetRequest,
    SearchOffsetRequest,
    TimestampResponse,
    UpdateConsumerOffsetRequest,
    ViewMessageRequest,
)
from pocketmq.protocol.requests.topics import DeleteGroupRequest
from pocketmq.protocol.wire.command import Command
from pocketmq.testing.clock import START_MS, VirtualClock

NOT_FOUND = (22, "Not found, V3_0_6_SNAPSHOT maybe this group consumer boot first")


@pytest_asyncio.fixture
async def client(stage: Stage) -> Client:
    client = await stage.started_with_topic()
    client.make_group()
    return client


def query(queue_id: int = 0, zero: bool | None = None, topic: str = TOPIC,
          group: str = GROUP) -> QueryConsumerOffsetRequest:  # fmt: skip
    return QueryConsumerOffsetRequest(
        consumer_group=group, topic=topic, queue_id=queue_id, set_zero_if_not_found=zero
    )


def update(offset: int, queue_id: int = 0, topic: str = TOPIC,
           group: str = GROUP) -> UpdateConsumerOffsetRequest:  # fmt: skip
    return UpdateConsumerOffsetRequest(
        consumer_group=group, topic=topic, queue_id=queue_id, commit_offset=offset
    )


async def offset_of(client: Client, request: QueryConsumerOffsetRequest) -> int:
    return (await client.ask(request)).read(OffsetResponse).offset


async def lose_everything(client: Client, clock: VirtualClock) -> None:
    """Has retention remove every message."""
    store = client.broker.store
    retention = client.broker.parts.retention
    retention.reserved_ms.replace(0)
    await clock.advance(1)
    for _ in range(4):
        await retention.run()
        await store.checkpoint()


# -- where groups stand -------------------------------------------------------------------------


async def test_what_was_committed_is_found(client: Client) -> None:
    await client.ask(update(7))
    await client.ask(update(3, queue_id=1))
    client.make_group("other")
    await client.ask(update(9, group="other"))
    assert await offset_of(client, query()) == 7
    assert await offset_of(client, query(1)) == 3
    assert await offset_of(client, query(group="other")) == 9
    await client.ask(update(5))
    assert await offset_of(client, query()) == 5, "a smaller one is taken too"


async def test_a_group_without_an_offset_starts_at_0_while_the_queue_has_everything(
    client: Client, clock: VirtualClock
) -> None:
    assert await offset_of(client, query()) == 0
    assert await client.refusal(query(zero=False)) == NOT_FOUND
    await client.send()
    assert await offset_of(client, query()) == 0
    assert await offset_of(client, query(zero=True)) == 0
    assert await client.refusal(query(zero=False)) == NOT_FOUND
    await lose_everything(client, clock)
    assert await client.refusal(query()) == NOT_FOUND
    assert await client.refusal(query(zero=True)) == NOT_FOUND
    await client.ask(update(0))
    assert await offset_of(client, query(zero=False)) == 0


@pytest.mark.parametrize(
    ("offset", "queue_id"), [(-1, 0), (1 << 63, 0), (0, -1), (0, 65536), (-(1 << 62), 0)]
)
async def test_offsets_that_cannot_be_are_refused(
    client: Client, offset: int, queue_id: int
) -> None:
    code, remark = await client.refusal(update(offset, queue_id))
    assert code == 29
    assert f"no offset {offset} in queue {queue_id}" in remark
    assert client.broker.offsets.get(GROUP, TOPIC, queue_id) is None


async def test_commits_need_a_topic_and_a_group(stage: Stage, client: Client) -> None:
    code, remark = await client.refusal(update(1, topic="Unknown"))
    assert code == 17
    assert remark.startswith("Topic Unknown not exist!")
    for group in ("bad name", "unknown"):
        code, remark = await client.refusal(update(1, group=group))
        assert code == 26
        assert remark.startswith(f"Group {group} not exist!")
    assert client.broker.groups.get("unknown") is None, "a commit makes no group"
    strict = await stage.started_with_topic(
        store_path_root_dir=str(stage.directory / "strict"), auto_create_subscription_group=False
    )
    code, remark = await strict.refusal(update(1))
    assert code == 26
    assert remark.startswith(f"Group {GROUP} not exist!")


async def test_a_one_way_commit_counts(client: Client) -> None:
    connection = await client.pool.get(client.broker.address)
    await connection.oneway(Command(15, header=update(4)))
    assert await offset_of(client, query()) == 4


async def test_commits_outlive_a_restart(stage: Stage, clock: VirtualClock) -> None:
    client = await stage.started_with_topic()
    client.make_group()
    await client.ask(update(1 << 62))
    await client.broker.close()
    client = await stage.start()
    assert await offset_of(client, query()) == 1 << 62
    await client.ask(update(3))
    await clock.advance(6)
    rows = client.broker.store.metadata.consumer_offsets()
    assert (GROUP, TOPIC, 0, 3) in list(rows), "saved every 5 s, not only at the stop"


async def test_a_group_is_deleted_with_its_offsets_if_so_wished(client: Client) -> None:
    for clean in (False, True):
        client.make_group()
        await client.ask(update(2))
        await client.ask(DeleteGroupRequest(group_name=GROUP, clean_offset=clean))
        assert client.broker.groups.get(GROUP) is None
        if clean:
            assert await client.refusal(query(zero=False)) == NOT_FOUND
        else:
            assert await offset_of(client, query()) == 2


# -- where queues begin and end -----------------------------------------------------------------


async def test_queues_begin_and_end(client: Client, clock: VirtualClock) -> None:
    async def low(queue_id: int = 0, topic: str = TOPIC) -> int:
        answer = await client.ask(MinOffsetRequest(topic=topic, queue_id=queue_id))
        return answer.read(OffsetResponse).offset

    async def earliest(queue_id: int = 0, topic: str = TOPIC) -> int:
        answer = await client.ask(EarliestStoreTimeRequest(topic=topic, queue_id=queue_id))
        return answer.read(TimestampResponse).timestamp

    for place in ((0, TOPIC), (99, TOPIC), (-1, TOPIC), (0, "Unknown")):
        assert (await low(*place), await client.max_offset(*place)) == (0, 0)
        assert await earliest(*place) == -1
    await clock.advance(5)
    for _ in range(3):
        await client.send()
        await clock.advance(1)
    assert (await low(), await client.max_offset(), await earliest()) == (0, 3, START_MS + 5000)
    await lose_everything(client, clock)
    assert (await low(), await client.max_offset(), await earliest()) == (3, 3, -1)


@pytest.mark.parametrize(
    ("after_ms", "lower", "upper"),
    [
        (-1, 0, 0),  # before the first
        (0, 0, 1),  # two at this very time
        (1, 2, 1),
        (9_999, 2, 1),
        (10_000, 2, 2),
        (10_001, 3, 2),
        (20_000, 3, 3),
        (20_001, 4, 3),  # after the last
        (1 << 60, 4, 3),
    ],
)
async def test_offsets_by_time(
    client: Client, clock: VirtualClock, after_ms: int, lower: int, upper: int
) -> None:
    await client.send()
    await client.send()
    for _ in range(2):
        await clock.advance(10)
        await client.send()

    async def search(boundary: str | None) -> int:
        request = SearchOffsetRequest(
            topic=TOPIC, queue_id=0, timestamp=START_MS + after_ms, boundary_type=boundary
        )
        return (await client.ask(request)).read(OffsetResponse).offset

    assert await search(None) == lower
    assert await search("LOWER") == await search("lower") == lower
    assert await search("UPPER") == await search("upper") == upper


async def test_an_empty_queue_has_offset_0_at_any_time(client: Client) -> None:
    for queue_id, topic in ((0, TOPIC), (77, TOPIC), (0, "Unknown")):
        request = SearchOffsetRequest(topic=topic, queue_id=queue_id, timestamp=START_MS)
        assert (await client.ask(request)).read(OffsetResponse).offset == 0


# -- messages by their place --------------------------------------------------------------------


async def test_a_message_is_found_by_its_id(client: Client) -> None:
    ids = [(await client.send(b"%d" % i, queue_id=i % 3)).msg_id for i in range(9)]
    for i, msg_id in enumerate(ids):
        request = ViewMessageRequest(
            topic=TOPIC, offset=parse_offset_msg_id(msg_id).physical_offset
        )
        (message,) = decode_records((await client.ask(request)).body)
        assert (message.body, message.offset_msg_id) == (b"%d" % i, msg_id)


async def test_an_id_that_names_nothing_is_told_so(client: Client) -> None:
    place = parse_offset_msg_id((await client.send()).msg_id).physical_offset
    for offset in (place + 1, place - 1, place + 1_000_000, 0, -1, 1 << 50, (1 << 63) - 1):
        code, remark = await client.refusal(ViewMessageRequest(offset=offset))
        assert (code, remark) == (1, f"can not find message by the offset, {offset}")
