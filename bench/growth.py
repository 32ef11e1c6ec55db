"""Measures how rate, latency and memory grow with size and number, beside RocketMQ: `make growth`.

    python bench/growth.py [--reference DIR] [--jars DIR] [--seconds N] [--points NAME ...]

One generator drives PocketMQ and, with the reference folder, Apache RocketMQ 5.5.0 at one point
after the other: raw connections that pull, or that send the next message when the last one was
acknowledged. The table and the chart go into bench/RESULTS.md and bench/growth.svg.
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import psutil
import uvloop
from generator import Load, Peer, Puller, Queue, Sender, connect, no_load, stop, templates
from results import origin, put_section
from rich.console import Console
from rich.progress import Progress

from pocketmq.client import Admin

ROOT = Path(__file__).resolve().parent.parent
CHART = ROOT / "bench" / "growth.svg"
NAMESRV_PORT, BROKER_PORT = 19876, 20911  # below those that the system gives to connections
NAMESRV, BROKER = f"127.0.0.1:{NAMESRV_PORT}", f"127.0.0.1:{BROKER_PORT}"
QUEUES_PER_TOPIC = 8
TOPICS_MADE_TOGETHER = 32
WARM_SHARE = 0.25
WARMED_PER_S = 2_000
"""Connections that may take a second more to come to rest."""

ROCKETMQ_QUEUES_MAX = 400
"""It writes all its topics down whenever one is made: 5,000 of them take it many minutes."""
console = Console(stderr=True)


class Point(NamedTuple):
    """What is sent: the table has a line of it, the chart a mark.

    Attributes:
        family, label: its name.
        body_bytes: of each message.
        connections: that send, or pull if nothing is sent.
        window: messages that a connection has under way.
        queues: to which is sent in turn.
        groups: consumers with a connection each that pull all queues as messages come.
        backlog_mb: megabytes that are there before; one more group reads them meanwhile.
        held: connections of which each holds a pull of a queue, while one sends slowly.
        is_pulled: the backlog is all: nothing is sent.
        flush: flushDiskType.
    """

    family: str
    label: str
    body_bytes: int = 128
    connections: int = 64
    window: int = 1
    queues: int = 8
    groups: int = 0
    backlog_mb: int = 0
    held: int = 0
    is_pulled: bool = False
    flush: str = "async"


LARGE = {"64 KB": (1 << 16, 16), "1 MB": (1 << 20, 4)}
"""Bodies' bytes, and how many connections send them."""

POINTS = (
    Point("body size", "128 B"),
    Point("body size", "1 KB", body_bytes=1 << 10),
    *(Point("body size", label, size, count) for label, (size, count) in LARGE.items()),
    Point("flushed", "128 B", flush="sync"),
    *(Point("flushed", label, size, count, flush="sync") for label, (size, count) in LARGE.items()),
    Point("pulled", "128 B", connections=8, backlog_mb=64, is_pulled=True),
    *(
        Point("pulled", label, size, count, backlog_mb=256, is_pulled=True)
        for label, (size, count) in LARGE.items()
    ),
    Point("connections", "1", connections=1),
    Point("connections", "64"),
    Point("connections", "1,000", connections=1_000),
    Point("connections", "10,000", connections=10_000),
    Point("held pulls", "64", connections=1, queues=400, held=64),
    Point("held pulls", "1,000", connections=1, queues=400, held=1_000),
    Point("held pulls", "10,000", connections=1, queues=400, held=10_000),
    Point("groups", "1", connections=1, window=64, groups=1),
    Point("groups", "10", connections=1, window=64, groups=10),
    Point("catching up", "tail only", 1 << 12, connections=16, groups=1),
    Point("catching up", "and a backlog", 1 << 12, connections=16, groups=1, backlog_mb=1_000),
    Point("queues", "4", queues=4),
    Point("queues", "400", queues=400),
    Point("queues", "40,000", queues=40_000),
)
HELD_PACE_S = 0.02
"""Seconds between two messages that come to held pulls."""

FILL_CONNECTIONS = 16

