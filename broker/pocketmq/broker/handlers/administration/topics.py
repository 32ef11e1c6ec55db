"""Topics: created, changed, deleted, listed and measured: 17, 18, 21, 202, 215, 305, 351."""

from __future__ import annotations

import logging
from collections.abc import Awaitable

from pocketmq.broker.counters.store_counters import StoreCounters
from pocketmq.broker.groups.hidden_queues import hidden_queues, warning_of
from pocketmq.broker.groups.offsets import ConsumerOffsets
from pocketmq.broker.popping.deletions import PopDeletions
from pocketmq.broker.reading.long_polling import LongPolling
from pocketmq.broker.reading.pull_progress import PullProgress
from pocketmq.broker.refusals import topic_missing
from pocketmq.broker.slices import QUEUES_PER_SLICE, encoded_in_slices, in_slices
from pocketmq.broker.store.metadata.damaged import DamagedQueues
from pocketmq.broker.store.store import MessageStore
from pocketmq.broker.topics.attributes import TOPIC_ATTRIBUTES, changed_attributes, parse_attributes
from pocketmq.broker.topics.topics import QUEUE_NUMS_MAX, TopicTable
from pocketmq.protocol.bodies.topics import (
    QueueKey,
    TopicConfig,
    TopicConfigList,
    TopicConfigTable,
    TopicList,
    TopicOffset,
    TopicStatsTable,
)
from pocketmq.protocol.codes import RequestCode, ResponseCode
from pocketmq.protocol.errors import IllegalNameError, ResponseError, response_error
from pocketmq.protocol.names import names
from pocketmq.protocol.requests.topics import (
    AllTopicConfigResponse,
    CreateTopicRequest,
    DeleteTopicRequest,
    TopicConfigRequest,
    TopicStatsRequest,
)
from pocketmq.protocol.wire.command import Command
from pocketmq.runtime.clock import Clock
from pocketmq.transport.connection import Connection, Handler, Reply

log = logging.getLogger("pocketmq.broker")


def _invalid(remark: str) -> ResponseError:
    return response_error(ResponseCode.INVALID_PARAMETER, remark)


