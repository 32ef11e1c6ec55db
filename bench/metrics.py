"""Measures what metrics cost: a scrape of 40,000 queues, and the counting for it.

    python bench/metrics.py [--topics N] [--data DIR]
    python bench/metrics.py --counting

The first makes a broker of N topics (5,000) with 8 queues each; a group has committed in each
queue, and lacks a message in every tenth topic. The broker is scraped in its own process. A line of
JSON tells the CPU time of a page and of the loop's longest turn for it, in ms, with the page's
size. The script fails if a page takes over `PAGE_MS_MAX` or a turn over `TURN_MS_MAX`. Making the
queues takes a minute and 600 MB; those of `--data` stay, and are used again.

The second prints how many more instructions each of the hot paths of `guarded_paths.py` takes while
the broker is scraped; needs valgrind.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
import tempfile
import time
from collections.abc import Coroutine, Generator
from pathlib import Path
from types import coroutine
from typing import Any, NamedTuple

import msgspec
import uvloop
from guard import ROOT, measure
from guarded_paths import AnswerSink, frame
from stages import BODY, send_request

from pocketmq.broker import Broker, BrokerConfig
from pocketmq.broker.metrics.broker_figures import Process, Served
from pocketmq.broker.metrics.exporter import BrokerMetrics
from pocketmq.protocol.bodies.topics import TopicConfig
from pocketmq.runtime.metrics.endpoint import ScrapeRequest
from pocketmq.runtime.metrics.exposition import Format
from pocketmq.transport.connection import Connection, ConnectionOptions

QUEUES = 8
ROUNDS = 7
PAGE_MS_MAX = 50.0
TURN_MS_MAX = 5.0
TOPICS_PER_TURN = 100
BEHIND_EVERY = 10


class Cost(NamedTuple):
    """CPU time of one page, in milliseconds."""

    page_ms: float
    turn_ms: float


@coroutine
def turns(
    work: Coroutine[Any, Any, bytes | None], costs_s: list[float]
) -> Generator[Any, Any, Any]:
    """Runs a coroutine, and notes the CPU time of each turn that it takes."""
    value = None
    while True:
        began = time.thread_time()
        try:
            waited_for = work.send(value)
        except StopIteration as e:
            costs_s.append(time.thread_time() - began)
            return e.value
        costs_s.append(time.thread_time() - began)
        value = yield waited_for


async def fill(broker: Broker, topics: list[str]) -> None:
    """Sends a message to each queue, and commits offsets in it."""
    connection = Connection(
        broker.clock, broker.handlers, ConnectionOptions(read_events=broker.store.committer)
    )
    connection.connection_made(AnswerSink())  # type: ignore[arg-type]
    for number, topic in enumerate(topics):
        broker.topics.put(TopicConfig(topic_name=topic, read_queue_nums=QUEUES))
        for queue_id in range(QUEUES):
            request = msgspec.structs.replace(send_request(queue_id), topic=topic)
            connection.data_received(frame(request, BODY))
            broker.offsets.commit("billing", topic, queue_id, int(number % BEHIND_EVERY > 0))
        if number % TOPICS_PER_TURN == 0:
            await asyncio.sleep(0)
    await broker.store.drain()


async def scrape(metrics: BrokerMetrics, *, compressed: bool) -> tuple[Cost, bytes]:
    """Scrapes once."""
    costs_s: list[float] = []
    request = ScrapeRequest("/metrics", {}, Format.TEXT, takes_gzip=compressed)
    page = await turns(metrics.page(request), costs_s)
    return Cost(sum(costs_s) * 1000, max(costs_s) * 1000), page


async def run(topics: int, directory: str) -> bool:
    """Prints what scrapes cost; returns whether the limits hold."""
    config = BrokerConfig(
        listen_port=0, bind_address="127.0.0.1", store_path_root_dir=directory,
        metrics_exporter_type="PROM", metrics_prom_exporter_port=0,
    )  # fmt: skip
    async with Broker(config) as broker:
        if not broker.store.logs.table:
            await fill(broker, [f"Topic{number:05}" for number in range(topics)])
        process = Process(lambda: broker.server, lambda: None)
        metrics = BrokerMetrics(
            config.broker_cluster_name, config.broker_name, config.metrics_max_series,
            lambda: Served(broker.parts, broker.redrives), process, broker.clock,
        )  # fmt: skip
        first, page = await scrape(metrics, compressed=False)
        plain = [(await scrape(metrics, compressed=False))[0] for _ in range(ROUNDS)]
        packed = [(await scrape(metrics, compressed=True))[0] for _ in range(ROUNDS)]
    best, best_packed = min(plain), min(packed)
    turn_ms = sorted(cost.turn_ms for cost in plain + packed)[ROUNDS]
    print(json.dumps({
        "queues": topics * QUEUES, "lines": page.count(b"\n"), "bytes": len(page),
        "firstPageMs": round(first.page_ms, 1), "pageMs": round(best.page_ms, 1),
        "gzipPageMs": round(best_packed.page_ms, 1), "turnMs": round(turn_ms, 2),
        "firstTurnMs": round(first.turn_ms, 2),
    }))  # fmt: skip
    return best.page_ms <= PAGE_MS_MAX and turn_ms <= TURN_MS_MAX


def counting() -> None:
    """Prints the instructions of a message without and with the counting for metrics."""
    without, scraped = measure(ROOT), measure(ROOT, "--scraped")
    for path, count in without.items():
        percent = (scraped[path] / count - 1) * 100
        print(f"{path:16} {count:10,.0f} -> {scraped[path]:10,.0f} instructions: {percent:+.1f} %")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--topics", type=int, default=5000)
    parser.add_argument(
        "--data", type=Path, help="a directory that stays; by default one that goes"
    )
    parser.add_argument("--counting", action="store_true")
    given = parser.parse_args()
    if given.counting:
        counting()
        return
    with tempfile.TemporaryDirectory(prefix="pocketmq-bench-") as directory:
        if not uvloop.run(run(given.topics, str(given.data or directory))):
            sys.exit(f"a page may take {PAGE_MS_MAX:g} ms and a turn {TURN_MS_MAX:g} ms")


if __name__ == "__main__":
    main()
