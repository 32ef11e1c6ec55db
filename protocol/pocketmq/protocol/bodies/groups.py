"""Bodies with the offsets of groups, and with what members say of themselves."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeVar

from msgspec import field

from pocketmq.protocol.bodies import Body
from pocketmq.protocol.bodies.clients import GroupConfig, Subscription
from pocketmq.protocol.bodies.topics import ConsumeStats, DataVersion, QueueKey, queue_key
from pocketmq.protocol.wire import loose_json

ValueT = TypeVar("ValueT")

CR_SUCCESS = "CR_SUCCESS"
CR_LATER = "CR_LATER"
CR_COMMIT = "CR_COMMIT"
CR_ROLLBACK = "CR_ROLLBACK"
CR_THROW_EXCEPTION = "CR_THROW_EXCEPTION"
"""The outcome of a message that was given to a listener directly (`body/CMResult`)."""

PROP_NAMESERVER_ADDR = "PROP_NAMESERVER_ADDR"
PROP_THREADPOOL_CORE_SIZE = "PROP_THREADPOOL_CORE_SIZE"
PROP_CONSUME_ORDERLY = "PROP_CONSUMEORDERLY"
PROP_CONSUME_TYPE = "PROP_CONSUME_TYPE"
PROP_CLIENT_VERSION = "PROP_CLIENT_VERSION"
PROP_CONSUMER_START_TIMESTAMP = "PROP_CONSUMER_START_TIMESTAMP"
"""Properties of a running consumer that RocketMQ's tools look at."""


class GroupConfigList(Body, kw_only=True):
    """Several groups' settings (`body/SubscriptionGroupList`)."""

    group_config_list: list[GroupConfig] = field(default_factory=list)


class GroupForbidden(Body, kw_only=True):
    """Whether a group may read a topic (`subscription/GroupForbidden`)."""

    group: str
    topic: str
    readable: bool


class GroupList(Body, kw_only=True):
    """Names of groups."""

    group_list: list[str] = field(default_factory=list)


class GroupSubscription(Body, kw_only=True):
    """How a group subscribes to a topic (`body/QuerySubscriptionResponseBody`)."""

    group: str
    topic: str | None = None
    subscription_data: Subscription | None = None


class QueueTimeSpan(Body, kw_only=True):
    """Times of one queue, in milliseconds since the epoch; -1 for none.

    `delay_time` is the age in milliseconds of the next message that the group has to consume.
    """

    message_queue: QueueKey
    min_time_stamp: int = -1
    max_time_stamp: int = -1
    consume_time_stamp: int = -1
    delay_time: int = 0


class ConsumeTimeSpans(Body, kw_only=True):
    """The times of a topic's queues (`body/QueryConsumeTimeSpanBody`)."""

    consume_time_span_set: list[QueueTimeSpan] = field(default_factory=list)


class ConsumeStatsList(Body, kw_only=True):
    """The offsets and lag of all groups of a broker."""

    broker_addr: str
    consume_stats_list: list[dict[str, list[ConsumeStats]]] = field(default_factory=list)
    total_diff: int = 0
    total_inflight_diff: int = 0


class ConsumerOffsetTable(Body, kw_only=True):
    """All committed offsets of a broker, by ``topic@group`` and queue."""

    offset_table: dict[str, dict[int, int]] = field(default_factory=dict)
    data_version: DataVersion = DataVersion()


class CorrectionOffsets(Body, kw_only=True):
    """The least offset of a topic's groups, by queue (`body/QueryCorrectionOffsetBody`)."""

    correction_offsets: dict[int, int] = field(default_factory=dict)


class DelayOffsets(Body, kw_only=True):
    """The offset up to which each delay level has delivered its queue, by level."""

    offset_table: dict[int, int] = field(default_factory=dict)
    data_version: DataVersion = DataVersion()


class ProducerInfo(Body, kw_only=True):
    """One living producer."""

    client_id: str
    remote_ip: str = field(default="", name="remoteIP")
    language: str = "OTHER"
    version: int = 0
    last_update_timestamp: int = 0


class ProducerTableInfo(Body, kw_only=True):
    """The living producers by group."""

    data: dict[str, list[ProducerInfo]] = field(default_factory=dict)


class QueueOffset(Body, kw_only=True):
    """A queue and an offset in it."""

    broker_name: str
    queue_id: int
    topic: str
    offset: int


class ResetOffsetList(Body, kw_only=True):
    """`ResetOffsets` in the form that clients in C++ read (`body/ResetOffsetBodyForC`)."""

    offset_table: list[QueueOffset] = field(default_factory=list)

    @classmethod
    def of(cls, offsets: Mapping[QueueKey, int]) -> ResetOffsetList:
        """Makes the list of a table."""
        return cls(
            offset_table=[
                QueueOffset(
                    broker_name=k.broker_name, queue_id=k.queue_id, topic=k.topic, offset=offset
                )
                for k, offset in offsets.items()
            ]
        )


