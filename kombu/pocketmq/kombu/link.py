"""What a connection of kombu has of the client: on the loop of the client's thread."""

from __future__ import annotations

import logging
from contextlib import AsyncExitStack
from typing import Any

from pocketmq.client.admin.provisioning import admin_of, check_brokers, create_missing, has_topic
from pocketmq.client.consumers.priority_topics import priority_topics
from pocketmq.client.errors import UnknownTopicError
from pocketmq.client.instance.instance import ClientInstance
from pocketmq.client.lifecycle import Startable
from pocketmq.client.producers.producer import Producer
from pocketmq.kombu.linked_queue import Delivery, LinkedQueue
from pocketmq.kombu.names import entity_name
from pocketmq.kombu.options import Options
from pocketmq.protocol.errors import GroupMissingError, OperatingError
from pocketmq.protocol.messages.message import Message
from pocketmq.protocol.requests.popping import POPPED_MAX

log = logging.getLogger("pocketmq.kombu")

PRODUCER_GROUP = "pocketmq_kombu"

GET_POLL_MS = 200
"""How long a broker may look for a single message that is asked for without waiting."""


class Link(Startable):
    """Sends, and makes, measures, empties and deletes queues.

    Args:
        namesrv: the name servers.
        options: of the transport.
        settings: of `InstanceSettings`.
    """

    def __init__(self, namesrv: list[str], options: Options, settings: dict[str, Any]) -> None:
        self.options = options
        self.instance = ClientInstance(namesrv, **settings)
        self._producer = Producer(PRODUCER_GROUP, instance=self.instance)
        self._admin = admin_of(self.instance, namesrv, settings)
        self._wire = self.instance.namespace.wrap
        self._queues: dict[str, LinkedQueue] = {}
        self._fanouts: dict[str, set[str]] = {}
        self._known: set[str] = set()

    async def start(self) -> None:
        """Connects to a name server. Idempotent.

        Raises:
            NoNameServerError: none answers.
            BrokerDownError: it knows no broker.
        """
        async with AsyncExitStack() as stack:
            await self.instance.start()
            stack.push_async_callback(self.instance.close)
            await self._producer.start()
            await self._admin.start()
            await check_brokers(self._admin, "any")  # without brokers kombu tries again later
            stack.pop_all()

    async def close(self) -> None:
        """Acknowledges what was handled, gives back the rest, and disconnects. Idempotent."""
        queues, self._queues = list(self._queues.values()), {}
        for queue in queues:
            await queue.close()
        await self._admin.close()
        await self._producer.close()
        await self.instance.close()

    # -- queues -------------------------------------------------------------------------------

    def topics_of(self, name: str) -> list[str]:
        """Returns the topics of a queue's own messages, highest priority first."""
        topic = entity_name(name, self.options.queue_name_prefix)
        return priority_topics(topic, self.options.priority_steps)

    def queue(self, name: str) -> LinkedQueue:
        """Returns a queue, which reads its own topics and those of the fanouts it is bound to."""
        if name not in self._queues:
            exchanges = sorted(self._fanouts.get(name, ()))
            topics = [
                *self.topics_of(name),
                *(entity_name(e, self.options.queue_name_prefix) for e in exchanges),
            ]
            group = entity_name(name, self.options.queue_name_prefix)
            invisible_ms = self.options.invisible_ms
            self._queues[name] = LinkedQueue(name, group, topics, self.instance, invisible_ms)
        return self._queues[name]

    async def make_topics(self, topics: list[str]) -> None:
        """Creates the topics that no broker has yet.

        Raises:
            BrokerDownError: there is no broker at the moment.
            UsageError: there are several clusters, and no option names one.
        """
        options = self.options
        missing = [self._wire(topic) for topic in topics if topic not in self._known]
        await create_missing(self._admin, missing, options.queues_per_topic, options.cluster)
        self._known.update(topics)

    async def has_queue(self, name: str) -> bool:
        """Whether a queue was declared, by whomever."""
        return await has_topic(self._admin, self._wire(self.topics_of(name)[-1]))

    async def make_queue(self, name: str) -> None:
        """Declares a queue."""
        await self.make_topics(self.topics_of(name))

    async def bind_to_fanout(self, name: str, exchange: str) -> None:
        """Has a queue read a fanout exchange, beginning with what is sent from now on.

        A group that has read the exchange before goes on where it stands.
        """
        topic = entity_name(exchange, self.options.queue_name_prefix)
        await self.make_topics([topic])
        group = self._wire(entity_name(name, self.options.queue_name_prefix))
        for stats in await self._admin.topic_stats(self._wire(topic)):
            if await self._admin.committed_offset(group, stats.queue) is not None:
                continue
            try:
                await self._admin.commit_offset(group, stats.queue, stats.max_offset)
            except GroupMissingError:
                await self._admin.create_group(group, cluster=self.options.cluster or None)
                await self._admin.commit_offset(group, stats.queue, stats.max_offset)
        bound = self._fanouts.setdefault(name, set())
        if exchange not in bound:
            bound.add(exchange)
            if name in self._queues:
                await self._queues[name].add_topic(topic)

    async def send(self, message: Message) -> None:
        """Sends a message to its topic, which is made if it is not there.

        Raises:
            What `Producer.send` raises.
        """
        await self.make_topics([message.topic])
        await self._producer.send(message)

    async def pop_one(self, name: str) -> Delivery | None:
        """Pops one message of a queue, if there is one."""
        queue = self.queue(name)
        found = await queue.pop(1, GET_POLL_MS)
        return Delivery(queue, found[0]) if found else None

    async def size(self, name: str) -> int:
        """Returns how many messages a queue has, those that workers have at the moment included."""
        return sum([await self._size_of(name, topic) for topic in self.topics_of(name)])

    async def _size_of(self, name: str, topic: str) -> int:
        group = self._wire(entity_name(name, self.options.queue_name_prefix))
        count = 0
        try:
            for stats in await self._admin.topic_stats(self._wire(topic)):
                read = await self._admin.committed_offset(group, stats.queue)
                count += stats.max_offset - max(stats.min_offset, read or 0)
        except UnknownTopicError:
            return 0
        return count

    async def purge(self, name: str) -> int:
        """Acknowledges what a queue has at this moment and nobody is at work with.

        Returns:
            How many messages these were.
        """
        left = await self.size(name)
        queue, count = self.queue(name), 0
        while left > 0 and (found := await queue.pop(min(left, POPPED_MAX))):
            await queue.acknowledge_now(found)
            count += len(found)
            left -= len(found)
        return count

    async def delete_queue(self, name: str) -> None:
        """Deletes the topics of a queue and its group, with dead letters and all."""
        if (queue := self._queues.pop(name, None)) is not None:
            await queue.close()
        self._fanouts.pop(name, None)
        for topic in self.topics_of(name):
            self._known.discard(topic)
            try:
                await self._admin.delete_topic(self._wire(topic))
            except UnknownTopicError:
                log.debug("queue %s: there is no topic %s to delete", name, topic)
        group = self._wire(entity_name(name, self.options.queue_name_prefix))
        try:
            await self._admin.delete_group(group, clean_offset=True)
        except OperatingError as e:
            log.debug("queue %s: the group %s is not deleted: %s", name, group, e)
