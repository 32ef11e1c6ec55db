"""A cluster that authenticates, its console, and a real browser, each in a thread of its own."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import AsyncExitStack, contextmanager
from pathlib import Path
from typing import Any, NamedTuple, cast

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, Page, sync_playwright
from support.brokers.broker_parts import Stage
from support.brokers.secured import Cluster

from pocketmq.console.server import ConsoleOptions, ConsoleServer
from pocketmq.runtime.clock import SystemClock
from pocketmq.runtime.loop_thread import LoopThread
from pocketmq.testing.clock import VirtualClock

CHROMIUM = shutil.which("chromium")


class SecuredConsole(NamedTuple):
    """What runs, and the thread of its loop."""

    cluster: Cluster
    server: ConsoleServer
    thread: LoopThread


@contextmanager
def secured_console(directory: Path, **options: Any) -> Iterator[SecuredConsole]:
    """Runs a cluster that authenticates, with an audit topic, and its console."""
    thread = LoopThread("secured console")
    stack = AsyncExitStack()

    async def start() -> tuple[Cluster, ConsoleServer]:
        # The machine's: penalties of strangers end with time, and a browser asks as one at first.
        clock = cast("VirtualClock", SystemClock())
        stage = await stack.enter_async_context(Stage(directory, clock, seed=7))
        cluster = Cluster(stage, clock)
        await cluster.start(audit_topic="Audit")
        stack.push_async_callback(cluster.close)
        given = ConsoleOptions(**{"port": 0, **options})
        server = await stack.enter_async_context(ConsoleServer(cluster.server.address, given))
        return cluster, server

    try:
        yield SecuredConsole(*thread.run(start()), thread)
    finally:
        thread.run(stack.aclose())
        thread.leave()


@contextmanager
def chromium() -> Iterator[Browser]:
    """A browser; its own event loop runs in this thread from then on."""
    if CHROMIUM is None:
        pytest.skip("no chromium on PATH (Debian: apt-get install chromium)")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=CHROMIUM, args=["--no-sandbox", "--disable-dev-shm-usage"]
        )
        yield browser
        browser.close()


@contextmanager
def quiet_page(browser: Browser, **context: Any) -> Iterator[Page]:
    """A page of a browser of its own; a script's error, or a breach of the policy, is a failure."""
    opened = browser.new_context(**context)
    page = opened.new_page()
    errors: list[str] = []
    page.on("pageerror", lambda error: errors.append(str(error)))
    page.on("dialog", lambda dialog: errors.append(dialog.message))
    page.on("console", lambda line: errors.append(line.text) if "Policy" in line.text else None)
    yield page
    opened.close()
    assert not errors


def assert_accessible(page: Page) -> None:
    """Axe finds nothing to complain about."""
    found = Axe().run(page, options={"runOnly": ["wcag2a", "wcag2aa", "best-practice"]})
    assert found.violations_count == 0, (page.url, found.generate_report())
