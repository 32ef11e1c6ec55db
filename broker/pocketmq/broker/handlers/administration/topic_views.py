"""Topics are listed and measured: 21, 202, 305, 351."""

from __future__ import annotations

from pocketmq.broker.counters.store_counters import StoreCounters
from pocketmq.broker.refusals import topic_missing
from pocketmq.broker.store.metadata.damaged import DamagedQueues
from pocketmq.broker.store.store import MessageStore
from pocketmq.broker.topics.topics import TopicTable
from pocketmq.protocol.bodies.topics import (
    QueueKey,
    TopicConfigTable,
    TopicList,
    TopicOffset,
    TopicStatsTable,
)
from pocketmq.protocol.codes import RequestCode, ResponseCode
from pocketmq.protocol.errors import response_error
from pocketmq.protocol.requests.topics import (
    AllTopicConfigResponse,
    TopicConfigRequest,
    TopicStatsRequest,
)
from pocketmq.protocol.wire.command import Command
from pocketmq.runtime.clock import Clock
from pocketmq.runtime.slices import QUEUES_PER_SLICE, encoded_in_slices, in_slices
from pocketmq.transport.connection import Connection, Handler


class TopicViewHandlers:
    """Lists and measures topics.

    Args:
        broker_name: for the statistics' keys.
        system_names: the topics that belong to the broker.
        topics, store: of the broker.
        counters: the rates of the topics.
        damaged: the queues that are not served.
        clock: for the turns of others.
    """

    def __init__(
        self,
        broker_name: str,
        system_names: frozenset[str],
        topics: TopicTable,
        store: MessageStore,
        counters: StoreCounters,
        damaged: DamagedQueues,
        clock: Clock,
    ) -> None:
        self._broker_name, self._system_names = broker_name, system_names
        self._topics, self._store, self._clock = topics, store, clock
        self._counters, self._damaged = counters, damaged

    def table(self) -> dict[int, Handler]:
        """The handlers by request code."""
        return {
            RequestCode.GET_SYSTEM_TOPIC_LIST_FROM_BROKER: self.system_topics,
            RequestCode.GET_ALL_TOPIC_CONFIG: self.all_configs,
            RequestCode.GET_TOPIC_STATS_INFO: self.stats,
            RequestCode.GET_TOPIC_CONFIG: self.config,
        }

    async def all_configs(self, _: Command, __: Connection) -> Command:
        """21: all as they were when they were asked for."""
        table = TopicConfigTable(
            topic_config_table={t.topic_name: t for t in self._topics},
            data_version=self._topics.version,
        )
        return Command(
            ResponseCode.SUCCESS,
            header=AllTopicConfigResponse(total_topic_num=len(table.topic_config_table)),
            body=await encoded_in_slices(self._clock, table),
        )

    def system_topics(self, _: Command, __: Connection) -> Command:
        """305: the names of the system topics."""
        body = TopicList(topic_list=sorted(self._system_names))
        return Command(ResponseCode.SUCCESS, body=body.encode())

    def config(self, command: Command, _: Connection) -> Command:
        """351: a topic's settings."""
        request = command.read(TopicConfigRequest)
        topic = self._topics.get(request.topic)
        if topic is None:
            raise response_error(
                ResponseCode.TOPIC_NOT_EXIST,
                f"No topic in this broker. topic: {request.topic}; it can be created with "
                f"`pocketmq topic create {request.topic}` or mqadmin updateTopic",
            )
        return Command(ResponseCode.SUCCESS, body=topic.encode())

    async def stats(self, command: Command, _: Connection) -> Command:
        """202: every queue of the topic, also those beyond the counts that still hold messages.

        A damaged one is shown without messages, and the remark says what is wrong with it.
        """
        request = command.read(TopicStatsRequest)
        topic = self._topics.get(request.topic)
        if topic is None:
            raise topic_missing(request.topic)
        queue_ids = {*range(topic.queue_nums_max), *self._store.queue_ids(request.topic)}
        table = {}
        async for queue_id in in_slices(self._clock, sorted(queue_ids), QUEUES_PER_SLICE):
            queue_log = self._store.log_if_sound(request.topic, queue_id)
            low = high = timestamp = 0
            if queue_log is not None:
                low, high = queue_log.min_offset, queue_log.max_offset
                timestamp = queue_log.timestamp_at(high - 1) if low < high else 0
            table[QueueKey(self._broker_name, queue_id, request.topic)] = TopicOffset(
                min_offset=low, max_offset=high, last_update_timestamp=timestamp
            )
        body = TopicStatsTable(
            offset_table=table, topic_put_tps=self._counters.topics.per_second(request.topic)
        )
        damaged = "; ".join(map(str, self._damaged.of_topic(request.topic)))
        encoded = await encoded_in_slices(self._clock, body)
        return Command(ResponseCode.SUCCESS, remark=damaged or None, body=encoded)
