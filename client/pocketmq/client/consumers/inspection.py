"""Inspection of running consumers by brokers, and resets of their offsets."""

from __future__ import annotations

import platform
import sys
import traceback
from collections import defaultdict
from collections.abc import Mapping, Sequence

import msgspec

from pocketmq.client.consumers.member_queues import MemberQueues
from pocketmq.client.instance.heartbeat import ConsumerMember
from pocketmq.client.listening.dispatch import Dispatcher, ListenerRaised, comes_again
from pocketmq.client.queues.queue_loop import QueueLoop
from pocketmq.client.results import OrderlyResult
from pocketmq.client.settings import MemberSettings, PushSettings
from pocketmq.protocol.bodies.clients import Subscription
from pocketmq.protocol.bodies.groups import (
    CR_COMMIT,
    CR_LATER,
    CR_ROLLBACK,
    CR_SUCCESS,
    CR_THROW_EXCEPTION,
    PROP_CONSUME_ORDERLY,
    PROP_CONSUMER_START_TIMESTAMP,
    PROP_THREADPOOL_CORE_SIZE,
    ConsumeDirectlyResult,
    ConsumeStatus,
    ProcessQueueInfo,
    RunningInfo,
)
from pocketmq.protocol.bodies.topics import QueueKey
from pocketmq.protocol.codes import ResponseCode
from pocketmq.protocol.errors import response_error
from pocketmq.protocol.messages import properties as props
from pocketmq.protocol.messages.message import MessageQueue, ReceivedMessage
from pocketmq.protocol.names.names import retry_topic
from pocketmq.protocol.requests.popping import ALL_QUEUES
from pocketmq.runtime.clock import Clock

MEBIBYTE = 1024 * 1024


class MemberInspection:
    """Inspects a running consumer (`DefaultLitePullConsumerImpl#consumerRunningInfo`).

    Args:
        member: the consumer, as brokers hear of it.
        settings: its settings.
        queues: its queues.
        clock: by which its times are measured.
    """

    def __init__(
        self, member: ConsumerMember, settings: MemberSettings, queues: MemberQueues, clock: Clock
    ) -> None:
        self._member, self._settings = member, settings
        self._queues, self._clock = queues, clock
        self._started_ms = clock.now_ms()

    # -- state --------------------------------------------------------------------------------

    def running_info(self) -> RunningInfo:
        """Returns the consumer's settings, subscriptions, queues and rates."""
        subscriptions = self._member.describe().subscription_data_set
        return RunningInfo(
            properties=self._properties(),
            subscription_set=subscriptions,
            mq_table={_key(q): self._queue_info(loop) for q, loop in self._queues.loops.items()},
            status_table=self._status(subscriptions),
            user_consumer_info={
                "pythonVersion": platform.python_version(),
                "platform": sys.platform,
            },
        )

    def _properties(self) -> dict[str, object]:
        settings = msgspec.structs.asdict(self._settings)
        return {
            **{_camel(name): str(value) for name, value in settings.items()},
            "consumerGroup": self._member.group,
            PROP_CONSUME_ORDERLY: "true" if self._settings.is_ordered else "false",
            PROP_CONSUMER_START_TIMESTAMP: str(self._started_ms),
        }

    def _queue_info(self, loop: QueueLoop) -> ProcessQueueInfo:
        messages = loop.messages
        low, high = messages.ends or (0, 0)
        return ProcessQueueInfo(
            commit_offset=messages.commit_offset,
            cached_msg_min_offset=low,
            cached_msg_max_offset=high,
            cached_msg_count=messages.count,
            cached_msg_size_in_mib=messages.size // MEBIBYTE,
            locked=self._settings.is_ordered and messages.may_commit,
            droped=messages.dropped,
            last_pull_timestamp=self._date(loop.last_pull_s),
            last_consume_timestamp=self._date(messages.last_taken_s),
        )

    def _date(self, moment_s: float) -> int:
        """Converts a moment of the clock to milliseconds since the epoch; 0 means never."""
        if not moment_s:
            return 0
        return self._clock.now_ms() - round((self._clock.monotonic() - moment_s) * 1000)

    def _status(self, subscriptions: Sequence[Subscription]) -> dict[str, ConsumeStatus]:
        loops: dict[str, list[QueueLoop]] = defaultdict(list)
        for queue, loop in self._queues.loops.items():
            loops[queue.topic].append(loop)
        return {s.topic: self._status_of(s.topic, loops[s.topic]) for s in subscriptions}

    def _status_of(self, topic: str, loops: Sequence[QueueLoop]) -> ConsumeStatus:
        now_s = self._clock.monotonic()
        pull_times_s = [t for loop in loops if (t := loop.pulled.mean_cost(now_s))]
        return ConsumeStatus(
            pull_rt=1000 * sum(pull_times_s) / len(pull_times_s) if pull_times_s else 0.0,
            pull_tps=sum(loop.pulled.per_second(now_s) for loop in loops),
        )

    def offsets_of(self, topic: str) -> dict[QueueKey, int]:
        """Returns the consumer's offsets in its queues of a topic."""
        return {
            _key(queue): loop.messages.commit_offset
            for queue, loop in self._queues.loops.items()
            if queue.topic == topic and queue.queue_id != ALL_QUEUES
        }

    # -- commands -----------------------------------------------------------------------------

    async def handle_directly(self, message: ReceivedMessage) -> ConsumeDirectlyResult:
        """Refuses a message, since the consumer has no listener.

        Raises:
            ResponseError: always (1).
        """
        raise response_error(
            ResponseCode.SYSTEM_ERROR,
            f"the consumers of group {self._member.group} have no listener: they poll",
        )

    async def move(self, offsets: Mapping[MessageQueue, int]) -> None:
        """Moves the consumer to other offsets in those of the queues that it has."""
        await self._queues.move(offsets)


