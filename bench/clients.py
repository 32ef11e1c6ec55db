"""Measures the CPU that a message costs a client: ours, RocketMQ's Java client, and aiokafka.

    python bench/clients.py [--messages N] [--rounds N] [--jars DIR] [--reference DIR] [--kafka DIR]

Each client runs in a process of its own, against the broker that it is made for: ours and Java's
against PocketMQ, aiokafka against Kafka, which the reference folder runs (jars are kept in
`--jars` and `--kafka`). A producer has 64
messages of 128 bytes under way (awaited; with blocking clients as many threads), a consumer reads
a backlog with a listener that does nothing, message by message. All cases take turns, round by
round; the figures are medians of the microseconds of user and system time a message. Without the
reference folder the others are left out, without aiokafka that. The figures become a section of
RESULTS.md.
"""

from __future__ import annotations

import argparse
import asyncio
import importlib.util
import json
import os
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Awaitable, Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import uvloop
from own_cluster import cluster
from results import origin, put_section
from spark_kafka import kafka

from pocketmq.client import Admin, Message, Producer, PushConsumer, ReceivedMessage, blocking

ROOT = Path(__file__).resolve().parent
BODY = b"x" * 128
IN_FLIGHT = 64
QUEUES = 8
FIRST = "CONSUME_FROM_FIRST_OFFSET"
BARS = {"send, ours": 25.0, "consume, ours": 6.0}


class Meter:
    """Measures the CPU of this process from the end of the warming up to the last message."""

    def __init__(self, warm: int, count: int) -> None:
        self._warm, self._count = warm, count
        self._seen, self._begun, self.spent_s = 0, 0.0, 0.0

    def add(self, count: int) -> bool:
        """Counts messages; tells whether the last one was there."""
        before, self._seen = self._seen, self._seen + count
        if before < self._warm <= self._seen:
            self._begun = time.process_time()
        if before < self._warm + self._count <= self._seen:
            self.spent_s = time.process_time() - self._begun
        return self._seen >= self._warm + self._count


async def awaited_sends(send: Callable[[], Awaitable[object]], warm: int, count: int) -> float:
    """CPU seconds of `count` awaited sends, `IN_FLIGHT` under way together."""

    async def together(left: int) -> None:
        async def sender() -> None:
            nonlocal left
            while left > 0:
                left -= 1
                await send()

        await asyncio.gather(*(sender() for _ in range(IN_FLIGHT)))

    await together(warm)
    begun = time.process_time()
    await together(count)
    return time.process_time() - begun


async def send_ours(address: str, topic: str, warm: int, count: int) -> float:
    async with Producer("bench-producer", address) as producer:
        return await awaited_sends(lambda: producer.send(Message(topic, BODY)), warm, count)


