"""Locks of queues, and what follows for the retries of a group that holds any."""

from __future__ import annotations

from typing import Any

from support.brokers.broker_parts import GROUP, TOPIC, Client, Stage, send_request

from pocketmq.protocol.bodies.locks import LockBatchBody, LockBatchResult
from pocketmq.protocol.messages.message import MessageQueue
from pocketmq.protocol.names.names import dlq_topic, retry_topic
from pocketmq.protocol.requests.consuming import LockBatchRequest, UnlockBatchRequest
from pocketmq.testing.clock import VirtualClock

QUEUES = [MessageQueue(TOPIC, "broker-a", number) for number in range(2)]
QUIET: dict[str, Any] = {
    "connection_idle_timeout": 86_400_000,
    "channel_expired_timeout": 86_400_000,
}


async def lock(client: Client, client_id: str) -> list[MessageQueue]:
    """Asks for all queues; gives those that it got."""
    body = LockBatchBody.of(GROUP, client_id, QUEUES).encode()
    return LockBatchResult.decode((await client.ask(LockBatchRequest(), body)).body).queues


async def unlock(client: Client, client_id: str) -> None:
    await client.ask(UnlockBatchRequest(), LockBatchBody.of(GROUP, client_id, QUEUES).encode())


async def test_locks_go_from_member_to_member(stage: Stage, clock: VirtualClock) -> None:
    broker = await stage.broker(**QUIET)
    first, second = stage.client(broker), stage.client(broker)
    assert await lock(first, "a") == QUEUES
    assert await lock(second, "b") == []
    await unlock(second, "b")  # they are not its
    assert await lock(second, "b") == []
    await first.close()  # its listener may go on without the connection
    assert await lock(second, "b") == []
    await clock.advance(60.1)
    assert await lock(second, "b") == QUEUES
    await unlock(second, "b")
    assert await lock(second, "c") == QUEUES


async def test_a_queue_that_is_given_back_twice_in_one_request_is_free(stage: Stage) -> None:
    broker = await stage.broker(**QUIET)
    client = stage.client(broker)
    await lock(client, "a")
    twice = LockBatchBody.of(GROUP, "a", QUEUES)
    twice.mq_set *= 2
    await client.ask(UnlockBatchRequest(), twice.encode())
    assert len(broker.parts.data.order_locks) == 0
    await broker.close()
    assert await lock(await stage.start(**QUIET), "b") == QUEUES  # nor is anything kept on the disk


async def test_expired_locks_are_swept(stage: Stage, clock: VirtualClock) -> None:
    broker = await stage.broker(**QUIET)
    await lock(stage.client(broker), "a")
    await clock.advance(121)
    assert len(broker.parts.data.order_locks) == 0


async def test_a_restarted_broker_knows_who_had_what(stage: Stage) -> None:
    broker = await stage.broker(**QUIET)
    await lock(stage.client(broker), "a")
    await broker.close()
    client = await stage.start(**QUIET)
    assert await lock(client, "b") == []
    assert await lock(client, "a") == QUEUES


async def test_retries_of_a_group_with_locks_go_to_the_dead_letters(
    stage: Stage, clock: VirtualClock
) -> None:
    client = await stage.start(**QUIET)
    retry = send_request(
        topic=retry_topic(GROUP), reconsume_times=1, properties="DELAY\x013\x02RETRY_TOPIC\x01T\x02"
    )

    async def count(topic: str) -> int:
        return await client.max_offset(topic=topic)

    await client.ask(retry, b"x")
    assert await count(dlq_topic(GROUP)) == 0
    await lock(client, "a")
    await client.ask(retry, b"x")
    (dead,) = (await client.pull(topic=dlq_topic(GROUP))).messages
    assert (dead.body, dead.reconsume_times, dead.properties["DELAY"]) == (b"x", 1, "-1")
    await clock.advance(60.1)
    await client.ask(retry, b"x")
    assert await count(dlq_topic(GROUP)) == 1
    await lock(client, "a")
    await unlock(client, "a")
    await client.ask(retry, b"x")
    assert await count(dlq_topic(GROUP)) == 1
