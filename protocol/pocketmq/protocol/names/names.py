"""Rules for topic and group names (`common/topic/TopicValidator`)."""

from __future__ import annotations

import re
from collections.abc import Mapping

from pocketmq.protocol.errors import IllegalNameError
from pocketmq.protocol.messages import properties as props

TOPIC_LENGTH_MAX = 127
SPECIAL_TOPIC_LENGTH_MAX = 255
GROUP_LENGTH_MAX = 120

RETRY_PREFIX = "%RETRY%"
DLQ_PREFIX = "%DLQ%"
SYSTEM_PREFIX = "rmq_sys_"
AUTO_CREATE_TOPIC = "TBW102"
SCHEDULE_TOPIC = "SCHEDULE_TOPIC_XXXX"
TIMER_TOPIC = "rmq_sys_wheel_timer"
POP_JOURNAL_TOPIC = "rmq_sys_pop_journal"
REDRIVE_TOPIC = "rmq_sys_redrive_results"
HALF_TOPIC = "RMQ_SYS_TRANS_HALF_TOPIC"
OP_HALF_TOPIC = "RMQ_SYS_TRANS_OP_HALF_TOPIC"
CHECK_MAX_TIME_TOPIC = "TRANS_CHECK_MAX_TIME_TOPIC"
TRACE_TOPIC = "RMQ_SYS_TRACE_TOPIC"
SELF_TEST_TOPIC = "SELF_TEST_TOPIC"
OFFSET_MOVED_TOPIC = "OFFSET_MOVED_EVENT"
BENCHMARK_TOPIC = "BenchmarkTest"
REPLY_TOPIC_SUFFIX = "_REPLY_TOPIC"

SYSTEM_TOPICS = frozenset(
    {
        AUTO_CREATE_TOPIC,
        SCHEDULE_TOPIC,
        TIMER_TOPIC,
        BENCHMARK_TOPIC,
        HALF_TOPIC,
        OP_HALF_TOPIC,
        CHECK_MAX_TIME_TOPIC,
        TRACE_TOPIC,
        SELF_TEST_TOPIC,
        OFFSET_MOVED_TOPIC,
    }
)
"""Topics that belong to the broker and can be neither created nor deleted by hand."""

SEND_FORBIDDEN_TOPICS = frozenset(
    {
        SCHEDULE_TOPIC,
        TIMER_TOPIC,
        POP_JOURNAL_TOPIC,
        REDRIVE_TOPIC,
        HALF_TOPIC,
        OP_HALF_TOPIC,
        CHECK_MAX_TIME_TOPIC,
        SELF_TEST_TOPIC,
        OFFSET_MOVED_TOPIC,
    }
)
"""Topics that only the broker itself writes to."""

BUILT_IN_GROUPS = (
    "TOOLS_CONSUMER",
    "FILTERSRV_CONSUMER",
    "SELF_TEST_C_GROUP",
    "CID_ONS-HTTP-PROXY",
    "CID_ONSAPI_OWNER",
    "CID_ONSAPI_PERMISSION",
    "CID_ONSAPI_PULL",
    "CID_RMQ_SYS_TRANS",
)
"""Groups of RocketMQ's own tools, which exist on every broker."""

_LEGAL = re.compile(r"[%|a-zA-Z0-9_-]+")


def retry_topic(group: str) -> str:
    """Returns the topic that holds a group's messages for another attempt."""
    return RETRY_PREFIX + group


def pop_retry_topic(group: str, topic: str) -> str:
    """Returns the topic that holds a group's popped messages of a topic for another attempt.

    It is RocketMQ's first form (`KeyBuilder#buildPopRetryTopicV1`), which only those can take apart
    who know the group.
    """
    return f"{RETRY_PREFIX}{group}_{topic}"


def pop_retry_topic_v2(group: str, topic: str) -> str:
    """Returns RocketMQ's second form of `pop_retry_topic`."""
    return f"{RETRY_PREFIX}{group}+{topic}"


def dlq_topic(group: str) -> str:
    """Returns the dead-letter topic of a group, which holds the messages that it gave up on."""
    return DLQ_PREFIX + group


def origin_topic(group: str, properties: Mapping[str, str]) -> str | None:
    """Returns the topic that a message was first sent to, which its group has retried or given up.

    Args:
        group: the consumer group.
        properties: of the message.

    Returns:
        The topic; None if the message does not say so.
    """
    topic = properties.get(props.RETRY_TOPIC) or properties.get(props.DLQ_ORIGIN_TOPIC)
    for popped in (pop_retry_topic(group, ""), pop_retry_topic_v2(group, "")):
        if topic is not None and topic.startswith(popped):
            return topic.removeprefix(popped)
    return topic


def reply_topic(cluster: str) -> str:
    """Returns the topic to which the replies to a cluster's requests go."""
    return cluster + REPLY_TOPIC_SUFFIX


def is_system_topic(topic: str) -> bool:
    """Whether brokers keep the topic for themselves."""
    return topic in SYSTEM_TOPICS or topic.startswith(SYSTEM_PREFIX)


def check_topic(topic: str) -> None:
    """Checks a topic name.

    Raises:
        IllegalNameError: it is blank, too long, or has an illegal character.
    """
    special = topic.startswith((RETRY_PREFIX, DLQ_PREFIX))
    _check("topic", topic, SPECIAL_TOPIC_LENGTH_MAX if special else TOPIC_LENGTH_MAX)


def is_topic(topic: str) -> bool:
    """Whether a topic may have that name."""
    try:
        check_topic(topic)
    except IllegalNameError:
        return False
    return True


def check_group(group: str) -> None:
    """Checks a producer or consumer group name.

    Raises:
        IllegalNameError: it is blank, too long, or has an illegal character.
    """
    _check("group", group, GROUP_LENGTH_MAX)


def _check(kind: str, name: str, length_max: int) -> None:
    if not name or name.isspace():
        raise IllegalNameError(kind, name, "is blank")
    if not _LEGAL.fullmatch(name):
        raise IllegalNameError(
            kind, name, "contains illegal characters, allowing only ^[%|a-zA-Z0-9_-]+$"
        )
    if len(name) > length_max:
        raise IllegalNameError(kind, name, f"is longer than {kind} max length: {length_max}")
