"""Acknowledgements of popped messages, and changes of their invisible times: 200051, 200053, 200151
(`broker/processor/AckMessageProcessor`, `ChangeInvisibleTimeProcessor`).
"""

from __future__ import annotations

from functools import partial

from pocketmq.broker.handlers.popping.pop import INVISIBLE_MS_MAX
from pocketmq.broker.popping.ordered_batch import OrderedBatch
from pocketmq.broker.popping.pop_queues import PopQueue, PopQueues
from pocketmq.broker.popping.pop_traffic import PopTraffic
from pocketmq.broker.popping.waiting import PopWaiting
from pocketmq.broker.refusals import store_failure, topic_missing, unavailable
from pocketmq.broker.store.store import MessageStore
from pocketmq.broker.topics.topics import TopicTable
from pocketmq.protocol.bodies.popping import BatchAck, BatchAckEntry
from pocketmq.protocol.codes import RequestCode, ResponseCode
from pocketmq.protocol.errors import ContentError, OperatingError, ResponseError, response_error
from pocketmq.protocol.messages.receipts import Origin, ReceiptHandle
from pocketmq.protocol.popped import topic_read
from pocketmq.protocol.requests.popping import (
    AckMessageRequest,
    ChangeInvisibleTimeRequest,
    ChangeInvisibleTimeResponse,
)
from pocketmq.protocol.wire.command import Command
from pocketmq.runtime.clock import Clock
from pocketmq.transport.connection import Connection, Handler

ACKS_OF_BATCH_MAX = 100_000
"""Messages that one batch may acknowledge."""


class _Reply:
    """Answers a request when the journal has all that it changed."""

    def __init__(self, command: Command, connection: Connection, answer: Command) -> None:
        self._command, self._connection, self._answer = command, connection, answer
        self._error: OperatingError | None = None
        self.left = 0

    def written(self, error: OperatingError | None) -> None:
        """One more event is in the journal, or could not be written."""
        self.left -= 1
        self._error = self._error or error
        if self.left:
            return
        if self._error is not None:
            self._connection.refuse(self._command, *store_failure(self._error))
        else:
            self._connection.respond(self._command, self._answer)


