"""Measures how a broker grows with its queues: 5,000 topics of 8 queues, 40,000 logs.

    python bench/queues.py [--topics N] [--data DIR]

Prints a line of JSON: how long the topics take to make by `Admin`; how fast 64 requests under way
send to and pull from 4, 400 and all queues in turn, with the memory of the broker by then; what the
broker sends its name server in a period; how long it takes to start after a clean stop, and after
a kill with a new message in every queue; what it then costs idle, and how many files it holds open.
`bench/run.py` makes rows of it. The directory takes about 600 MB and is removed at the end, unless
`--data` names one.
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import json
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Any

import uvloop
from own_cluster import cpu_s, memory_kb

from pocketmq.client import Admin
from pocketmq.protocol.codes import ResponseCode
from pocketmq.protocol.requests.pulling import PULL_SUBSCRIPTION, PullMessageRequest
from pocketmq.protocol.requests.sending import SendMessageV2Request
from pocketmq.protocol.wire.command import Command
from pocketmq.protocol.wire.header import RequestHeader
from pocketmq.runtime.clock import SystemClock
from pocketmq.transport.connection import Connection, ConnectionOptions

BODY = b"x" * 128
QUEUES = 8
IN_FLIGHT = 64
CREATING = 16
TIMEOUT_MS = 60_000
REGISTER_PERIOD_S = 10
"""The shortest that there is: so the idle phase sees some."""

Queue = tuple[str, int]


class Started:
    """A server in another process, and how long it took until it served."""

    def __init__(self, *command: str) -> None:
        began = time.perf_counter()
        self.process = subprocess.Popen(
            [sys.executable, "-m", "pocketmq.cli.main", *command], stdout=subprocess.PIPE, text=True
        )
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        self.start_s = time.perf_counter() - began
        self.start_cpu_s = cpu_s(self.process.pid)
        self.address = line.split()[1].partition("=")[2]
        self.pid = self.process.pid

    async def end(self, number: int) -> float:
        """Ends it by a signal; returns how many seconds that took."""
        began = time.perf_counter()
        if self.process.poll() is None:
            self.process.send_signal(number)
            await asyncio.to_thread(self.process.wait)
        return time.perf_counter() - began

    @property
    def open_files(self) -> int:
        return len(os.listdir(f"/proc/{self.pid}/fd"))


@asynccontextmanager
async def server(*command: str) -> AsyncIterator[Started]:
    """A server that is stopped cleanly, unless it was ended before."""
    started = await asyncio.to_thread(Started, *command)
    try:
        yield started
    finally:
        await started.end(signal.SIGTERM)


def name_server(work: Path) -> AbstractAsyncContextManager[Started]:
    config = work / "namesrv.yml"
    config.write_text("listenPort: 0\nbindAddress: 127.0.0.1\n")
    return server("namesrv", "-c", str(config))


def broker(work: Path, namesrv: str) -> AbstractAsyncContextManager[Started]:
    settings = {
        "storePathRootDir": str(work / "store"), "namesrvAddr": namesrv, "brokerIP1": "127.0.0.1",
        "bindAddress": "127.0.0.1", "listenPort": 0,
        "registerNameServerPeriod": REGISTER_PERIOD_S * 1000,
    }  # fmt: skip
    return server("broker", "--settings", json.dumps(settings))


class Relay:
    """Stands between broker and name server and counts what the former sends."""

    def __init__(self, target: str) -> None:
        self._host, _, port = target.rpartition(":")
        self._port = int(port)
        self._tasks: set[asyncio.Task[None]] = set()
        self.size = 0

    async def take(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Serves one connection."""
        back_reader, back_writer = await asyncio.open_connection(self._host, self._port)
        task = asyncio.ensure_future(self._pass(back_reader, writer))
        self._tasks.add(task)
        await self._pass(reader, back_writer, counted=True)

    async def _pass(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, *, counted: bool = False
    ) -> None:
        while data := await reader.read(1 << 16):
            self.size += len(data) if counted else 0
            writer.write(data)
        writer.close()


