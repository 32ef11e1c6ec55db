"""Finds the queues that a read takes: topics by name or pattern, or queues one by one."""

from __future__ import annotations

import re
from collections.abc import Iterable

import msgspec

from pocketmq.client.instance.instance import ClientInstance
from pocketmq.protocol.bodies.topics import TopicList
from pocketmq.protocol.messages.message import MessageQueue
from pocketmq.protocol.names.names import DLQ_PREFIX, RETRY_PREFIX, is_system_topic, is_topic
from pocketmq.protocol.requests.nameserver import SystemTopicListRequest, TopicListRequest
from pocketmq.spark import topics
from pocketmq.spark.errors import MissingTopicError, OptionError, nearest
from pocketmq.spark.options import ReadOptions

Assignment = dict[str, dict[str, list[int]]]


async def selected_queues(instance: ClientInstance, options: ReadOptions) -> list[MessageQueue]:
    """Finds the queues that the options name.

    Raises:
        OptionError: `assign` names a queue that is not there.
        MissingTopicError: a topic does not exist, or none matches the pattern.
        NoPermissionRouteError: none of a topic's queues can be read.
    """
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
    found = []
    for topic, by_broker in read_assignment(text).items():
        there = set(await topics.queues_to_read(instance, [topic]))
        names = {q.broker_name for q in there}
        for broker_name, queue_ids in by_broker.items():
            if broker_name not in names:
                raise OptionError(
                    f"option 'assign' names broker {broker_name!r} of topic {topic}; "
                    f"{nearest(broker_name, names)}"
                )
            for queue_id in queue_ids:
                queue = MessageQueue(topic, broker_name, queue_id)
                if queue not in there:
                    raise OptionError(
                        f"option 'assign' names queue {queue_id} of topic {topic} on "
                        f"{broker_name}, which has no such queue"
                    )
                found.append(queue)
    return list(dict.fromkeys(found))


def read_assignment(text: str) -> Assignment:
    """Reads the option ``assign``.

    Raises:
        OptionError: it is no table of queues, or an empty one.
    """
    try:
        table = msgspec.json.decode(text, type=Assignment)
    except msgspec.DecodeError as e:
        raise OptionError(
            f"option 'assign' cannot be read: {e}; it is "
            f'{{"topic": {{"broker": [queue, queue]}}}}'
        ) from e
    if not any(ids for by_broker in table.values() for ids in by_broker.values()):
        raise OptionError("option 'assign' names no queue")
    return table
