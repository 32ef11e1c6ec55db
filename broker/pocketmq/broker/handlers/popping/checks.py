"""Checks of pops, in RocketMQ's order (`broker/processor/PopMessageProcessor`)."""

from __future__ import annotations

import msgspec

from pocketmq.broker.config.config import BrokerConfig
from pocketmq.broker.groups.groups import GroupTable
from pocketmq.broker.refusals import no_permission, topic_missing
from pocketmq.broker.topics.topics import TopicTable
from pocketmq.protocol.bodies.topics import TopicConfig
from pocketmq.protocol.codes import ResponseCode
from pocketmq.protocol.errors import response_error
from pocketmq.protocol.flags import PERM_READ, is_readable
from pocketmq.protocol.names import names
from pocketmq.protocol.requests.popping import ALL_QUEUES, POPPED_MAX
from pocketmq.runtime.clock import Clock
from pocketmq.runtime.live import Live
from pocketmq.transport.connection import Connection

LATE_MS_MAX = 500
"""A pop that comes later than its poll time and this after it was sent is not answered any more."""


class PopCheckSettings(msgspec.Struct, frozen=True):
    """The settings that checks of pops depend on.

    Attributes:
        permission: of the whole broker, bits of `pocketmq.protocol.flags`.
        address: of the broker, for remarks.
        sql_enabled: whether SQL92 filters are allowed.
    """

    permission: int
    address: str
    sql_enabled: bool

    @classmethod
    def of(cls, config: BrokerConfig) -> PopCheckSettings:
        """The part of a broker's settings that checks of pops depend on."""
        return cls(
            permission=config.broker_permission,
            address=config.broker_ip1 or config.bind_address,
            sql_enabled=config.enable_property_filter,
        )


class PopChecks:
    """Refuses pops that cannot be answered.

    Args:
        topics, groups, clock: of the broker.
        settings: see `PopCheckSettings`.
    """

    def __init__(
        self,
        topics: TopicTable,
        groups: GroupTable,
        clock: Clock,
        settings: Live[PopCheckSettings],
    ) -> None:
        self._topics, self._groups, self._clock = topics, groups, clock
        self._settings = settings

    def check(
        self,
        connection: Connection,
        group_name: str,
        topic_name: str,
        queue_id: int,
        *,
        born_ms: int = 0,
        poll_ms: int = 0,
        count: int = 1,
    ) -> TopicConfig:
        """Checks a pop, peek or notification, and returns the settings of its topic.

        Args:
            connection: of the client.
            group_name, topic_name, queue_id: who asks for what.
            born_ms: when it was sent by the client's clock; 0 if it does not say so.
            poll_ms: for how long the client waits.
            count: messages that are asked for.

        Raises:
            ResponseError: 210, 16, 29, 17, 26.
        """
        settings = self._settings.now
        # The machine's clock: the client knows nothing of a clock that jumps.
        if born_ms > 0 and self._clock.machine.now_ms() - born_ms - poll_ms > LATE_MS_MAX:
            raise response_error(
                ResponseCode.POLLING_TIMEOUT,
                f"the broker[{settings.address}] pop message is timeout too much: it was sent "
                f"{self._clock.machine.now_ms() - born_ms} ms ago by the client's clock, and would "
                f"wait for {poll_ms} ms; do the clocks differ?",
            )
        if not settings.permission & PERM_READ:
            raise no_permission(f"the broker[{settings.address}] pop message is forbidden")
        if count > POPPED_MAX:
            raise response_error(
                ResponseCode.INVALID_PARAMETER,
                f"the broker[{settings.address}] pop message's num is greater than {POPPED_MAX}",
            )
        topic = self._topics.get(topic_name)
        if topic is None:
            raise topic_missing(topic_name)
        if not is_readable(topic.perm):
            raise no_permission(f"the topic[{topic_name}] peeking message is forbidden")
        if queue_id != ALL_QUEUES and not 0 <= queue_id < topic.read_queue_nums:
            raise response_error(
                ResponseCode.INVALID_PARAMETER,
                f"queueId[{queue_id}] is illegal, topic:[{topic_name}] "
                f"topicConfig.readQueueNums:[{topic.read_queue_nums}] "
                f"consumer:[/{connection.remote_address}]",
            )
        group = self._groups.find(group_name, connection)
        if not group.consume_enable:
            raise no_permission(f"subscription group no permission, {group_name}")
        if not self._groups.may_read(group_name, topic_name):
            raise no_permission(
                f"the consumer group[{group_name}] is forbidden for topic[{topic_name}]: an "
                f"administrator has forbidden it (updateGroupForbidden)"
            )
        retry_topic = names.retry_topic(group_name)
        if retry_topic not in self._topics:  # mqadmin consumerProgress asks for its route
            self._topics.create_for_group(retry_topic, max(group.retry_queue_nums, 1))
        return topic

    @property
    def sql_enabled(self) -> bool:
        """Whether SQL92 filters are allowed."""
        return self._settings.now.sql_enabled
