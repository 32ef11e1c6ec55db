"""The commits of marked writes: they say which of the rows that a job has sent count.

Rows of a topic cannot be taken back, and what a failed task, a slower twin of it or a failed job
has sent stays there. So a marked write ends, when Spark has settled which attempt of each task
counts, with a commit: a message of the commit topic that names the offsets, by topic and queue, of
the rows of these attempts. All other rows that bear the writer's mark are repeats, or left by a job
that failed. The first commit of a writer (and of an epoch of a stream) holds: when the same job is
run again, no row of the second run counts.

Commits name offsets, not what rows hold or in which order they came, so they are exact whatever
Spark runs again, and a read needs no memory of rows. A commit too long for a message is sent in
parts, and holds once all parts are there.
"""

from __future__ import annotations

import secrets
import zlib
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from functools import partial

import msgspec

from pocketmq.client.instance.instance import ClientInstance
from pocketmq.client.producers.producer import Producer
from pocketmq.protocol.messages.message import Message, MessageQueue
from pocketmq.spark.errors import OptionError
from pocketmq.spark.marked.intervals import Intervals
from pocketmq.spark.queue_tables import queue_table, queue_values
from pocketmq.spark.retries import retried
from pocketmq.spark.rows.marks import WriterIdentity
from pocketmq.spark.topics import queues_to_write

PART_RANGES_MAX = 50_000
"""Ranges in one message of a commit: about 1 MB."""

RETRIES = 5
"""Further attempts to send a message of a commit."""

SEND_TIMEOUT_MS = 30_000

OffsetRanges = dict[MessageQueue, list[tuple[int, int]]]
"""Offsets by queue: pairs of a first one and an end, exclusive."""


class CommitRecord(msgspec.Struct, frozen=True, kw_only=True):
    """One message of the commit topic, as JSON.

    Attributes:
        writer: its id.
        epoch: the micro-batch of a stream; 0 for a batch write.
        run: tells apart two runs of one job.
        part, parts: which part of the commit this is, from 0 on, and of how many.
        ranges: by topic, broker and queue, pairs of a first offset and an end (exclusive).
    """

    writer: str
    epoch: int = 0
    run: str
    part: int = 0
    parts: int = 1
    ranges: dict[str, dict[str, dict[int, list[tuple[int, int]]]]]


def records_of(writer_id: str, epoch: int, written: OffsetRanges) -> list[CommitRecord]:
    """Makes the messages of one commit.

    Args:
        writer_id: the id of the writer that commits.
        epoch: the micro-batch of a stream; 0 for a batch write.
        written: the offsets of the rows that count.
    """
    flat = [
        (queue, pair)
        for queue in sorted(written)
        for pair in Intervals(written[queue])  # those side by side become one
    ]
    cuts = range(0, max(len(flat), 1), PART_RANGES_MAX)
    run = secrets.token_hex(8)
    records = []
    for part, first in enumerate(cuts):
        of_part: OffsetRanges = defaultdict(list)
        for queue, pair in flat[first : first + PART_RANGES_MAX]:
            of_part[queue].append(pair)
        records.append(
            CommitRecord(
                writer=writer_id,
                epoch=epoch,
                run=run,
                part=part,
                parts=len(cuts),
                ranges=queue_table(of_part.items()),
            )
        )
    return records


async def writer_of(instance: ClientInstance, commit_topic: str, writer_id: str) -> WriterIdentity:
    """Finds the broker at which a writer commits; creates the commit topic if there is none.

    The broker follows from the id, so that all runs of a job commit there, in an order.

    Raises:
        OperatingError: no broker takes the topic.
    """
    names = await commit_brokers(instance, commit_topic)
    return WriterIdentity(writer_id, committing_broker(names, writer_id))


