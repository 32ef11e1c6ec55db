"""Which of the rows that marked writes have sent count: the commits of their jobs.

Rows of a topic cannot be taken back, and what a failed task, a slower twin of it or a failed job
has sent stays there. So a marked write ends, when Spark has settled which attempt of each task
counts, with a commit: a message of the commit topic that names the offsets, by topic and queue, at
which the rows of these attempts lie. All other rows that bear the writer's mark are repeats, or
left by a job that failed. The first commit of a writer (and of an epoch of a stream) holds: when
the same job is run again, none of what the second run wrote counts.

That goes by places, not by what rows hold or in which order they came, so it is exact whatever
Spark runs again, and needs no memory of the rows read. A commit too long for a message is sent in
parts, and holds once all parts are there.
"""

from __future__ import annotations

import secrets
import zlib
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence

import msgspec

from pocketmq.client.instance.instance import ClientInstance
from pocketmq.client.producers.producer import Producer
from pocketmq.protocol.errors import OperatingError
from pocketmq.protocol.messages.message import Message, MessageQueue
from pocketmq.spark.errors import OptionError
from pocketmq.spark.marked.intervals import Intervals
from pocketmq.spark.rows.marks import Writer
from pocketmq.spark.topics import queues_to_write

PART_RANGES_MAX = 50_000
"""Ranges in one message of a commit: about 1 MB."""

ATTEMPTS_MAX = 6
PAUSE_S, PAUSE_S_MAX = 0.2, 5.0
"""A commit is tried so often, with pauses that double up to the maximum."""

SEND_TIMEOUT_MS = 30_000

Places = dict[MessageQueue, list[tuple[int, int]]]
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


def records_of(writer_id: str, epoch: int, places: Places) -> list[CommitRecord]:
    """The messages of one commit."""
    flat = [
        (queue, r)
        for queue in sorted(places)
        for r in Intervals(places[queue])  # those side by side become one
    ]
    cuts = range(0, max(len(flat), 1), PART_RANGES_MAX)
    run = secrets.token_hex(8)
    records = []
    for part, first in enumerate(cuts):
        ranges: dict[str, dict[str, dict[int, list[tuple[int, int]]]]] = {}
        for queue, pair in flat[first : first + PART_RANGES_MAX]:
            of_broker = ranges.setdefault(queue.topic, {}).setdefault(queue.broker_name, {})
            of_broker.setdefault(queue.queue_id, []).append(pair)
        records.append(
            CommitRecord(
                writer=writer_id, epoch=epoch, run=run, part=part, parts=len(cuts), ranges=ranges
            )
        )
    return records


async def writer_of(instance: ClientInstance, commit_topic: str, writer_id: str) -> Writer:
    """The writer of this id, and where it commits; creates the commit topic if there is none.

    The broker follows from the id, so that all runs of a job commit at the same place, in an order.

    Raises:
        OperatingError: no broker takes the topic.
    """
    names = await commit_brokers(instance, commit_topic)
    return Writer(writer_id, committing_broker(names, writer_id))


async def commit_brokers(instance: ClientInstance, commit_topic: str) -> list[str]:
    """The brokers that hold commits; creates the commit topic if there is none.

    Raises:
        OperatingError: no broker takes the topic.
    """
    queues = await queues_to_write(instance, commit_topic, 1)
    return sorted({q.broker_name for q in queues})


def committing_broker(names: Sequence[str], writer_id: str) -> str:
    """The one of them that holds the commits of a writer."""
    return names[zlib.crc32(writer_id.encode()) % len(names)]


async def publish(
    instance: ClientInstance, commit_topic: str, writer: Writer, epoch: int, places: Places
) -> None:
    """Commits: from here on the rows at these places count, if no earlier commit holds.

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
        for record in records_of(writer.writer_id, epoch, places):
            body = msgspec.json.encode(record)
            message = Message(commit_topic, body, tags="commit", keys=writer.writer_id)
            await _send(producer, instance, message, min(own))


async def _send(
    producer: Producer, instance: ClientInstance, message: Message, queue: MessageQueue
) -> None:
    pause_s = PAUSE_S
    for attempts_left in reversed(range(ATTEMPTS_MAX)):
        try:
            await producer.send(message, queue=queue)
        except OperatingError:
            if attempts_left == 0:
                raise
        else:
            return
        await instance.clock.sleep(pause_s)
        pause_s = min(2 * pause_s, PAUSE_S_MAX)


class Commits:
    """What counts of some topics, from the records of the commit topic in the order of storing.

    Args:
        topics: of which to know; None for all.
    """

    def __init__(self, topics: Iterable[str] | None) -> None:
        self._topics = None if topics is None else frozenset(topics)
        self._parts: dict[tuple[str, int, str], dict[int, CommitRecord]] = {}
        self._settled: dict[str, set[int]] = defaultdict(set)
        self._places: dict[MessageQueue, dict[str, list[tuple[int, int]]]] = {}

    def add(self, record: CommitRecord) -> Places:
        """Takes the next record; returns what counts from here on, of these topics."""
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

    def _take(self, record: CommitRecord) -> Places:
        places: Places = {}
        for topic in record.ranges:
            if self._topics is not None and topic not in self._topics:
                continue
            for broker_name, by_queue in record.ranges[topic].items():
                for queue_id, pairs in by_queue.items():
                    queue = MessageQueue(topic, broker_name, queue_id)
                    of_queue = self._places.setdefault(queue, {})
                    of_queue.setdefault(record.writer, []).extend(pairs)
                    places[queue] = pairs
        return places

    def forget_below(self, offsets: Mapping[MessageQueue, int]) -> None:
        """Lets go of places that lie below an offset of their queue."""
        for queue, offset in offsets.items():
            for pairs in self._places.get(queue, {}).values():
                pairs[:] = [pair for pair in pairs if pair[1] > offset]

    def of_queue(self, queue: MessageQueue) -> dict[str, Intervals]:
        """The offsets that count in a queue, by writer."""
        return {w: Intervals(pairs) for w, pairs in self._places.get(queue, {}).items()}


def merged(places: Iterable[Places]) -> Places:
    """The places of several tasks together."""
    together: Places = defaultdict(list)
    for of_task in places:
        for queue, pairs in of_task.items():
            together[queue] += pairs
    return dict(together)
