"""Administration of groups' offsets: lag, resets, clones."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Mapping, Sequence
from typing import Literal

from pocketmq.client.admin.calls import AdminCalls, queue_of
from pocketmq.client.admin.results import QueueLag, QueueReset
from pocketmq.client.errors import UnknownTopicError
from pocketmq.protocol.bodies.groups import ResetOffsets
from pocketmq.protocol.bodies.topics import ConsumeStats
from pocketmq.protocol.codes import ResponseCode
from pocketmq.protocol.errors import GroupMissingError, ResponseError, UsageError
from pocketmq.protocol.messages.message import MessageQueue
from pocketmq.protocol.names.names import retry_topic
from pocketmq.protocol.requests.groups import CloneOffsetsRequest, ResetOffsetRequest
from pocketmq.protocol.requests.topics import ConsumeStatsRequest

End = Literal["earliest", "latest"]
"""The oldest message that a queue holds, or behind the newest."""


class OffsetAdmin(AdminCalls):
    """The methods of `Admin` for groups' offsets."""

    async def consume_stats(self, group: str, topic: str | None = None) -> list[QueueLag]:
        """Returns a group's offset and lag in each queue, sorted by topic, broker and queue.

        Args:
            group: the consumer group.
            topic: only this topic.
        """
        request = ConsumeStatsRequest(consumer_group=group, topic=topic)
        rows: list[QueueLag] = []
        for address in await self._group_brokers(group, topic):
            answer = await self._ask(address, request)
            rows += [
                QueueLag(
                    queue_of(k), o.broker_offset, o.consumer_offset, o.last_timestamp, o.pull_offset
                )
                for k, o in ConsumeStats.decode(answer.body).offset_table.items()
            ]
        return sorted(rows, key=lambda row: row.queue)

    async def _group_brokers(self, group: str, topic: str | None) -> Sequence[str]:
        """Returns the brokers of a topic, or of the group's retry topic, or all of them."""
        try:
            return await self._topic_masters(topic or retry_topic(group))
        except UnknownTopicError:
            if topic is not None:
                raise
            return await self._brokers(None, None)

    async def committed_offset(self, group: str, queue: MessageQueue) -> int | None:
        """Returns a group's committed offset in a queue; None if it has never committed there."""
        return await self._offsets.committed(group, queue, is_exact=True)

    async def commit_offset(self, group: str, queue: MessageQueue, offset: int) -> None:
        """Commits an offset for a group that has no running consumers.

        Raises:
            GroupMissingError: the broker has no such group.
        """
        await self._offsets.commit(group, queue, offset)

    async def reset_offsets(
        self,
        group: str,
        topic: str,
        *,
        to: End | None = None,
        offset: int | None = None,
        timestamp_ms: int | None = None,
        offsets: Mapping[MessageQueue, int] | None = None,
        queues: Collection[MessageQueue] | None = None,
        dry_run: bool = False,
    ) -> list[QueueReset]:
        """Resets a group's offsets in a topic; its running consumers go on there at once.

        One of `to`, `offset`, `timestamp_ms` and `offsets` says where. All queues are checked
        before any of them is changed.

        Args:
            group: the consumer group.
            topic: which topic; ``%RETRY%<group>`` for what waits for another attempt.
            to: one of the ends.
            offset: this offset, in each of the queues.
            timestamp_ms: the first message stored at that time or later.
            offsets: of each of some queues; the other queues stay.
            queues: only these of the topic.
            dry_run: return what would be done, without doing it.

        Returns:
            Each queue with where the group stood and where it goes on, sorted.

        Raises:
            UsageError: not exactly one of the four is given, a queue is not the topic's, or an
                offset is outside of a queue.
            UnknownTopicError: no broker has the topic.
            GroupMissingError: a broker of the topic does not have the group.
        """
        if sum(given is not None for given in (to, offset, timestamp_ms, offsets)) != 1:
            raise UsageError("give one of to, offset, timestamp_ms and offsets")
        if to not in (None, "earliest", "latest"):
            raise UsageError(f"to is {to!r}: it must be 'earliest' or 'latest'")
        if timestamp_ms is not None and timestamp_ms < 0:
            raise UsageError(f"timestamp_ms is {timestamp_ms}: it is in milliseconds since 1970")
        if offsets is not None:
            if queues is not None:
                raise UsageError("offsets name the queues: leave out queues")
            queues = offsets.keys()
        chosen = await self._chosen_queues(topic, queues)
        before = {
            row.queue: row.consumer_offset for row in await self._stats_of_topic(group, topic)
        }
        targets = await asyncio.gather(
            *(
                self._reset_target(queue, to, (offsets or {}).get(queue, offset), timestamp_ms)
                for queue in chosen
            )
        )
        rows = [
            QueueReset(queue, before.get(queue, 0), after)
            for queue, after in zip(chosen, targets, strict=True)
        ]
        if dry_run:
            return rows
        return [await self._reset(group, row, offset, timestamp_ms) for row in rows]

    async def _chosen_queues(
        self, topic: str, queues: Collection[MessageQueue] | None
    ) -> list[MessageQueue]:
        route = await self.topic_route(topic)
        known = sorted(
            MessageQueue(topic, data.broker_name, queue_id)
            for data in route.queue_datas
            for queue_id in range(data.read_queue_nums)
        )
        if queues is None:
            return known
        strange = [queue for queue in queues if queue not in known]
        if strange:
            raise UsageError(f"{strange[0]} is no queue of topic {topic} that can be read")
        return sorted(queues)

    async def _stats_of_topic(self, group: str, topic: str) -> list[QueueLag]:
        request = ConsumeStatsRequest(consumer_group=group, topic=topic, topic_list=topic)
        rows: list[QueueLag] = []
        for address in await self._topic_masters(topic):
            table = ConsumeStats.decode((await self._ask(address, request)).body).offset_table
            rows += [QueueLag(queue_of(k), 0, o.consumer_offset, 0) for k, o in table.items()]
        return rows

    async def _reset_target(
        self, queue: MessageQueue, to: End | None, offset: int | None, timestamp_ms: int | None
    ) -> int:
        offsets = self._offsets
        if timestamp_ms is not None:
            return await offsets.at_time(queue, timestamp_ms)
        if to == "earliest":
            return await offsets.min(queue)
        high = await offsets.max(queue)
        if offset is None:
            return high
        low = await offsets.min(queue)
        if not low <= offset <= high:
            raise UsageError(
                f"offset {offset} is outside of {queue}, which holds {low} to {high - 1}, and "
                f"{high} comes next: nothing was changed; choose one of these, earliest or latest"
            )
        return offset

    async def _reset(
        self, group: str, row: QueueReset, offset: int | None, timestamp_ms: int | None
    ) -> QueueReset:
        queue = row.queue
        request = ResetOffsetRequest(
            group=group,
            topic=queue.topic,
            queue_id=queue.queue_id,
            offset=row.after,
            timestamp=timestamp_ms or 0,
            is_force=True,
        )
        address = await self._instance.routes.master_of(queue)
        try:
            answer = await self._ask(address, request)
        except ResponseError as e:
            if e.code != ResponseCode.CONSUMER_NOT_ONLINE:
                raise
            # The broker keeps no resets, and no consumer runs: an ordinary commit does it.
            await self._offsets.commit(group, queue, row.after)
            return row
        table = ResetOffsets.decode(answer.body).offset_table
        after = {queue_of(key): value for key, value in table.items()}.get(queue, row.after)
        return QueueReset(queue, row.before, after)

    async def clone_offsets(
        self, source: str, target: str, topic: str | None = None, *, cluster: str | None = None
    ) -> None:
        """Copies a group's offsets to another group, which should have no running consumers.

        Args:
            source: the group to be followed.
            target: the group to be put there.
            topic: only in this topic; by default in each where `source` has offsets, which Apache's
                brokers do not do.
            cluster: where; by default in the only cluster that there is.

        Raises:
            GroupMissingError: no broker has the source group.
        """
        request = CloneOffsetsRequest(src_group=source, dest_group=target, topic=topic or "")
        missing: GroupMissingError | None = None
        done = 0
        for address in await self._brokers(cluster, None):
            try:
                await self._ask(address, request)
                done += 1
            except GroupMissingError as e:
                missing = e
        if not done and missing is not None:
            raise missing
