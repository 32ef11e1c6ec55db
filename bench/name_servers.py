"""Measures a name server of a large cluster, beside Apache's: `python bench/name_servers.py`.

    python bench/name_servers.py [--brokers N] [--topics N] [--clients N] [--rounds N]
        [--layouts wide narrow] [--reference DIR] [--jars DIR] [--print-only]
    python bench/name_servers.py --brokers 20 --topics 500 --clients 500 --seconds 5 --print-only

Simulated brokers, each with `--topics` topics and a connection of its own, register over the wire
as Java's brokers do; simulated clients in another process poll routes. Two layouts have the same
number of queue rows: "wide", all topics on all brokers, and "narrow", each topic on `SPREAD` of
them (so many times more topics), which is what docs/scale.md advises. Each round starts both name
servers, one after the other. The medians become a section of RESULTS.md.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import multiprocessing
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from multiprocessing.connection import Connection as Pipe
from pathlib import Path
from typing import Any, NamedTuple

import uvloop
from own_cluster import cpu_s, memory_kb
from results import origin, put_section
from rich.console import Console
from route_clients import Wire, dial, poll, route_frame

from pocketmq.protocol.bodies.topics import (
    DataVersion,
    RegisterBrokerBody,
    TopicConfig,
    TopicConfigTable,
)
from pocketmq.protocol.codes import Version
from pocketmq.protocol.requests.nameserver import QueryDataVersionRequest, RegisterBrokerRequest
from pocketmq.protocol.wire import frames, loose_json
from pocketmq.protocol.wire.command import Command
from pocketmq.protocol.wire.header import RequestHeader

ROOT = Path(__file__).resolve().parent.parent
HOST = "127.0.0.1"
with socket.create_server((HOST, 0)) as _free:
    PORT: int = _free.getsockname()[1]
    """One that nobody listens on, for all name servers one after the other."""
ADDRESS = f"{HOST}:{PORT}"
CLUSTER = "DefaultCluster"
QUEUES = 8
SPREAD = 4
REPEATS = 10
"""Registrations of which each figure of them is the median."""

MANY = 200
"""Requests that are too cheap for one to be measured."""

CALM_S = 3.0
"""Seconds before a measurement, in which what was before comes to an end."""

SETTLED_S = 12.0
"""Seconds after which the memory that registering took is given back."""

PROBE_PAUSE_S = 0.002
PERIOD_S = 30.0
"""Seconds after which clients ask for a route again (pollNameServerInterval)."""

UNITS = {"s": "s", "ms": "ms", "us": "µs", "mb": "MB", "kb": "KB", "percent": "%"}
console = Console(stderr=True)


class Layout(NamedTuple):
    """Which topics are on which brokers: groups of brokers share theirs."""

    brokers: int
    topics: int
    group_size: int

    def group(self, broker: int) -> int:
        return broker // self.group_size

    def topics_of(self, broker: int) -> list[str]:
        return [f"Topic-{self.group(broker):04d}-{n:06d}" for n in range(self.topics)]

    @property
    def all_topics(self) -> list[str]:
        firsts = range(0, self.brokers, self.group_size)
        return [topic for broker in firsts for topic in self.topics_of(broker)]


class Broker:
    """A simulated broker: what Java's sends a name server, and the connection for it."""

    def __init__(self, number: int, layout: Layout, wire: Wire) -> None:
        self.number, self.layout, self.wire = number, layout, wire
        self.name = f"broker-{number:04d}"
        self.address = f"10.{number >> 16}.{number >> 8 & 255}.{number & 255}:10911"

    def registration(self, body: bytes) -> bytes:
        """The frame of a registration."""
        header = RegisterBrokerRequest(
            broker_name=self.name, broker_addr=self.address, cluster_name=CLUSTER,
            ha_server_addr=self.address, enable_acting_master=False,
        )  # fmt: skip
        return frame(header, body)

    def changed(self, version: int) -> bytes:
        """The frame that tells of one topic, made anew with every version."""
        (topic,) = self.layout.topics_of(self.number)[:1]
        return self.registration(topics_body([topic], version, QUEUES + version % 2))

    def version_query(self, version: int) -> bytes:
        """The frame of a comparison of versions, which is a heartbeat, too."""
        header = QueryDataVersionRequest(
            broker_name=self.name, broker_addr=self.address, cluster_name=CLUSTER, broker_id=0
        )
        return frame(header, loose_json.encode(data_version(version)))


def frame(header: RequestHeader, body: bytes = b"") -> bytes:
    """A request as Java writes it."""
    command = Command(header.code, opaque=1, header=header, body=body)
    command.version = Version.V5_5_0
    return frames.encode(command)


