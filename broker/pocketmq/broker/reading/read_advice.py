"""Tells consumers which member of a broker set to read from (suggestWhichBrokerId).

A group far behind reads what is not in memory any more. With slaveReadEnable it does so from a
follower, so that the leader's disk is there for senders (`DefaultMessageStore#getMessage`).
RocketMQ counts the bytes of its only commit log; here each queue has a log of its own, and the
bytes of that queue count.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

import msgspec

from pocketmq.broker.config.config import BrokerConfig
from pocketmq.broker.reading.memory_size import memory_size
from pocketmq.broker.store.log.queue_log import QueueLog
from pocketmq.protocol.bodies.clients import GroupConfig
from pocketmq.runtime.live import Live

LEADER_ID = 0
"""The id under which clients know the leader of a broker set."""


class ReadAdvice(Protocol):
    """Knows who is to be asked next."""

    def broker_id(self, group: GroupConfig, queue_log: QueueLog | None, offset: int) -> int:
        """Returns the id of the member from which a group is to read a queue on at an offset."""


class ReadAdviceSettings(msgspec.Struct, frozen=True):
    """When followers are to be asked.

    Attributes:
        is_enabled: slaveReadEnable.
        size_max: bytes of a queue; a group that has more of them before it is far behind.
    """

    is_enabled: bool
    size_max: int

    @classmethod
    def of(cls, config: BrokerConfig) -> ReadAdviceSettings:
        """The part of a broker's settings that the advice depends on."""
        size_max = memory_size() * config.access_message_in_memory_max_ratio // 100
        return cls(config.slave_read_enable, size_max)


class LeaderAdvice:
    """Sends groups that are far behind to an in-sync follower.

    Args:
        settings: when.
        followers: the ids of the followers that have everything, in order.
    """

    def __init__(
        self, settings: Live[ReadAdviceSettings], followers: Callable[[], Sequence[int]]
    ) -> None:
        self._settings, self._followers = settings, followers

    def broker_id(self, group: GroupConfig, queue_log: QueueLog | None, offset: int) -> int:
        """See `ReadAdvice`."""
        if not self._settings.now.is_enabled:
            return LEADER_ID
        wanted = group.broker_id
        if is_far_behind(queue_log, offset, self._settings.now):
            wanted = group.which_broker_when_consume_slowly
        if not wanted:
            return LEADER_ID
        followers = self._followers()
        if wanted in followers or not followers:
            return wanted if followers else LEADER_ID
        return next((member for member in followers if member > wanted), followers[0])


class FollowerAdvice:
    """Keeps groups that are far behind, and sends the others to the leader while there is one.

    Args:
        settings: when.
        member_id: of this follower.
    """

    def __init__(self, settings: Live[ReadAdviceSettings], member_id: int) -> None:
        self._settings, self._member_id = settings, member_id

    def broker_id(self, group: GroupConfig, queue_log: QueueLog | None, offset: int) -> int:
        """See `ReadAdvice`."""
        if is_far_behind(queue_log, offset, self._settings.now):
            return self._member_id
        return LEADER_ID


def is_far_behind(queue_log: QueueLog | None, offset: int, settings: ReadAdviceSettings) -> bool:
    """Whether more of a queue is behind an offset than memory holds."""
    if queue_log is None or not queue_log.min_offset <= offset < queue_log.end_offset:
        return False
    return queue_log.end_position - queue_log.position_at(offset) > settings.size_max
