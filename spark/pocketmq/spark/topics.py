"""Asks for the queues of topics and what they hold, before a job starts."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from functools import partial

from pocketmq.client.errors import BrokerDownError, NoPermissionRouteError
from pocketmq.client.instance.instance import ClientInstance
from pocketmq.client.instance.queue_offsets import QueueOffsets
from pocketmq.client.instance.routes import MASTER_ID, readable_queues, writable_queues
from pocketmq.protocol.bodies.routes import ClusterInfo, TopicRoute
from pocketmq.protocol.errors import TopicMissingError
from pocketmq.protocol.flags import PERM_READ, PERM_WRITE, is_writable
from pocketmq.protocol.messages.message import MessageQueue
from pocketmq.protocol.names.names import AUTO_CREATE_TOPIC
from pocketmq.protocol.requests.nameserver import ClusterInfoRequest
from pocketmq.protocol.requests.topics import CreateTopicRequest
from pocketmq.spark.errors import MissingTopicError, OptionError
from pocketmq.spark.retries import once_led

ROUTE_POLLS_MAX = 50
ROUTE_POLL_S = 0.1
"""A topic that was just created is at the name server within these (5 s), or something is wrong."""

CALL_TIMEOUT_MS = 10_000


async def queues_to_write(
    instance: ClientInstance, topic: str, create_queues: int
) -> list[MessageQueue]:
    """Finds the queues of a topic that can be written, in the order of selectors.

    Args:
        instance: running.
        topic: its name.
        create_queues: how many queues to create on each broker if the topic is unknown; 0 for none.

    Raises:
        MissingTopicError: it does not exist and is not to be created.
        NoPermissionRouteError, BrokerDownError: none of its queues can be written.
        NoNameServerError: no name server answers.
    """
    return await once_led(instance, [topic], partial(_writable, instance, topic, create_queues))


async def _writable(instance: ClientInstance, topic: str, create_queues: int) -> list[MessageQueue]:
    try:
        route = await instance.routes.ask(topic)
    except TopicMissingError:
        if not create_queues:
            raise MissingTopicError(
                topic,
                _asked(instance),
                f"create it with `pocketmq topic create {topic}`, or set the option "
                f"createTopicQueues to a number of queues",
            ) from None
        route = await _create(instance, topic, create_queues)
    queues = writable_queues(topic, route)
    if queues:
        return queues
    writable = [d.broker_name for d in route.queue_datas if is_writable(d.perm)]
    if not writable:
        raise NoPermissionRouteError(topic, "writable")
    raise BrokerDownError(topic, f"the master of {', '.join(sorted(writable))}")


async def queues_to_read(instance: ClientInstance, topics: Iterable[str]) -> list[MessageQueue]:
    """Finds the queues of topics that can be read.

    Raises:
        MissingTopicError: a topic does not exist.
        NoPermissionRouteError: none of a topic's queues can be read.
    """
    found: list[MessageQueue] = []
    for topic in topics:
        try:
            queues = await readable(instance, topic)
        except TopicMissingError:
            remedy = "see the names with `pocketmq topic list`"
            raise MissingTopicError(topic, _asked(instance), remedy) from None
        if not queues:
            raise NoPermissionRouteError(topic, "readable")
        found += queues
    return found


async def readable(instance: ClientInstance, topic: str) -> list[MessageQueue]:
    """Finds the queues of one topic that can be read.

    Raises:
        TopicMissingError: it does not exist.
    """
    return readable_queues(topic, await instance.routes.ask(topic))


async def queue_ends(
    instance: ClientInstance, queues: Sequence[MessageQueue]
) -> dict[MessageQueue, tuple[int, int]]:
    """Asks for the least and the next offset of each queue.

    Raises:
        OperatingError: a broker cannot be asked, or refuses.
    """
    offsets = QueueOffsets(instance.pool, instance.routes, CALL_TIMEOUT_MS)

    async def ask() -> list[tuple[int, int]]:
        both = asyncio.gather(*map(offsets.min, queues)), asyncio.gather(*map(offsets.max, queues))
        least, following = await asyncio.gather(*both)
        return [*zip(least, following, strict=True)]

    pairs = await once_led(instance, {q.topic for q in queues}, ask)
    return dict(zip(queues, pairs, strict=True))


async def _create(instance: ClientInstance, topic: str, queue_nums: int) -> TopicRoute:
    info = ClusterInfo.decode((await instance.namesrv.ask(ClusterInfoRequest())).body)
    brokers = info.broker_addr_table.values()
    masters = [b.broker_addrs[MASTER_ID] for b in brokers if MASTER_ID in b.broker_addrs]
    if not masters:
        raise BrokerDownError(topic, "any broker that could create it")
    request = CreateTopicRequest(
        topic=topic,
        default_topic=AUTO_CREATE_TOPIC,
        read_queue_nums=queue_nums,
        write_queue_nums=queue_nums,
        perm=PERM_READ | PERM_WRITE,
    )
    for address in sorted(masters):
        await instance.pool.ask(address, request, CALL_TIMEOUT_MS)
    return await _registered(instance, topic, len(masters))


async def _registered(instance: ClientInstance, topic: str, brokers: int) -> TopicRoute:
    """Waits until the name server has heard of a new topic from all brokers; returns the route."""
    route = None
    for _ in range(ROUTE_POLLS_MAX):
        try:
            route = await instance.routes.ask(topic)
        except TopicMissingError:
            route = None
        if route is not None and len(route.queue_datas) >= brokers:
            return route
        await instance.clock.sleep(ROUTE_POLL_S)
    if route is not None:
        return route
    raise OptionError(
        f"topic {topic} was created on {brokers} brokers, but the name server {_asked(instance)} "
        f"does not know it: do the brokers register there?"
    )


def _asked(instance: ClientInstance) -> str:
    return instance.namesrv.current or ", ".join(instance.namesrv.addresses)