DROP_EVERY_S = 0.5
"""Seconds after which what was read of a backlog is forgotten again."""


class Figures(NamedTuple):
    """What one cluster did at one point.

    Attributes:
        sent_per_s, delivered_per_s, backlog_per_s: messages, the last ones to the group behind.
        median_ms, p99_ms: of a send, or of a message on its way to a pull if something is pulled.
        cpu_us: of the cluster, a message sent or delivered, whichever were more.
        memory_mb: of the cluster, with all connections open.
    """

    sent_per_s: float
    delivered_per_s: float
    backlog_per_s: float
    median_ms: float
    p99_ms: float
    cpu_us: float
    memory_mb: float


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


async def fill(point: Point, queues: list[Queue]) -> dict[Queue, int]:
    """Stores the backlog of a point; gives the messages of each queue: some may be refused.

    Queues that are only sent to get their first message, which makes files, before the rest.
    """
    if not point.backlog_mb and (point.held or point.groups):
        return dict.fromkeys(queues, 0)
    count = -(-point.backlog_mb * 1_000_000 // (point.body_bytes * len(queues))) or 1
    sends = itertools.islice(templates(queues, point.body_bytes), count * len(queues))
    peers = [Filler(no_load(), sends) for _ in range(FILL_CONNECTIONS)]
    await connect(BROKER, [*peers])
    await asyncio.gather(*(peer.closed for peer in peers))
    if not point.backlog_mb:
        return dict.fromkeys(queues, 1)
    async with Admin(NAMESRV) as admin:
        rows = [await admin.topic_stats(topic) for topic in {topic for topic, _ in queues}]
    found = {
        (row.queue.topic, row.queue.queue_id): row.max_offset
        for row in itertools.chain.from_iterable(rows)
    }
    return {queue: found[queue] for queue in queues}


class Filler(Sender):
    """A sender that closes when there is nothing left to send."""

    def _send(self) -> None:
        try:
            super()._send()
        except StopIteration:
            self._under_way -= 1
            self.stop()


def drop_pages(directory: Path) -> None:
    """Lets the system forget what it has in memory of files, but what is mapped or not written."""
    for path in directory.rglob("*"):
        if path.is_file():
            handle = os.open(path, os.O_RDONLY)
            try:
                os.posix_fadvise(handle, 0, 0, os.POSIX_FADV_DONTNEED)
            finally:
                os.close(handle)


class Done(NamedTuple):
    """What was done at a point.

    Attributes:
        load, backlog: by all, and by the group that is behind.
        took_s: the seconds that it took.
        used_s, memory_mb: CPU seconds and memory of the cluster.
    """

    load: Load
    backlog: Load
    took_s: float
    used_s: float
    memory_mb: float


def peers_of(point: Point, stored: dict[Queue, int], load: Load) -> list[Peer]:
    """The connections of a point, but for the one that reads a backlog beside others."""
    queues = list(stored)
    peers: list[Peer]
    if point.is_pulled:
        lowest = min(stored.values())
        peers = [
            Puller(load, "bench-pull", {queues[number % len(queues)]: 0}, again_at=lowest)
            for number in range(point.connections)
        ]
    else:
        sends = templates(queues, point.body_bytes)
        pace_s = HELD_PACE_S if point.held else 0.0
        peers = [Sender(load, sends, point.window, pace_s) for _ in range(point.connections)]
    peers += [Puller(load, f"bench-tail-{number}", stored) for number in range(point.groups)]
    peers += [
        Puller(load, "bench-held", {queues[number % len(queues)]: 0})
        for number in range(point.held)
    ]
    return peers


async def drive(
    process: psutil.Process, point: Point, queues: list[Queue], seconds: float, data: Path
) -> Done:
    """Does what a point says for so long, and a part of that before to warm up.

    Args:
        process, point, queues, seconds: on which cluster what is done.
        data: the cluster's directory.
    """
    stored = await fill(point, queues)
    load, backlog = no_load(), no_load()
    peers = peers_of(point, stored, load)
    await connect(BROKER, peers)
    await asyncio.sleep(seconds * WARM_SHARE + len(peers) / WARMED_PER_S)
    if point.backlog_mb and not point.is_pulled:
        os.sync()
        drop_pages(data)
        lowest = min(stored.values())
        behind = Puller(backlog, "bench-backlog", dict.fromkeys(queues, 0), again_at=lowest)
        peers.append(behind)
        await connect(BROKER, [behind])
    load.clear()
    before_s, started_s = cpu_s(process), time.perf_counter()
    while time.perf_counter() - started_s < seconds:
        await asyncio.sleep(min(seconds, DROP_EVERY_S))
        if backlog.counts["messages"]:
            await asyncio.to_thread(drop_pages, data)
    took_s, used_s = time.perf_counter() - started_s, cpu_s(process) - before_s
    done = Done(load.copy(), backlog.copy(), took_s, used_s, memory_mb(process))
    await stop(peers)
    if load.refused:
        console.print(f"{point.family} {point.label}: {len(load.refused)} odd: {load.refused[0]}")
    return done


def family_of(process: psutil.Process) -> list[psutil.Process]:
    """A process and what it started."""
    return [process, *process.children(recursive=True)]


def cpu_s(process: psutil.Process) -> float:
    """CPU seconds that the process and what it started have used."""
    return float(sum(t.user + t.system for t in (p.cpu_times() for p in family_of(process))))


def memory_mb(process: psutil.Process) -> float:
    """Their share of memory (PSS)."""
    return float(sum(p.memory_full_info().pss for p in family_of(process))) / (1 << 20)


def measure(process: psutil.Process, point: Point, seconds: float, data: Path) -> Figures:
    """One point on the cluster that runs."""
    queues = asyncio.run(create_topics(f"Growth{time.time_ns()}", point.queues))
    load, backlog, took_s, used_s, memory = uvloop.run(drive(process, point, queues, seconds, data))
    delivered, behind = load.counts["messages"], backlog.counts["messages"]
    took = load.delivered_s if point.groups or point.held or point.is_pulled else load.sent_s
    cuts = statistics.quantiles(took, n=100)
    return Figures(
        len(load.sent_s) / took_s, delivered / took_s, behind / took_s,
        cuts[49] * 1e3, cuts[98] * 1e3,
        used_s / max(delivered + behind, len(load.sent_s)) * 1e6, memory,
    )  # fmt: skip


class Kind(NamedTuple):
    """How one of the clusters to measure is started, and where its files are."""

    command: list[str]
    data: Path


@contextmanager
def cluster(kind: Kind, flush: str) -> Iterator[psutil.Process]:
    """Runs a cluster until the block ends, then throws its files away."""
    command = kind.command + (["--flush", flush] if "--data" in kind.command else [])
    environment = {**os.environ, "FLUSH": f"{flush.upper()}_FLUSH"}
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment)
    try:
        assert process.stdout is not None
        if not process.stdout.readline().startswith("up"):
            raise SystemExit(f"{command[0]} did not start")
        yield psutil.Process(process.pid)
    finally:
        process.terminate()
        process.wait()
        shutil.rmtree(kind.data, ignore_errors=True)


