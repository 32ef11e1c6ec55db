"""Which groups consume what, and how far: 43, 208, 300, 303, 308, 317, 343, 345."""

from __future__ import annotations

from collections import defaultdict

from pocketmq.broker.groups.clients import ConsumerTable
from pocketmq.broker.groups.groups import GroupTable
from pocketmq.broker.groups.offsets import ConsumerOffsets
from pocketmq.broker.reading.pull_progress import PullProgress
from pocketmq.broker.refusals import topic_missing
from pocketmq.broker.store.log.queue_log import QueueLog
from pocketmq.broker.store.store import MessageStore
from pocketmq.broker.topics.topics import TopicTable
from pocketmq.protocol.bodies import Body
from pocketmq.protocol.bodies.groups import (
    ConsumerOffsetTable,
    ConsumeStatsList,
    ConsumeTimeSpans,
    CorrectionOffsets,
    GroupList,
    GroupSubscription,
    QueueTimeSpan,
)
from pocketmq.protocol.bodies.topics import (
    ConsumeStats,
    OffsetWrapper,
    QueueKey,
    TopicConfig,
    TopicList,
)
from pocketmq.protocol.codes import RequestCode, ResponseCode
from pocketmq.protocol.requests.groups import (
    BrokerConsumeStatsRequest,
    ConsumeTimeSpanRequest,
    CorrectionOffsetsRequest,
    GroupSubscriptionRequest,
    GroupTopicsRequest,
    TopicGroupsRequest,
)
from pocketmq.protocol.requests.topics import ConsumeStatsRequest
from pocketmq.protocol.wire.command import Command
from pocketmq.runtime.clock import Clock
from pocketmq.runtime.slices import QUEUES_PER_SLICE, in_slices
from pocketmq.transport.connection import Connection, Handler

_LONG_MAX = (1 << 63) - 1