def data_version(version: int) -> DataVersion:
    return DataVersion(counter=version, timestamp=1_700_000_000_000)


def topics_body(topics: Sequence[str], version: int, first_queues: int = QUEUES) -> bytes:
    """A registration of topics, of which the first may have other queues."""
    table = {
        topic: TopicConfig(
            topic_name=topic, read_queue_nums=first_queues if topic == topics[0] else QUEUES,
            write_queue_nums=QUEUES, attributes={"+message.type": "NORMAL"},
        )
        for topic in topics
    }  # fmt: skip
    return RegisterBrokerBody(
        topic_config_serialize_wrapper=TopicConfigTable(
            topic_config_table=table, data_version=data_version(version)
        )
    ).encode()


class Probe:
    """Asks all the time for what there is not: the longest wait is the server's longest turn."""

    def __init__(self, wire: Wire) -> None:
        self._wire = wire
        self._task = asyncio.ensure_future(self._go())
        self.longest_s = 0.0

    async def _go(self) -> None:
        question = route_frame("no-such-topic")
        while True:
            began = time.perf_counter()
            await self._wire.ask(question)
            self.longest_s = max(self.longest_s, time.perf_counter() - began)
            await asyncio.sleep(PROBE_PAUSE_S)

    async def begin(self) -> None:
        """Forgets the waits so far, with that of a question under way."""
        await asyncio.sleep(CALM_S)
        self.longest_s = 0.0

    @property
    def longest_ms(self) -> float:
        """The longest wait since `begin`."""
        return self.longest_s * 1000

    async def stop(self) -> None:
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)


@asynccontextmanager
async def probing() -> AsyncIterator[Probe]:
    probe = Probe(await dial(ADDRESS))
    try:
        yield probe
    finally:
        await probe.stop()


