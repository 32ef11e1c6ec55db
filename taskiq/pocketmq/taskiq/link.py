"""What a Taskiq broker has of the client while it runs."""

from __future__ import annotations

from contextlib import AsyncExitStack
from typing import Any

from pocketmq.client.admin.provisioning import admin_of, create_missing
from pocketmq.client.consumers.priority_topics import priority_topics
from pocketmq.client.consumers.work_queue import WorkQueue
from pocketmq.client.instance.instance import ClientInstance, NamesrvList
from pocketmq.client.lifecycle import Startable
from pocketmq.client.producers.producer import Producer
from pocketmq.runtime.clock import Clock
from pocketmq.taskiq.options import Options

PRODUCER_GROUP = "pocketmq_taskiq"


class Link(Startable):
    """A producer, and the work of a worker once it listens.

    Args:
        namesrv: the name servers.
        topic: of tasks without a priority.
        group: of the workers.
        options: of the broker.
        settings: of `InstanceSettings`.
        clock: the source of time.

    Attributes:
        instance: the connections and routes.
        producer: sends tasks.
    """

    def __init__(
        self,
        namesrv: NamesrvList,
        topic: str,
        group: str,
        options: Options,
        settings: dict[str, Any],
        clock: Clock | None,
    ) -> None:
        self._topics = priority_topics(topic, options.priority_steps)
        self._group, self._options = group, options
        self._namesrv, self._settings = namesrv, settings
        self.instance = ClientInstance(namesrv, clock=clock, **settings)
        self.producer = Producer(PRODUCER_GROUP, instance=self.instance)
        self._work: WorkQueue | None = None

    async def start(self) -> None:
        """Connects, and creates the topics that are not there. Idempotent.

        Raises:
            NoNameServerError, BrokerDownError: nobody answers.
        """
        options = self._options
        async with AsyncExitStack() as stack:
            await stack.enter_async_context(self.instance)
            await stack.enter_async_context(self.producer)
            wire_names = [self.instance.namespace.wrap(topic) for topic in self._topics]
            async with admin_of(self.instance, self._namesrv, self._settings) as admin:
                await create_missing(admin, wire_names, options.queues_per_topic, options.cluster)
            stack.pop_all()

    async def work(self) -> WorkQueue:
        """Joins the group of the workers, once; returns where their tasks come from."""
        if self._work is None:
            invisible_ms = self._options.invisible_ms
            self._work = WorkQueue(self._group, self._topics, self.instance, invisible_ms)
            await self._work.join()
        return self._work

    async def close(self) -> None:
        """Acknowledges what was handled, gives back the rest, and disconnects. Idempotent."""
        work, self._work = self._work, None
        if work is not None:
            await work.close()
        await self.producer.close()
        await self.instance.close()
