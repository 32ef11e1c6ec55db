"""Measures this project's own client against its own broker, each in one process.

    python bench/client.py [--messages N]

Prints a line of JSON: how many awaited sends a second a producer manages with 64 under way, how
many messages a second a push consumer hands to a coroutine that does nothing, how long a message is
on its way at 1,000 a second, and what 10,000 idle long polls cost the broker. `bench/run.py` makes
rows of it.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import statistics
import time
from typing import Any, NamedTuple

import uvloop
from own_cluster import Cluster, cluster, cpu_s, memory_kb

from pocketmq.client import Admin, Message, Producer, PushConsumer, ReceivedMessage
from pocketmq.client.settings import PushSettings
from pocketmq.protocol.codes import ResponseCode
from pocketmq.protocol.requests.pulling import (
    PULL_SUBSCRIPTION,
    PULL_SUSPEND,
    PullMessageRequest,
)
from pocketmq.protocol.wire.command import Command
from pocketmq.runtime.clock import SystemClock
from pocketmq.transport.connection import Connection, ConnectionOptions

BODY = b"x" * 128
IN_FLIGHT = 64
QUEUES = 8
PACED_PER_S = 1_000
PACED_BURSTS_PER_S = 200
HOLD_MS = PushSettings().pull_hold_ms


async def sends_per_s(namesrv: str, topic: str, count: int) -> float:
    """Awaited sends a second, `IN_FLIGHT` under way together."""
    left = count

    async with Producer("bench-producer", namesrv) as producer:

        async def sender() -> None:
            nonlocal left
            while left > 0:
                left -= 1
                await producer.send(Message(topic, BODY))

        started = time.perf_counter()
        await asyncio.gather(*(sender() for _ in range(IN_FLIGHT)))
        return count / (time.perf_counter() - started)


async def consumed_per_s(namesrv: str, topic: str, count: int) -> float:
    """Messages a second of a push consumer that finds `count` of them waiting."""
    seen, started = 0, 0.0
    done = asyncio.Event()

    async def handle(messages: list[ReceivedMessage]) -> None:
        nonlocal seen, started
        started = started or time.perf_counter()
        seen += len(messages)
        if seen >= count:
            done.set()

    consumer = PushConsumer(
        "bench-consumer", namesrv, listener=handle, consume_from_where="CONSUME_FROM_FIRST_OFFSET"
    )
    consumer.subscribe(topic)
    async with consumer:
        await done.wait()
        return seen / (time.perf_counter() - started)


async def latencies_ms(namesrv: str, topic: str, seconds: int) -> list[float]:
    """From before the send to the listener, at `PACED_PER_S` messages a second, sorted."""
    found: list[float] = []
    wanted = PACED_PER_S * seconds
    done = asyncio.Event()

    async def handle(messages: list[ReceivedMessage]) -> None:
        now = time.perf_counter()
        found.extend((now - float(message.body)) * 1000 for message in messages)
        if len(found) >= wanted:
            done.set()

    burst = PACED_PER_S // PACED_BURSTS_PER_S
    consumer = PushConsumer("bench-latency", namesrv, listener=handle)
    consumer.subscribe(topic)
    async with consumer, Producer("bench-producer", namesrv) as producer:
        assert len(consumer.queues) == QUEUES
        sends: set[asyncio.Task[Any]] = set()
        started = time.perf_counter()
        for n in range(PACED_BURSTS_PER_S * seconds):
            await asyncio.sleep(max(0.0, started + n / PACED_BURSTS_PER_S - time.perf_counter()))
            for _ in range(burst):
                body = str(time.perf_counter()).encode()
                task = asyncio.create_task(producer.send(Message(topic, body)))
                sends.add(task)
                task.add_done_callback(sends.discard)
        await done.wait()
    return sorted(found)


class Idle(NamedTuple):
    """What idle consumers cost a broker."""

    poll_kb: float
    connection_kb: float
    cpu_percent: float


async def idle_polls(target: Cluster, topic: str, count: int, seconds: int) -> Idle:
    """`count` consumers with a connection and a held pull each, over and over."""
    host, _, port = target.broker.rpartition(":")
    clock, loop = SystemClock(), asyncio.get_running_loop()
    await asyncio.sleep(1)
    at_first_kb = memory_kb(target.pid)
    connections = []
    for _ in range(count):
        _, connection = await loop.create_connection(
            lambda: Connection(clock, {}, ConnectionOptions(dials=True)), host, int(port)
        )
        connections.append(connection)
    await asyncio.sleep(1)
    connected_kb = memory_kb(target.pid)

    async def poll(connection: Connection, queue_id: int) -> None:
        while True:
            request = PullMessageRequest(
                consumer_group="bench-idle", topic=topic, queue_id=queue_id, queue_offset=0,
                sys_flag=PULL_SUBSCRIPTION | PULL_SUSPEND, suspend_timeout_millis=HOLD_MS,
                subscription="*", expression_type="TAG",
            )  # fmt: skip
            answer = await connection.call(Command(request.code, header=request), 2 * HOLD_MS)
            assert answer.code == ResponseCode.PULL_NOT_FOUND, answer

    polls = []
    for n, connection in enumerate(connections):
        polls.append(asyncio.create_task(poll(connection, n % QUEUES)))
        if n % 100 == 99:  # consumers do not start at the same moment
            await asyncio.sleep(HOLD_MS / 1000 * 100 / count)
    await asyncio.sleep(HOLD_MS / 1000)
    polling_kb = memory_kb(target.pid)
    cpu_before, before = cpu_s(target.pid), time.perf_counter()
    await asyncio.sleep(seconds)
    percent = (cpu_s(target.pid) - cpu_before) / (time.perf_counter() - before) * 100
    for task in polls:
        task.cancel()
    await asyncio.gather(*polls, return_exceptions=True)
    for connection in connections:
        connection.abort("the measurement is over")
    return Idle((polling_kb - connected_kb) / count, (connected_kb - at_first_kb) / count, percent)


async def measure(given: argparse.Namespace) -> dict[str, float]:
    """All figures by name."""
    with cluster() as target:
        async with Admin(target.namesrv) as admin:
            for topic in ("Warm", "Backlog", "Paced", "Idle"):
                await admin.create_topic(topic, QUEUES)
        await sends_per_s(target.namesrv, "Warm", given.messages // 10)
        produced = await sends_per_s(target.namesrv, "Backlog", given.messages)
        consumed = await consumed_per_s(target.namesrv, "Backlog", given.messages)
        latencies = await latencies_ms(target.namesrv, "Paced", given.seconds)
    with cluster() as target:
        async with Admin(target.namesrv) as admin:
            await admin.create_topic("Idle", QUEUES)
        idle = await idle_polls(target, "Idle", given.polls, given.seconds)
    return {
        "sends_per_s": round(produced),
        "consumed_per_s": round(consumed),
        "latency_median_ms": round(statistics.median(latencies), 2),
        "latency_p99_ms": round(latencies[int(len(latencies) * 0.99)], 2),
        "idle_poll_kb": round(idle.poll_kb, 2),
        "idle_connection_kb": round(idle.connection_kb, 2),
        "idle_cpu_percent": round(idle.cpu_percent, 2),
    }


def main() -> None:
    """Prints the figures as JSON."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--messages", type=int, default=300_000)
    parser.add_argument("--seconds", type=int, default=15, help="of the latency and idle rows")
    parser.add_argument("--polls", type=int, default=10_000)
    print(json.dumps(uvloop.run(measure(parser.parse_args()))))


if __name__ == "__main__":
    main()