class AckHandlers:
    """Takes acknowledgements, and sets invisible times anew.

    Args:
        topics, store, clock: of the broker.
        queues: what is in flight.
        traffic: counts what is acknowledged.
        waiting: pops that wait for a blocked queue.
    """

    def __init__(
        self,
        topics: TopicTable,
        store: MessageStore,
        queues: PopQueues,
        traffic: PopTraffic,
        waiting: PopWaiting,
        clock: Clock,
    ) -> None:
        self._topics, self._store, self._queues = topics, store, queues
        self._acknowledged = traffic.acknowledged
        self._waiting, self._clock = waiting, clock

    def table(self) -> dict[int, Handler]:
        """The handlers by request code."""
        return {
            RequestCode.ACK_MESSAGE: self.ack,
            RequestCode.BATCH_ACK_MESSAGE: self.batch_ack,
            RequestCode.CHANGE_MESSAGE_INVISIBLETIME: self.change_invisible_time,
        }

    def ack(self, command: Command, connection: Connection) -> Command | None:
        """200051; a message that is not in flight any more is no error."""
        request = command.read(AckMessageRequest)
        is_ordered = _names_ordered(request.extra_info)
        queue = self._queues.get(request.consumer_group, request.topic, request.queue_id)
        if queue is not None and not is_ordered and self._store.refusal is None:
            # What is in flight is legal: most acknowledgements end here.
            on_written = partial(_answer, command, connection)
            if self._queues.acknowledge_one(queue, request.offset, on_written):
                self._acknowledged[queue.group, queue.topic].messages += 1
                return None
        self._check(request, connection, end_is_legal=True)
        answer = Command(ResponseCode.SUCCESS)
        if queue is None:
            return answer
        self._check_store()
        if not is_ordered:
            return answer
        reply = _Reply(command, connection, answer)
        handle = _handle_of(request.extra_info)
        if not self._acknowledge_in_order(queue, request, handle, reply, connection):
            return answer
        reply.left += 1
        return None

    def _acknowledge_in_order(
        self,
        queue: PopQueue,
        request: AckMessageRequest,
        handle: ReceiptHandle,
        reply: _Reply,
        connection: Connection,
    ) -> bool:
        batch = queue.batch
        if batch is None or request.offset < batch.committed:
            return False
        is_changed = batch.acknowledge(request.offset, handle.pop_time)
        if is_changed is None:
            raise _not_in_batch(request, batch, queue, connection)
        if is_changed:
            self._acknowledged[queue.group, queue.topic].messages += 1
            self._queues.put_batch(queue, batch, reply.written)
            if batch.is_done:
                self._waiting.look_again(request.consumer_group, request.topic)
        return is_changed

    def batch_ack(self, command: Command, connection: Connection) -> Command | None:
        """200151: unknown topics and queues, and offsets outside of them, are left out."""
        entries = BatchAck.of_request(command.body).acks if command.body else []
        if not entries:
            raise response_error(ResponseCode.NO_MESSAGE, "the batch acknowledges nothing")
        if sum(len(entry.b) for entry in entries) * 8 > ACKS_OF_BATCH_MAX:
            raise response_error(
                ResponseCode.INVALID_PARAMETER,
                f"one batch may acknowledge {ACKS_OF_BATCH_MAX} messages",
            )
        self._check_store()
        answer = Command(ResponseCode.SUCCESS)
        reply = _Reply(command, connection, answer)
        for entry in entries:
            queue = self._queues.get(
                entry.c, topic_read(_origin_of(entry), entry.c, entry.t), entry.q
            )
            if queue is None:
                continue
            if queue.batch is None:
                count = self._queues.acknowledge(queue, entry.offsets, reply.written)
            else:
                batch = queue.batch
                changes = [batch.acknowledge(offset, entry.pt) for offset in entry.offsets]
                count = sum(map(bool, changes))
                if count:
                    self._queues.put_batch(queue, batch, reply.written)
                    if batch.is_done:
                        self._waiting.look_again(entry.c, entry.t)
            if count:
                self._acknowledged[queue.group, queue.topic].messages += count
                reply.left += 1
        return None if reply.left else answer

    def change_invisible_time(self, command: Command, connection: Connection) -> Command | None:
        """200053. A message that is not in flight any more stays as it is: RocketMQ would deliver
        it once more.
        """
        request = command.read(ChangeInvisibleTimeRequest)
        handle = _handle_of(request.extra_info)
        self._check(request, connection, end_is_legal=False)
        now_ms = self._clock.now_ms()
        invisible_ms = min(max(request.invisible_time, 0), INVISIBLE_MS_MAX)
        queue = self._queues.get(request.consumer_group, request.topic, request.queue_id)
        batch = None if queue is None else queue.batch
        pop_ms, told_ms = now_ms, invisible_ms
        if handle.is_ordered and batch is not None:
            # The handle goes on to name the batch: its time counts from the pop on.
            pop_ms, told_ms = batch.pop_ms, now_ms + invisible_ms - batch.pop_ms
        header = ChangeInvisibleTimeResponse(
            pop_time=pop_ms, invisible_time=told_ms, revive_qid=handle.revive_qid
        )
        answer = Command(ResponseCode.SUCCESS, header=header)
        if queue is None:
            return answer
        self._check_store()
        reply = _Reply(command, connection, answer)
        due_ms = now_ms + invisible_ms
        if handle.is_ordered:
            if batch is None or not batch.renew(request.offset, handle.pop_time, due_ms):
                return answer
            self._queues.put_batch(queue, batch, reply.written)
            self._waiting.look_again_at(request.consumer_group, request.topic, batch.free_ms())
        elif not self._queues.renew(
            queue, request.offset, now_ms, due_ms, reply.written,
            is_suspended=bool(request.suspend),
        ):  # fmt: skip
            return answer
        reply.left += 1
        return None

    def _check(
        self,
        request: AckMessageRequest | ChangeInvisibleTimeRequest,
        connection: Connection,
        *,
        end_is_legal: bool,
    ) -> None:
        topic = self._topics.get(request.topic)
        if topic is None:
            raise topic_missing(request.topic)
        if not 0 <= request.queue_id < topic.read_queue_nums:
            raise response_error(
                ResponseCode.MESSAGE_ILLEGAL,
                f"queueId[{request.queue_id}] is illegal, topic:[{request.topic}] "
                f"topicConfig.readQueueNums:[{topic.read_queue_nums}] "
                f"consumer:[/{connection.remote_address}]",
            )
        queue_log = self._store.find_log(request.topic, request.queue_id)
        low = 0 if queue_log is None else queue_log.min_offset
        high = 0 if queue_log is None else queue_log.end_offset
        if not low <= request.offset <= (high if end_is_legal else high - 1):
            raise response_error(
                ResponseCode.NO_MESSAGE,
                f"offset is illegal, key:{request.topic}@{request.queue_id}, "
                f"commit:{request.offset}, store:{low}~{high}",
            )

    def _check_store(self) -> None:
        if self._store.refusal is not None:
            raise unavailable(self._store.refusal)


def _answer(command: Command, connection: Connection, error: OperatingError | None) -> None:
    """Answers an acknowledgement that the journal has, or could not take."""
    if error is None:
        connection.succeed(command)
    else:
        connection.refuse(command, *store_failure(error))


def _names_ordered(text: str) -> bool:
    try:
        return ReceiptHandle.names_ordered(text)
    except ContentError as e:
        raise response_error(ResponseCode.SYSTEM_ERROR, str(e)) from e


def _handle_of(text: str) -> ReceiptHandle:
    try:
        return ReceiptHandle.decode(text)
    except ContentError as e:
        raise response_error(ResponseCode.SYSTEM_ERROR, str(e)) from e


def _origin_of(entry: BatchAckEntry) -> Origin:
    try:
        return Origin(entry.r)
    except ValueError:
        return Origin.TOPIC


def _not_in_batch(
    request: AckMessageRequest, batch: OrderedBatch, queue: PopQueue, connection: Connection
) -> ResponseError:
    return response_error(
        ResponseCode.MESSAGE_ILLEGAL,
        f"offset is illegal, key:{queue.topic}@{queue.group}@{queue.queue_id}, "
        f"old:{batch.committed}, commit:{request.offset}, next:-1, /{connection.remote_address}",
    )
