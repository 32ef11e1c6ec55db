"""Attacks by very many names, queues and locks: in one request, or in a burst of requests."""

from __future__ import annotations

import asyncio

from support.abuse.arena import TOPIC, Arena, Attack, RawConnection, batch_request
from support.abuse.pulls import pull_request

from pocketmq.protocol.bodies.clients import ConsumerData, Heartbeat, ProducerData, Subscription
from pocketmq.protocol.bodies.locks import LockBatchBody
from pocketmq.protocol.messages.batch import encode_batch
from pocketmq.protocol.messages.message import MessageQueue
from pocketmq.protocol.requests.clients import HeartbeatRequest
from pocketmq.protocol.requests.consuming import LockBatchRequest, UnlockBatchRequest
from pocketmq.protocol.requests.topics import TopicStatsRequest

STATUS_QUEUES = 65_536
BODY_SIZE = 15 * 1024 * 1024


async def locks(arena: Arena) -> None:
    """One request for the locks of very many queues, and one that gives them back."""
    attacker = await arena.connect()
    queues = [MessageQueue(TOPIC, "broker-a", n) for n in range(arena.size)]
    body = LockBatchBody.of("attackers", "attacker", queues).encode()
    async with arena.measured():
        await attacker.call(LockBatchRequest(), body)
        await attacker.call(UnlockBatchRequest(), body)


async def lock_requests(arena: Arena) -> None:
    """A burst of requests for the locks of 1,000 queues each, of a group each."""
    attacker = await arena.connect()
    queues = [MessageQueue(TOPIC, "broker-a", n) for n in range(1000)]
    burst = b"".join(
        attacker.frame(LockBatchRequest(), LockBatchBody.of(f"g{n}", "attacker", queues).encode())
        for n in range(arena.size)
    )
    await _strike(arena, attacker, burst)


async def consumer_groups(arena: Arena) -> None:
    """One heartbeat of a client that says that it consumes in very many groups."""
    data = [
        ConsumerData(group_name=f"attackers-{n}", subscription_data_set=[Subscription(topic=TOPIC)])
        for n in range(arena.size)
    ]
    await _heartbeat(arena, Heartbeat(client_id="attacker", consumer_data_set=data))


async def producer_groups(arena: Arena) -> None:
    """One heartbeat of a client that says that it produces in very many groups."""
    data = [ProducerData(group_name=f"attackers-{n}") for n in range(arena.size)]
    await _heartbeat(arena, Heartbeat(client_id="attacker", producer_data_set=data))


async def _heartbeat(arena: Arena, heartbeat: Heartbeat) -> None:
    attacker = await arena.connect()
    body = heartbeat.encode()
    async with arena.measured():
        await attacker.call(HeartbeatRequest(), body)


async def endless_body(arena: Arena) -> None:
    """A heartbeat in RocketMQ's dialect of JSON, which takes long to read."""
    attacker = await arena.connect()
    body = b'{"clientID":"a","x":[' + b"{1:1}," * (arena.size // 6)
    async with arena.measured():
        await attacker.call(HeartbeatRequest(), body)


async def new_groups(arena: Arena) -> None:
    """A burst of pulls, each of a group that was never heard of."""
    await arena.create_topic()
    attacker = await arena.connect()
    pulls = (pull_request(consumer_group=f"attackers-{n}") for n in range(arena.size))
    burst = b"".join(attacker.frame(pull) for pull in pulls)
    await _strike(arena, attacker, burst)


async def new_topics(arena: Arena) -> None:
    """A burst of sends, each to a topic that was never heard of."""
    attacker = await arena.connect()
    burst = b"".join(
        attacker.frame(batch_request(f"Attacked-{n}"), encode_batch([(0, b"x", b"")]))
        for n in range(arena.size)
    )
    await _strike(arena, attacker, burst)


async def status(arena: Arena) -> None:
    """Requests for the state of a topic with as many queues as a topic may have."""
    await arena.create_topic(STATUS_QUEUES)
    attacker = await arena.connect()
    frames = [attacker.frame(TopicStatsRequest(topic=TOPIC)) for _ in range(arena.size)]
    await _strike(arena, attacker, b"".join(frames))


async def _strike(arena: Arena, attacker: RawConnection, burst: bytes) -> None:
    count = arena.size
    async with arena.measured():
        reading = asyncio.ensure_future(attacker.read_many(count))
        await attacker.write(burst)
        await reading


ATTACKS = [
    Attack("the locks of 20,000 queues in one request", locks, 20_000, 5_000),
    Attack("200 requests for 1,000 locks each", lock_requests, 200, 20),
    Attack("a heartbeat with 20,000 consumer groups", consumer_groups, 20_000, 3_000),
    Attack("a heartbeat with 5,000 consumer groups", consumer_groups, 5_000, None),
    Attack("a heartbeat with 29,000 producer groups", producer_groups, 29_000, 20_000),
    Attack("a heartbeat with 300,000 producer groups", producer_groups, 300_000, None),
    Attack("a heartbeat of 15 MiB in the dialect of JSON", endless_body, BODY_SIZE, 1024 * 1024),
    Attack("30,000 pulls of new groups", new_groups, 30_000, 2_000),
    Attack("10,000 sends to new topics", new_topics, 10_000, 300),
    Attack("the state of 65,536 queues", status, 1, 1),
    Attack("the state of 65,536 queues, ten times", status, 10, None),
]
