"""A broker of Taskiq with tasks: its worker, in a process of its own, notes what it does in a file.

::

    NAMESRV=host:port DONE=file taskiq worker support.taskiq.taskiq_app:broker
"""

from __future__ import annotations

import os
from typing import Annotated

from support.worker_process import note
from taskiq import Context, TaskiqDepends

from pocketmq.taskiq import PocketMQBroker, RedeliveryMiddleware

broker = PocketMQBroker(os.environ.get("NAMESRV", "127.0.0.1:9876"), invisible_ms=2_000)
broker.add_middlewares(RedeliveryMiddleware(delay_s=0.1, default_retry_count=4))


@broker.task
async def count(number: int) -> None:
    """Notes a number."""
    note(str(number))


@broker.task
def stubborn(name: str, context: Annotated[Context, TaskiqDepends()]) -> None:
    """Fails twice, in a thread."""
    redeliveries = context.message.labels.get("redeliveries", 0)
    note(f"{name} {redeliveries}")
    if redeliveries < 2:
        raise RuntimeError("not yet")


@broker.task
async def chained(name: str) -> None:
    """Sends another task from within a worker."""
    await count.kiq(4711)
    note(name)