def send_blocking(address: str, topic: str, warm: int, count: int) -> float:
    def together(count: int) -> None:
        def sender() -> None:
            for _ in range(-(-count // IN_FLIGHT)):
                producer.send(Message(topic, BODY))

        threads = [threading.Thread(target=sender) for _ in range(IN_FLIGHT)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    with blocking.Producer("bench-producer", address) as producer:
        together(warm)
        begun = time.process_time()
        together(count)
        return time.process_time() - begun


async def consume_ours(address: str, topic: str, warm: int, count: int) -> float:
    meter, done = Meter(warm, count), asyncio.Event()

    async def handle(messages: list[ReceivedMessage]) -> None:
        if meter.add(len(messages)):
            done.set()

    consumer = PushConsumer(_group(), address, listener=handle, consume_from_where=FIRST)
    consumer.subscribe(topic)
    async with consumer:
        await done.wait()
    return meter.spent_s


def consume_blocking(address: str, topic: str, warm: int, count: int) -> float:
    meter, done, lock = Meter(warm, count), threading.Event(), threading.Lock()

    def handle(messages: list[ReceivedMessage]) -> None:
        with lock:
            if meter.add(len(messages)):
                done.set()

    consumer = blocking.PushConsumer(_group(), address, listener=handle, consume_from_where=FIRST)
    consumer.subscribe(topic)
    with consumer:
        done.wait()
    return meter.spent_s


async def send_aiokafka(address: str, topic: str, warm: int, count: int) -> float:
    from aiokafka import AIOKafkaProducer

    async with AIOKafkaProducer(bootstrap_servers=address, acks="all") as producer:
        return await awaited_sends(lambda: producer.send_and_wait(topic, BODY), warm, count)


async def consume_aiokafka(address: str, topic: str, warm: int, count: int) -> float:
    from aiokafka import AIOKafkaConsumer

    meter = Meter(warm, count)
    async with AIOKafkaConsumer(
        topic, bootstrap_servers=address, group_id=_group(), auto_offset_reset="earliest"
    ) as consumer:
        async for _ in consumer:
            if meter.add(1):
                break
    return meter.spent_s


def _group() -> str:
    return f"bench-{time.time_ns()}"


CASES: dict[str, Callable[..., Any]] = {
    "send, ours": send_ours,
    "send, ours, blocking": send_blocking,
    "send, aiokafka": send_aiokafka,
    "consume, ours": consume_ours,
    "consume, ours, blocking": consume_blocking,
    "consume, aiokafka": consume_aiokafka,
}


def run_case(given: argparse.Namespace) -> None:
    """Runs one case in this process; prints microseconds a message."""
    case, (address, topic) = CASES[given.case], given.at
    found = case(address, topic, given.messages // 4, given.messages)
    spent_s = found if isinstance(found, float) else uvloop.run(found)
    print(spent_s / given.messages * 1e6)


def in_process(case: str, address: str, topic: str, given: argparse.Namespace) -> float:
    """Runs one case in a process of its own."""
    if case.endswith("Java's"):
        command = ["java", "-Xmx512m", "-cp", f"{given.jars}/*", str(ROOT / "ClientCpu.java"),
                   case.partition(",")[0], address, topic, str(given.messages // 4),
                   str(given.messages)]  # fmt: skip
    else:
        command = [sys.executable, str(ROOT / "clients.py"), "--messages", str(given.messages),
                   "--case", case, "--at", address, topic]  # fmt: skip
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
    return float(done.stdout)


async def make_kafka_topic(address: str, topic: str) -> None:
    from aiokafka.admin import AIOKafkaAdminClient, NewTopic

    admin = AIOKafkaAdminClient(bootstrap_servers=address)
    await admin.start()
    try:
        await admin.create_topics([NewTopic(topic, QUEUES, 1)])
    finally:
        await admin.close()


async def make_topic(address: str, topic: str) -> None:
    async with Admin(address) as admin:
        await admin.create_topic(topic, QUEUES)


def fetch_jars(given: argparse.Namespace) -> None:
    """Fetches RocketMQ's jars with Maven, once."""
    if not given.jars.is_dir():
        subprocess.run(
            ["mvn", "-q", "-f", given.reference / "pom.xml", "dependency:copy-dependencies",
             f"-DoutputDirectory={given.jars}"],
            check=True,
        )  # fmt: skip


def measure(given: argparse.Namespace) -> dict[str, list[float]]:
    """All figures by case, one a round."""
    whose = ["ours", "ours, blocking"]
    has_reference = given.reference.is_dir()
    if has_reference:
        fetch_jars(given)
        whose.append("Java's")
    else:
        print(f"{given.reference} is not there: ours are measured alone", file=sys.stderr)
    found: dict[str, list[float]] = {}
    with ExitStack() as stack:
        ours, theirs = stack.enter_context(cluster()).namesrv, ""
        if has_reference and importlib.util.find_spec("aiokafka"):
            theirs, _ = stack.enter_context(kafka(given.reference / "spark-kafka", given.kafka))
            whose.append("aiokafka")
        for number in range(given.rounds):
            for client in whose:
                address, topic = ours, f"Clients-{number}-{len(found)}"
                if client == "aiokafka":
                    address = theirs
                    asyncio.run(make_kafka_topic(address, topic))
                else:
                    asyncio.run(make_topic(address, topic))
                for what in ("send", "consume"):
                    case = f"{what}, {client}"
                    print(f"round {number + 1}: {case} …", file=sys.stderr)
                    found.setdefault(case, []).append(in_process(case, address, topic, given))
    return found


def main() -> None:
    """Prints the figures as JSON and puts the medians into RESULTS.md."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--messages", type=int, default=200_000)
    parser.add_argument("--rounds", type=int, default=3)
    scratch = Path(tempfile.gettempdir())
    parser.add_argument("--jars", type=Path, default=scratch / "rocketmq-jars")
    parser.add_argument(
        "--reference", type=Path, default=ROOT.parent.parent / "shared" / "reference"
    )
    parser.add_argument("--kafka", type=Path, default=scratch / "spark-kafka")
    parser.add_argument("--print-only", action="store_true", help="leave RESULTS.md as it is")
    parser.add_argument("--case", choices=list(CASES), help=argparse.SUPPRESS)
    parser.add_argument("--at", nargs=2, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.case is not None:
        run_case(given)
        return
    found = measure(given)
    print(json.dumps({case: [round(value, 2) for value in each] for case, each in found.items()}))
    if given.print_only:
        return
    rows = []
    for case, each in found.items():
        median, bar = statistics.median(each), BARS.get(case)
        holds = "" if bar is None else "yes" if median <= bar else "NO"
        limit = "" if bar is None else f"≤ {bar:g} µs"
        rows.append(
            f"| {case} | {median:.1f} µs | {min(each):.1f} to {max(each):.1f} | {limit} | {holds} |"
        )
    put_section(
        "clients",
        f"""## CPU of the clients

{origin()} `python bench/clients.py`: {given.messages:,} messages of 128 bytes after a quarter as
many, {IN_FLIGHT} sends under way; medians of {given.rounds} rounds. aiokafka talks to Kafka
(acks=all), the others to PocketMQ.

| what | CPU a message | rounds | bar | holds |
|---|---|---|---|---|
{os.linesep.join(rows)}
""",
    )


if __name__ == "__main__":
    main()
