"""Finds the queues that a read takes: topics by name or pattern, or queues one by one."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import TYPE_CHECKING

from pocketmq.protocol.messages.message import MessageQueue
from pocketmq.protocol.names.names import DLQ_PREFIX, RETRY_PREFIX, is_system_topic, is_topic
from pocketmq.spark.errors import MissingTopicError, OptionError
from pocketmq.spark.options import ReadOptions
from pocketmq.spark.queue_tables import read_table
from pocketmq.spark.reading.offsets import EARLIEST, Bound, check_names

if TYPE_CHECKING:
    from pocketmq.client.instance.instance import ClientInstance

Assignment = dict[str, dict[str, list[int]]]


async def selected_queues(instance: ClientInstance, options: ReadOptions) -> list[MessageQueue]:
    """Finds the queues that the options name.

    Raises:
        OptionError: `assign` names a queue that is not there.
        MissingTopicError: a topic does not exist, or none matches the pattern.
        NoPermissionRouteError: none of a topic's queues can be read.
    """
    from pocketmq.spark import topics  # brings in the client, which reading options does not need

    if options.assign:
        return await _assigned(instance, options.assign)
    names: Iterable[str] = options.topics
    if options.subscribe_pattern:
        names = await matching_topics(instance, options)
    return await topics.queues_to_read(instance, names)


async def matching_topics(instance: ClientInstance, options: ReadOptions) -> list[str]:
    """Finds the topics whose whole names match `subscribePattern`.

    What is not made for messages of users does not match: the brokers' own topics and the commit
    topic, and topics of retries and dead letters unless the pattern begins with their ``%``.

    Raises:
        MissingTopicError: there is none.
    """
    from pocketmq.protocol.bodies.topics import TopicList
    from pocketmq.protocol.requests.nameserver import SystemTopicListRequest, TopicListRequest

    pattern = options.subscribe_pattern
    known = TopicList.decode((await instance.namesrv.ask(TopicListRequest())).body)
    system = TopicList.decode((await instance.namesrv.ask(SystemTopicListRequest())).body)
    hidden = () if pattern.startswith("%") else (RETRY_PREFIX, DLQ_PREFIX)
    found = [
        name
        for name in sorted({*known.topic_list} - {*system.topic_list, options.commit_topic})
        if re.fullmatch(pattern, name)
        and is_topic(name)
        and not is_system_topic(name)
        and not name.startswith(hidden)
    ]
    if found:
        return found
    asked = ", ".join(instance.namesrv.addresses)
    raise MissingTopicError(
        pattern, asked, "no topic matches this subscribePattern; see `pocketmq topic list`"
    )


async def _assigned(instance: ClientInstance, text: str) -> list[MessageQueue]:
    from pocketmq.spark import topics

    assignment = read_assignment(text)
    there = await topics.queues_to_read(instance, assignment)
    table = {
        topic: {name: dict.fromkeys(queue_ids, EARLIEST) for name, queue_ids in by_broker.items()}
        for topic, by_broker in assignment.items()
    }
    check_names(Bound("assign", EARLIEST, table), set(there))
    return assigned_queues(assignment)


def assigned_queues(assignment: Assignment) -> list[MessageQueue]:
    """Returns the queues of an assignment, each once."""
    queues = {
        MessageQueue(topic, broker_name, queue_id): None
        for topic, by_broker in assignment.items()
        for broker_name, queue_ids in by_broker.items()
        for queue_id in queue_ids
    }
    return list(queues)


def read_assignment(text: str) -> Assignment:
    """Reads the option ``assign``.

    Raises:
        OptionError: it is no table of queues, or an empty one.
    """
    table = read_table("assign", text, Assignment, [0, 1])
    if not any(ids for by_broker in table.values() for ids in by_broker.values()):
        raise OptionError("option 'assign' names no queue")
    return table