class Course:
    """All that is measured of one name server in one round, by name with the unit at the end."""

    def __init__(self, pid: int, layout: Layout, given: argparse.Namespace) -> None:
        self.pid, self.layout, self.given = pid, layout, given
        self.found: dict[str, float] = {}
        self.brokers: list[Broker] = []

    async def go(self) -> dict[str, float]:
        self.found["empty_mb"] = memory_kb(self.pid) / 1024
        async with probing() as probe:
            await self.fill(probe)
            await asyncio.sleep(SETTLED_S)
            self.found["filled_mb"] = memory_kb(self.pid) / 1024
            await self.registrations(probe)
            await self.small_requests()
        await self.clients()
        async with probing() as probe:
            await self.death(probe)
        return self.found

    async def fill(self, probe: Probe) -> None:
        """All brokers register at once, as when the name server was started anew."""
        for number in range(self.layout.brokers):
            self.brokers.append(Broker(number, self.layout, await dial(ADDRESS)))
        bodies = {self.layout.group(b.number): b"" for b in self.brokers}
        for broker in self.brokers:
            if not bodies[self.layout.group(broker.number)]:
                topics = self.layout.topics_of(broker.number)
                bodies[self.layout.group(broker.number)] = topics_body(topics, 1)
        requests = [(b, b.registration(bodies[self.layout.group(b.number)])) for b in self.brokers]
        await probe.begin()
        began, used = time.perf_counter(), cpu_s(self.pid)
        await asyncio.gather(*(broker.wire.ask(request) for broker, request in requests))
        self.found["fill_s"] = time.perf_counter() - began
        self.found["fill_cpu_s"] = cpu_s(self.pid) - used
        self.found["fill_longest_ms"] = probe.longest_ms
        self.found["registration_kb"] = len(requests[0][1]) / 1024

    async def registrations(self, probe: Probe) -> None:
        """One broker sends all its topics again: one has changed, or none."""
        broker = self.brokers[0]
        topics = self.layout.topics_of(broker.number)
        changed = [
            broker.registration(topics_body(topics, version, QUEUES + version % 2))
            for version in range(2, 2 + REPEATS)
        ]
        for name, requests in (("changed", changed), ("same", changed[-1:] * REPEATS)):
            await probe.begin()
            took, used = [], cpu_s(self.pid)
            for request in requests:
                began = time.perf_counter()
                await broker.wire.ask(request)
                took.append(time.perf_counter() - began)
            self.found[f"{name}_ms"] = statistics.median(took) * 1000
            self.found[f"{name}_cpu_ms"] = (cpu_s(self.pid) - used) / REPEATS * 1000
            self.found[f"{name}_longest_ms"] = probe.longest_ms

    async def small_requests(self) -> None:
        """One changed topic, and the comparison of versions."""
        brokers = [self.brokers[n % len(self.brokers)] for n in range(MANY)]
        for name, requests in (
            ("one_topic", [(b, b.changed(100 + n)) for n, b in enumerate(brokers)]),
            ("versions", [(b, b.version_query(100 + n)) for n, b in enumerate(brokers)]),
        ):
            began, used = time.perf_counter(), cpu_s(self.pid)
            for broker, request in requests:
                await broker.wire.ask(request)
            self.found[f"{name}_us"] = (time.perf_counter() - began) / MANY * 1e6
            self.found[f"{name}_cpu_us"] = (cpu_s(self.pid) - used) / MANY * 1e6

    async def clients(self) -> None:
        """Clients poll from another process, while a topic changes each second."""
        given, context = self.given, multiprocessing.get_context("spawn")
        near, far = context.Pipe()
        topics = self.layout.all_topics
        arguments = (far, ADDRESS, topics, given.clients, given.topics_of_client,
                     PERIOD_S, given.seconds)  # fmt: skip
        process = context.Process(target=poll, args=arguments)
        process.start()
        try:
            before = memory_kb(self.pid)
            await self._heard(near, process)
            self.found["client_kb"] = (memory_kb(self.pid) - before) / given.clients
            near.send("poll")
            used, began = cpu_s(self.pid), time.perf_counter()
            result = asyncio.ensure_future(self._heard(near, process))
            version = 1000
            while not result.done():
                version += 1
                broker = self.brokers[version % len(self.brokers)]
                await broker.wire.ask(broker.changed(version))
                await asyncio.wait([result], timeout=1)
            took, asked = time.perf_counter() - began, cpu_s(self.pid) - used
            polls, refused, median_ms, p99_ms, size = await result
            if refused:
                console.print(f"{refused} of {polls} routes were not found", style="red")
            self.found |= {
                "polls_per_s": polls / took, "poll_ms": median_ms, "poll_p99_ms": p99_ms,
                "poll_cpu_us": asked / polls * 1e6, "poll_cpu_percent": asked / took * 100,
                "route_kb": size / 1024, "polled_mb": memory_kb(self.pid) / 1024,
            }  # fmt: skip
        finally:
            near.close()  # which ends the other process, if that still waits
            await asyncio.to_thread(process.join)

    async def _heard(self, pipe: Pipe, process: Any) -> Any:
        while not pipe.poll():
            if not process.is_alive():
                raise SystemExit("the process of the clients has ended")
            await asyncio.sleep(0.05)
        return pipe.recv()

    async def death(self, probe: Probe) -> None:
        """A broker's connection closes: when has its topic's route forgotten it?"""
        broker = self.brokers[-1]
        wire, question = self.brokers[0].wire, route_frame(self.layout.topics_of(broker.number)[-1])
        await probe.begin()
        began = time.perf_counter()
        broker.wire.close()
        while broker.name.encode() in await wire.ask(question):  # noqa: ASYNC110 - as above
            await asyncio.sleep(0)
        self.found["death_ms"] = (time.perf_counter() - began) * 1000
        self.found["death_longest_ms"] = probe.longest_ms


@contextmanager
def started(command: list[str], cwd: str) -> Iterator[tuple[int, float]]:
    """A name server's process id, and the seconds until it answered."""
    began = time.perf_counter()
    process = subprocess.Popen(command, cwd=cwd, stdout=subprocess.DEVNULL)
    try:
        asyncio.run(first_answer(process))
        yield process.pid, time.perf_counter() - began
    finally:
        process.terminate()
        process.wait()


async def first_answer(process: subprocess.Popen[bytes]) -> None:
    while process.poll() is None:
        try:
            wire = await dial(ADDRESS)
        except OSError:
            await asyncio.sleep(0.01)
            continue
        await wire.ask(route_frame("no-such-topic"))
        wire.close()
        return
    raise SystemExit(f"the name server has ended with {process.returncode}: is {PORT} in use?")


