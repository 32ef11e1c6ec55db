"""The topics that a broker has besides those of its users (`TopicConfigManager#init`)."""

from __future__ import annotations

from pocketmq.broker.config.config import BrokerConfig
from pocketmq.broker.topics.topics import TopicTable
from pocketmq.protocol.bodies.topics import TopicConfig
from pocketmq.protocol.flags import PERM_INHERIT, PERM_READ, PERM_WRITE
from pocketmq.protocol.names import names

_RW = PERM_READ | PERM_WRITE
_RWX = _RW | PERM_INHERIT


def create_system_topics(topics: TopicTable, config: BrokerConfig) -> None:
    """Creates the system topics that are missing.

    The model of new topics (TBW102) is changed or removed as the settings say; the others stay as
    they were created.
    """
    wanted = system_topics(
        config.broker_cluster_name,
        config.broker_name,
        auto_create=config.auto_create_topic_enable,
        default_queue_nums=config.default_topic_queue_nums,
        trace_topic=config.msg_trace_topic_name if config.trace_topic_enable else "",
    )
    topics.put(
        *(
            topic
            for topic in wanted
            if topic.topic_name not in topics or topic.topic_name == names.AUTO_CREATE_TOPIC
        )
    )
    if not config.auto_create_topic_enable:
        topics.remove(names.AUTO_CREATE_TOPIC)


def system_topics(
    cluster: str,
    broker: str,
    *,
    auto_create: bool,
    default_queue_nums: int,
    trace_topic: str = "",
) -> list[TopicConfig]:
    """Lists the topics that every broker has from the start."""

    def topic(name: str, queue_nums: int, perm: int = _RW) -> TopicConfig:
        return TopicConfig(
            topic_name=name, read_queue_nums=queue_nums, write_queue_nums=queue_nums, perm=perm
        )

    topics = [
        topic(names.SELF_TEST_TOPIC, 1),
        topic(names.BENCHMARK_TOPIC, 1024),
        topic(cluster, 16, _RWX),
        topic(broker, 1, _RWX),
        topic(names.OFFSET_MOVED_TOPIC, 1),
        topic(names.SCHEDULE_TOPIC, 18),
        topic(names.TIMER_TOPIC, 1),
        topic(names.HALF_TOPIC, 1),
        topic(names.OP_HALF_TOPIC, 1),
        topic(names.reply_topic(cluster), 1),
    ]
    if auto_create:
        topics.append(topic(names.AUTO_CREATE_TOPIC, default_queue_nums, _RWX))
    if trace_topic:
        topics.append(topic(trace_topic, 1))
    return topics


def system_topic_names(cluster: str, broker: str) -> frozenset[str]:
    """Returns the names of all topics that belong to the broker rather than to its users."""
    own = {t.topic_name for t in system_topics(cluster, broker, auto_create=True,
                                                default_queue_nums=1)}  # fmt: skip
    return names.SYSTEM_TOPICS | own
