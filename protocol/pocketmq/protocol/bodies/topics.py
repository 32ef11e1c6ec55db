"""Bodies with topics, their settings and their statistics."""

from __future__ import annotations

import msgspec
from msgspec import field

from pocketmq.protocol.bodies import Body
from pocketmq.protocol.flags import PERM_READ, PERM_WRITE
from pocketmq.protocol.wire import loose_json


class DataVersion(msgspec.Struct, rename="camel", kw_only=True, frozen=True):
    """When a table was last changed; equal versions mean equal tables."""

    counter: int = 0
    state_version: int = 0
    timestamp: int = 0

    def next(self, now_ms: int) -> DataVersion:
        """Returns the version after a change made now."""
        return DataVersion(
            counter=self.counter + 1, state_version=self.state_version, timestamp=now_ms
        )


RESERVE_TIME = "reserve.time"
"""The attribute of a topic that says for how many hours its messages are kept."""

RETENTION_BYTES = "pocketmq.retention.bytes"
"""The attribute of a topic that says how many bytes of it a broker keeps: PocketMQ's own."""


class TopicConfig(Body, kw_only=True):
    """A topic's settings on one broker.

    Producers use the write queues, consumers the read queues; the two counts may differ while a
    topic is expanded or shrunk.
    """

    topic_name: str
    read_queue_nums: int = 16
    write_queue_nums: int = 16
    perm: int = PERM_READ | PERM_WRITE
    topic_filter_type: str = "SINGLE_TAG"
    topic_sys_flag: int = 0
    order: bool = False
    attributes: dict[str, str] = field(default_factory=dict)

    @property
    def queue_nums_max(self) -> int:
        """The number of queues that may hold messages."""
        return max(self.read_queue_nums, self.write_queue_nums)


class TopicConfigList(Body, kw_only=True):
    """Several topics' settings (`body/CreateTopicListRequestBody`)."""

    topic_config_list: list[TopicConfig] = field(default_factory=list)


class TopicNames(Body, kw_only=True):
    """The topics that a request is about (31050)."""

    topics: list[str] = field(default_factory=list)


class TopicFigures(msgspec.Struct, rename="camel", kw_only=True):
    """How much one broker holds of a topic, and how fast messages come and go.

    Attributes:
        queues: that exist, or still hold messages.
        messages: that the queues hold.
        size: bytes of their records.
        stored: messages that ever came to these queues.
        delivered: messages that groups have got since the broker's start, retries apart.
        in_rate, out_rate: messages a second in the last minute.
    """

    queues: int = 0
    messages: int = 0
    size: int = 0
    stored: int = 0
    delivered: int = 0
    in_rate: float = 0.0
    out_rate: float = 0.0


class TopicFiguresTable(Body, kw_only=True):
    """The figures of those topics that a broker has, by name."""

    topics: dict[str, TopicFigures] = field(default_factory=dict)


class TopicQueueMapping(Body, kw_only=True):
    """The logical queues of a static topic that a broker holds (`TopicQueueMappingInfo`)."""

    topic: str | None = None
    scope: str = "__global__"
    total_queues: int = 0
    bname: str | None = None
    epoch: int = 0
    dirty: bool = False
    curr_id_map: dict[int, int] = field(default_factory=dict)


class TopicConfigTable(Body, kw_only=True):
    """The answer of GET_ALL_TOPIC_CONFIG and the larger part of a registration."""

    topic_config_table: dict[str, TopicConfig] = field(default_factory=dict)
    data_version: DataVersion = DataVersion()
    mapping_data_version: DataVersion = DataVersion()
    topic_queue_mapping_detail_map: dict[str, object] = field(default_factory=dict)
    topic_queue_mapping_info_map: dict[str, TopicQueueMapping] = field(default_factory=dict)


class RegisterBrokerBody(Body, kw_only=True):
    """The topics that a broker registers.

    PocketMQ's own is `removed_topics`: topics that the broker had and has no more, in a
    registration that is partial.
    """

    topic_config_serialize_wrapper: TopicConfigTable = field(default_factory=TopicConfigTable)
    filter_server_list: list[str] = field(default_factory=list)
    removed_topics: list[str] | None = None


class TopicList(Body, kw_only=True):
    """Names of topics, and in some answers the address of a broker."""

    topic_list: list[str] = field(default_factory=list)
    broker_addr: str | None = None


class KVTable(Body, kw_only=True):
    """A table of strings."""

    table: dict[str, str] = field(default_factory=dict)


class QueueKey(msgspec.Struct, rename="camel", frozen=True):
    """A queue as the key of a map; its fields stand in the order of the wire."""

    broker_name: str
    queue_id: int
    topic: str


class TopicOffset(Body, kw_only=True):
    """The lowest and highest offset of one queue, and when it was last written to."""

    min_offset: int
    max_offset: int
    last_update_timestamp: int


class TopicStatsTable(Body, kw_only=True):
    """The offsets of each queue of a topic, and the topic's rate of writes."""

    offset_table: dict[QueueKey, TopicOffset] = field(default_factory=dict)
    topic_put_tps: float = 0.0

    @classmethod
    def decode(cls, data: bytes) -> TopicStatsTable:
        """Reads the table; its keys are whole objects."""
        wire = loose_json.decode(data, _WireTopicStats)
        return cls(
            offset_table={queue_key(k): v for k, v in wire.offset_table.items()},
            topic_put_tps=wire.topic_put_tps,
        )


class OffsetWrapper(Body, kw_only=True):
    """A group's offset in one queue beside the broker's, and the last consumed message's time."""

    broker_offset: int
    consumer_offset: int
    last_timestamp: int
    pull_offset: int = 0


class ConsumeStats(Body, kw_only=True):
    """A group's offset in each queue beside the broker's."""

    offset_table: dict[QueueKey, OffsetWrapper] = field(default_factory=dict)
    consume_tps: float = 0.0

    @classmethod
    def decode(cls, data: bytes) -> ConsumeStats:
        """Reads the table; its keys are whole objects."""
        wire = loose_json.decode(data, _WireConsumeStats)
        return cls(
            offset_table={queue_key(k): v for k, v in wire.offset_table.items()},
            consume_tps=wire.consume_tps,
        )


class _WireTopicStats(Body, kw_only=True):
    offset_table: dict[str, TopicOffset] = field(default_factory=dict)
    topic_put_tps: float = 0.0


class _WireConsumeStats(Body, kw_only=True):
    offset_table: dict[str, OffsetWrapper] = field(default_factory=dict)
    consume_tps: float = 0.0


def queue_key(text: str) -> QueueKey:
    """Reads the key of a table, which `loose_json` hands out as JSON text."""
    return loose_json.decode(text.encode(), QueueKey)