def kinds(given: argparse.Namespace, work: Path) -> dict[str, Kind]:
    """The clusters to measure, by name."""
    own, other = work / "pocketmq", work / "data"
    command = [sys.executable, "-m", "pocketmq.cli.main", "up", "--data", str(own),
               "--namesrv-port", str(NAMESRV_PORT), "--broker-port", str(BROKER_PORT)]  # fmt: skip
    found = {"PocketMQ": Kind(command, own)}
    script = given.reference / "cluster.sh"
    if script.is_file():
        if given.jars:
            (work / "lib").symlink_to(given.jars)
        command = ["bash", str(script.resolve()), str(work), "1", "2g",
                   str(NAMESRV_PORT), str(BROKER_PORT)]  # fmt: skip
        found["RocketMQ"] = Kind(command, other)
    else:
        console.print(f"{given.reference} is not there: RocketMQ is left out", style="yellow")
    return found


def cells(figures: Figures | None) -> tuple[str, ...]:
    """What the table says of one cluster at one point."""
    if figures is None:
        return ("", "", "", "", "")
    delivered = f"{figures.delivered_per_s:,.0f}" if figures.delivered_per_s else ""
    if figures.backlog_per_s:
        delivered += f" + {figures.backlog_per_s:,.0f}"
    return (
        f"{figures.sent_per_s:,.0f}" if figures.sent_per_s else "", delivered,
        f"{figures.median_ms:.2f} / {figures.p99_ms:.1f}",
        f"{figures.cpu_us:.0f}", f"{figures.memory_mb:,.0f}",
    )  # fmt: skip


