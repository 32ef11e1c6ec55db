"""Measures how rate, latency and memory grow with body size, connections and queues: `make growth`.

    python bench/growth.py [--reference DIR] [--jars DIR] [--seconds N] [--points NAME ...]

One generator drives PocketMQ and, with the reference folder, Apache RocketMQ 5.5.0 at one point
after the other: raw connections, each of which sends the next message when the last one was
acknowledged. The table and the chart go into bench/RESULTS.md and bench/growth.svg.
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import json
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple, cast

import psutil
import uvloop
from results import origin, put_section
from rich.console import Console
from rich.progress import Progress

from pocketmq.client import Admin
from pocketmq.protocol.requests.sending import SendMessageV2Request
from pocketmq.protocol.wire import frames
from pocketmq.protocol.wire.command import Command

ROOT = Path(__file__).resolve().parent.parent
CHART = ROOT / "bench" / "growth.svg"
NAMESRV_PORT, BROKER_PORT = 39876, 40911
NAMESRV, BROKER = f"127.0.0.1:{NAMESRV_PORT}", f"127.0.0.1:{BROKER_PORT}"
QUEUES_PER_TOPIC = 8
TOPICS_MADE_TOGETHER = 32
WARM_SHARE = 0.25
ROCKETMQ_QUEUES_MAX = 400
"""It writes all its topics down whenever one is made: 5,000 of them take it many minutes."""
console = Console(stderr=True)


class Point(NamedTuple):
    """What is sent: the table has a line of it, the chart a mark."""

    family: str
    label: str
    body_bytes: int = 128
    connections: int = 64
    queues: int = 8


POINTS = (
    Point("body size", "128 B"),
    Point("body size", "1 KB", body_bytes=1 << 10),
    Point("body size", "64 KB", body_bytes=1 << 16, connections=16),
    Point("body size", "1 MB", body_bytes=1 << 20, connections=4),
    Point("connections", "1", connections=1),
    Point("connections", "64"),
    Point("connections", "1,000", connections=1_000),
    Point("queues", "4", queues=4),
    Point("queues", "400", queues=400),
    Point("queues", "40,000", queues=40_000),
)


class Figures(NamedTuple):
    """What one cluster did at one point."""

    per_s: float
    median_ms: float
    p99_ms: float
    cpu_us: float
    memory_mb: float


class Sender(asyncio.Protocol):
    """One connection with one message under way."""

    def __init__(self, requests: Iterator[bytes], took_s: list[float], refused: list[str]) -> None:
        self._requests = requests
        self._took_s = took_s
        self._refused = refused
        self._parser = frames.FrameParser()
        self._sent_s = 0.0
        self.running = True
        self.closed = asyncio.get_running_loop().create_future()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)

    def connection_lost(self, exc: Exception | None) -> None:
        self.closed.set_result(None)

    def send(self) -> None:
        self._sent_s = time.perf_counter()
        self._transport.write(next(self._requests))

    def data_received(self, data: bytes) -> None:
        self._parser.feed(data)
        answer = self._parser.next_command()
        if answer is None:
            return
        if answer.code == 0:
            self._took_s.append(time.perf_counter() - self._sent_s)
        else:
            self._refused.append(f"code {answer.code}: {answer.remark}")
        if self.running:
            self.send()
        else:
            self._transport.close()


def request(topic: str, queue_id: int, body: bytes) -> bytes:
    """One send, as the Java client writes it."""
    return frames.encode(
        Command(
            310,
            opaque=1,
            header=SendMessageV2Request(
                producer_group="bench-growth",
                topic=topic,
                default_topic="TBW102",
                default_topic_queue_nums=4,
                queue_id=queue_id,
                born_timestamp=1_700_000_000_000,
                properties="UNIQ_KEY\x017F0000012A9F18B4AAC200000000000A\x02WAIT\x01true\x02",
            ),
            body=body,
        )
    )


async def create_topics(prefix: str, queues: int) -> list[tuple[str, int]]:
    """Makes the topics of a point; gives (topic, queue id) of each queue, topics in turn."""
    per_topic = min(queues, QUEUES_PER_TOPIC)
    names = [f"{prefix}-{i}" for i in range(queues // per_topic)]
    async with Admin(NAMESRV) as admin:
        while not await admin.brokers():  # noqa: ASYNC110 - a server outside of this process
            await asyncio.sleep(0.1)  # RocketMQ says that it is up before it has registered
        limit = asyncio.Semaphore(TOPICS_MADE_TOGETHER)

        async def create(name: str) -> None:
            async with limit:
                await admin.create_topic(name, per_topic)

        await asyncio.gather(*map(create, names))
    return [(name, queue_id) for queue_id in range(per_topic) for name in names]


async def drive(
    point: Point, queues: list[tuple[str, int]], seconds: float
) -> tuple[int, float, float]:
    """Sends for so long; gives (messages, median ms, 99th percentile ms)."""
    body = b"x" * point.body_bytes
    # Large bodies share one request a queue; at 40,000 queues the small ones take some 15 MB.
    requests = itertools.cycle([request(topic, queue_id, body) for topic, queue_id in queues])
    host, port = BROKER.split(":")
    took_s: list[float] = []
    refused: list[str] = []
    loop = asyncio.get_running_loop()
    senders = []
    for _ in range(point.connections):
        _transport, sender = await loop.create_connection(
            lambda: Sender(requests, took_s, refused), host, int(port)
        )
        senders.append(sender)
    for sender in senders:  # all are there: a thousand take a while to come
        sender.send()
    await asyncio.sleep(seconds)
    for sender in senders:
        sender.running = False
    await asyncio.gather(*(sender.closed for sender in senders))
    if refused:
        console.print(f"{point.family} {point.label}: {len(refused)} refused: {refused[0]}")
    cuts = statistics.quantiles(took_s, n=100)
    return len(took_s), cuts[49] * 1e3, cuts[98] * 1e3


def family_of(process: psutil.Process) -> list[psutil.Process]:
    """A process and what it started."""
    return [process, *process.children(recursive=True)]


def cpu_s(process: psutil.Process) -> float:
    """CPU seconds that the process and what it started have used."""
    return float(sum(t.user + t.system for t in (p.cpu_times() for p in family_of(process))))


def memory_mb(process: psutil.Process) -> float:
    """Their share of memory (PSS)."""
    return float(sum(p.memory_full_info().pss for p in family_of(process))) / (1 << 20)


def measure(process: psutil.Process, point: Point, seconds: float) -> Figures:
    """One point on the cluster that runs."""
    queues = asyncio.run(create_topics(f"Growth{time.time_ns()}", point.queues))
    uvloop.run(drive(point, queues, seconds * WARM_SHARE))
    before, started = cpu_s(process), time.perf_counter()
    messages, median_ms, p99_ms = uvloop.run(drive(point, queues, seconds))
    took_s = time.perf_counter() - started
    return Figures(
        messages / took_s, median_ms, p99_ms,
        (cpu_s(process) - before) / messages * 1e6, memory_mb(process),
    )  # fmt: skip


@contextmanager
def cluster(command: list[str]) -> Iterator[psutil.Process]:
    """Runs a cluster until the block ends."""
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        if not process.stdout.readline().startswith("up"):
            raise SystemExit(f"{command[0]} did not start")
        yield psutil.Process(process.pid)
    finally:
        process.terminate()
        process.wait()


def commands(given: argparse.Namespace, work: Path) -> dict[str, list[str]]:
    """The clusters to measure, by name."""
    found = {
        "PocketMQ": [sys.executable, "-m", "pocketmq.cli.main", "up", "--data",
                     str(work / "pocketmq"), "--namesrv-port", str(NAMESRV_PORT),
                     "--broker-port", str(BROKER_PORT)],
    }  # fmt: skip
    script = given.reference / "cluster.sh"
    if script.is_file():
        if given.jars:
            (work / "lib").symlink_to(given.jars)
        found["RocketMQ"] = ["bash", str(script.resolve()), str(work), "1", "2g",
                             str(NAMESRV_PORT), str(BROKER_PORT)]  # fmt: skip
    else:
        console.print(f"{given.reference} is not there: RocketMQ is left out", style="yellow")
    return found


def cells(figures: Figures | None) -> tuple[str, ...]:
    """What the table says of one cluster at one point."""
    if figures is None:
        return ("", "", "", "")
    return (
        f"{figures.per_s:,.0f}", f"{figures.median_ms:.2f} / {figures.p99_ms:.1f}",
        f"{figures.cpu_us:.0f}", f"{figures.memory_mb:,.0f}",
    )  # fmt: skip


def table(measured: dict[str, dict[Point, Figures]]) -> str:
    """The figures as Markdown."""
    names = list(measured)
    heads = [f"{name}: {what}" for what in ("msg/s", "median / 99 % ms", "CPU µs", "MB")
             for name in names]  # fmt: skip
    lines = [f"| what | {' | '.join(heads)} |", "|---|" + "---|" * len(heads)]
    points = dict.fromkeys(point for by_point in measured.values() for point in by_point)
    for point in points:
        by_name = [cells(measured[name].get(point)) for name in names]
        together = itertools.chain.from_iterable(zip(*by_name, strict=True))
        lines.append(f"| {point.family} {point.label} | {' | '.join(together)} |")
    return "\n".join(lines)


def draw(measured: dict[str, dict[Point, Figures]]) -> None:
    """The chart: rate above, median latency below, one column a family."""
    import matplotlib as mpl

    mpl.use("svg")
    mpl.rcParams["svg.hashsalt"] = "pocketmq"
    from matplotlib import pyplot

    families = list(dict.fromkeys(point.family for point in POINTS))
    figure, axes = pyplot.subplots(3, len(families), figsize=(10, 8), squeeze=False)
    rows: tuple[tuple[str, Any], ...] = (
        ("messages a second", lambda f: f.per_s),
        ("median latency, ms", lambda f: f.median_ms),
        ("memory, MB", lambda f: f.memory_mb),
    )
    for column, family in enumerate(families):
        for row, (what, value) in enumerate(rows):
            axis = axes[row][column]
            for name, by_point in measured.items():
                shown = {p.label: value(f) for p, f in by_point.items() if p.family == family}
                axis.plot(list(shown), list(shown.values()), marker="o", label=name)
            axis.set_yscale("log")
            axis.set_ylabel(what if column == 0 else "")
            axis.set_title(family if row == 0 else "")
    axes[0][0].legend()
    figure.tight_layout()
    figure.savefig(CHART, metadata={"Date": None})


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--reference", type=Path, default=ROOT.parent / "shared" / "reference")
    parser.add_argument("--jars", type=Path, help="folder with RocketMQ's jars, else from Maven")
    parser.add_argument("--seconds", type=float, default=8)
    parser.add_argument("--points", nargs="*", help="labels or families, else all")
    given = parser.parse_args()
    points = [
        point for point in POINTS
        if not given.points or point.label in given.points or point.family in given.points
    ]  # fmt: skip
    measured: dict[str, dict[Point, Figures]] = {}
    with (
        tempfile.TemporaryDirectory(prefix="pocketmq-bench-") as directory,
        Progress(console=console) as progress,
    ):
        found = commands(given, Path(directory))
        task = progress.add_task("points", total=len(found) * len(points))
        for name, command in found.items():
            for point in points:
                if name == "RocketMQ" and point.queues > ROCKETMQ_QUEUES_MAX:
                    progress.advance(task)
                    continue
                # A cluster of its own for each point: the memory is that point's alone.
                with cluster(command) as process:
                    figures = measure(process, point, given.seconds)
                shutil.rmtree(Path(directory) / "pocketmq", ignore_errors=True)
                measured.setdefault(name, {})[point] = figures
                progress.advance(task)
    print(json.dumps({name: {f"{p.family} {p.label}": f._asdict() for p, f in by_point.items()}
                      for name, by_point in measured.items()}))  # fmt: skip
    if not given.points:
        draw(measured)
        put_section(
            "growth",
            "## How it grows\n\n"
            f"{origin()} `make growth`: {given.seconds:g} s a point, a cluster of its own for "
            "each. Raw connections, each with one message under way (16 with 64 KB, 4 with 1 MB, "
            "else 64); 128-byte bodies and 8 queues unless the line says otherwise; one generator "
            "process drives both. A JVM is not warm after so little: the table above has RocketMQ "
            "at its best.\n\n"
            f"{table(measured)}\n\n![How rate, latency and memory grow](growth.svg)\n",
        )


if __name__ == "__main__":
    main()
