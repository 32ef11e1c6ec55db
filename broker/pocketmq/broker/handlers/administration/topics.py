"""Topics are created, changed and deleted: 17, 18, 215."""

from __future__ import annotations

import logging
from collections.abc import Awaitable

from pocketmq.broker.groups.hidden_queues import hidden_queues, warning_of
from pocketmq.broker.groups.offsets import ConsumerOffsets
from pocketmq.broker.popping.deletions import PopDeletions
from pocketmq.broker.reading.long_polling import LongPolling
from pocketmq.broker.reading.pull_progress import PullProgress
from pocketmq.broker.store.store import MessageStore
from pocketmq.broker.topics.attributes import TOPIC_ATTRIBUTES, changed_attributes, parse_attributes
from pocketmq.broker.topics.topics import QUEUE_NUMS_MAX, TopicTable
from pocketmq.protocol.bodies.topics import (
    TopicConfig,
    TopicConfigList,
)
from pocketmq.protocol.codes import RequestCode, ResponseCode
from pocketmq.protocol.errors import IllegalNameError, ResponseError, response_error
from pocketmq.protocol.names import names
from pocketmq.protocol.requests.topics import (
    CreateTopicRequest,
    DeleteTopicRequest,
)
from pocketmq.protocol.wire.command import Command
from pocketmq.transport.connection import Connection, Handler, Reply

log = logging.getLogger("pocketmq.broker")


def _invalid(remark: str) -> ResponseError:
    return response_error(ResponseCode.INVALID_PARAMETER, remark)


class TopicHandlers:
    """Creates, changes and deletes topics.

    Args:
        system_names: topics that cannot be changed or deleted.
        topics, offsets, store, progress, polling: of the broker.
        pops: forgets deleted topics.
    """

    def __init__(
        self,
        system_names: frozenset[str],
        topics: TopicTable,
        offsets: ConsumerOffsets,
        store: MessageStore,
        progress: PullProgress,
        polling: LongPolling,
        pops: PopDeletions,
    ) -> None:
        self._pops = pops
        self._system_names, self._topics, self._offsets = system_names, topics, offsets
        self._store, self._progress, self._polling = store, progress, polling

    def table(self) -> dict[int, Handler]:
        """The handlers by request code."""
        return {
            RequestCode.UPDATE_AND_CREATE_TOPIC: self.create,
            RequestCode.UPDATE_AND_CREATE_TOPIC_LIST: self.create_list,
            RequestCode.DELETE_TOPIC_IN_BROKER: self.delete,
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
