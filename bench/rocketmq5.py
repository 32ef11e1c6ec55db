"""Measures RocketMQ 5's part beside RocketMQ 5.5.0: its SDK over gRPC, and POP over remoting.

    python bench/rocketmq5.py --reference DIR [--work DIR] [--rounds N] [--seconds N]

The reference folder runs RocketMQ's name server, broker and gRPC proxy, and has a load program with
RocketMQ's Java SDK: 64 threads send 128 bytes, 16 threads receive and acknowledge, a push consumer
handles what 8 threads send. POP over remoting is RocketMQ's push consumer in POP mode, four members
on a backlog (`PopLoad.java`). Both clusters run all the time and take turns; the first turn of each
warms it and does not count. The figures are medians, the CPU is that of all of the server's
processes. They become a section of RESULTS.md.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import re
import statistics
import subprocess
import sys
import tempfile
from collections import defaultdict
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import NamedTuple

from own_cluster import cpu_s, memory_kb, processes_of
from results import origin, put_section

from pocketmq.client import Admin, Message, Producer

ROOT = Path(__file__).resolve().parent
TOPIC = "Load"
POP_TOPIC = "Pop"
BODY = b"x" * 128
QUEUES = 8
BATCH = 100
PORTS = {"pocketmq": (28081, 29876, 30911), "rocketmq": (18081, 19876, 20911)}
ROWS = ("send", "simple", "push", "pop")
BARS = {"send": (1.5, 0.5), "simple": (1.5, 0.5), "push": (1.5, 0.5), "pop": (2.0, 0.4)}
"""By row: at least so many times RocketMQ's rate, and at most such a share of its CPU a message."""

NAMES = {
    "send": "gRPC: 64 threads send",
    "simple": "gRPC: 16 threads receive 32 and acknowledge each",
    "push": "gRPC: push consumer beside 8 senders",
    "pop": "remoting: 4 members pop 32 and acknowledge each",
}
SECTION = """## RocketMQ 5's SDK over gRPC, and POP

{origin} `bench/rocketmq5.py`; RocketMQ 5.5.0 with its proxy; RocketMQ's clients; 128-byte bodies;
medians of {rounds} rounds in alternation.

| row | msg/s | CPU a message | RocketMQ's msg/s | its CPU | rate | CPU | holds |
|---|---|---|---|---|---|---|---|
{rows}

Memory of all servers in the end: {ours:.0f} MB, RocketMQ's {theirs:.0f} MB.
"""


class Server(NamedTuple):
    """A cluster that runs."""

    name: str
    process: subprocess.Popen[str]

    @property
    def endpoint(self) -> str:
        return f"127.0.0.1:{PORTS[self.name][0]}"

    @property
    def namesrv(self) -> str:
        return f"127.0.0.1:{PORTS[self.name][1]}"

    @property
    def broker(self) -> str:
        return f"127.0.0.1:{PORTS[self.name][2]}"

    @property
    def pids(self) -> list[int]:
        return processes_of(self.process.pid)

    @property
    def cpu_s(self) -> float:
        return sum(map(cpu_s, self.pids))


class Figure(NamedTuple):
    """Of one row in one round."""

    per_s: float
    cpu_us: float