def table(measured: dict[str, dict[Point, Figures]]) -> str:
    """The figures as Markdown."""
    names = list(measured)
    columns = ("sent/s", "delivered/s", "median / 99 % ms", "CPU µs", "MB")
    heads = [f"{name}: {what}" for what in columns for name in names]
    lines = [f"| what | {' | '.join(heads)} |", "|---|" + "---|" * len(heads)]
    points = dict.fromkeys(point for by_point in measured.values() for point in by_point)
    for point in points:
        by_name = [cells(measured[name].get(point)) for name in names]
        together = itertools.chain.from_iterable(zip(*by_name, strict=True))
        lines.append(f"| {point.family} {point.label} | {' | '.join(together)} |")
    return "\n".join(lines)


def draw(measured: dict[str, dict[Point, Figures]]) -> None:
    """The chart: rate, latency, CPU and memory, one column a family."""
    import matplotlib as mpl

    mpl.use("svg")
    mpl.rcParams.update({"svg.hashsalt": "pocketmq", "svg.fonttype": "none"})
    from matplotlib import pyplot, ticker

    families = list(dict.fromkeys(point.family for point in POINTS))
    figure, axes = pyplot.subplots(4, len(families), figsize=(20, 10), squeeze=False)
    rows: tuple[tuple[str, Any], ...] = (
        ("messages a second", lambda f: max(f.sent_per_s, f.delivered_per_s)),
        ("median latency, ms", lambda f: f.median_ms),
        ("CPU of a message, µs", lambda f: f.cpu_us),
        ("memory, MB", lambda f: f.memory_mb),
    )
    for column, family in enumerate(families):
        for row, (what, value) in enumerate(rows):
            axis = axes[row][column]
            for name, by_point in measured.items():
                shown = {p.label: value(f) for p, f in by_point.items() if p.family == family}
                axis.plot(list(shown), list(shown.values()), marker="o", label=name)
            axis.set_yscale("log")
            axis.yaxis.set_major_locator(ticker.LogLocator(subs=(1, 2, 5)))
            axis.yaxis.set_major_formatter(ticker.StrMethodFormatter("{x:,g}"))
            axis.minorticks_off()
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
        found = kinds(given, Path(directory))
        task = progress.add_task("points", total=len(found) * len(points))
        for point in points:
            for name, kind in found.items():
                if name == "RocketMQ" and point.queues > ROCKETMQ_QUEUES_MAX:
                    progress.advance(task)
                    continue
                # A cluster of its own for each point: the memory is that point's alone.
                with cluster(kind, point.flush) as process:
                    figures = measure(process, point, given.seconds, kind.data)
                measured.setdefault(name, {})[point] = figures
                console.print(f"{name}: {point.family} {point.label}: {' | '.join(cells(figures))}")
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
            'process drives both. "Flushed" is SYNC_FLUSH. "Held pulls" wait for 50 messages a '
            'second. One connection with 64 messages under way sends to "groups". 16 connections '
            'send 4 KB while a group "catches up" with what is dropped from memory all the time '
            "(RocketMQ maps its files: little of them can be dropped); its messages stand behind "
            "the plus. Latency is that of a send, or of a message on its way to a pull; what was "
            "pulled from a backlog is as old as that. A JVM is not warm after so little: the table "
            "above has RocketMQ at its best.\n\n"
            f"{table(measured)}\n\n![How rate, latency and memory grow](growth.svg)\n",
        )


if __name__ == "__main__":
    main()
