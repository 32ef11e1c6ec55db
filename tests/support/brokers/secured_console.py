"""A cluster that authenticates, and its console, in a thread of their own."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AsyncExitStack, contextmanager
from pathlib import Path
from typing import Any, NamedTuple, cast

from support.brokers.broker_parts import Stage
from support.brokers.secured import Cluster

from pocketmq.console.server import ConsoleOptions, ConsoleServer
from pocketmq.runtime.clock import SystemClock
from pocketmq.runtime.loop_thread import LoopThread
from pocketmq.testing.clock import VirtualClock


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