class PushInspection(MemberInspection):
    """Inspects a running push consumer (`DefaultMQPushConsumerImpl#consumerRunningInfo`).

    Args:
        member: the consumer, as brokers hear of it.
        settings: its settings.
        queues: its queues.
        dispatcher: has its listener.
        clock: by which its times are measured.
    """

    def __init__(
        self,
        member: ConsumerMember,
        settings: PushSettings,
        queues: MemberQueues,
        dispatcher: Dispatcher,
        clock: Clock,
    ) -> None:
        super().__init__(member, settings, queues, clock)
        self._concurrency, self._dispatcher = settings.concurrency, dispatcher

    def _properties(self) -> dict[str, object]:
        return {**super()._properties(), PROP_THREADPOOL_CORE_SIZE: str(self._concurrency)}

    def _status_of(self, topic: str, loops: Sequence[QueueLoop]) -> ConsumeStatus:
        now_s = self._clock.monotonic()
        figures = self._dispatcher.statistics.of(topic)
        status = super()._status_of(topic, loops)
        status.consume_rt = 1000 * figures.handled.mean_cost(now_s)
        status.consume_ok_tps = figures.handled.per_second(now_s)
        status.consume_failed_tps = figures.failed.per_second(now_s)
        status.consume_failed_msgs = figures.failed_in_hour.count(now_s)
        return status

    async def handle_directly(self, message: ReceivedMessage) -> ConsumeDirectlyResult:
        """Calls the listener with a message; no offset changes, and it is not repeated."""
        if message.topic == retry_topic(self._member.group):
            message.topic = message.properties.get(props.RETRY_TOPIC, message.topic)
        begun_s = self._clock.monotonic()
        result = await self._dispatcher.handle_directly(message)
        spent_ms = round((self._clock.monotonic() - begun_s) * 1000)
        out = ConsumeDirectlyResult(
            order=self._settings.is_ordered, consume_result=CR_SUCCESS, spent_time_mills=spent_ms
        )
        if isinstance(result, ListenerRaised):
            out.consume_result = CR_THROW_EXCEPTION
            out.remark = "".join(traceback.format_exception_only(result.error)).strip()
        elif result is OrderlyResult.COMMIT:
            out.consume_result = CR_COMMIT
        elif result is OrderlyResult.ROLLBACK:
            out.consume_result = CR_ROLLBACK
        elif comes_again(result):
            out.consume_result = CR_LATER
        return out


def _key(queue: MessageQueue) -> QueueKey:
    return QueueKey(queue.broker_name, queue.queue_id, queue.topic)


def _camel(name: str) -> str:
    first, *rest = name.split("_")
    return first + "".join(word.capitalize() for word in rest)
