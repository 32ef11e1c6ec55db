"""The needs of requests that name topics and groups in their bodies."""

from __future__ import annotations

from collections.abc import Iterator

from pocketmq.auth.needs.parts import Actions, group_need, topic_need
from pocketmq.auth.rights.policies import Action, Need
from pocketmq.protocol.bodies.clients import CheckClientConfigBody, GroupConfig, Heartbeat
from pocketmq.protocol.bodies.groups import GroupConfigList
from pocketmq.protocol.bodies.locks import LockBatchBody
from pocketmq.protocol.bodies.popping import Assignment, BatchAck, RequestMode
from pocketmq.protocol.bodies.topics import TopicConfigList, TopicNames

GET: Actions = frozenset({Action.GET})
SUB: Actions = frozenset({Action.SUB})
CREATE: Actions = frozenset({Action.CREATE})
UPDATE: Actions = frozenset({Action.UPDATE})
CREATE_OR_UPDATE: Actions = frozenset({Action.CREATE, Action.UPDATE})


def heartbeat(body: bytes) -> Iterator[Need]:
    """34: each consumer group and each topic it subscribes to; producers need nothing."""
    for consumer in Heartbeat.of_request(body).consumer_data_set:
        yield group_need(consumer.group_name, SUB)
        for subscription in consumer.subscription_data_set:
            yield topic_need(subscription.topic, SUB)


def locks(body: bytes) -> Iterator[Need]:
    """41, 42: the group, and the topic of each queue."""
    wanted = LockBatchBody.of_request(body)
    yield group_need(wanted.consumer_group, SUB)
    for key in wanted.mq_set:
        yield topic_need(key.topic, SUB)


def client_config(body: bytes) -> Iterator[Need]:
    """46: the group, and the topic of the subscription."""
    config = CheckClientConfigBody.of_request(body)
    yield group_need(config.group or "", SUB)
    yield topic_need(config.subscription_data.topic, SUB)


def topics(body: bytes) -> Iterator[Need]:
    """18: each topic."""
    for config in TopicConfigList.of_request(body).topic_config_list:
        yield topic_need(config.topic_name, CREATE)


def topic_names(body: bytes) -> Iterator[Need]:
    """31050: each topic."""
    for name in TopicNames.of_request(body).topics:
        yield topic_need(name, GET)


def one_group(body: bytes) -> Iterator[Need]:
    """200: the group."""
    yield group_need(GroupConfig.of_request(body).group_name, CREATE_OR_UPDATE)


def groups(body: bytes) -> Iterator[Need]:
    """225: each group."""
    for config in GroupConfigList.of_request(body).group_config_list:
        yield group_need(config.group_name, CREATE_OR_UPDATE)


def assignment(body: bytes) -> Iterator[Need]:
    """400: as a pull."""
    wanted = Assignment.of_request(body)
    yield topic_need(wanted.topic, SUB)
    yield group_need(wanted.consumer_group, SUB)


def request_mode(body: bytes) -> Iterator[Need]:
    """401: the group whose mode is set."""
    yield group_need(RequestMode.of_request(body).consumer_group, UPDATE)


def batch_ack(body: bytes) -> Iterator[Need]:
    """200151: group and topic of each acknowledgement."""
    for ack in BatchAck.of_request(body).acks:
        yield group_need(ack.c, SUB)
        yield topic_need(ack.t, SUB)