class ConsumptionHandlers:
    """Compares the offsets of groups with the ends of queues.

    Args:
        broker_name: for the keys of the answers.
        address: of this broker, as clients know it.
        topics, groups, offsets, consumers, store: of the broker.
        progress: what was pulled.
        clock: dates delays.
    """

    def __init__(
        self,
        broker_name: str,
        address: str,
        topics: TopicTable,
        groups: GroupTable,
        offsets: ConsumerOffsets,
        consumers: ConsumerTable,
        store: MessageStore,
        progress: PullProgress,
        clock: Clock,
    ) -> None:
        self._broker_name, self._address = broker_name, address
        self._topics, self._groups = topics, groups
        self._offsets, self._consumers, self._store = offsets, consumers, store
        self._progress, self._clock = progress, clock

    def table(self) -> dict[int, Handler]:
        """The handlers by request code."""
        return {
            RequestCode.GET_ALL_CONSUMER_OFFSET: self.all_offsets,
            RequestCode.GET_CONSUME_STATS: self.consume_stats,
            RequestCode.QUERY_TOPIC_CONSUME_BY_WHO: self.topic_groups,
            RequestCode.QUERY_CONSUME_TIME_SPAN: self.time_spans,
            RequestCode.QUERY_CORRECTION_OFFSET: self.correction_offsets,
            RequestCode.GET_BROKER_CONSUME_STATS: self.broker_consume_stats,
            RequestCode.QUERY_TOPICS_BY_CONSUMER: self.group_topics,
            RequestCode.QUERY_SUBSCRIPTION_BY_CONSUMER: self.subscription,
        }

    # -- lag ----------------------------------------------------------------------------------

    async def consume_stats(self, command: Command, _: Connection) -> Command:
        """208: topics that the living members do not subscribe to are left out, unless named so."""
        request = command.read(ConsumeStatsRequest)
        group = request.consumer_group
        listed = [name for name in (request.topic_list or "").split(";") if name.strip()]
        if listed:
            names = listed
        else:
            topics = {request.topic} if request.topic else self._offsets.topics_of(group)
            names = [name for name in topics if self._is_subscribed(group, name)]
        configs = [self._topics.get(name) for name in sorted(set(names))]
        stats = ConsumeStats()
        for topic in configs:
            if topic is not None:
                await self._add(stats, group, topic)
        return _answer(stats)

    async def broker_consume_stats(self, command: Command, _: Connection) -> Command:
        """317: of all groups, and so with turns for others in between."""
        request = command.read(BrokerConsumeStatsRequest)
        body = ConsumeStatsList(broker_addr=self._address)
        topics: dict[str, list[str]] = defaultdict(list)
        for name, topic_name, _queues in self._offsets:
            topics[name].append(topic_name)
        for group in list(self._groups):
            rows = []
            for name in sorted(topics[group.group_name]):
                await self._clock.sleep(0)
                topic = self._topics.get(name)
                if topic is None or (request.is_order and not topic.order):
                    continue
                if not self._is_subscribed(group.group_name, name):
                    continue
                stats = ConsumeStats()
                await self._add(stats, group.group_name, topic)
                rows.append(stats)
                offsets = stats.offset_table.values()
                body.total_diff += sum(o.broker_offset - o.consumer_offset for o in offsets)
                body.total_inflight_diff += sum(o.pull_offset - o.consumer_offset for o in offsets)
            body.consume_stats_list.append({group.group_name: rows})
        return _answer(body)

    def _is_subscribed(self, group: str, topic: str) -> bool:
        members = self._consumers.get(group)
        return members is None or not members.subscriptions or topic in members.subscriptions

    async def _add(self, stats: ConsumeStats, group: str, topic: TopicConfig) -> None:
        name = topic.topic_name
        queue_ids = range(topic.read_queue_nums)
        async for queue_id in in_slices(self._clock, queue_ids, QUEUES_PER_SLICE):
            queue_log = self._store.log_if_sound(name, queue_id)
            offset = max(self._offsets.get(group, name, queue_id) or 0, 0)
            stats.offset_table[QueueKey(self._broker_name, queue_id, name)] = OffsetWrapper(
                broker_offset=0 if queue_log is None else queue_log.max_offset,
                consumer_offset=offset,
                pull_offset=max(offset, self._progress.offset(group, name, queue_id)),
                last_timestamp=max(_stored_at(queue_log, offset - 1), 0),
            )
        stats.consume_tps += self._progress.per_second(group, name)

    async def time_spans(self, command: Command, _: Connection) -> Command:
        """303: when the first, the last and the consumed message of each queue were stored."""
        request = command.read(ConsumeTimeSpanRequest)
        topic = self._topics.get(request.topic)
        if topic is None:
            raise topic_missing(request.topic)
        rows = []
        queue_ids = range(topic.write_queue_nums)
        async for queue_id in in_slices(self._clock, queue_ids, QUEUES_PER_SLICE):
            queue_log = self._store.log_if_sound(request.topic, queue_id)
            offset = self._offsets.get(request.group, request.topic, queue_id) or 0
            row = QueueTimeSpan(message_queue=QueueKey(self._broker_name, queue_id, request.topic))
            if queue_log is not None:
                row.min_time_stamp = _stored_at(queue_log, queue_log.min_offset)
                row.max_time_stamp = _stored_at(queue_log, queue_log.max_offset - 1)
                row.consume_time_stamp = (
                    _stored_at(queue_log, offset - 1) if offset > 0 else row.min_time_stamp
                )
                next_ms = _stored_at(queue_log, offset)
                row.delay_time = self._clock.now_ms() - next_ms if next_ms >= 0 else 0
            rows.append(row)
        return _answer(ConsumeTimeSpans(consume_time_span_set=rows))

    def correction_offsets(self, command: Command, _: Connection) -> Command:
        """308: the smallest offset of all groups in each queue; the greatest number where a group
        that is compared is further behind.

        RocketMQ also deletes the offsets of the groups that it is asked to leave out.
        """
        request = command.read(CorrectionOffsetsRequest)
        left_out = {name.strip() for name in (request.filter_groups or "").split(",")}
        smallest: dict[int, int] = {}
        for group, topic, offsets in self._offsets:
            if topic != request.topic or group in left_out:
                continue
            for queue_id, offset in offsets.items():
                queue_log = self._store.find_log(topic, queue_id)
                if offset >= (0 if queue_log is None else queue_log.min_offset):
                    smallest[queue_id] = min(smallest.get(queue_id, offset), offset)
        for queue_id, offset in smallest.items():
            compared = self._offsets.get(request.compare_group, request.topic, queue_id)
            if compared is not None and offset > compared:
                smallest[queue_id] = _LONG_MAX
        return _answer(CorrectionOffsets(correction_offsets=smallest))

    # -- who and what -------------------------------------------------------------------------

    def all_offsets(self, _: Command, __: Connection) -> Command:
        """43: the committed offsets of all groups."""
        table = {f"{topic}@{group}": dict(queues) for group, topic, queues in self._offsets}
        return _answer(ConsumerOffsetTable(offset_table=table))

    def topic_groups(self, command: Command, _: Connection) -> Command:
        """300: groups whose living members subscribe to the topic, and those with offsets in it."""
        request = command.read(TopicGroupsRequest)
        groups = self._offsets.groups_of(request.topic)
        groups |= {name for name, group in self._consumers if request.topic in group.subscriptions}
        return _answer(GroupList(group_list=sorted(groups)))

    def group_topics(self, command: Command, _: Connection) -> Command:
        """343: the topics that a group consumes."""
        topics = self._offsets.topics_of(command.read(GroupTopicsRequest).group)
        return _answer(TopicList(topic_list=sorted(topics), broker_addr=self._address))

    def subscription(self, command: Command, _: Connection) -> Command:
        """345: a group's subscription to a topic."""
        request = command.read(GroupSubscriptionRequest)
        members = self._consumers.get(request.group)
        found = None if members is None else members.subscriptions.get(request.topic or "")
        return _answer(
            GroupSubscription(group=request.group, topic=request.topic, subscription_data=found)
        )


def _stored_at(queue_log: QueueLog | None, offset: int) -> int:
    """When the message at an offset was stored; -1 if it is not there."""
    if queue_log is None or not queue_log.min_offset <= offset < queue_log.max_offset:
        return -1
    return queue_log.timestamp_at(offset)


def _answer(body: Body) -> Command:
    return Command(ResponseCode.SUCCESS, body=body.encode())
