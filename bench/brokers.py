"""Measures what a message costs when a topic lies on 1, 2, 4 and 8 brokers.

    python bench/brokers.py [--messages N] [--brokers 1 2 4 8]

A broker is a process, and so has a core at the most; all of them and the client share this machine.
One producer of this project sends to a topic with 4 queues on each broker, `IN_FLIGHT` messages
under way for each broker, and a push consumer reads them all. Where there are fewer cores than
brokers, the brokers take turns, and each turn of the system costs; so the producer also sends to
one broker after the other, which is what a broker with a core of its own has to do. Each number of
brokers is measured in each of the rounds; the figures are medians. They become a section of
RESULTS.md.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import statistics
import sys
import tempfile
import time
from collections import Counter
from typing import NamedTuple

import uvloop
from own_cluster import Cluster, cluster_in, cpu_s, memory_kb, processes_of
from results import origin, put_section

from pocketmq.client import Admin, Message, Producer, PushConsumer, ReceivedMessage

BODY = b"x" * 128
IN_FLIGHT = 64
QUEUES = 4
TOPIC = "Scale"


class Figures(NamedTuple):
    """What one number of brokers gave in one round."""

    sent_per_s: float
    sent_cpu_us: float
    alone_cpu_us: float
    consumed_cpu_us: float
    client_cpu_us: float
    memory_mb: float
    least_share: float
    route_bytes: float


async def send(namesrv: str, count: int, in_flight: int, broker: str = "") -> Counter[str]:
    """Sends messages to all brokers or one; returns how many each broker took."""
    left, taken = count, Counter[str]()

    async with Producer("bench-producer", namesrv) as producer:
        chosen = [q for q in await producer.queues(TOPIC) if q.broker_name == broker]

        async def sender() -> None:
            nonlocal left
            while left > 0:
                left -= 1
                queue = chosen[left % QUEUES] if chosen else None
                result = await producer.send(Message(TOPIC, BODY), queue=queue)
                taken[result.queue.broker_name] += 1

        await asyncio.gather(*(sender() for _ in range(in_flight)))
    return taken


async def consume(namesrv: str, count: int) -> None:
    """Consumes all messages, each once."""
    seen: set[tuple[str, int, int]] = set()
    done = asyncio.Event()

    async def handle(messages: list[ReceivedMessage]) -> None:
        seen.update((m.broker_name, m.queue_id, m.queue_offset) for m in messages)
        if len(seen) == count:
            done.set()

    consumer = PushConsumer(
        "bench-consumer", namesrv, listener=handle, consume_from_where="CONSUME_FROM_FIRST_OFFSET"
    )
    consumer.subscribe(TOPIC)
    async with consumer:
        await done.wait()


async def measure(target: Cluster, brokers: int, messages: int) -> Figures:
    """One round with one number of brokers."""
    pids = processes_of(target.pid)
    warm = messages // 10
    async with Admin(target.namesrv) as admin:
        await admin.create_topic(TOPIC, QUEUES)
        route = await admin.topic_route(TOPIC)
    await send(target.namesrv, warm, IN_FLIGHT * brokers)
    brokers_cpu, client_cpu = sum(map(cpu_s, pids)), time.process_time()
    started = time.perf_counter()
    taken = await send(target.namesrv, messages, IN_FLIGHT * brokers)
    spent_s = time.perf_counter() - started
    sent_cpu, client_cpu = sum(map(cpu_s, pids)) - brokers_cpu, time.process_time() - client_cpu
    brokers_cpu = sum(map(cpu_s, pids))
    for broker in taken:
        await send(target.namesrv, messages // brokers, IN_FLIGHT, broker)
    alone_cpu = sum(map(cpu_s, pids)) - brokers_cpu
    brokers_cpu = sum(map(cpu_s, pids))
    all_sent = messages + warm + messages // brokers * brokers
    await consume(target.namesrv, all_sent)
    consumed_cpu = sum(map(cpu_s, pids)) - brokers_cpu
    return Figures(
        messages / spent_s,
        sent_cpu / messages * 1e6,
        alone_cpu / messages * 1e6,
        consumed_cpu / all_sent * 1e6,
        client_cpu / messages * 1e6,
        sum(map(memory_kb, pids)) / 1024,
        min(taken.values()) / messages * brokers if len(taken) == brokers else 0.0,
        len(route.encode()),
    )


def main() -> None:
    """Prints the medians as JSON and puts them into RESULTS.md."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--messages", type=int, default=200_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--brokers", type=int, nargs="+", default=[1, 2, 4, 8])
    parser.add_argument("--print-only", action="store_true", help="leave RESULTS.md as it is")
    given = parser.parse_args()
    found: dict[int, list[Figures]] = {brokers: [] for brokers in given.brokers}
    for number in range(given.rounds):
        for brokers in given.brokers:
            print(f"round {number + 1}: {brokers} brokers …", file=sys.stderr)
            with (
                tempfile.TemporaryDirectory(prefix="pocketmq-bench-") as directory,
                cluster_in(directory, "--brokers", str(brokers)) as target,
            ):
                found[brokers].append(uvloop.run(measure(target, brokers, given.messages)))
    medians = {
        brokers: Figures(*(statistics.median(column) for column in zip(*rounds, strict=True)))
        for brokers, rounds in found.items()
    }
    print(json.dumps({n: figures._asdict() for n, figures in medians.items()}))
    if given.print_only:
        return
    rows = "\n".join(
        f"| {n} | {f.sent_per_s:,.0f} msg/s | {f.sent_cpu_us:.1f} µs | {f.alone_cpu_us:.1f} µs "
        f"| {f.consumed_cpu_us:.1f} µs "
        f"| {f.client_cpu_us:.1f} µs | {f.memory_mb:.0f} MB | {f.least_share:.2f} "
        f"| {f.route_bytes:,.0f} B |"
        for n, f in medians.items()
    )
    put_section(
        "brokers",
        f"""## More brokers

{origin()} `python bench/brokers.py`: one topic with {QUEUES} queues on each broker, bodies of 128
bytes, one producer of this project with {IN_FLIGHT} messages under way for each broker, then a push
consumer that reads them all; {given.rounds} rounds, medians. Brokers and client share the cores, so
the rate does not grow here; the CPU of a message must not.

| brokers | sent | CPU to all | to one by one | read | client | memory | least share | route |
|---|---|---|---|---|---|---|---|---|
{rows}

CPU: of the brokers' processes, a message sent or read; client: of the producer's, a message sent.
Least share: of the messages, what the broker with the fewest took, as a part of an equal share.
""",
    )


if __name__ == "__main__":
    main()
