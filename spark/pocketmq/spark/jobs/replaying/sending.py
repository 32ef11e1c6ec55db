"""Sends the slices of a replay as marked writes, and finds what one that was cut off has sent.

Each message bears `REPLAY_ID` and `REPLAY_OF`, by which a later run finds it again, whoever reads
the topic. Beside these it bears the marks of a marked write, whose writer is the slice, so that a
reader with dropRepeats takes none twice that a task has sent twice. What a run has sent that was
cut off before its commit does not count for such readers: the next run commits it rather than send
it again.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from pocketmq.protocol.messages.message import MessageQueue
from pocketmq.runtime.clock import Clock
from pocketmq.runtime.process import run
from pocketmq.spark.jobs.files.ledger import OpenSlice
from pocketmq.spark.jobs.messages import load
from pocketmq.spark.jobs.replaying.rows import REPLAY_ID, REPLAY_OF
from pocketmq.spark.jobs.spans import Table
from pocketmq.spark.marked.commits import OffsetRanges, publish
from pocketmq.spark.marked.intervals import Intervals
from pocketmq.spark.options import FORMAT, read_options, write_options
from pocketmq.spark.queue_tables import queue_table, queue_values
from pocketmq.spark.reading.repeats import repeat_filters
from pocketmq.spark.rows.marks import WRITER_ID, WriterIdentity
from pocketmq.spark.topics import queue_ends, queues_to_read, queues_to_write
from pocketmq.spark.writing.pace import Pace

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

CommittedOf = Callable[[MessageQueue], Mapping[str, Intervals]]
"""The offsets of a queue that count, by writer."""


class SentMessage(NamedTuple):
    """A message that a replay has sent.

    Attributes:
        place: its mark: where it lies in the source.
        writer: as ``writer@broker``; None without a mark of a write, so that it counts.
        queue, offset: where it lies now.
    """

    place: str
    writer: str | None
    queue: MessageQueue
    offset: int


class ReplaySending:
    """Sends the slices of one replay.

    Args:
        spark: the session.
        settings: options of the data source's write, without a topic.
        replay_id: the mark of this replay.
        rate: messages a second at the most, of all writes together; 0 for as many as possible.
        clock: for the rate.
    """

    def __init__(
        self,
        spark: SparkSession,
        settings: Mapping[str, str],
        replay_id: str,
        rate: int,
        clock: Clock,
    ) -> None:
        self._spark, self._settings, self._id, self._rate = spark, dict(settings), replay_id, rate
        self._options = write_options(settings)
        self._clock = clock
        self._pace = Pace(rate, clock)

    def ends(self, topics: Iterable[str]) -> Table:
        """Asks where target topics end, as ranges from an end to itself; creates missing topics.

        Raises:
            MissingTopicError: one does not exist, and is not to be created.
        """
        large = self._options.large_row_topic
        return run(self._ends({*topics, *([large] if large else [])}))

    async def _ends(self, topics: Iterable[str]) -> Table:
        ends: dict[MessageQueue, tuple[int, int]] = {}
        async with self._options.client() as instance:
            for topic in sorted(topics):
                await queues_to_write(instance, topic, self._options.create_topic_queues)
                ends |= await queue_ends(instance, await queues_to_read(instance, [topic]))
        return queue_table((queue, [(end, end)]) for queue, (_, end) in ends.items())

    def send(self, rows: DataFrame, number: int, counts: Mapping[bool, int]) -> None:
        """Sends the rows of a slice, those with a sharding key and the others by themselves.

        Args:
            rows: as `rows_to_send` makes them.
            number: of the slice.
            counts: how many have a sharding key, and how many none.
        """
        for is_keyed, count in sorted(counts.items()):
            if self._rate:
                # The rate is that of one write: the next begins no sooner than this one may end.
                run(self._clock.sleep(self._pace.pause_s(count)))
            self._write(rows, number, is_keyed=is_keyed)

    def _write(self, rows: DataFrame, number: int, *, is_keyed: bool) -> None:
        from pyspark.sql import functions as sf

        key = sf.col("shardingKey")
        names = ["topic", "value", "keys", "tags", "properties"]
        if is_keyed:
            written = rows.where(key.isNotNull()).select(*names, key)
        else:
            written = rows.where(key.isNull()).select(*names)
        kind = "keyed" if is_keyed else "spread"
        settings = {**self._settings, "writerId": f"{self._id}-{number}-{kind}"}
        if self._rate:
            written = written.coalesce(1)  # the rate is that of a task
            settings["rowsPerSecond"] = str(self._rate)
        written.write.format(FORMAT).options(**settings).mode("append").save()

    def recover(self, part: OpenSlice) -> set[str]:
        """Commits what earlier attempts of a slice have sent; returns the marks of these messages.

        Args:
            part: the slice, with the number of this attempt.

        Raises:
            OperatingError: the commit of what was sent is not confirmed.
        """
        sent = self._sent(part)
        if sent:
            run(self.let_count(sent, part))
        return {message.place for message in sent}

    def without(self, rows: DataFrame, sent: Collection[str]) -> DataFrame:
        """Returns the rows of a slice without those that bear some marks."""
        from pyspark.sql import functions as sf

        if not sent:
            return rows
        places = self._spark.createDataFrame([(place,) for place in sent], "place string")
        # Not a join that shuffles: it would mix the order of the rows.
        return rows.join(sf.broadcast(places), "place", "left_anti")

    def _sent(self, part: OpenSlice) -> list[SentMessage]:
        """Reads the messages behind the booked ends that bear the mark of the replay.

        All of it comes to the driver, once: what is left out here and what is committed must be the
        same messages, whatever still arrives meanwhile.
        """
        from pyspark.sql import functions as sf

        starts = queue_table((q, pairs[0][0]) for q, pairs in queue_values(part.target_ends))
        if not starts:
            return []
        reading = {
            "namesrvAddr": self._options.namesrv_addr,
            "subscribe": ",".join(sorted(starts)),
            "startingOffsets": json.dumps(starts),
            "failOnDataLoss": "false",
        }
        found = load(self._spark, reading)
        mark = sf.col("properties")
        own = found.where(mark[REPLAY_ID] == self._id).select(
            mark[REPLAY_OF].alias("place"),
            mark[WRITER_ID].alias("writer"),
            *("topic", "brokerName", "queueId", "queueOffset"),
        )
        return [
            SentMessage(r[0], r[1], MessageQueue(r[2], r[3], r[4]), r[5]) for r in own.collect()
        ]

    async def let_count(self, sent: Collection[SentMessage], part: OpenSlice) -> None:
        """Commits one copy of each message of a slice that was sent and does not count yet.

        Args:
            sent: all copies.
            part: the slice, with the number of this attempt.

        Raises:
            OperatingError: a commit is not confirmed.
        """
        commit_topic = self._options.commit_topic
        topics = ",".join(sorted({message.queue.topic for message in sent}))
        reading = read_options(
            {
                "namesrvAddr": self._options.namesrv_addr,
                "subscribe": topics,
                "commitTopic": commit_topic,
                "failOnDataLoss": "false",
            }
        )
        async with self._options.client() as instance:
            filters = await repeat_filters(instance, reading, reading.topics)
            places = uncounted(sent, lambda queue: filters.of_queue(queue).committed)
            for writer, of_writer in sorted(places.items()):
                # Number 0 is the write's own; each attempt has another one, and the first holds.
                await publish(instance, commit_topic, writer, part.attempts, of_writer)


def uncounted(
    sent: Iterable[SentMessage], committed: CommittedOf
) -> dict[WriterIdentity, OffsetRanges]:
    """Finds the messages of which no copy counts; returns one copy of each, by writer.

    Args:
        sent: all copies.
        committed: what counts by now.
    """
    counted: set[str] = set()
    left: dict[str, SentMessage] = {}
    groups: dict[tuple[MessageQueue, str | None], list[SentMessage]] = defaultdict(list)
    for message in sent:
        groups[message.queue, message.writer].append(message)
    for (queue, writer), messages in groups.items():
        if writer is None:
            counted.update(m.place for m in messages)
            continue
        offsets = committed(queue).get(WriterIdentity.parse(writer).writer_id, Intervals())
        counts = offsets.contains(np.array([m.offset for m in messages], np.int64))
        for message, does_count in zip(messages, counts.tolist(), strict=True):
            if does_count:
                counted.add(message.place)
            else:
                left[message.place] = message
    places: dict[WriterIdentity, OffsetRanges] = {}
    for place, message in left.items():
        if place not in counted:
            assert message.writer is not None
            of_writer = places.setdefault(WriterIdentity.parse(message.writer), {})
            of_writer.setdefault(message.queue, []).append((message.offset, message.offset + 1))
    return places