@asynccontextmanager
async def connected(address: str) -> AsyncIterator[Connection]:
    host, _, port = address.rpartition(":")
    _, connection = await asyncio.get_running_loop().create_connection(
        lambda: Connection(SystemClock(), {}, ConnectionOptions(dials=True)), host, int(port)
    )
    try:
        yield connection
    finally:
        connection.abort("the measurement is over")


def topic_names(count: int) -> list[str]:
    return [f"Topic{n:05d}" for n in range(count)]


async def create_topics(namesrv: str, topics: list[str]) -> list[float]:
    """How long each tenth of the topics took to make, in seconds."""
    tenths = []
    async with Admin(namesrv) as admin:
        size = max(len(topics) // 10, 1)
        for start in range(0, len(topics), size):
            began = time.perf_counter()
            left = iter(topics[start : start + size])

            async def creator(left: Iterator[str] = left) -> None:
                for topic in left:
                    await admin.create_topic(topic, QUEUES)

            await asyncio.gather(*(creator() for _ in range(CREATING)))
            tenths.append(time.perf_counter() - began)
    return tenths


def send_request(queue: Queue) -> RequestHeader:
    return SendMessageV2Request(
        producer_group="bench", topic=queue[0], default_topic="TBW102", default_topic_queue_nums=4,
        queue_id=queue[1], born_timestamp=time.time_ns() // 1_000_000, properties="",
    )  # fmt: skip


def pull_request(queue: Queue) -> RequestHeader:
    return PullMessageRequest(
        consumer_group="bench", topic=queue[0], queue_id=queue[1], queue_offset=0, max_msg_nums=1,
        sys_flag=PULL_SUBSCRIPTION, subscription="*", expression_type="TAG",
    )  # fmt: skip


async def requests(
    connection: Connection,
    queues: list[Queue],
    count: int,
    request: Callable[[Queue], RequestHeader],
    body: bytes = b"",
) -> list[float]:
    """Sends requests to queues in turn, `IN_FLIGHT` under way; the milliseconds of each, sorted."""
    left = itertools.islice(itertools.cycle(queues), count)
    taken: list[float] = []

    async def caller() -> None:
        for queue in left:
            began = time.perf_counter()
            header = request(queue)
            answer = await connection.call(
                Command(header.code, header=header, body=body), TIMEOUT_MS
            )
            assert answer.code == ResponseCode.SUCCESS, answer
            taken.append((time.perf_counter() - began) * 1000)

    await asyncio.gather(*(caller() for _ in range(IN_FLIGHT)))
    return sorted(taken)


async def rate(
    started: Started, what: str, calls: Callable[[], Awaitable[list[float]]]
) -> dict[str, float]:
    """Rate, latencies and CPU time a request of some calls."""
    cpu_before, began = cpu_s(started.pid), time.perf_counter()
    taken = await calls()
    elapsed_s = time.perf_counter() - began
    return {
        f"{what}_per_s": round(len(taken) / elapsed_s),
        f"{what}_cpu_us": round((cpu_s(started.pid) - cpu_before) / len(taken) * 1e6, 1),
        f"{what}_median_ms": round(statistics.median(taken), 2),
        f"{what}_p99_ms": round(taken[int(len(taken) * 0.99)], 2),
    }


async def growth(started: Started, queues: list[Queue], count: int) -> dict[str, float]:
    """What sends to and pulls from so many queues cost."""
    async with connected(started.address) as connection:
        first = await rate(
            started, "first",
            lambda: requests(
                connection, queues, max(len(queues), count // 10), send_request, BODY
            ),
        )  # fmt: skip
        sends = await rate(
            started, "send", lambda: requests(connection, queues, count, send_request, BODY)
        )
        pulls = await rate(
            started, "pull", lambda: requests(connection, queues, count, pull_request)
        )
    return {
        "queues": len(queues), **first, **sends, **pulls,
        "broker_mb": round(memory_kb(started.pid) / 1024),
        "open_files": started.open_files,
    }  # fmt: skip


async def idle(started: Started, relay: Relay, seconds: int) -> dict[str, float]:
    """What the broker costs when nobody uses it."""
    await asyncio.sleep(5)
    cpu_before, sent_before, began = cpu_s(started.pid), relay.size, time.perf_counter()
    await asyncio.sleep(seconds)
    elapsed_s = time.perf_counter() - began
    return {
        "idle_cpu_percent": round((cpu_s(started.pid) - cpu_before) / elapsed_s * 100, 2),
        "registration_bytes": round((relay.size - sent_before) / elapsed_s * REGISTER_PERIOD_S),
        "broker_mb": round(memory_kb(started.pid) / 1024),
        "open_files": started.open_files,
    }


async def questions(namesrv: str, topics: list[str]) -> dict[str, float]:
    """How long the questions that people ask take, in milliseconds."""
    found = {}
    async with Admin(namesrv) as admin:
        asked: dict[str, Callable[[], Awaitable[object]]] = {
            "topic_list": admin.topics,
            "topic_route": lambda: admin.topic_route(topics[-1]),
            "topic_stats": lambda: admin.topic_stats(topics[-1]),
            "cluster_list": admin.cluster_info,
        }
        for name, question in asked.items():
            began = time.perf_counter()
            await question()
            found[f"{name}_ms"] = round((time.perf_counter() - began) * 1000, 1)
    return found


async def measure(given: argparse.Namespace, work: Path) -> dict[str, Any]:
    """All figures by name."""
    topics = topic_names(given.topics)
    queues = [(topic, queue_id) for queue_id in range(QUEUES) for topic in topics]
    result: dict[str, Any] = {"queues": len(queues)}
    async with name_server(work) as namesrv:
        relay = Relay(namesrv.address)
        listening = await asyncio.start_server(relay.take, "127.0.0.1", 0)
        near = f"127.0.0.1:{listening.sockets[0].getsockname()[1]}"
        if not (work / "store").exists():
            async with broker(work, near) as started:
                result["empty_mb"] = round(memory_kb(started.pid) / 1024)
                tenths = await create_topics(namesrv.address, topics)
                result["create_first_s"] = round(tenths[0], 2)
                result["create_last_s"] = round(tenths[-1], 2)
                result["create_all_s"] = round(sum(tenths), 1)
                result["create_sent_mb"] = round(relay.size / 1e6, 1)
                result["growth"] = [
                    await growth(started, queues[:count], given.requests)
                    for count in (4, 400, len(queues))
                ]
                result |= {
                    f"all_{name}": result["growth"][-1][name]
                    for name in ("first_per_s", "send_per_s")
                }
                result["stop_s"] = round(await started.end(signal.SIGTERM), 2)
        async with broker(work, near) as started:
            result["start_s"] = round(started.start_s, 2)
            result["start_cpu_s"] = round(started.start_cpu_s, 2)
            result |= (at_rest := await idle(started, relay, given.seconds))
            result["idle_mb"] = at_rest["broker_mb"]
            result |= await questions(namesrv.address, topics)
            async with connected(started.address) as connection:
                await requests(connection, queues, len(queues), send_request, BODY)
            await started.end(signal.SIGKILL)
        async with broker(work, near) as started:
            result["start_after_kill_s"] = round(started.start_s, 2)
            result["start_after_kill_cpu_s"] = round(started.start_cpu_s, 2)
            result["after_kill"] = after_kill = await idle(started, relay, given.seconds)
            result["killed_mb"] = after_kill["broker_mb"]
            result["stop_after_kill_s"] = round(await started.end(signal.SIGTERM), 2)
        listening.close()
    return result


def main() -> None:
    """Prints the figures as JSON."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--topics", type=int, default=5_000)
    parser.add_argument("--requests", type=int, default=100_000, help="of each row of the growth")
    parser.add_argument("--seconds", type=int, default=25, help="of being idle")
    parser.add_argument("--data", type=Path, help="directory that is kept, and used if it is there")
    given = parser.parse_args()
    if given.data is not None:
        given.data.mkdir(parents=True, exist_ok=True)
        print(json.dumps(uvloop.run(measure(given, given.data))))
        return
    with tempfile.TemporaryDirectory(prefix="pocketmq-bench-") as directory:
        print(json.dumps(uvloop.run(measure(given, Path(directory)))))


if __name__ == "__main__":
    main()