def commands(given: argparse.Namespace, work: Path) -> dict[str, list[str]]:
    """How each name server is started."""
    (work / "namesrv.yml").write_text(f"listenPort: {PORT}\nbindAddress: {HOST}\n")
    own = [sys.executable, "-m", "pocketmq.cli.main", "namesrv", "-c", "namesrv.yml"]
    found = {"PocketMQ": own}
    pom = given.reference / "pom.xml"
    jars = given.jars
    if jars is None and pom.is_file():
        jars = work / "lib"
        subprocess.run(["mvn", "-q", "-f", str(pom), "dependency:copy-dependencies",
                        f"-DoutputDirectory={jars}"], check=True)  # fmt: skip
    if jars is None:
        console.print(f"{given.reference} is not there: RocketMQ is left out", style="yellow")
        return found
    quiet = work / "logback.xml"
    quiet.write_text('<configuration><root level="ERROR"/></configuration>')
    (work / "namesrv.conf").write_text(f"listenPort={PORT}\nrocketmqHome={work}\n")
    found["RocketMQ"] = [
        "java", "-Xms256m", f"-Xmx{given.heap}", f"-Duser.home={work}",
        f"-Drmq.logback.configurationFile={quiet}", "-cp", f"{Path(jars).resolve()}/*",
        "org.apache.rocketmq.namesrv.NamesrvStartup", "-c", "namesrv.conf",
    ]  # fmt: skip
    return found


def table(found: dict[str, dict[str, list[dict[str, float]]]]) -> str:
    """The medians as Markdown: a line for each figure, a column for each name server and layout."""
    columns = [(layout, name) for layout, names in found.items() for name in names]
    heads = " | ".join(f"{layout}: {name}" for layout, name in columns)
    lines = [f"| figure | {heads} |", "|---|" + "---|" * len(columns)]
    for figure in next(iter(next(iter(found.values())).values()))[0]:
        what, _, unit = figure.rpartition("_")
        medians = [
            statistics.median(r[figure] for r in found[layout][name]) for layout, name in columns
        ]
        if figure == "polls_per_s":
            what, unit = "polls", "s"
        cells = " | ".join(f"{m:,.{0 if m >= 100 else 1 if m >= 10 else 2}f}" for m in medians)
        shown = f"{what.replace('_', ' ')}, {'1/s' if figure == 'polls_per_s' else UNITS[unit]}"
        lines.append(f"| {shown} | {cells} |")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--brokers", type=int, default=200)
    parser.add_argument("--topics", type=int, default=5_000, help="of each broker")
    parser.add_argument("--clients", type=int, default=10_000)
    parser.add_argument("--topics-of-client", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=30, help="of polling")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--layouts", nargs="+", choices=["wide", "narrow"],
                        default=["wide", "narrow"])  # fmt: skip
    parser.add_argument("--reference", type=Path, default=ROOT.parent / "shared" / "reference")
    parser.add_argument("--jars", type=Path, help="folder with RocketMQ's jars, else from Maven")
    parser.add_argument("--heap", default="2g", help="of RocketMQ's name server")
    parser.add_argument("--print-only", action="store_true", help="leave RESULTS.md as it is")
    given = parser.parse_args()
    sizes = {"wide": given.brokers, "narrow": SPREAD}
    found: dict[str, dict[str, list[dict[str, float]]]] = {}
    with tempfile.TemporaryDirectory(prefix="pocketmq-bench-") as directory:
        for number in range(given.rounds):
            for layout in given.layouts:
                for name, command in commands(given, Path(directory)).items():
                    console.print(f"round {number + 1}: {name}, {layout} …")
                    shape = Layout(given.brokers, given.topics, sizes[layout])
                    with started(command, directory) as (pid, ready_s):
                        figures = uvloop.run(Course(pid, shape, given).go())
                    runs = found.setdefault(layout, {}).setdefault(name, [])
                    runs.append({"ready_s": ready_s} | figures)
    print(json.dumps(found))
    console.print(table(found), markup=False, soft_wrap=True)
    if given.print_only:
        return
    put_section(
        "name-servers",
        f"""## Name servers

{origin()} `python bench/name_servers.py`: {given.brokers} simulated brokers with {given.topics:,}
topics each and {given.clients:,} simulated clients, of which each polls the routes of
{given.topics_of_client} topics every {PERIOD_S:.0f} s, over real connections; {given.rounds} rounds
in alternation, medians. Wide: all topics lie on all brokers; narrow: each on {SPREAD}.

{table(found)}

Fill: all brokers register at once, as with a name server that was started anew. Changed: one broker
sends all its topics, of which one has changed; same: none has. One topic: a broker sends the one
that changed; versions: it asks whether all is known (322). Poll: asking for a route, while one
topic changes each second. Death: from the end of a broker's connection until a route lacks it.
Longest: the longest wait of a request that asks every 2 ms for what there is not, which is the
server's longest turn (and the generator's own). Memory is PSS; RocketMQ's heap may grow to
{given.heap}.
""",
    )


if __name__ == "__main__":
    main()
