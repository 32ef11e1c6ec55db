"""Namespaces: they keep equal names of several applications on one cluster apart.

Version 1 is in the names (`remoting/protocol/NamespaceUtil`): the topic Orders of namespace shop is
``shop%Orders`` on the wire, its group billing is ``shop%billing``, and that group's retry topic is
``%RETRY%shop%billing``. Version 2 leaves the names alone and says in two fields of each request
where they belong (`client/rpchook/NamespaceRpcHook`).
"""

from __future__ import annotations

from pocketmq.protocol.messages.message import MessageQueue
from pocketmq.protocol.names.names import (
    DLQ_PREFIX,
    REPLY_TOPIC_SUFFIX,
    RETRY_PREFIX,
    check_topic,
    is_system_topic,
)

SEPARATOR = "%"
SYSTEM_GROUP_PREFIX = "CID_RMQ_SYS_"
"""Groups of the brokers themselves; they are in no namespace (`MixAll#isSysConsumerGroup`)."""

NAMESPACED_FIELD = "nsd"
NAMESPACE_FIELD = "ns"


class Namespace:
    """Puts names into a namespace and takes them out again; the empty one changes nothing.

    Args:
        name: the namespace; none when empty.

    Raises:
        IllegalNameError: it holds a character that names must not have.
    """

    __slots__ = ("_prefix", "name")

    def __init__(self, name: str = "") -> None:
        self.name = name
        self._prefix = name + SEPARATOR
        if name:
            check_topic(name)

    def __bool__(self) -> bool:
        return bool(self.name)

    def wrap(self, name: str) -> str:
        """Puts a topic's or group's name into the namespace, unless it is there already."""
        if not self.name or not name or _is_system(name):
            return name
        kind, bare = _parts(name)
        return name if bare.startswith(self._prefix) else kind + self._prefix + bare

    def unwrap(self, name: str) -> str:
        """Takes a name out of the namespace; leaves the names of other namespaces as they are."""
        if not self.name or _is_system(name):
            return name
        kind, bare = _parts(name)
        return kind + bare[len(self._prefix) :] if bare.startswith(self._prefix) else name

    def wrap_queue(self, queue: MessageQueue) -> MessageQueue:
        """Puts a queue's topic into the namespace."""
        return queue._replace(topic=self.wrap(queue.topic)) if self.name else queue

    def unwrap_queue(self, queue: MessageQueue) -> MessageQueue:
        """Takes a queue's topic out of the namespace."""
        return queue._replace(topic=self.unwrap(queue.topic)) if self.name else queue


def request_fields(namespace_v2: str) -> dict[str, str]:
    """Returns the loose fields by which a request names its namespace of version 2, if any."""
    if not namespace_v2:
        return {}
    return {NAMESPACED_FIELD: "true", NAMESPACE_FIELD: namespace_v2}


def _parts(name: str) -> tuple[str, str]:
    for kind in (RETRY_PREFIX, DLQ_PREFIX):
        if name.startswith(kind):
            return kind, name[len(kind) :]
    return "", name


def _is_system(name: str) -> bool:
    # RocketMQ forgets that the topics of replies are the cluster's, and makes one a namespace.
    return (
        is_system_topic(name)
        or name.startswith(SYSTEM_GROUP_PREFIX)
        or name.endswith(REPLY_TOPIC_SUFFIX)
    )
