"""Measures `pocketmq up`: how soon it is up, what it uses, how soon a first message is read.

    python bench/up.py [ROUNDS]

Prints a line of JSON: of each way to start, the fastest of the rounds in milliseconds of wall-clock
time from the command to its line, the CPU time of its busiest process up to then (which tells more
on a machine with other work), and the resident memory of its largest process in MB; and from
nothing to a first message that was consumed, with three commands and within one script.
`bench/run.py` makes rows of it.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from own_cluster import cpu_s

ROUNDS = 5
POCKETMQ = (sys.executable, "-m", "pocketmq.cli.main")
UP = (*POCKETMQ, "up", "--memory", "--namesrv-port", "0", "--broker-port", "0", "-o", "json")
WAYS: dict[str, tuple[str, ...]] = {
    "one": (),
    "three": ("--brokers", "3"),
    "one_control": ("--control", "0"),
    "three_control": ("--brokers", "3", "--control", "0"),
}
SCRIPT = """
from pocketmq.client import Message
from pocketmq.testing import LocalCluster

with LocalCluster(topics={"Orders": 1}) as cluster:
    with cluster.producer() as producer:
        producer.send(Message("Orders", b"first"))
    with cluster.lite_pull_consumer("readers") as consumer:
        consumer.subscribe("Orders")
        while not consumer.poll(1000):
            pass
"""


@contextmanager
def up(*options: str) -> Iterator[tuple[subprocess.Popen[str], dict[str, str]]]:
    process = subprocess.Popen((*UP, *options), stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        yield process, json.loads(process.stdout.readline())
    finally:
        process.terminate()
        process.wait()


def family(pid: int) -> list[int]:
    """A process and its children."""
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    return [pid, *map(int, children)]


def resident_mb(pid: int) -> float:
    status = Path(f"/proc/{pid}/status").read_text().splitlines()
    size_kb = next(line.split()[1] for line in status if line.startswith("VmRSS"))
    return round(int(size_kb) / 1024, 1)


def way(name: str, options: tuple[str, ...], rounds: int) -> dict[str, float]:
    times, cpus, sizes = [], [], []
    for _ in range(rounds):
        began = time.perf_counter()
        with up(*options) as (process, _line):
            times.append((time.perf_counter() - began) * 1000)
            pids = family(process.pid)
            cpus.append(max(map(cpu_s, pids)) * 1000)
            sizes.append(max(map(resident_mb, pids)))
    return {
        f"{name}_ms": round(min(times)),
        f"{name}_cpu_ms": round(min(cpus)),
        f"{name}_mb": max(sizes),
    }


def quietly(*words: str) -> None:
    subprocess.run((*POCKETMQ, *words), check=True, capture_output=True)


def by_commands() -> float:
    began = time.perf_counter()
    with up() as (_process, line):
        names = ("--namesrv", line["namesrv"])
        quietly("send", "Orders", "first", *names)
        quietly("consume", "Orders", "--from-beginning", "--count", "1", *names)
        return (time.perf_counter() - began) * 1000


def by_script() -> float:
    began = time.perf_counter()
    subprocess.run((sys.executable, "-c", SCRIPT), check=True)
    return (time.perf_counter() - began) * 1000


def main() -> None:
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else ROUNDS
    figures: dict[str, float] = {}
    for name, options in WAYS.items():
        figures |= way(name, options, rounds)
    figures["first_by_commands_ms"] = round(min(by_commands() for _ in range(rounds)))
    figures["first_by_script_ms"] = round(min(by_script() for _ in range(rounds)))
    print(json.dumps(figures))


if __name__ == "__main__":
    main()
