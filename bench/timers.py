"""Measures what a million pending timers cost a broker, and how late what is due comes.

    python bench/timers.py [--timers N]

Prints a line of JSON: the memory of the broker (with its name server) empty, with the timers, and
after a restart with them; how long that restart takes, and the one after a kill, until the broker
has them all in order; and how late 1,000 messages a second come, as timers and as messages of a
delay level, to a consumer, while all those timers wait. `bench/run.py` makes rows of it.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import random
import signal
import tempfile
import time
from typing import Any

import uvloop
from own_cluster import Cluster, cluster_in, memory_kb

from pocketmq.client import Admin, Message, Producer, PushConsumer, ReceivedMessage

BODY = b"x" * 128
QUEUES = 8
IN_FLIGHT = 128
DAY_MS = 86_400_000
DUE_PER_S = 1_000
LEVEL_MS = 1_000
FIRST_DUE_MS = 3_000


def now_ms() -> float:
    return time.time_ns() / 1e6


async def send_pending(namesrv: str, count: int) -> None:
    """Sends timers that are due in an hour to three days."""
    chance, left = random.Random(1), count
    async with Producer("bench-timers", namesrv) as producer:

        async def sender() -> None:
            nonlocal left
            while left > 0:
                left -= 1
                delay_ms = chance.randrange(DAY_MS // 24, 3 * DAY_MS)
                await producer.send(Message("Pending", BODY, delay_ms=delay_ms))

        await asyncio.gather(*(sender() for _ in range(IN_FLIGHT)))


async def lateness_ms(namesrv: str, topic: str, seconds: int, *, level: bool) -> list[float]:
    """How much later than due each message comes to a listener, sorted.

    A message of a level is due a second after the broker took it; counted is from before its send,
    so that the figure is rather too high.
    """
    late: list[float] = []
    wanted = DUE_PER_S * seconds
    done = asyncio.Event()

    async def handle(messages: list[ReceivedMessage]) -> None:
        now = now_ms()
        late.extend(now - float(message.body) for message in messages)
        if len(late) >= wanted:
            done.set()

    consumer = PushConsumer(f"bench-{topic}", namesrv, listener=handle)
    consumer.subscribe(topic)
    async with consumer, Producer("bench-timers", namesrv) as producer:
        assert len(consumer.queues) == QUEUES
        await producer.queues(topic)
        await producer.send(Message("Warm", BODY))  # the first send waits for route and connection
        sends: set[asyncio.Task[Any]] = set()
        started = time.perf_counter()
        first_ms = now_ms() + FIRST_DUE_MS
        for n in range(wanted):
            if n % 5 == 0:
                await asyncio.sleep(max(0.0, started + n / DUE_PER_S - time.perf_counter()))
            if level:
                body = str(now_ms() + LEVEL_MS).encode()
                message = Message(topic, body, delay_level=1)
            else:
                due_ms = round(first_ms + n * 1000 / DUE_PER_S)
                message = Message(topic, str(due_ms), deliver_at_ms=due_ms)
            task = asyncio.create_task(producer.send(message))
            sends.add(task)
            task.add_done_callback(sends.discard)
        await done.wait()
    assert len(late) == wanted
    return sorted(late)


async def until_in_order(target: Cluster, begun: float) -> float:
    """Seconds from a start until a new timer comes, which means that all others are indexed."""
    came = asyncio.Event()

    async def handle(_: list[ReceivedMessage]) -> None:
        came.set()

    consumer = PushConsumer(f"bench-{begun}".replace(".", "-"), target.namesrv, listener=handle)
    consumer.subscribe("Probe")
    async with consumer, Producer("bench-timers", target.namesrv) as producer:
        await producer.send(Message("Probe", BODY, delay_ms=1))
        await came.wait()
    return time.perf_counter() - begun


async def measure(given: argparse.Namespace) -> dict[str, float]:
    """All figures by name."""
    with tempfile.TemporaryDirectory(prefix="pocketmq-bench-") as directory:
        with cluster_in(directory) as target:
            async with Admin(target.namesrv) as admin:
                for topic in ("Pending", "Timers", "Level", "Probe", "Warm"):
                    await admin.create_topic(topic, QUEUES)
            empty_kb = memory_kb(target.pid)
            begun = time.perf_counter()
            await send_pending(target.namesrv, given.timers)
            sends_per_s = given.timers / (time.perf_counter() - begun)
            pending_kb = memory_kb(target.pid)
        begun = time.perf_counter()
        with cluster_in(directory) as target:
            restart_s = await until_in_order(target, begun)
            restarted_kb = memory_kb(target.pid)
            timers = await lateness_ms(target.namesrv, "Timers", given.seconds, level=False)
            level = await lateness_ms(target.namesrv, "Level", given.seconds, level=True)
            os.kill(target.pid, signal.SIGKILL)
        begun = time.perf_counter()
        with cluster_in(directory) as target:
            killed_s = await until_in_order(target, begun)
    return {
        "timers": given.timers,
        "timer_sends_per_s": round(sends_per_s),
        "empty_mb": round(empty_kb / 1024, 1),
        "pending_mb": round(pending_kb / 1024, 1),
        "restarted_mb": round(restarted_kb / 1024, 1),
        "restart_s": round(restart_s, 2),
        "restart_after_kill_s": round(killed_s, 2),
        "timers_late_median_ms": round(timers[len(timers) // 2], 2),
        "timers_late_max_ms": round(timers[-1], 2),
        "level_late_median_ms": round(level[len(level) // 2], 2),
        "level_late_max_ms": round(level[-1], 2),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--timers", type=int, default=1_000_000)
    parser.add_argument("--seconds", type=int, default=20, help="of what is measured over time")
    print(json.dumps(uvloop.run(measure(parser.parse_args()))))


if __name__ == "__main__":
    main()
