"""Administration of topics and groups on a broker: 17 to 28, 200 to 208, 215, 351, 352."""

from __future__ import annotations

from typing import ClassVar

from pocketmq.protocol.codes import RequestCode
from pocketmq.protocol.wire.header import Header, RequestHeader


class CreateTopicRequest(RequestHeader, kw_only=True):
    """Creates a topic or changes its queue counts and permission."""

    code: ClassVar[RequestCode] = RequestCode.UPDATE_AND_CREATE_TOPIC

    topic: str
    default_topic: str = ""
    read_queue_nums: int
    write_queue_nums: int
    perm: int
    topic_filter_type: str = "SINGLE_TAG"
    topic_sys_flag: int | None = None
    order: bool = False
    attributes: str | None = None
    force: bool | None = None


class CreateTopicListRequest(RequestHeader, kw_only=True):
    """Creates topics or changes them; the body is their settings."""

    code: ClassVar[RequestCode] = RequestCode.UPDATE_AND_CREATE_TOPIC_LIST


class DeleteTopicRequest(RequestHeader, kw_only=True):
    """Deletes a topic with its messages and offsets on one broker."""

    code: ClassVar[RequestCode] = RequestCode.DELETE_TOPIC_IN_BROKER

    topic: str


class TopicStatsRequest(RequestHeader, kw_only=True):
    """Asks for the lowest and highest offset of every queue of a topic on one broker."""

    code: ClassVar[RequestCode] = RequestCode.GET_TOPIC_STATS_INFO

    topic: str


class TopicFiguresRequest(RequestHeader, kw_only=True):
    """Asks how much topics hold, and how fast messages come and go (PocketMQ's own, 31050).

    The body is a `TopicNames`; the answer's is a `TopicFiguresTable`.
    """

    code: ClassVar[RequestCode] = RequestCode.TOPIC_FIGURES


class TopicConfigRequest(RequestHeader, kw_only=True):
    """Asks for one topic's settings on one broker."""

    code: ClassVar[RequestCode] = RequestCode.GET_TOPIC_CONFIG

    topic: str


class AllTopicConfigRequest(RequestHeader, kw_only=True):
    """Asks for all topics of a broker, in pages if `max_topic_num` is given."""

    code: ClassVar[RequestCode] = RequestCode.GET_ALL_TOPIC_CONFIG

    topic_seq: int | None = None
    data_version: str | None = None
    max_topic_num: int | None = None


class AllTopicConfigResponse(Header, kw_only=True):
    """Says how many topics there are in all."""

    total_topic_num: int | None = None


class UpdateGroupRequest(RequestHeader, kw_only=True):
    """Creates or changes a subscription group; the body is its configuration."""

    code: ClassVar[RequestCode] = RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP


class GroupConfigRequest(RequestHeader, kw_only=True):
    """Asks for one subscription group's settings."""

    code: ClassVar[RequestCode] = RequestCode.GET_SUBSCRIPTIONGROUP_CONFIG

    group: str


class AllGroupConfigRequest(RequestHeader, kw_only=True):
    """Asks for all subscription groups of a broker, in pages if `max_group_num` is given."""

    code: ClassVar[RequestCode] = RequestCode.GET_ALL_SUBSCRIPTIONGROUP_CONFIG

    group_seq: int | None = None
    data_version: str | None = None
    max_group_num: int | None = None


class DeleteGroupRequest(RequestHeader, kw_only=True):
    """Deletes a subscription group and, with `clean_offset`, its offsets."""

    code: ClassVar[RequestCode] = RequestCode.DELETE_SUBSCRIPTIONGROUP

    group_name: str
    clean_offset: bool | None = None


class ConsumeStatsRequest(RequestHeader, kw_only=True):
    """Asks for a group's offsets beside those of the queues, which gives its lag.

    `topic` may be one that the living members do not subscribe to, which gives nothing;
    `topic_list`, names joined by semicolons, counts whatever they subscribe to.
    """

    code: ClassVar[RequestCode] = RequestCode.GET_CONSUME_STATS

    consumer_group: str
    topic: str | None = None
    topic_list: str | None = None


class RuntimeInfoRequest(RequestHeader, kw_only=True):
    """Asks for a broker's figures as a table of strings."""

    code: ClassVar[RequestCode] = RequestCode.GET_BROKER_RUNTIME_INFO


class BrokerConfigRequest(RequestHeader, kw_only=True):
    """Asks for a broker's settings as properties text.

    Attributes:
        detailed: asks for `SettingDetails` instead (PocketMQ's own; other brokers pass over it), as
            they would be after changes, which the body holds as properties text.
    """

    code: ClassVar[RequestCode] = RequestCode.GET_BROKER_CONFIG

    detailed: bool | None = None


class BrokerConfigResponse(Header, kw_only=True):
    """Gives the version of the settings, a DataVersion as JSON text.

    Attributes:
        detailed: True if the body is `SettingDetails`.
    """

    version: str
    detailed: bool | None = None
