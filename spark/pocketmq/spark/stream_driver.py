"""The driver's side of a stream: one connection to the cluster for the life of a query."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable, Mapping

from pocketmq.client.admin import Admin
from pocketmq.client.instance import ClientInstance
from pocketmq.client.queue_offsets import QueueOffsets
from pocketmq.protocol.errors import GroupMissingError, NotFoundError, OperatingError
from pocketmq.protocol.message import MessageQueue
from pocketmq.spark import offsets, topics
from pocketmq.spark.offsets import LATEST, Bound, Range
from pocketmq.spark.stream_limits import BatchLimits
from pocketmq.spark.stream_offsets import Offsets, Position, batch_ranges, unknown_starts
from pocketmq.spark.stream_options import StreamOptions
from pocketmq.spark.stream_planning import next_position, waiting
from pocketmq.spark.stream_survey import Survey, survey

log = logging.getLogger("pocketmq.spark")

PAUSE_S, PAUSE_S_MAX = 0.2, 5.0
"""Pauses while no broker answers; they double up to the maximum."""


class StreamDriver:
    """Plans the batches of a query, and commits for its group.

    Args:
        instance: running.
        options: of the stream.
    """

    def __init__(self, instance: ClientInstance, options: StreamOptions) -> None:
        self._instance, self._options = instance, options
        self._limits = BatchLimits(options, instance.clock)
        self._targets: Offsets | None = None
        self._latest: Offsets = {}
        self._group = GroupOffsets(instance, options.consumer_group) if options.has_group else None

    async def first_position(self) -> Position:
        """Where a new query begins.

        Raises:
            MissingTopicError: a topic does not exist.
            OptionError, DataLossError: the offsets asked for do not fit.
            OperatingError: a broker cannot be asked.
        """
        options = self._options
        ends = await self._all_ends()
        following = {q: last for q, (_, last) in ends.items()}
        if options.starting_offsets.strip().lower() == "latest":
            return Position(following, {}, is_first=True)
        wanted = offsets.ranges(
            offsets.starting(options.starting_offsets),
            Bound("endingOffsets", LATEST, {}),
            ends,
            fail_on_data_loss=options.fail_on_data_loss,
        )
        return Position({**following, **{r.queue: r.start for r in wanted}}, {}, is_first=True)

    async def stop_at_present(self) -> None:
        """From now on nothing is read that comes later (Trigger.AvailableNow).

        Raises:
            MissingTopicError, OperatingError: as `first_position`.
        """
        self._targets = {q: last for q, (_, last) in (await self._all_ends()).items()}

    async def next_position(self, start: Position, *, is_limited: bool) -> Position:
        """Where the next batch ends; the start itself if there is nothing to read.

        Args:
            start: where the last batch ended.
            is_limited: False for a trigger that reads all there is.

        Raises:
            DataLossError: messages that were not read are gone, and this is to be an error.
            OperatingError: no broker answers, or one whose queues have to be read to the end.
        """
        found = await self._survey(start.offsets)
        if self._group is not None:
            await self._group.make_known(found.held)
            # All before the start is done: Spark itself says so with the next batch only, and of
            # the last one of a query never.
            await self._group.commit(start.offsets)
        now = waiting(
            start, found, self._targets, fail_on_data_loss=self._options.fail_on_data_loss
        )
        self._latest = {q: last for q, last in start.offsets.items() if q not in now.dropped}
        self._latest.update({q: last for q, (_, last) in found.held.items()})
        return next_position(start, now, self._limits, is_limited=is_limited)

    async def last_position(self, first: Position | None) -> Position:
        """The end of all queues, for a Spark that does not say where a batch begins.

        Args:
            first: where the query began, if it is to read its first batch.

        Raises:
            MissingTopicError, OperatingError: as `first_position`.
        """
        following = {q: last for q, (_, last) in (await self._all_ends()).items()}
        if first is None:
            return Position(following, {})
        return first if following == first.offsets else Position(following, first.offsets)

    async def _survey(self, known: Offsets) -> Survey:
        pause_s = PAUSE_S
        attempts_left = self._options.retry_times_when_pull_failed
        while True:
            try:
                found = await survey(self._instance, self._options.topics, known.keys())
            except OperatingError:
                if attempts_left == 0:
                    raise
            else:
                is_enough = not found.silent if self._targets is not None else bool(found.held)
                if is_enough or not found.silent:
                    return found
                if attempts_left == 0:
                    raise next(iter(found.silent.values()))
            attempts_left -= 1
            await self._instance.clock.sleep(pause_s)
            pause_s = min(2 * pause_s, PAUSE_S_MAX)

    async def _all_ends(self) -> Mapping[MessageQueue, tuple[int, int]]:
        queues = await topics.queues_to_read(self._instance, self._options.topics)
        return await topics.queue_ends(self._instance, queues)

    @property
    def latest(self) -> Position | None:
        """How far the queues reached when they were last asked."""
        return Position(self._latest, {}) if self._latest else None

    async def ranges(self, start: Position, end: Position) -> list[Range]:
        """What the batch between two positions reads, always cut the same way.

        Raises:
            OperatingError: a broker cannot be asked (which is needed before Spark 4.2 only).
        """
        unknown = unknown_starts(start, end)
        if unknown:
            ends = await topics.queue_ends(self._instance, unknown)
            starts = {q: min(least, end.offsets[q]) for q, (least, _) in ends.items()}
            end = Position(end.offsets, {**starts, **end.starts})
        return offsets.split(batch_ranges(start, end), self._options.min_partitions)

    async def commit(self, end: Position) -> None:
        """Tells the brokers how far the query is, if it has a group."""
        if self._group is not None:
            await self._group.commit(end.offsets)


class GroupOffsets:
    """The offsets of a consumer group, kept in the brokers for tools to show.

    The query itself goes by its checkpoint: what cannot be committed now is committed with the next
    batch.

    Args:
        instance: running.
        group: its name; it is created where it is unknown.
    """

    def __init__(self, instance: ClientInstance, group: str) -> None:
        self._instance, self._group = instance, group
        self._offsets = QueueOffsets(instance.pool, instance.routes, topics.CALL_TIMEOUT_MS)
        self._admin = Admin(instance=instance)
        self._brokers: set[str] = set()
        self._committed: Offsets = {}

    async def make_known(self, queues: Iterable[MessageQueue]) -> None:
        """Creates the group on brokers that do not have it: they refuse its pulls otherwise."""
        one_each = {q.broker_name: q for q in queues}
        for broker_name in sorted(one_each.keys() - self._brokers):
            try:
                await self._create(one_each[broker_name])
            except OperatingError as e:
                log.warning("group %s cannot be created on %s: %s", self._group, broker_name, e)
            else:
                self._brokers.add(broker_name)

    async def _create(self, queue: MessageQueue) -> None:
        address = await self._instance.routes.master_of(queue)
        try:
            await self._admin.group_config(self._group, address)
        except (GroupMissingError, NotFoundError):
            await self._admin.create_group(self._group, broker_addr=address)

    async def commit(self, offsets: Offsets) -> None:
        """Commits what has changed since the last time."""
        changed = [(q, o) for q, o in offsets.items() if self._committed.get(q) != o]
        outcomes = await asyncio.gather(
            *(self._offsets.commit(self._group, q, o) for q, o in changed), return_exceptions=True
        )
        failed: list[BaseException] = []
        for (queue, offset), outcome in zip(changed, outcomes, strict=True):
            if outcome is None:
                self._committed[queue] = offset
            elif isinstance(outcome, OperatingError):
                failed.append(outcome)
                if isinstance(outcome, GroupMissingError):
                    self._brokers.discard(queue.broker_name)
            else:
                raise outcome
        if failed:
            log.warning(
                "%d of %d offsets of group %s could not be committed, they will be with the next "
                "batch: %s", len(failed), len(changed), self._group, failed[0],
            )  # fmt: skip
