"""Refusals that several handlers share, each with its response code and a remark with a remedy."""

from __future__ import annotations

import struct

from pocketmq.broker.store.disk.errors import NotReplicatedError, StoreError
from pocketmq.broker.store.writing.flusher import FlushTimeoutError
from pocketmq.protocol.bodies.topics import TopicConfig
from pocketmq.protocol.codes import ResponseCode
from pocketmq.protocol.errors import OperatingError, ResponseError, response_error


def topic_missing(topic: str) -> ResponseError:
    """Refuses a request other than a send, with 17: its topic does not exist."""
    return response_error(
        ResponseCode.TOPIC_NOT_EXIST,
        f"topic[{topic}] not exist, apply first please! It can be created with "
        f"`pocketmq topic create {topic}` or mqadmin updateTopic",
    )


def topic_unknown_on_send(topic: str, cluster: str) -> ResponseError:
    """Refuses a send, with 17: its topic does not exist and is not created on the first send."""
    return response_error(
        ResponseCode.TOPIC_NOT_EXIST,
        f"topic[{topic}] not exist, apply first please! It does not exist on cluster {cluster} "
        f"and autoCreateTopicEnable is off: create it with `pocketmq topic create {topic}`",
    )


def queue_illegal(queue_id: int, topic: TopicConfig, side: str, peer: str) -> ResponseError:
    """Refuses a request, with 29: the topic has no such queue; `side` is read or write."""
    nums, client = topic.write_queue_nums, f"client:[{peer}]"
    if side == "read":
        nums, client = topic.read_queue_nums, f"consumer:[/{peer}]"
    return response_error(
        ResponseCode.INVALID_PARAMETER,
        f"queueId[{queue_id}] is illegal, topic:[{topic.topic_name}] "
        f"topicConfig.{side}QueueNums:[{nums}] {client}",
    )


def no_permission(remark: str) -> ResponseError:
    """Refuses a request, with 16: it is not permitted."""
    return response_error(ResponseCode.NO_PERMISSION, remark)


def unavailable(reason: str) -> ResponseError:
    """Refuses a write, with 14: the store takes none at the moment."""
    return response_error(
        ResponseCode.SERVICE_NOT_AVAILABLE, f"service not available now: {reason}"
    )


def does_not_fit(error: struct.error) -> ResponseError:
    """13 for a message of which a number is too large for its field in a record."""
    return response_error(
        ResponseCode.MESSAGE_ILLEGAL,
        f"a number in the request does not fit into a stored message: {error}",
    )


def store_failure(error: OperatingError) -> tuple[int, str]:
    """The code and the remark that answer a request whose append failed."""
    if isinstance(error, ResponseError):
        return error.code, error.remark or ""
    if isinstance(error, FlushTimeoutError):
        return ResponseCode.FLUSH_DISK_TIMEOUT, str(error)
    if isinstance(error, NotReplicatedError):
        return ResponseCode.FLUSH_SLAVE_TIMEOUT, str(error)
    if isinstance(error, StoreError):
        return ResponseCode.SERVICE_NOT_AVAILABLE, f"service not available now: {error}"
    return ResponseCode.SYSTEM_ERROR, str(error)


def rejected(reason: str) -> ResponseError:
    """Refuses what a follower does not take, with 2, as RocketMQ's slaves do."""
    return response_error(
        ResponseCode.SYSTEM_BUSY,
        f"[REJECTREQUEST]system busy, start flow control for a while: {reason}",
    )
