"""An application of Celery: its worker, in a process of its own, notes what it does in a file.

::

    NAMESRV=host:port DONE=file python -m celery -A support.kombu.celery_app worker

The file that ``DONE`` names has a line for each time that a task ran.
"""

from __future__ import annotations

import os
from typing import Any

from celery import Celery, Task
from support.worker_process import note

app = Celery("tests", broker=f"pocketmq://{os.environ.get('NAMESRV', '127.0.0.1:9876')}")
app.conf.update(
    broker_transport="pocketmq.kombu:Transport",
    broker_transport_options={"invisible_ms": 2_000},
    broker_connection_retry_on_startup=True,
    task_acks_late=True,
    task_reject_on_worker_lost=True,
    worker_prefetch_multiplier=4,
    worker_send_task_events=True,
)


@app.task  # type: ignore[untyped-decorator]
def count(number: int) -> None:
    """Notes a number."""
    note(str(number))


@app.task(bind=True, max_retries=3)  # type: ignore[untyped-decorator]
def stubborn(self: Task[Any, Any], name: str) -> None:
    """Fails twice, and is tried again by Celery."""
    note(f"{name} {self.request.retries}")
    if self.request.retries < 2:
        raise self.retry(countdown=0.1)


@app.task  # type: ignore[untyped-decorator]
def chained(name: str) -> None:
    """Sends another task from within a pool's process."""
    count.delay(4711)
    note(name)
