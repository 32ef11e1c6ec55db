"""Finds the topic and queue that a dead letter is sent to."""

from __future__ import annotations

import zlib

from pocketmq.broker.groups.groups import GroupTable
from pocketmq.broker.groups.request_modes import RequestModes
from pocketmq.broker.popping.pop_queues import PopQueues
from pocketmq.broker.redrive.copies import LetterRefusedError
from pocketmq.broker.redrive.letters import DeadLetter
from pocketmq.broker.store.log.queue_log import QueueLog
from pocketmq.broker.store.store import MessageStore
from pocketmq.broker.topics.topics import TopicTable
from pocketmq.protocol import flags
from pocketmq.protocol.bodies.popping import POP
from pocketmq.protocol.bodies.redrives import TO_GROUP, TO_ORIGIN, RedriveOrder
from pocketmq.protocol.bodies.topics import TopicConfig
from pocketmq.protocol.errors import UsageError
from pocketmq.protocol.messages import properties as props
from pocketmq.protocol.names import names


class Targets:
    """Where dead letters of this broker may go: topics of this broker.

    The group alone sees what is in its retry topics. A group that pops reads another retry topic
    than one that pulls: a message that was popped goes back to where its group pops it.

    Args:
        store, topics, groups, modes: of the broker.
        pops: what groups have popped.
    """

    def __init__(
        self,
        store: MessageStore,
        topics: TopicTable,
        groups: GroupTable,
        modes: RequestModes,
        pops: PopQueues,
    ) -> None:
        self._store, self._topics, self._groups = store, topics, groups
        self._modes, self._pops = modes, pops

    def check(self, order: RedriveOrder) -> None:
        """Checks the target of an order.

        Raises:
            UsageError: nothing could be sent there.
        """
        if order.to == TO_GROUP:
            group = self._groups.get(order.group)
            if group is None:
                raise UsageError(
                    f"there is no group {order.group} on this broker: its consumers must start "
                    f"first, or send the dead letters to another topic"
                )
            if group.retry_queue_nums <= 0:
                raise UsageError(
                    f"the group {order.group} has no retry queues (retryQueueNums is 0): set some, "
                    f"or send the dead letters to another topic"
                )
        elif order.to != TO_ORIGIN:
            try:
                self._writable(order.to)
            except LetterRefusedError as e:
                raise UsageError(str(e)) from e
            if order.to == names.dlq_topic(order.group):
                raise UsageError(f"{order.to} is where the dead letters are already")

    def topic_of(self, letter: DeadLetter, order: RedriveOrder) -> str:
        """Returns the name of the topic that a dead letter would go to.

        Raises:
            LetterRefusedError: there is none.
        """
        if order.to == TO_GROUP:
            origin = letter.origin
            if origin is not None and self._is_popped(letter, origin):
                return names.pop_retry_topic(letter.group, origin)
            return names.retry_topic(letter.group)
        if order.to != TO_ORIGIN:
            self._writable(order.to)
            return order.to
        if letter.origin is None:
            raise LetterRefusedError("it does not say which topic it was first sent to: name one")
        self._writable(letter.origin)
        return letter.origin

    def log_of(self, letter: DeadLetter, order: RedriveOrder) -> QueueLog:
        """Returns the log that a dead letter goes to.

        Raises:
            LetterRefusedError: there is none.
            StoreError: it cannot be made or opened now.
        """
        name = self.topic_of(letter, order)
        if order.to == TO_GROUP:
            group = self._groups.get(letter.group)
            if group is None:
                raise LetterRefusedError(f"its group {letter.group} was deleted")
            is_popped = name != names.retry_topic(letter.group)
            nums = 1 if is_popped else max(group.retry_queue_nums, 1)
            topic = self._topics.create_for_group(name, nums)
        else:
            topic = self._writable(name)
        return self._store.queue_log(name, _queue_of(letter, max(topic.write_queue_nums, 1)))

    def _writable(self, name: str) -> TopicConfig:
        topic = self._topics.get(name)
        if topic is None:
            raise LetterRefusedError(
                f"there is no topic {name} on this broker: create it, or name another one"
            )
        if name in names.SEND_FORBIDDEN_TOPICS:
            raise LetterRefusedError(f"only brokers themselves write to {name}")
        if not flags.is_writable(topic.perm) or not topic.write_queue_nums:
            raise LetterRefusedError(f"the topic {name} may not be written to")
        return topic

    def _is_popped(self, letter: DeadLetter, origin: str) -> bool:
        """Whether the group pops the messages of a topic, as far as the broker knows."""
        if props.FIRST_POP_TIME in letter.properties:
            return True
        mode = self._modes.get(origin, letter.group)
        if mode is not None:
            return mode.mode == POP
        topic = self._topics.get(origin)
        queue_nums = 0 if topic is None else topic.queue_nums_max
        return any(self._pops.get(letter.group, origin, q) for q in range(queue_nums))


def _queue_of(letter: DeadLetter, queue_nums: int) -> int:
    """What belongs together stays in one queue, the rest is spread."""
    sharding_key = letter.properties.get(props.SHARDING_KEY)
    if sharding_key is not None:
        return zlib.crc32(sharding_key.encode("utf-8", "surrogateescape")) % queue_nums
    return letter.offset % queue_nums
