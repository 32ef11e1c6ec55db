"""What brokers tell of messages in flight: 31060."""

from __future__ import annotations

import pytest
from support.brokers.broker_parts import GROUP, TOPIC, Client
from support.brokers.pop_parts import INVISIBLE_MS, ack, fill, pop, renew

from pocketmq.broker.handlers.popping import in_flight
from pocketmq.protocol.bodies.popping import InFlightTable, PoppedQueue
from pocketmq.protocol.codes import ResponseCode
from pocketmq.protocol.names.names import pop_retry_topic
from pocketmq.protocol.requests.extensions.in_flight import InFlightRequest
from pocketmq.testing.clock import START_MS, VirtualClock

pytestmark = pytest.mark.usefixtures("checked")

DUE_MS = START_MS + INVISIBLE_MS


async def listed(client: Client, topic: str = TOPIC, **fields: int) -> list[PoppedQueue]:
    wanted = {"count": 1000, **fields}
    request = InFlightRequest(consumer_group=GROUP, topic=topic, **wanted)
    return InFlightTable.decode((await client.ask(request)).body).queues


async def test_what_is_in_flight_and_until_when(client: Client, clock: VirtualClock) -> None:
    await fill(client, [b"%d" % number for number in range(5)])
    assert await listed(client) == []
    handed = (await pop(client, max_msg_nums=3)).messages
    (queue,) = await listed(client)
    assert (queue.queue_id, queue.next_offset, queue.count) == (0, 3, 3)
    assert (queue.offsets, queue.due_ms, queue.pop_ms) == ([0, 1, 2], [DUE_MS] * 3, [START_MS] * 3)
    assert not queue.is_ordered
    await ack(client, handed[1])
    await clock.advance(1)
    await renew(client, handed[2], 90_000)
    (queue,) = await listed(client)
    assert (queue.count, queue.offsets) == (2, [0, 2])
    assert queue.due_ms == [DUE_MS, START_MS + 91_000]
    await clock.advance(INVISIBLE_MS / 1000)
    (queue,) = await listed(client)
    assert queue.offsets == [2], "the first one was copied to the retry topic"
    assert await listed(client, pop_retry_topic(GROUP, TOPIC)) == []


async def test_of_a_queue_that_is_popped_in_order(client: Client) -> None:
    await fill(client, [b"a", b"b", b"c"])
    handed = (await pop(client, order=True, queue_id=0, max_msg_nums=2)).messages
    await ack(client, handed[0])
    (queue,) = await listed(client, queue_id=0)
    assert (queue.is_ordered, queue.count, queue.offsets) == (True, 1, [1])
    assert queue.due_ms == [DUE_MS]


async def test_a_list_is_bounded(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(in_flight, "LISTED_MAX", 70)
    for queue_id in range(4):
        await fill(client, [b"x"] * 40, queue_id=queue_id)
        for _ in range(2):
            await pop(client, queue_id=queue_id, max_msg_nums=32)
    queues = await listed(client)
    assert [(queue.count, len(queue.offsets)) for queue in queues] == [
        (40, 40), (40, 30), (40, 0), (40, 0),
    ]  # fmt: skip
    (rest,) = await listed(client, queue_id=1, offset=30)
    assert rest.offsets == list(range(30, 40))
    assert [len(queue.offsets) for queue in await listed(client, count=-1)] == [0, 0, 0, 0]
    assert await listed(client, queue_id=9) == []


async def test_an_unknown_topic_is_told(client: Client) -> None:
    refused = await client.refusal(InFlightRequest(consumer_group=GROUP, topic="Nobody"))
    assert refused.code == ResponseCode.TOPIC_NOT_EXIST
