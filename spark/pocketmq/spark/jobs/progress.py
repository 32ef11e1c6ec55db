"""A progress bar for a running job: tasks as Spark counts them, rows as the brokers do."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Event, Thread
from typing import TYPE_CHECKING, Protocol

from pocketmq.client.instance.instance import ClientInstance
from pocketmq.protocol.errors import OperatingError
from pocketmq.runtime.clock import SystemClock
from pocketmq.runtime.process import run
from pocketmq.spark.errors import MissingTopicError
from pocketmq.spark.topics import queue_ends, queues_to_read

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from rich.progress import Progress, TaskID

POLL_S = 0.5
"""How often the bar is brought up to date."""


class TopicGrowth:
    """How many messages a topic has got since this was first asked.

    Args:
        namesrv: the name servers.
        topic: its name.
    """

    def __init__(self, namesrv: str, topic: str) -> None:
        self._namesrv, self._topic = namesrv, topic
        self._before: int | None = None

    def rows(self) -> int:
        """Messages since the first call; all of them if the topic was not there yet."""
        try:
            total = self.stored()
        except (OperatingError, MissingTopicError):
            total = 0
        if self._before is None:
            self._before = total
        return total - self._before

    def stored(self) -> int:
        """Messages that were ever stored in the topic.

        Raises:
            MissingTopicError: it does not exist.
            OperatingError: the cluster cannot be asked.
        """
        return run(self._total())

    async def _total(self) -> int:
        async with ClientInstance(self._namesrv) as instance:
            queues = await queues_to_read(instance, [self._topic])
            ends = await queue_ends(instance, queues)
        return sum(following for _, following in ends.values())


class RowCount(Protocol):
    """Counts the rows of a job while it runs."""

    def rows(self) -> int:
        """How many there are by now."""


class JobRows:
    """Rows that the jobs of this thread's group have written to files, as Spark counts them.

    Args:
        spark: where they run.
    """

    def __init__(self, spark: SparkSession) -> None:
        self._context = spark.sparkContext
        self._group = ""

    def follow(self, group: str) -> None:
        """Counts the jobs of a group."""
        self._group = group

    def rows(self) -> int:
        """Rows so far; tasks report them every few seconds."""
        tracker = self._context.statusTracker()
        store = self._context._jsc.sc().statusStore()
        total = 0
        for job_id in tracker.getJobIdsForGroup(self._group):
            found = tracker.getJobInfo(job_id)
            for stage_id in found.stageIds if found is not None else ():
                if tracker.getStageInfo(stage_id) is not None:
                    total += store.lastStageAttempt(stage_id).outputRecords()
        return total


class FinishedRows:
    """Rows that a job itself says are done."""

    def __init__(self) -> None:
        self._rows = 0

    def add(self, rows: int) -> None:
        """Counts rows as done."""
        self._rows += rows

    def rows(self) -> int:
        """Rows so far."""
        return self._rows


class JobProgress:
    """Follows the jobs of one group.

    Args:
        spark: where they run.
        group: the job group's name.
        title: in front of the bar.
        counted: counts rows; without it only tasks are shown.
        rows_total: how many rows there will be; without it the bar goes by tasks.
    """

    def __init__(
        self,
        spark: SparkSession,
        group: str,
        title: str,
        counted: RowCount | None,
        rows_total: int | None,
    ) -> None:
        self._tracker = spark.sparkContext.statusTracker()
        self._group, self._title = group, title
        self._counted, self._rows_total = counted, rows_total
        self._stopping = Event()
        self._thread = Thread(target=self._follow, name="pocketmq-progress", daemon=True)

    def start(self) -> None:
        """Shows the bar on standard error."""
        if self._counted is not None:
            self._counted.rows()
        self._thread.start()

    def stop(self) -> None:
        """Takes the bar away."""
        self._stopping.set()
        self._thread.join()

    def _follow(self) -> None:
        # Imported only where somebody looks on: a node of a cluster need not have rich.
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
        total, done = 0, 0
        for job_id in self._tracker.getJobIdsForGroup(self._group):
            job = self._tracker.getJobInfo(job_id)
            for stage_id in job.stageIds if job is not None else ():
                stage = self._tracker.getStageInfo(stage_id)
                if stage is not None:
                    total += stage.numTasks
                    done += stage.numCompletedTasks
        tasks, rows = f"{done}/{total} tasks", ""
        if self._counted is not None:
            count = self._counted.rows()
            rows = f"{count:,} rows"
            if self._rows_total is not None:
                rows = f"{count:,} of {self._rows_total:,} rows"
                done, total = min(count, self._rows_total), self._rows_total
        bar.update(task, total=total or None, completed=done, rows=rows, tasks=tasks)


@contextmanager
def shown(
    spark: SparkSession,
    title: str,
    counted: RowCount | None,
    *,
    is_wanted: bool,
    rows_total: int | None = None,
) -> Iterator[None]:
    """Shows the progress of the jobs that this thread runs meanwhile, if somebody looks on."""
    if not is_wanted or not sys.stderr.isatty():
        yield
        return
    group = f"pocketmq-{title}-{SystemClock().now_ms()}"
    if isinstance(counted, JobRows):
        counted.follow(group)
    spark.sparkContext.setJobGroup(group, title)
    progress = JobProgress(spark, group, title, counted, rows_total)
    progress.start()
    try:
        yield
    finally:
        progress.stop()
        spark.sparkContext.setLocalProperty("spark.jobGroup.id", "")