@contextmanager
def server(name: str, reference: Path, folder: Path) -> Iterator[Server]:
    """Runs a cluster."""
    grpc, namesrv, broker = map(str, PORTS[name])
    command = [
        sys.executable, "-m", "pocketmq.cli.main", "up", "--data", str(folder / "data"),
        "--namesrv-port", namesrv, "--broker-port", broker, "--grpc-port", grpc,
    ]  # fmt: skip
    if name == "rocketmq":
        script = str(reference / "proxy.sh")
        command = ["bash", script, str(folder), "2g", grpc, namesrv, broker, "18080"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        assert process.stdout.readline(), f"{name} does not start"
        yield Server(name, process)
    finally:
        process.terminate()
        process.wait()


async def prepare(target: Server) -> None:
    async with Admin(target.namesrv) as admin:
        for topic in (TOPIC, POP_TOPIC):
            await admin.create_topic(topic, QUEUES, attributes="+message.type=NORMAL")


async def fill(target: Server, count: int) -> None:
    """Sends a backlog."""
    async with Producer("bench", target.namesrv) as producer:
        for _ in range(count // BATCH):
            await producer.send_batch([Message(POP_TOPIC, BODY)] * BATCH)


def over_grpc(target: Server, reference: Path, folder: Path, seconds: int) -> dict[str, Figure]:
    """The three phases of the load program."""
    done = subprocess.run(
        ["bash", str(reference / "grpc-load" / "run.sh"), str(folder / "grpc-load"),
         target.endpoint, TOPIC, ",".join(map(str, target.pids))],
        env={**os.environ, "S": str(seconds)}, capture_output=True, text=True, check=True,
    )  # fmt: skip
    print(done.stdout, file=sys.stderr)
    return figures_of(done.stdout)


def figures_of(text: str) -> dict[str, Figure]:
    """Reads what the load program prints."""
    lines = re.findall(r"^(\w+).* (\d+) msg/s, (\d+) us of server CPU", text, re.M)
    return {row: Figure(float(rate), float(cpu)) for row, rate, cpu in lines if row in ROWS}


def pops(target: Server, jars: Path, number: int, messages: int) -> Figure:
    """The members of a group pop a backlog."""
    warm = messages // 5
    asyncio.run(fill(target, messages + warm + 4_000))
    with subprocess.Popen(
        ["java", "-Xmx512m", "-cp", f"{jars}/*", str(ROOT / "PopLoad.java"), target.namesrv,
         target.broker, POP_TOPIC, f"pop-{number}", "4", str(warm), str(messages)],
        stdout=subprocess.PIPE, text=True,
    ) as java:  # fmt: skip
        assert java.stdout is not None
        begun_s = 0.0
        for line in java.stdout:
            if line.startswith("begin"):
                begun_s = target.cpu_s
            elif line.startswith("end"):
                spent_s = target.cpu_s - begun_s
                return Figure(messages / float(line.split()[1]), spent_s / messages * 1e6)
    raise SystemExit(f"the members that pop end with {java.returncode}")


def measured(
    given: argparse.Namespace, folder: Path
) -> tuple[dict[str, dict[str, Figure]], dict[str, float]]:
    """The medians by row and cluster, and the memory of the clusters in MB."""
    found: dict[str, dict[str, list[Figure]]] = defaultdict(lambda: defaultdict(list))
    with ExitStack() as stack:
        servers = []
        for name in PORTS:
            if name in given.only:
                own = folder / name
                own.mkdir(parents=True, exist_ok=True)
                servers.append(stack.enter_context(server(name, given.reference, own)))
        for target in servers:
            asyncio.run(prepare(target))
        for number in range(given.rounds + 1):
            for target in servers:
                print(f"round {number}: {target.name} …", file=sys.stderr)
                seconds = given.seconds if number else given.warm
                figures: dict[str, Figure] = {}
                if set(given.rows) - {"pop"}:
                    figures |= over_grpc(target, given.reference, folder, seconds)
                if "pop" in given.rows:
                    figures["pop"] = pops(target, given.jars, number, given.messages)
                print(figures, file=sys.stderr)
                for row, figure in figures.items():
                    if number:
                        found[row][target.name].append(figure)
        memory = {t.name: sum(map(memory_kb, t.pids)) / 1024 for t in servers}
    medians = {
        row: {
            name: Figure(*(statistics.median(column) for column in zip(*figures, strict=True)))
            for name, figures in of_row.items()
        }
        for row, of_row in found.items()
    }
    return medians, memory


def main() -> None:
    """Prints the medians as JSON and puts them into RESULTS.md."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--reference", type=Path, required=True)
    parser.add_argument("--jars", type=Path, required=True, help="RocketMQ 5.5.0's jars")
    parser.add_argument("--work", type=Path, help="a folder that keeps the load program's jars")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=int, default=15)
    parser.add_argument("--warm", type=int, default=30, help="seconds a phase of the first turn")
    parser.add_argument("--messages", type=int, default=100_000, help="that a group pops")
    parser.add_argument("--rows", nargs="+", choices=ROWS, default=ROWS)
    parser.add_argument("--only", nargs="+", choices=PORTS, default=list(PORTS))
    parser.add_argument("--print-only", action="store_true", help="leave RESULTS.md as it is")
    given = parser.parse_args()
    with ExitStack() as stack:
        folder = given.work or Path(stack.enter_context(tempfile.TemporaryDirectory()))
        medians, memory = measured(given, folder)
    print(json.dumps({"rows": medians, "memory_mb": memory}))
    if given.print_only:
        return
    lines = []
    for row in ROWS:
        ours, theirs = medians[row]["pocketmq"], medians[row]["rocketmq"]
        rate, share = ours.per_s / theirs.per_s, ours.cpu_us / theirs.cpu_us
        least, most = BARS[row]
        holds = "yes" if rate >= least and share <= most else "no"
        lines.append(
            f"| {NAMES[row]} | {ours.per_s:,.0f} | {ours.cpu_us:,.0f} µs | {theirs.per_s:,.0f} "
            f"| {theirs.cpu_us:,.0f} µs | {rate:.2f}× (≥ {least}) | {share:.2f}× (≤ {most}) "
            f"| {holds} |"
        )
    put_section("rocketmq5", SECTION.format(
        origin=origin(), rows="\n".join(lines), rounds=given.rounds,
        ours=memory["pocketmq"], theirs=memory["rocketmq"],
    ))  # fmt: skip


if __name__ == "__main__":
    main()
