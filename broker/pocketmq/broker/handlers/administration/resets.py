"""Resets and copies of groups' offsets: 222, 314 (`broker/processor/AdminBrokerProcessor`)."""

from __future__ import annotations

import logging

from pocketmq.broker.groups.client_calls import ClientCalls
from pocketmq.broker.groups.groups import GroupTable
from pocketmq.broker.groups.offsets import ConsumerOffsets
from pocketmq.broker.reading.long_polling import LongPolling
from pocketmq.broker.reading.pull_progress import PullProgress
from pocketmq.broker.refusals import queue_illegal, topic_missing
from pocketmq.broker.store.store import MessageStore
from pocketmq.broker.topics.topics import TopicTable
from pocketmq.protocol.bodies.groups import ResetOffsets
from pocketmq.protocol.bodies.topics import QueueKey, TopicConfig
from pocketmq.protocol.codes import RequestCode, ResponseCode
from pocketmq.protocol.errors import ResponseError, response_error
from pocketmq.protocol.requests.groups import CloneOffsetsRequest, ResetOffsetRequest
from pocketmq.protocol.wire.command import Command
from pocketmq.runtime.live import Live
from pocketmq.transport.connection import Connection, Handler

log = logging.getLogger("pocketmq.broker")


class ResetHandlers:
    """Changes the offsets of groups on request.

    Args:
        broker_name: for the keys of the answers.
        topics, groups, offsets, store: of the broker.
        progress: forgets what was pulled of a queue where the group is put elsewhere.
        polling: wakes the group's pulls, so that they learn of it.
        calls: tells the clients, unless `server_side` leaves that to their next pulls.
        server_side: useServerSideResetOffset.
    """

    def __init__(
        self,
        broker_name: str,
        topics: TopicTable,
        groups: GroupTable,
        offsets: ConsumerOffsets,
        store: MessageStore,
        progress: PullProgress,
        polling: LongPolling,
        calls: ClientCalls,
        server_side: Live[bool],
    ) -> None:
        self._broker_name = broker_name
        self._topics, self._groups = topics, groups
        self._offsets, self._store = offsets, store
        self._progress, self._polling = progress, polling
        self._calls, self._server_side = calls, server_side

    def table(self) -> dict[int, Handler]:
        """The handlers by request code."""
        return {
            RequestCode.INVOKE_BROKER_TO_RESET_OFFSET: self.reset,
            RequestCode.CLONE_GROUP_OFFSET: self.clone,
        }

    def reset(self, command: Command, connection: Connection) -> Command:
        """222. The group's next pull of each queue, also one that is held, is answered with 21."""
        request = command.read(ResetOffsetRequest)
        topic = self._topics.get(request.topic)
        if topic is None:
            raise topic_missing(request.topic)
        if self._groups.get(request.group) is None:
            raise _group_missing(request.group)
        if not self._server_side.now:
            return self._reset_clients(request, topic)
        if request.queue_id < 0:
            offsets = {
                queue_id: self._offset_at(request.topic, queue_id, request.timestamp)
                for queue_id in range(topic.read_queue_nums)
            }
        else:
            offsets = {request.queue_id: self._offset_for(request)}
            if request.queue_id >= topic.read_queue_nums:  # RocketMQ takes what fits no messages
                raise queue_illegal(request.queue_id, topic, "read", connection.remote_address)
        self._offsets.reset(request.group, request.topic, offsets)
        log.info("group %s is put to %s in %s", request.group, offsets, request.topic)
        for queue_id in offsets:
            self._progress.forget_queue(request.group, request.topic, queue_id)
            self._polling.look_again(request.topic, queue_id)
        return self._answer(request.topic, offsets)

    def _answer(self, topic: str, offsets: dict[int, int]) -> Command:
        body = ResetOffsets(offset_table=self._keyed(topic, offsets))
        return Command(ResponseCode.SUCCESS, body=body.encode())

    def _keyed(self, topic: str, offsets: dict[int, int]) -> dict[QueueKey, int]:
        return {QueueKey(self._broker_name, q, topic): offset for q, offset in offsets.items()}

    def _offset_for(self, request: ResetOffsetRequest) -> int:
        """The offset that is asked for; one behind the end is allowed, as in RocketMQ."""
        offset, queue_id = request.offset, request.queue_id
        if offset is None or offset == -1:
            return self._offset_at(request.topic, queue_id, request.timestamp)
        queue_log = self._store.find_log(request.topic, queue_id)
        low, high = (0, 0) if queue_log is None else (queue_log.min_offset, queue_log.max_offset)
        if not low <= offset <= high + 1:
            holds = f"the offsets {low} to {high - 1}" if low < high else "nothing"
            raise response_error(
                ResponseCode.SYSTEM_ERROR,
                f"Target offset {offset} not in consume queue range [{low}-{high}]: queue "
                f"{queue_id} of {request.topic} holds {holds}, and {high} comes next; nothing was "
                f"changed",
            )
        return offset

    def _offset_at(self, topic: str, queue_id: int, timestamp_ms: int) -> int:
        """The first offset stored at that time or later; the end for a negative time."""
        queue_log = self._store.find_log(topic, queue_id)
        if queue_log is None:
            return 0
        if timestamp_ms < 0:
            return queue_log.max_offset
        return queue_log.offset_at_time(timestamp_ms)

    def _reset_clients(self, request: ResetOffsetRequest, topic: TopicConfig) -> Command:
        """Sends the offsets to the group's consumers, which commit them, as old brokers do."""
        offsets: dict[int, int] = {}
        for queue_id in range(topic.write_queue_nums):
            before = self._offsets.get(request.group, request.topic, queue_id)
            if before is None:
                raise response_error(
                    ResponseCode.SYSTEM_ERROR,
                    f"the consumer group <{request.group}> not exist: it has no offset in queue "
                    f"{queue_id} of {request.topic}",
                )
            target = self._offset_at(request.topic, queue_id, request.timestamp)
            offsets[queue_id] = target if request.is_force or target < before else before
        self._calls.reset(request, self._keyed(request.topic, offsets))
        return self._answer(request.topic, offsets)

    def clone(self, command: Command, connection: Connection) -> Command:
        """314: in one topic, or in each where the source group has offsets.

        Members of the target group that run go on where they are; it should have none.
        """
        request = command.read(CloneOffsetsRequest)
        if self._groups.get(request.src_group) is None:
            raise _group_missing(request.src_group)
        self._groups.find(request.dest_group, connection)
        topics = [request.topic] if request.topic else self._offsets.topics_of(request.src_group)
        for topic in sorted(topics):
            if topic in self._topics:
                self._offsets.clone(request.src_group, request.dest_group, topic)
        return Command(ResponseCode.SUCCESS)


def _group_missing(group: str) -> ResponseError:
    return response_error(
        ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST,
        f"Group {group} does not exist on this broker: create it first, or check its name",
    )
