"""Measures PocketMQ beside Apache RocketMQ 5.5.0 and writes bench/RESULTS.md: `make bench`.

RocketMQ's own load generator drives both clusters in alternation on this machine; the generator
and the scripts that run RocketMQ are the maintainers' reference folder (`--reference`). Without
that folder only PocketMQ's own figures are taken. The bars are ratios, because machines differ.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from results import origin, put_section
from rich.console import Console
from rich.table import Table

ROOT = Path(__file__).resolve().parent.parent
TICKS_PER_S = os.sysconf("SC_CLK_TCK")
NAMESRV_PORT, BROKER_PORT = 19876, 20911
console = Console(stderr=True)


class Bar(NamedTuple):
    """A ratio PocketMQ / RocketMQ, and what it has to be."""

    row: str
    figure: str
    name: str
    limit: float
    at_least: bool


BARS = (
    Bar("sync64", "msgs_per_s", "64 synchronous senders, rate", 2.0, True),
    Bar("sync1", "msgs_per_s", "1 synchronous sender, rate", 1.4, True),
    Bar("batch16", "msgs_per_s", "batches of 16, rate", 1.3, True),
    Bar("e2e", "msgs_per_s", "sending while consuming, sent", 2.0, True),
    Bar("e2e", "consumed_per_s", "sending while consuming, consumed", 2.0, True),
    Bar("sync64", "server_cpu_us_per_msg", "64 senders, server CPU a message", 0.33, False),
    Bar("sync1", "server_cpu_us_per_msg", "1 sender, server CPU a message", 0.33, False),
    Bar("batch16", "server_cpu_us_per_msg", "batches, server CPU a message", 0.6, False),
    Bar("e2e", "server_cpu_us_per_msg", "sending while consuming, CPU a message", 0.33, False),
    Bar("sync64", "server_pss_mb", "memory (PSS)", 0.05, False),
    Bar("sync64", "start_s", "start of the cluster", 0.15, False),
)
SYNC_FLUSH_BARS = (
    Bar("sync64", "msgs_per_s", "SYNC_FLUSH, 64 synchronous senders, rate", 1.0, True),
)
IDLE_BAR_PERCENT = 0.5
SPARK_BARS = (
    ("batch write", "write", "write, Kafka", 0.8),
    ("batch read", "read", "read, Kafka", 1.0),
    ("batch read, Kafka's tuned", "read", "read, Kafka tuned", 0.6),
    ("streaming read", "stream", "stream, Kafka", 1.0),
)
"""What, the case of ours, that of Spark's Kafka connector, and the least ratio of rows/s."""


class Line(NamedTuple):
    """One line of the table."""

    what: str
    pocketmq: str
    rocketmq: str
    ratio: str
    bar: str
    holds: str


def up_command(data: Path, *options: str) -> list[str]:
    """The command that starts PocketMQ's cluster."""
    return [sys.executable, "-m", "pocketmq.cli.main", "up", "--data", str(data),
            "--namesrv-port", str(NAMESRV_PORT), "--broker-port", str(BROKER_PORT),
            *options]  # fmt: skip


def against_rocketmq(reference: Path, given: argparse.Namespace, work: Path) -> list[Line]:
    """Runs the load generator against both clusters in alternation."""
    jars = given.jars or work / "lib"
    if not jars.is_dir():
        console.print("fetching RocketMQ with Maven …")
        subprocess.run(
            ["mvn", "-q", "-f", reference / "pom.xml", "dependency:copy-dependencies",
             f"-DoutputDirectory={jars}"],
            check=True,
        )  # fmt: skip
    if not (work / "lib").exists():
        (work / "lib").symlink_to(jars)
    usual = load(reference, given, work, jars, "sync64,sync1,batch16,e2e", "async")
    flushed = load(reference, given, work, jars, "sync64", "sync")
    return [
        *(compare(bar, usual) for bar in BARS),
        *(compare(bar, flushed) for bar in SYNC_FLUSH_BARS),
    ]