async def commit_brokers(instance: ClientInstance, commit_topic: str) -> list[str]:
    """Names the brokers that hold commits; creates the commit topic if there is none.

    Raises:
        OperatingError: no broker takes the topic.
    """
    queues = await queues_to_write(instance, commit_topic, 1)
    return sorted({q.broker_name for q in queues})


def committing_broker(names: Sequence[str], writer_id: str) -> str:
    """Chooses the broker that holds the commits of a writer."""
    return names[zlib.crc32(writer_id.encode()) % len(names)]


async def publish(
    instance: ClientInstance,
    commit_topic: str,
    writer: WriterIdentity,
    epoch: int,
    written: OffsetRanges,
) -> None:
    """Commits rows: from here on the rows at these offsets count, if no earlier commit holds.

    An attempt of unknown outcome is repeated at the same queue; a commit that is there twice is
    the same one.

    Raises:
        OperatingError: the broker did not confirm the commit, whatever was tried. It may hold all
            the same: then a further run of the same writer changes nothing.
    """
    queues = await queues_to_write(instance, commit_topic, 1)
    own = [q for q in queues if q.broker_name == writer.broker_name]
    if not own:
        raise OptionError(
            f"the commit topic {commit_topic} lay on broker {writer.broker_name} when the job "
            f"began, and does not any more: was it deleted?"
        )
    producer = Producer(
        "pocketmq-spark-commits", instance=instance, send_timeout_ms=SEND_TIMEOUT_MS
    )
    async with producer:
        for record in records_of(writer.writer_id, epoch, written):
            body = msgspec.json.encode(record)
            message = Message(commit_topic, body, tags="commit", keys=writer.writer_id)
            await retried(
                instance.clock,
                RETRIES,
                partial(producer.send, message, queue=min(own)),
                gives_up=lambda _: False,
            )


class Commits:
    """Collects commits, in the order of storing, and tells which offsets of some topics count.

    Args:
        topics: of which to know; None for all.
    """

    def __init__(self, topics: Iterable[str] | None) -> None:
        self._topics = None if topics is None else frozenset(topics)
        self._parts: dict[tuple[str, int, str], dict[int, CommitRecord]] = {}
        self._settled: dict[str, set[int]] = defaultdict(set)
        self._committed: dict[MessageQueue, dict[str, list[tuple[int, int]]]] = {}

    def add(self, record: CommitRecord) -> OffsetRanges:
        """Takes the next record; returns the offsets of these topics that count from here on."""
        if record.epoch in self._settled[record.writer]:
            return {}
        key = (record.writer, record.epoch, record.run)
        parts = self._parts.setdefault(key, {})
        parts[record.part] = record
        if len(parts) < record.parts:
            return {}
        del self._parts[key]
        self._settled[record.writer].add(record.epoch)
        return merged(self._take(part) for part in parts.values())

    def _take(self, record: CommitRecord) -> OffsetRanges:
        taken: OffsetRanges = {}
        for queue, pairs in queue_values(record.ranges):
            if self._topics is None or queue.topic in self._topics:
                of_queue = self._committed.setdefault(queue, {})
                of_queue.setdefault(record.writer, []).extend(pairs)
                taken[queue] = pairs
        return taken

    def forget_below(self, offsets: Mapping[MessageQueue, int]) -> None:
        """Drops what lies below an offset of its queue."""
        for queue, offset in offsets.items():
            for pairs in self._committed.get(queue, {}).values():
                pairs[:] = [pair for pair in pairs if pair[1] > offset]

    def of_queue(self, queue: MessageQueue) -> dict[str, Intervals]:
        """Returns the offsets that count in a queue, by writer."""
        return {w: Intervals(pairs) for w, pairs in self._committed.get(queue, {}).items()}


def merged(of_tasks: Iterable[OffsetRanges]) -> OffsetRanges:
    """Puts the offsets of several tasks together."""
    together: OffsetRanges = defaultdict(list)
    for of_task in of_tasks:
        for queue, pairs in of_task.items():
            together[queue] += pairs
    return dict(together)
