"""Measures the console while a browser follows a topic to which 10,000 messages a second come.

    python bench/console.py [--rate N] [--seconds N] [--topics N]

The messages come from a process of their own. The console is once a process of its own and once
part of `pocketmq up --console`. A tick of its loop is measured by a timer of 5 ms: how late it
comes, and how long the loop's thread has computed meanwhile, which a busy machine does not change.
In `pocketmq up` the broker's own watch tells both of its loop. Then 5,000 topics are listed. Needs
Debian's chromium. The table goes into bench/RESULTS.md.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from pathlib import Path
from statistics import median
from typing import NamedTuple

import uvloop
from generator import Sender, connect, no_load, stop, templates
from own_cluster import Cluster, cluster_in, memory_kb, processes_of
from playwright.sync_api import Page, sync_playwright
from results import origin, put_section

from pocketmq.client import Admin

TOPIC, QUEUES, BODY_SIZE = "Followed", 8, 128
PACE_S = 0.01
EARLY_S = 10.0
"""Seconds after which memory is measured for the first time."""

TICK_S = 0.005
TICK_MAX_MS, GROWTH_MAX_SHARE = 50.0, 0.05
LIST_MAX_MS, PAGE_MAX_MS = 1000.0, 100.0
MADE_TOGETHER = 32


class Row(NamedTuple):
    """A line of the table.

    Attributes:
        holds: whether the bar is held; None for figures without a bar.
    """

    what: str
    value: str
    bar: str = ""
    holds: bool | None = None


def main() -> None:
    """Measures, and writes the section; exit code 1 if a bar is missed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rate", type=int, default=10_000)
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--topics", type=int, default=5_000)
    parser.add_argument("--serve", metavar="NAMESRV", help=argparse.SUPPRESS)
    parser.add_argument("--produce", metavar="BROKER", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.serve:
        uvloop.run(serve(given.serve))
        return
    if given.produce:
        uvloop.run(produce(given.produce, given.rate))
        return
    rows = [
        *followed(given, is_within=False),
        *followed(given, is_within=True),
        *unwatched(given),
        *listed(given),
    ]
    lines = [f"| {row.what} | {row.value} | {row.bar} | {_said(row.holds)} |" for row in rows]
    text = "\n".join(
        [
            "## The console",
            "",
            f"{origin()} `bench/console.py`; {given.rate:,} messages of {BODY_SIZE} bytes a second "
            f"to {QUEUES} queues, one browser that follows them for {given.seconds:g} s. "
            f"Load of the machine at the end: {os.getloadavg()[1]:.1f}.",
            "",
            "| what | measured | bar | holds |",
            "|---|---|---|---|",
            *lines,
        ]
    )
    print(text)
    put_section("console", text)
    sys.exit(0 if all(row.holds is not False for row in rows) else 1)


def _said(holds: bool | None) -> str:
    return "" if holds is None else "yes" if holds else "**no**"


# -- the other processes --------------------------------------------------------------------------


class Ticks:
    """Measures the ticks of a loop: the longest lateness, and the most work in one."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self.clear()
        self._arm()

    def clear(self) -> None:
        """Forgets what was measured."""
        self.late_s = self.work_s = 0.0

    def _arm(self) -> None:
        self._due_s = time.perf_counter() + TICK_S
        self._cpu_s = time.thread_time()
        self._loop.call_later(TICK_S, self._tick)

    def _tick(self) -> None:
        self.late_s = max(self.late_s, time.perf_counter() - self._due_s)
        self.work_s = max(self.work_s, time.thread_time() - self._cpu_s)
        self._arm()


async def serve(namesrv: str) -> None:
    """Runs a console; each line of input is answered with the ticks since the one before."""
    from pocketmq.console.server import ConsoleOptions, ConsoleServer

    async with ConsoleServer(namesrv, ConsoleOptions(port=0)) as server:
        print(f"console=http://{server.address}", flush=True)
        ticks = Ticks()
        while await asyncio.to_thread(sys.stdin.readline):
            print(json.dumps([ticks.late_s * 1000, ticks.work_s * 1000]), flush=True)
            ticks.clear()


async def produce(broker: str, rate: int) -> None:
    """Sends until the input ends; then prints how many were acknowledged."""
    load = no_load()
    sends = templates([(TOPIC, queue) for queue in range(QUEUES)], BODY_SIZE)
    count = round(rate * PACE_S * 1.05)  # each send is a little later than it should be
    peers = [Sender(load, sends, pace_s=PACE_S) for _ in range(count)]
    began_s = time.perf_counter()
    await connect(broker, [*peers])
    await asyncio.to_thread(sys.stdin.readline)
    took_s = time.perf_counter() - began_s
    await stop([*peers])
    print(json.dumps([len(load.sent_s), took_s, len(load.refused)]), flush=True)


@contextmanager
def own_process(*options: str) -> Iterator[subprocess.Popen[str]]:
    """Runs this script for another purpose."""
    process = subprocess.Popen(
        [sys.executable, __file__, *options],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


def told(process: subprocess.Popen[str], question: str = "") -> str:
    """A line of another process, after a line to it if there is a question."""
    assert process.stdin is not None
    assert process.stdout is not None
    if question:
        process.stdin.write(question)
        process.stdin.flush()
    return process.stdout.readline()


# -- a topic that is followed ---------------------------------------------------------------------


class OwnLoop:
    """The ticks of a console in a process of its own.

    Args:
        server: that process.
    """

    name = "a process of its own"

    def __init__(self, server: subprocess.Popen[str]) -> None:
        self._server, self.pid = server, server.pid

    def begin(self) -> None:
        """Forgets the ticks so far."""
        told(self._server, "ticks\n")

    def memory_bar(self, growth: float) -> tuple[str, bool | None]:
        """The bar of its growth, and whether that holds."""
        return f"≤ {GROWTH_MAX_SHARE:.0%} more", growth <= GROWTH_MAX_SHARE

    def rows(self) -> list[Row]:
        """The ticks since then."""
        late_ms, work_ms = json.loads(told(self._server, "ticks\n"))
        return [
            Row(f"{self.name}: the most work in a tick of its loop", f"{work_ms:.1f} ms",
                f"≤ {TICK_MAX_MS:g} ms", work_ms <= TICK_MAX_MS),
            Row(f"{self.name}: the latest tick, also because others computed", f"{late_ms:.1f} ms"),
        ]  # fmt: skip


class BrokersLoop:
    """The ticks of a broker's loop, in which the console runs.

    Args:
        up: the cluster.
        logged: what the cluster logs: each second in which the loop has worked too long at once.
    """

    name = "in `pocketmq up`"

    def __init__(self, up: Cluster, logged: Path) -> None:
        self._up, self._logged, self.pid = up, logged, up.pid

    def begin(self) -> None:
        """Forgets the ticks so far."""
        self._count, self._warned = self._blocked()[0], self._warnings()

    def memory_bar(self, _: float) -> tuple[str, bool | None]:
        """None: a broker's memory goes up and down with the sends that it has under way."""
        return "", None

    def rows(self) -> list[Row]:
        """The ticks since then."""
        count, max_ms = self._blocked()
        warned = self._warnings() - self._warned
        return [
            Row(f"{self.name}: seconds with {TICK_MAX_MS:g} ms of work in a tick", str(warned),
                "0", warned == 0),
            Row(f"{self.name}: ticks over {TICK_MAX_MS:g} ms, also because others computed",
                f"{count - self._count}; since the start at most {max_ms} ms"),
        ]  # fmt: skip

    def _warnings(self) -> int:
        return self._logged.read_text().count("the event loop was blocked")

    def _blocked(self) -> tuple[int, int]:
        async def ask() -> dict[str, str]:
            async with Admin(self._up.namesrv) as admin:
                return await admin.broker_runtime(self._up.broker)

        with ThreadPoolExecutor() as threads:  # this thread has the browser's loop
            table = threads.submit(asyncio.run, ask()).result()
        return int(table["loopBlockedTimes"]), int(table["loopBlockedMaxMs"])


def followed(given: argparse.Namespace, *, is_within: bool) -> list[Row]:
    """Follows a topic in a browser."""
    options = ["--console", "0"] if is_within else []
    with (
        tempfile.TemporaryDirectory(prefix="pocketmq-bench-") as folder,
        tempfile.NamedTemporaryFile() as errors,
        cluster_in(folder, *options, errors=errors) as up,
    ):
        asyncio.run(create_topics(up.namesrv, [TOPIC], QUEUES))
        if is_within:
            return _follow(given, up.console, up.broker, BrokersLoop(up, Path(errors.name)))
        with own_process("--serve", up.namesrv) as server:
            address = told(server).strip().partition("=")[2]
            return _follow(given, address, up.broker, OwnLoop(server))


def _follow(
    given: argparse.Namespace, console: str, broker: str, loop: OwnLoop | BrokersLoop
) -> list[Row]:
    with sync_playwright() as playwright, ExitStack() as stack:
        browser = playwright.chromium.launch(
            executable_path=shutil.which("chromium"),
            args=["--no-sandbox", "--disable-dev-shm-usage"],
        )
        page = browser.new_page()
        with page.expect_response("**/tail?*"):  # before the first message comes
            page.goto(f"{console}/topics/{TOPIC}/tail")
        page.wait_for_timeout(1000)
        options = ("--produce", broker, "--rate", str(given.rate))
        producer = stack.enter_context(own_process(*options))
        page.wait_for_timeout(EARLY_S * 1000)
        loop.begin()
        early = memory_mb(loop.pid)
        page.wait_for_timeout((given.seconds - EARLY_S) * 1000)
        late = memory_mb(loop.pid)
        ticks = loop.rows()
        sent, took_s, refused = json.loads(told(producer, "stop\n"))
        page.wait_for_timeout(2000)
        shown, not_shown = counted(page)
        rows = page.locator("tbody tr").count()
        browser.close()
    name = loop.name
    return [
        Row(f"{name}: messages that came", f"{sent / took_s:,.0f} a second, {refused} refused"),
        Row(f"{name}: shown, and counted as not shown",
            f"{shown:,} and {not_shown:,} of {sent:,}; {rows} rows in the page",
            "all", shown + not_shown == sent),
        Row(f"{name}: memory (PSS) after {EARLY_S:g} s and {given.seconds:g} s",
            f"{early:.1f} MB, {late:.1f} MB", *loop.memory_bar(late / early - 1)),
        *ticks,
    ]  # fmt: skip


def unwatched(given: argparse.Namespace) -> list[Row]:
    """What the same messages cost a cluster without a console."""
    with tempfile.TemporaryDirectory(prefix="pocketmq-bench-") as folder, cluster_in(folder) as up:
        asyncio.run(create_topics(up.namesrv, [TOPIC], QUEUES))
        with own_process("--produce", up.broker, "--rate", str(given.rate)):
            time.sleep(EARLY_S)
            early = memory_mb(up.pid)
            time.sleep(given.seconds - EARLY_S)
            late = memory_mb(up.pid)
    return [
        Row(f"`pocketmq up` without a console: memory after {EARLY_S:g} s and {given.seconds:g} s",
            f"{early:.1f} MB, {late:.1f} MB"),
    ]  # fmt: skip


def counted(page: Page) -> tuple[int, int]:
    """What the page has counted: shown and not shown."""
    texts = [page.inner_text(f"#tail-{name}") for name in ("shown", "notShown")]
    first, second = (int(re.sub(r"\D", "", text)) for text in texts)
    return first, second


def memory_mb(pid: int) -> float:
    """The share of memory of a process and what it has started."""
    return sum(map(memory_kb, processes_of(pid))) / 1024


# -- a list of topics -----------------------------------------------------------------------------


async def create_topics(namesrv: str, names: list[str], queues: int) -> None:
    """Makes topics."""
    limit = asyncio.Semaphore(MADE_TOGETHER)
    async with Admin(namesrv) as admin:

        async def create(name: str) -> None:
            async with limit:
                await admin.create_topic(name, queues)

        await asyncio.gather(*map(create, names))


def listed(given: argparse.Namespace) -> list[Row]:
    """Lists many topics."""
    with (
        tempfile.TemporaryDirectory(prefix="pocketmq-bench-") as folder,
        cluster_in(folder) as up,
        own_process("--serve", up.namesrv) as server,
    ):
        console = told(server).strip().partition("=")[2]
        names = [f"Topic-{number:05}" for number in range(given.topics)]
        asyncio.run(create_topics(up.namesrv, names, QUEUES))
        all_ms = took_ms(f"{console}/api/v1/topics?limit=5000")
        page_ms = took_ms(f"{console}/topics")
        narrow_ms = took_ms(f"{console}/topics?contains={names[-1]}")
    count = f"{given.topics:,} topics"
    return [
        Row(f"{count}: all names by the API", f"{all_ms:.0f} ms", f"< {LIST_MAX_MS:g} ms",
            all_ms < LIST_MAX_MS),
        Row(f"{count}: the first page, 200 topics with figures", f"{page_ms:.0f} ms",
            f"< {PAGE_MAX_MS:g} ms", page_ms < PAGE_MAX_MS),
        Row(f"{count}: the page of a filter that leaves one", f"{narrow_ms:.0f} ms"),
    ]  # fmt: skip


def took_ms(url: str, rounds: int = 9) -> float:
    """The median time of a request, after one that does not count."""
    times = []
    for _ in range(rounds + 1):
        began_s = time.perf_counter()
        with urllib.request.urlopen(url) as answer:
            answer.read()
        times.append((time.perf_counter() - began_s) * 1000)
    return median(times[1:])


if __name__ == "__main__":
    main()