def load(
    reference: Path, given: argparse.Namespace, work: Path, jars: Path, rows: str, flush: str
) -> dict[str, Any]:
    """The generator's figures: row, figure, cluster's name, one value a round."""
    figures = work / "figures.json"
    rocketmq = (
        f"FLUSH={flush.upper()}_FLUSH {reference / 'cluster.sh'} {work} 1 2g "
        f"{NAMESRV_PORT} {BROKER_PORT}"
    )
    ours = " ".join(up_command(work / "pocketmq", "--flush", flush))
    console.print(f"{rows}, {flush} flush: {given.rounds} rounds of {given.seconds} s a row …")
    subprocess.run(
        [sys.executable, reference / "load.py", "--lib", jars, "--rows", rows,
         "--seconds", str(given.seconds), "--rounds", str(given.rounds),
         "--warm", str(given.warm), "--namesrv", f"127.0.0.1:{NAMESRV_PORT}",
         "--json", figures, f"pocketmq={ours}", f"rocketmq={rocketmq}"],
        check=True, stdout=sys.stderr,
    )  # fmt: skip
    found: dict[str, Any] = json.loads(figures.read_text())
    return found


def compare(bar: Bar, measured: dict[str, Any]) -> Line:
    """One bar: the medians of both, their ratio, and whether it holds."""
    by_name = measured[bar.row][bar.figure]
    ours = statistics.median(by_name["pocketmq"])
    theirs = statistics.median(by_name["rocketmq"])
    figures = (bar.name, figure(bar.figure, ours), figure(bar.figure, theirs))
    limit = f"{'≥' if bar.at_least else '≤'} {bar.limit:g}×"
    if not theirs:  # such as consumers that have come to nothing by the end of the row
        return Line(*figures, "", limit, "not measured")
    ratio = ours / theirs
    holds = ratio >= bar.limit if bar.at_least else ratio <= bar.limit
    return Line(*figures, f"{ratio:.2f}×", limit, "yes" if holds else "NO")


def figure(kind: str, value: float) -> str:
    """A figure with its unit."""
    unit = {"server_cpu_us_per_msg": " µs", "server_pss_mb": " MB", "start_s": " s"}.get(
        kind, " msg/s"
    )
    digits = 2 if kind == "start_s" else 1 if value < 100 else 0
    return f"{value:,.{digits}f}{unit}"


def cpu_s(pid: int) -> float:
    """CPU seconds of a process so far."""
    fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / TICKS_PER_S


def idle(work: Path, seconds: int) -> Line:
    """What a cluster costs when nobody uses it."""
    console.print(f"idle cluster for {seconds} s …")
    command = up_command(work / "idle")
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        process.stdout.readline()
        time.sleep(2)
        before, started = cpu_s(process.pid), time.monotonic()
        time.sleep(seconds)
        percent = (cpu_s(process.pid) - before) / (time.monotonic() - started) * 100
    finally:
        process.terminate()
        process.wait()
    return Line(
        "idle cluster, share of a core", f"{percent:.2f} %", "", "", f"≤ {IDLE_BAR_PERCENT:g} %",
        "yes" if percent <= IDLE_BAR_PERCENT else "NO",
    )  # fmt: skip


def own_client() -> list[Line]:
    """This project's own client, in a process of its own."""
    console.print("our own client …")
    return _own(
        "client.py",
        ("our producer, 64 awaited sends under way", "sends_per_s", "msg/s", 20_000, True),
        ("our push consumer, a backlog", "consumed_per_s", "msg/s", 30_000, True),
        ("end-to-end latency at 1,000 msg/s, median", "latency_median_ms", "ms", 2, False),
        ("10,000 idle long polls, memory of each", "idle_poll_kb", "KB", 3, False),
        ("10,000 idle long polls, share of a core", "idle_cpu_percent", "%", 2, False),
    )


def timers() -> list[Line]:
    """Timers and delay levels: what a million of them cost, and how late 1,000 a second come."""
    console.print("timers …")
    return _own(
        "timers.py",
        ("a million pending timers, broker memory in all", "pending_mb", "MB", 200, False),
        ("the same after a restart", "restarted_mb", "MB", 200, False),
        ("restart with them", "restart_s", "s", 5, False),
        ("restart after a kill", "restart_after_kill_s", "s", 5, False),
        ("1,000 timers due a second, the latest", "timers_late_max_ms", "ms", 200, False),
        ("1,000 of a delay level due a second, the latest", "level_late_max_ms", "ms", 200, False),
    )


def queues() -> list[Line]:
    """A broker with 40,000 queues."""
    console.print("40,000 queues …")
    return _own(
        "queues.py",
        ("40,000 queues: start after a clean stop", "start_s", "s", 2, False),
        ("the same after a kill, with a new message in each", "start_after_kill_s", "s", 3, False),
        ("sends to 40,000 queues in turn, 64 under way", "all_send_per_s", "msg/s", 10_000, True),
        ("the first messages of 40,000 queues", "all_first_per_s", "msg/s", None, True),
        ("40,000 queues at rest, share of a core", "idle_cpu_percent", "%", 2, False),
        ("40,000 queues at rest, broker memory", "idle_mb", "MB", 200, False),
        ("40,000 queues after a kill, broker memory", "killed_mb", "MB", 200, False),
        ("bytes sent to a name server in a period", "registration_bytes", "B", 1_000, False),
    )