class TopicHandlers:
    """Creates, changes, lists, measures and deletes topics.

    Args:
        broker_name: for the statistics' keys.
        system_names: topics that cannot be changed or deleted.
        topics, offsets, store, progress, polling: of the broker.
        counters: the rates of the topics.
        damaged: the queues that are not served.
        pops: forgets deleted topics.
    """

    def __init__(
        self,
        broker_name: str,
        system_names: frozenset[str],
        topics: TopicTable,
        offsets: ConsumerOffsets,
        store: MessageStore,
        counters: StoreCounters,
        damaged: DamagedQueues,
        clock: Clock,
        progress: PullProgress,
        polling: LongPolling,
        pops: PopDeletions,
    ) -> None:
        self._pops = pops
        self._broker_name, self._system_names = broker_name, system_names
        self._topics, self._offsets, self._clock = topics, offsets, clock
        self._store, self._progress, self._polling = store, progress, polling
        self._counters, self._damaged = counters, damaged

    def table(self) -> dict[int, Handler]:
        """The handlers by request code."""
        return {
            RequestCode.UPDATE_AND_CREATE_TOPIC: self.create,
            RequestCode.UPDATE_AND_CREATE_TOPIC_LIST: self.create_list,
            RequestCode.GET_SYSTEM_TOPIC_LIST_FROM_BROKER: self.system_topics,
            RequestCode.GET_ALL_TOPIC_CONFIG: self.all_configs,
            RequestCode.GET_TOPIC_STATS_INFO: self.stats,
            RequestCode.DELETE_TOPIC_IN_BROKER: self.delete,
            RequestCode.GET_TOPIC_CONFIG: self.config,
        }

    def create(self, command: Command, _: Connection) -> Command:
        """17. Queue counts may be changed at any time, read and write apart.

        To shrink, write queues go first; once they are drained, read queues follow. Queues that
        hold messages keep their files, whatever the counts; the answer's remark names those that
        no consumer reaches any more.
        """
        request = command.read(CreateTopicRequest)
        config = TopicConfig(
            topic_name=request.topic,
            read_queue_nums=request.read_queue_nums,
            write_queue_nums=request.write_queue_nums,
            perm=request.perm,
            topic_filter_type=request.topic_filter_type,
            topic_sys_flag=request.topic_sys_flag or 0,
            order=request.order,
            attributes=parse_attributes(request.attributes),
        )
        return Command(ResponseCode.SUCCESS, remark=self._put([self._checked(config)]))

    def create_list(self, command: Command, _: Connection) -> Command:
        """18: creates or changes all of the topics or none."""
        given = TopicConfigList.of_request(command.body).topic_config_list
        remark = self._put([self._checked(config) for config in given])
        return Command(ResponseCode.SUCCESS, remark=remark)

    def _put(self, configs: list[TopicConfig]) -> str | None:
        """Saves settings; returns a warning if messages cannot be read any more."""
        before = {config.topic_name: self._topics.get(config.topic_name) for config in configs}
        self._topics.check_room(configs)
        self._topics.put(*configs)
        warnings = []
        for config in configs:
            known = before[config.topic_name]
            if known is None or config.read_queue_nums >= known.read_queue_nums:
                continue
            # Held pulls go by the old counts: their clients come again, and are told.
            self._polling.release_topic(config.topic_name)
            hidden = hidden_queues(config, self._store, self._offsets)
            if warning := warning_of(config, hidden):
                log.warning("%s", warning)
                warnings.append(warning)
        return "; ".join(warnings) or None

    def _checked(self, config: TopicConfig) -> TopicConfig:
        """Checks settings, and applies the changes of attributes to them.

        Raises:
            ResponseError: 29, they make no sense.
        """
        self._check_name(config.topic_name)
        for side, nums in (
            ("readQueueNums", config.read_queue_nums),
            ("writeQueueNums", config.write_queue_nums),
        ):
            if not 0 <= nums <= QUEUE_NUMS_MAX:
                raise _invalid(f"{side} is {nums}: it must be between 0 and {QUEUE_NUMS_MAX}")
        if not config.read_queue_nums and not config.write_queue_nums:
            raise _invalid("readQueueNums and writeQueueNums are both 0: no queue would be left")
        if not 0 <= config.perm <= 7:
            raise _invalid(f"perm is {config.perm}: it must be between 0 and 7")
        known = self._topics.get(config.topic_name)
        attributes = None if known is None else known.attributes
        config.attributes = changed_attributes(TOPIC_ATTRIBUTES, attributes, config.attributes)
        return config

    def _check_name(self, topic: str) -> None:
        try:
            names.check_topic(topic)
        except IllegalNameError as e:
            raise _invalid(str(e)) from e
        self._check_not_system(topic)

    def _check_not_system(self, topic: str) -> None:
        if topic in self._system_names or topic.startswith(names.SYSTEM_PREFIX):
            raise _invalid(f"The topic[{topic}] is conflict with system topic.")

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

    def delete(self, command: Command, _: Connection) -> Reply:
        """215; deleting what is not there, or cannot be, is no error."""
        request = command.read(DeleteTopicRequest)
        if not request.topic.strip():
            raise _invalid("The specified topic is blank.")
        self._check_not_system(request.topic)
        if not names.is_topic(request.topic):  # a path must never get as far as the store
            return Command(ResponseCode.SUCCESS)
        retry_topics = self._pops.retry_topics_of(request.topic)
        deletions = [self._delete(request.topic)]
        deletions += [self._delete(topic) for topic in retry_topics if topic in self._topics]
        return _success_after(deletions)

    def _delete(self, topic: str) -> Awaitable[None]:
        deletion = self._store.delete_topic(topic)  # the rest is in memory
        try:
            self._topics.forget(topic)
        finally:  # its version may not be kept, but the topic is gone
            self._offsets.remove_topic(topic)
            self._progress.remove_topic(topic)
            self._polling.release_topic(topic)
            self._pops.topic_deleted(topic)
        return deletion


async def _success_after(deletions: list[Awaitable[None]]) -> Command:
    for deletion in deletions:
        await deletion
    return Command(ResponseCode.SUCCESS)
