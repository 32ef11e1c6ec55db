"""Administration of groups: requests to brokers, and of brokers to clients (43, 45, 220 to 353)."""

from __future__ import annotations

from typing import ClassVar

from pocketmq.protocol.codes import RequestCode
from pocketmq.protocol.wire.header import Header, RequestHeader


class UpdateGroupListRequest(RequestHeader, kw_only=True):
    """Creates or changes several subscription groups; the body is their configurations."""

    code: ClassVar[RequestCode] = RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP_LIST


class AllGroupConfigResponse(Header, kw_only=True):
    """Says how many groups there are in all."""

    total_group_num: int


class GroupForbiddenRequest(RequestHeader, kw_only=True):
    """Asks whether a group may read a topic; sets it if `readable` is given."""

    code: ClassVar[RequestCode] = RequestCode.UPDATE_AND_GET_GROUP_FORBIDDEN

    group: str
    topic: str
    readable: bool | None = None


class AllConsumerOffsetsRequest(RequestHeader, kw_only=True):
    """Asks for the committed offsets of all groups of a broker."""

    code: ClassVar[RequestCode] = RequestCode.GET_ALL_CONSUMER_OFFSET


class AllDelayOffsetsRequest(RequestHeader, kw_only=True):
    """Asks for the offset up to which each delay level has delivered."""

    code: ClassVar[RequestCode] = RequestCode.GET_ALL_DELAY_OFFSET


class BrokerConsumeStatsRequest(RequestHeader, kw_only=True):
    """Asks for the lag of all groups of a broker; with `is_order`, in order topics only."""

    code: ClassVar[RequestCode] = RequestCode.GET_BROKER_CONSUME_STATS

    is_order: bool = False


class TopicGroupsRequest(RequestHeader, kw_only=True):
    """Asks which groups consume a topic."""

    code: ClassVar[RequestCode] = RequestCode.QUERY_TOPIC_CONSUME_BY_WHO

    topic: str


class GroupTopicsRequest(RequestHeader, kw_only=True):
    """Asks in which topics a group has offsets."""

    code: ClassVar[RequestCode] = RequestCode.QUERY_TOPICS_BY_CONSUMER

    group: str


class GroupSubscriptionRequest(RequestHeader, kw_only=True):
    """Asks how the living members of a group subscribe to a topic."""

    code: ClassVar[RequestCode] = RequestCode.QUERY_SUBSCRIPTION_BY_CONSUMER

    group: str
    topic: str | None = None


class ConsumeTimeSpanRequest(RequestHeader, kw_only=True):
    """Asks for the times of each queue's first and last message, and of the group's next one."""

    code: ClassVar[RequestCode] = RequestCode.QUERY_CONSUME_TIME_SPAN

    topic: str
    group: str


class AllProducersRequest(RequestHeader, kw_only=True):
    """Asks for the living producers of a broker, by group."""

    code: ClassVar[RequestCode] = RequestCode.GET_ALL_PRODUCER_INFO


class CorrectionOffsetsRequest(RequestHeader, kw_only=True):
    """Asks for the least offsets of a topic's groups, but for some, compared with one of them."""

    code: ClassVar[RequestCode] = RequestCode.QUERY_CORRECTION_OFFSET

    topic: str
    compare_group: str
    filter_groups: str | None = None


class CloneOffsetsRequest(RequestHeader, kw_only=True):
    """Copies the offsets of one group to another, in one topic, or without `topic` in all."""

    code: ClassVar[RequestCode] = RequestCode.CLONE_GROUP_OFFSET

    src_group: str
    dest_group: str
    topic: str | None = None
    offline: bool = False


class ResetOffsetRequest(RequestHeader, kw_only=True):
    """Sets the offsets of a group in a topic.

    `offset` counts with a `queue_id` only; otherwise the store time `timestamp`, in milliseconds,
    or the end where it is negative.
    """

    code: ClassVar[RequestCode] = RequestCode.INVOKE_BROKER_TO_RESET_OFFSET

    group: str
    topic: str
    queue_id: int = -1
    offset: int | None = None
    timestamp: int = -1
    is_force: bool = True


class ClientResetOffsetRequest(RequestHeader, kw_only=True):
    """Tells a client, one-way, to go on at the offsets in the body."""

    code: ClassVar[RequestCode] = RequestCode.RESET_CONSUMER_CLIENT_OFFSET

    group: str
    topic: str
    queue_id: int = -1
    offset: int | None = None
    timestamp: int = -1
    is_force: bool = True


class ConsumerStatusRequest(RequestHeader, kw_only=True):
    """Asks a group's members for their offsets, or only the one whose id is `client_addr`."""

    code: ClassVar[RequestCode] = RequestCode.INVOKE_BROKER_TO_GET_CONSUMER_STATUS

    topic: str
    group: str
    client_addr: str | None = None


class ClientStatusRequest(RequestHeader, kw_only=True):
    """Asks a client for its offsets in the queues of a topic."""

    code: ClassVar[RequestCode] = RequestCode.GET_CONSUMER_STATUS_FROM_CLIENT

    topic: str
    group: str
    client_addr: str | None = None


class RunningInfoRequest(RequestHeader, kw_only=True):
    """Asks for a consumer's state; the broker passes the question on to the consumer."""

    code: ClassVar[RequestCode] = RequestCode.GET_CONSUMER_RUNNING_INFO

    consumer_group: str
    client_id: str
    jstack_enable: bool = False


class ConsumeDirectlyRequest(RequestHeader, kw_only=True):
    """Has one consumer handle one message; the broker passes it on with the message as body."""

    code: ClassVar[RequestCode] = RequestCode.CONSUME_MESSAGE_DIRECTLY

    consumer_group: str
    client_id: str | None = None
    msg_id: str | None = None
    broker_name: str | None = None
    topic: str | None = None
    topic_sys_flag: int | None = None
    group_sys_flag: int | None = None