def testing() -> list[Line]:
    """A cluster for tests: how soon it is there, and what a test on it takes."""
    console.print("a cluster for tests …")
    starts = (
        ("one", "`pocketmq up`, one broker", 1_000),
        ("one_control", "the same with --control", 1_000),
        ("three", "three brokers, a process each", 1_500),
        ("three_control", "three brokers with --control, one process", 1_500),
    )
    return [
        *_own(
            "up.py",
            *((f"{what}: up", f"{name}_ms", "ms", limit, False) for name, what, limit in starts),
            *((f"{what}: its largest process", f"{name}_mb", "MB", 60, False)
              for name, what, _ in starts),
            ("first message consumed, by commands", "first_by_commands_ms", "ms", 2_000, False),
            ("first message consumed, by a script", "first_by_script_ms", "ms", 2_000, False),
        ),
        *_own(
            "testing.py",
            ("the fixture's cluster is ready", "ready_ms", "ms", 150, False),
            ("200 tests, each with topics of its own", "tests_ms", "ms", 10_000, False),
            ("a test of a delay of two hours", "two_hours_ms", "ms", 500, False),
            ("a test of 16 retries to the dead letters", "sixteen_retries_ms", "ms", 500, False),
            ("a test of a transaction's check", "transaction_ms", "ms", 500, False),
        ),
    ]  # fmt: skip


def _own(script: str, *figures: tuple[str, str, str, int | None, bool]) -> list[Line]:
    """Figures of one of our own scripts: what, name there, unit, bar, whether it is a minimum."""
    done = subprocess.run(
        [sys.executable, ROOT / "bench" / script], stdout=subprocess.PIPE, text=True, check=True
    )
    found = json.loads(done.stdout)
    lines = []
    for what, name, unit, limit, at_least in figures:
        value = found[name]
        if limit is None:
            lines.append(Line(what, f"{value:,} {unit}", "", "", "", ""))
            continue
        holds = value >= limit if at_least else value <= limit
        bar = f"{'≥' if at_least else '≤'} {limit:,} {unit}"
        lines.append(Line(what, f"{value:,} {unit}", "", "", bar, "yes" if holds else "NO"))
    return lines


def spark(given: argparse.Namespace) -> list[Line]:
    """The Spark benchmark, in a process of its own."""
    console.print(f"Spark: {given.spark_rows:,} rows, {given.spark_runs} rounds …")
    done = subprocess.run(
        [sys.executable, ROOT / "bench" / "spark_kafka.py", "--rows", str(given.spark_rows),
         "--rounds", str(given.spark_runs), "--reference", given.reference,
         "--kafka", given.spark_kafka],
        stdout=subprocess.PIPE, text=True, check=False,
    )  # fmt: skip
    lines = done.stdout.strip().splitlines()
    if done.returncode or not lines:
        raise SystemExit(f"the Spark benchmark failed with exit code {done.returncode}")
    found = json.loads(lines[-1])
    begun, cpu = found.pop("first job"), found["write"]["broker_cpu_s"]
    most = max(case["others"] for case in found.values())
    return [
        *(_beside_kafka(found, *bar) for bar in SPARK_BARS if bar[1] in found),
        Line("broker CPU for a million rows written", f"{cpu:.2f} s",
             f"{found['write, Kafka']['broker_cpu_s']:.2f} s" if "write, Kafka" in found else "",
             "", "≤ 1 s", "yes" if cpu <= 1 else "NO"),
        Line("first job in a session, 1,000 rows written and read", f"{begun['seconds']} s", "", "",
             "≤ 5 s", "yes" if begun["seconds"] <= 5 else "NO"),
        Line("Python processes of Spark for it", str(begun["processes"]), "", "", "", ""),
        *(Line(f"{name} (no bar)", f"{found[name]['rows_per_s']:,} rows/s", "", "", "", "")
          for name in ("write, floor", "read, floor", "read, properties")),
        Line("most that others took of the machine", f"{most:.0%}", "", "", "", ""),
    ]  # fmt: skip


