"""Bodies of heartbeats, subscriptions, connections and group settings."""

from __future__ import annotations

from msgspec import field

from pocketmq.protocol.bodies import Body
from pocketmq.protocol.bodies.topics import DataVersion
from pocketmq.protocol.messages.properties import java_hash

SUBSCRIBE_ALL = "*"
TAG = "TAG"
SQL92 = "SQL92"

CLUSTERING = "CLUSTERING"
BROADCASTING = "BROADCASTING"
CONSUME_PASSIVELY = "CONSUME_PASSIVELY"
"""RocketMQ's word for push consumers."""
CONSUME_ACTIVELY = "CONSUME_ACTIVELY"
"""RocketMQ's word for pull consumers."""
CONSUME_POP = "CONSUME_POP"
"""RocketMQ's word for consumers that pop."""
CONSUME_FROM_LAST_OFFSET = "CONSUME_FROM_LAST_OFFSET"
CONSUME_FROM_FIRST_OFFSET = "CONSUME_FROM_FIRST_OFFSET"
CONSUME_FROM_TIMESTAMP = "CONSUME_FROM_TIMESTAMP"


class Subscription(Body, kw_only=True):
    """Which messages of one topic a group subscribes to (`SubscriptionData`)."""

    topic: str
    sub_string: str = SUBSCRIBE_ALL
    tags_set: list[str] = field(default_factory=list)
    code_set: list[int] = field(default_factory=list)
    sub_version: int = 0
    expression_type: str | None = TAG
    class_filter_mode: bool = False

    @classmethod
    def of_tags(cls, topic: str, expression: str, version_ms: int) -> Subscription:
        """Makes a subscription by tags: ``*`` or ``TagA || TagB``.

        Args:
            topic: the topic subscribed to.
            expression: the tag expression; empty means all.
            version_ms: when the subscription was made.
        """
        tags = [t for t in (part.strip() for part in expression.split("||")) if t]
        if not tags or SUBSCRIBE_ALL in tags:
            return cls(topic=topic, sub_version=version_ms)
        return cls(
            topic=topic,
            sub_string=expression,
            tags_set=tags,
            code_set=[java_hash(t) for t in tags],
            sub_version=version_ms,
        )

    @classmethod
    def of_sql(cls, topic: str, expression: str, version_ms: int) -> Subscription:
        """Makes a subscription by a SQL92 expression over the messages' properties.

        Args:
            topic: the topic subscribed to.
            expression: the expression; it is not parsed here.
            version_ms: when the subscription was made.
        """
        return cls(
            topic=topic, sub_string=expression, sub_version=version_ms, expression_type=SQL92
        )

    @property
    def takes_all(self) -> bool:
        """Whether the subscription lets every message pass."""
        return self.expression_type in (None, TAG) and self.sub_string in ("", SUBSCRIBE_ALL)


class ConsumerData(Body, kw_only=True):
    """One consumer group of a client."""

    group_name: str
    consume_type: str | None = CONSUME_PASSIVELY
    message_model: str | None = CLUSTERING
    consume_from_where: str | None = CONSUME_FROM_LAST_OFFSET
    subscription_data_set: list[Subscription] = field(default_factory=list)
    unit_mode: bool = False


class ProducerData(Body, kw_only=True):
    """One producer group of a client."""

    group_name: str


class Heartbeat(Body, kw_only=True):
    """A client's groups (`HeartbeatData`)."""

    client_id: str = field(name="clientID")
    producer_data_set: list[ProducerData] = field(default_factory=list)
    consumer_data_set: list[ConsumerData] = field(default_factory=list)
    heartbeat_fingerprint: int = 0
    without_sub: bool = False


class CheckClientConfigBody(Body, kw_only=True):
    """The subscription that a broker is asked to check (46)."""

    client_id: str | None = None
    group: str | None = None
    subscription_data: Subscription


class ConsumerIdList(Body, kw_only=True):
    """The ids of a group's living consumers."""

    consumer_id_list: list[str] = field(default_factory=list)


class ClientConnection(Body, kw_only=True):
    """One connected client."""

    client_id: str
    client_addr: str
    language: str
    version: int
    subscription: str | None = None
    """The client's subscriptions as text; only PocketMQ's brokers fill it in."""


class SubscriptionSide(Body, kw_only=True):
    """Members of a group that subscribe alike, some of them by id."""

    subscription: str
    member_count: int
    client_ids: list[str] = field(default_factory=list)


class ConsumerConnection(Body, kw_only=True):
    """The connected members of a consumer group and their subscriptions."""

    connection_set: list[ClientConnection] = field(default_factory=list)
    subscription_table: dict[str, Subscription] = field(default_factory=dict)
    consume_type: str | None = None
    message_model: str | None = None
    consume_from_where: str | None = None
    subscription_conflict: list[SubscriptionSide] | None = None
    """Which members subscribe differently; only PocketMQ's brokers fill it in."""


class ProducerConnection(Body, kw_only=True):
    """The connected members of a producer group."""

    connection_set: list[ClientConnection] = field(default_factory=list)


class GroupConfig(Body, kw_only=True):
    """A subscription group's settings (`SubscriptionGroupConfig`)."""

    group_name: str
    consume_enable: bool = True
    consume_from_min_enable: bool = True
    consume_broadcast_enable: bool = True
    consume_message_orderly: bool = False
    retry_queue_nums: int = 1
    retry_max_times: int = 16
    group_retry_policy: dict[str, object] = field(default_factory=lambda: {"type": "CUSTOMIZED"})
    """Only kept: RocketMQ's brokers do not look at it either, it is for its proxy's gRPC clients.
    Retries over remoting climb the delay levels."""
    broker_id: int = 0
    which_broker_when_consume_slowly: int = 1
    notify_consumer_ids_changed_enable: bool = True
    group_sys_flag: int = 0
    consume_timeout_minute: int = 15
    attributes: dict[str, str] = field(default_factory=dict)


class GroupConfigTable(Body, kw_only=True):
    """A broker's subscription groups, the answer of 201 (`SubscriptionGroupWrapper`)."""

    subscription_group_table: dict[str, GroupConfig] = field(default_factory=dict)
    forbidden_table: dict[str, dict[str, int]] = field(default_factory=dict)
    data_version: DataVersion = DataVersion()
