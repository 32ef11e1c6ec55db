"""A progress bar for a running job: tasks as Spark counts them, rows as the job counts them."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Event, Thread
from typing import TYPE_CHECKING, Any

from pocketmq.client.instance.instance import ClientInstance
from pocketmq.protocol.errors import OperatingError
from pocketmq.protocol.signing import Credentials
from pocketmq.runtime.clock import SystemClock
from pocketmq.runtime.process import run
from pocketmq.spark.errors import MissingTopicError
from pocketmq.spark.topics import queue_ends, queues_to_read
from pocketmq.transport.tls.settings import ClientTls

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from rich.progress import Progress, TaskID

POLL_S = 0.5
"""How often the bar is brought up to date."""

RowCount = Callable[[str], int]
"""Counts the rows that a job has done by now; it is given the name of the job's group."""


class TopicGrowth:
    """Counts the messages that a topic has got since it was first asked.

    Args:
        namesrv: the name servers.
        topic: its name.
        credentials: sign what is asked.
        tls: how to speak TLS, as a `ClientInstance` is told.
    """

    def __init__(
        self,
        namesrv: str,
        topic: str,
        credentials: Credentials | None = None,
        tls: ClientTls | bool | None = None,
    ) -> None:
        self._namesrv, self._topic = namesrv, topic
        self._credentials, self._tls = credentials, tls
        self._before: int | None = None

    def rows(self) -> int:
        """Counts the messages since the first call; all of them if there was no topic yet."""
        try:
            total = self.stored()
        except (OperatingError, MissingTopicError):
            total = 0
        if self._before is None:
            self._before = total
        return total - self._before

    def stored(self) -> int:
        """Counts the messages that were ever stored in the topic.

        Raises:
            MissingTopicError: it does not exist.
            OperatingError: the cluster cannot be asked.
        """
        return run(self._total())

    async def _total(self) -> int:
        async with ClientInstance(
            self._namesrv, credentials=self._credentials, tls=self._tls
        ) as instance:
            queues = await queues_to_read(instance, [self._topic])
            ends = await queue_ends(instance, queues)
        return sum(following for _, following in ends.values())


def _stages(spark: SparkSession, group: str) -> Iterator[Any]:
    """Yields what Spark knows of the stages of a group's jobs."""
    tracker = spark.sparkContext.statusTracker()
    for job_id in tracker.getJobIdsForGroup(group):
        job = tracker.getJobInfo(job_id)
        for stage_id in job.stageIds if job is not None else ():
            stage = tracker.getStageInfo(stage_id)
            if stage is not None:
                yield stage


def written_rows(spark: SparkSession, group: str) -> int:
    """Counts the rows that a group's jobs have written to files; tasks report every few seconds."""
    store = spark.sparkContext._jsc.sc().statusStore()
    return sum(
        store.lastStageAttempt(stage.stageId).outputRecords() for stage in _stages(spark, group)
    )


class _Bar:
    """Shows a bar for the jobs of one group, on a thread of its own; see `shown`."""

    def __init__(
        self,
        spark: SparkSession,
        group: str,
        title: str,
        count_rows: RowCount,
        rows_total: int | None,
    ) -> None:
        self._spark, self._group, self._title = spark, group, title
        self._count_rows, self._rows_total = count_rows, rows_total
        self._stopping = Event()
        self._thread = Thread(target=self._follow, name="pocketmq-progress", daemon=True)

    def __enter__(self) -> None:
        self._count_rows(self._group)  # what is there before does not count
        self._thread.start()

    def __exit__(self, *exc_info: object) -> None:
        self._stopping.set()
        self._thread.join()

    def _follow(self) -> None:
        # Imported only for a terminal: a node of a cluster need not have rich.
        from rich.console import Console
        from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

        columns = (
            TextColumn("{task.description}"),
            BarColumn(),
            TextColumn("{task.fields[tasks]}"),
            TextColumn("{task.fields[rows]}"),
            TimeElapsedColumn(),
        )
        with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
            task = bar.add_task(self._title, total=None, rows="", tasks="")
            while not self._stopping.wait(POLL_S):
                self._update(bar, task)

    def _update(self, bar: Progress, task: TaskID) -> None:
        stages = list(_stages(self._spark, self._group))
        total, done = sum(s.numTasks for s in stages), sum(s.numCompletedTasks for s in stages)
        tasks, count = f"{done}/{total} tasks", self._count_rows(self._group)
        rows = f"{count:,} rows"
        if self._rows_total is not None:
            rows = f"{count:,} of {self._rows_total:,} rows"
            done, total = min(count, self._rows_total), self._rows_total
        bar.update(task, total=total or None, completed=done, rows=rows, tasks=tasks)


@contextmanager
def shown(
    spark: SparkSession,
    title: str,
    count_rows: RowCount,
    *,
    is_wanted: bool,
    rows_total: int | None = None,
) -> Iterator[None]:
    """Shows the progress of the jobs that this thread runs meanwhile, on a terminal.

    Args:
        spark: where the jobs run.
        title: in front of the bar.
        count_rows: counts the rows that are done.
        is_wanted: whether there is to be a bar.
        rows_total: how many rows there will be; None for a bar that goes by tasks.
    """
    if not is_wanted or not sys.stderr.isatty():
        yield
        return
    group = f"pocketmq-{title}-{SystemClock().now_ms()}"
    spark.sparkContext.setJobGroup(group, title)
    try:
        with _Bar(spark, group, title, count_rows, rows_total):
            yield
    finally:
        spark.sparkContext.setLocalProperty("spark.jobGroup.id", "")