def _beside_kafka(found: Any, what: str, own: str, peer: str, limit: float) -> Line:
    rate = found[own]["rows_per_s"]
    if peer not in found:
        return Line(what, f"{rate:,} rows/s", "", "", f"≥ {limit:g}×", "")
    theirs = found[peer]["rows_per_s"]
    ratio = rate / theirs
    return Line(what, f"{rate:,} rows/s", f"{theirs:,} rows/s", f"{ratio:.2f}×", f"≥ {limit:g}×",
                "yes" if ratio >= limit else "NO")  # fmt: skip


def write_results(name: str, part: Part, lines: list[Line], remark: str) -> None:
    """Prints the table and keeps it in its section of RESULTS.md."""
    headings = ("what", "PocketMQ", part.peer, "ratio", "bar", "holds")
    table = Table(box=None, pad_edge=False)
    for heading in headings:
        table.add_column(heading)
    for line in lines:
        table.add_row(*line)
    Console().print(table)
    rows = "\n".join("| " + " | ".join(line) + " |" for line in lines)
    put_section(
        name,
        f"""## {part.title}

{origin()} {remark}

| {" | ".join(headings)} |
|---|---|---|---|---|---|
{rows}
""",
    )


def beside_rocketmq(given: argparse.Namespace) -> list[Line]:
    """The rows of RocketMQ's own load generator, and what an idle cluster costs."""
    with tempfile.TemporaryDirectory(prefix="pocketmq-bench-") as directory:
        work = Path(directory)
        lines = []
        if given.reference.is_dir():
            lines += against_rocketmq(given.reference.resolve(), given, work)
        else:
            console.print(f"{given.reference} is not there: RocketMQ is left out", style="yellow")
        return [*lines, idle(work, given.idle_seconds)]


class Part(NamedTuple):
    """Some rows that are measured together, and make a section of RESULTS.md."""

    title: str
    measure: Callable[[argparse.Namespace], list[Line]]
    remark: str = ""
    peer: str = "RocketMQ 5.5.0"


PARTS = {
    "load": Part(
        "Beside RocketMQ",
        beside_rocketmq,
        "One broker, bodies of 128 bytes, ASYNC_FLUSH unless the line says otherwise; RocketMQ's "
        "own load generator drove both clusters in alternation ({rounds} rounds of {seconds} s a "
        "row after {warm} s of warming up; medians).",
    ),
    "client": Part("Our own client", lambda _: own_client()),
    "timers": Part("Timers", lambda _: timers()),
    "queues": Part("40,000 queues", lambda _: queues()),
    "testing": Part(
        "A cluster for tests",
        lambda _: testing(),
        "Wall-clock time, the fastest of five rounds (bench/up.py, bench/testing.py).",
    ),
    "spark": Part(
        "Spark",
        spark,
        "{spark_rows:,} rows of 100 bytes with a key, 16 queues, local[2], PySpark; Kafka with "
        "Spark's own connector (acks=all), in alternation ({spark_runs} rounds, medians; "
        "bench/spark_kafka.py). Reads without properties, as Kafka's without headers; tuned: "
        "fetch.max.wait.ms=10, max.poll.records=10000. Floors: a sink that counts, a source of "
        "ready-made batches.",
        "Spark's Kafka connector",
    ),
}


def main() -> int:
    """Runs everything, or some parts; the exit code is 1 if a bar does not hold."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", nargs="+", choices=list(PARTS), default=list(PARTS))
    parser.add_argument("--reference", type=Path, default=ROOT.parent / "shared" / "reference")
    parser.add_argument("--jars", type=Path, help="folder with RocketMQ's jars, else from Maven")
    parser.add_argument("--seconds", type=int, default=24)
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--warm", type=int, default=20)
    parser.add_argument("--idle-seconds", type=int, default=30)
    parser.add_argument("--spark-rows", type=int, default=2_000_000)
    parser.add_argument("--spark-runs", type=int, default=3)
    parser.add_argument(
        "--spark-kafka",
        type=Path,
        default=Path(tempfile.gettempdir(), "spark-kafka"),
        help="folder for Kafka's jars and data",
    )
    parser.add_argument("--remark", default="", help="what to say of the machine or this Python")
    given = parser.parse_args()
    is_held = True
    for name in given.only:
        part = PARTS[name]
        lines = part.measure(given)
        remark = f"{part.remark.format(**vars(given))} {given.remark}"
        write_results(name, part, lines, remark.strip())
        is_held &= all(line.holds != "NO" for line in lines)
    return 0 if is_held else 1


if __name__ == "__main__":
    sys.exit(main())