class ResetOffsets(Body, kw_only=True):
    """The offset that a group was given in each queue (`body/ResetOffsetBody`)."""

    offset_table: dict[QueueKey, int] = field(default_factory=dict)

    @classmethod
    def decode(cls, data: bytes) -> ResetOffsets:
        """Reads the table; its keys are whole objects, or C++'s list of such objects."""
        wire = loose_json.decode(data, _WireResetOffsets)
        if isinstance(wire.offset_table, list):
            return cls(
                offset_table={
                    QueueKey(row.broker_name, row.queue_id, row.topic): row.offset
                    for row in wire.offset_table
                }
            )
        return cls(offset_table=_by_queue(wire.offset_table))


class _WireResetOffsets(Body, kw_only=True):
    offset_table: dict[str, int] | list[QueueOffset] = field(default_factory=dict)


class ConsumerStatus(Body, kw_only=True):
    """The offsets at which consumers say they are (`body/GetConsumerStatusBody`).

    A client fills `message_queue_table`, a broker `consumer_table` by client id.
    """

    message_queue_table: dict[QueueKey, int] = field(default_factory=dict)
    consumer_table: dict[str, dict[QueueKey, int]] = field(default_factory=dict)

    @classmethod
    def decode(cls, data: bytes) -> ConsumerStatus:
        """Reads the tables; their keys are whole objects."""
        wire = loose_json.decode(data, _WireConsumerStatus)
        return cls(
            message_queue_table=_by_queue(wire.message_queue_table),
            consumer_table={name: _by_queue(t) for name, t in wire.consumer_table.items()},
        )


class _WireConsumerStatus(Body, kw_only=True):
    message_queue_table: dict[str, int] = field(default_factory=dict)
    consumer_table: dict[str, dict[str, int]] = field(default_factory=dict)


class ProcessQueueInfo(Body, kw_only=True):
    """The state of one queue in a consumer; times in ms since the epoch, 0 for never."""

    commit_offset: int = 0
    cached_msg_min_offset: int = 0
    cached_msg_max_offset: int = 0
    cached_msg_count: int = 0
    cached_msg_size_in_mib: int = field(default=0, name="cachedMsgSizeInMiB")
    transaction_msg_min_offset: int = 0
    transaction_msg_max_offset: int = 0
    transaction_msg_count: int = 0
    locked: bool = False
    try_unlock_times: int = 0
    last_lock_timestamp: int = 0
    droped: bool = False
    last_pull_timestamp: int = 0
    last_consume_timestamp: int = 0


class ConsumeStatus(Body, kw_only=True):
    """A consumer's rates in one topic: mean times in milliseconds, messages a second."""

    pull_rt: float = field(default=0.0, name="pullRT")
    pull_tps: float = field(default=0.0, name="pullTPS")
    consume_rt: float = field(default=0.0, name="consumeRT")
    consume_ok_tps: float = field(default=0.0, name="consumeOKTPS")
    consume_failed_tps: float = field(default=0.0, name="consumeFailedTPS")
    consume_failed_msgs: int = 0


class RunningInfo(Body, kw_only=True):
    """A consumer's state, as it reports it (`body/ConsumerRunningInfo`)."""

    properties: dict[str, object] = field(default_factory=dict)
    subscription_set: list[Subscription] = field(default_factory=list)
    mq_table: dict[QueueKey, ProcessQueueInfo] = field(default_factory=dict)
    status_table: dict[str, ConsumeStatus] = field(default_factory=dict)
    user_consumer_info: dict[str, str] = field(default_factory=dict)
    jstack: str | None = None

    @classmethod
    def decode(cls, data: bytes) -> RunningInfo:
        """Reads the state; the keys of its queue table are whole objects."""
        wire = loose_json.decode(data, _WireRunningInfo)
        return cls(
            properties=wire.properties,
            subscription_set=wire.subscription_set,
            mq_table=_by_queue(wire.mq_table),
            status_table=wire.status_table,
            user_consumer_info=wire.user_consumer_info,
            jstack=wire.jstack,
        )


class _WireRunningInfo(Body, kw_only=True):
    properties: dict[str, object] = field(default_factory=dict)
    subscription_set: list[Subscription] = field(default_factory=list)
    mq_table: dict[str, ProcessQueueInfo] = field(default_factory=dict)
    status_table: dict[str, ConsumeStatus] = field(default_factory=dict)
    user_consumer_info: dict[str, str] = field(default_factory=dict)
    jstack: str | None = None


class ConsumeDirectlyResult(Body, kw_only=True):
    """The outcome of a message that was given to a listener directly."""

    order: bool = False
    auto_commit: bool = True
    consume_result: str | None = None
    remark: str | None = None
    spent_time_mills: int = 0


def _by_queue(wire: dict[str, ValueT]) -> dict[QueueKey, ValueT]:
    return {queue_key(key): value for key, value in wire.items()}
