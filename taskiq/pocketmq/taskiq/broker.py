"""The broker of Taskiq: it sends tasks, and hands out what was popped."""

from __future__ import annotations

import logging
from collections.abc import AsyncGenerator
from contextvars import ContextVar
from typing import Any

from taskiq import AckableMessage, AsyncBroker, BrokerMessage

from pocketmq.client.consumers.work_queue import WorkQueue
from pocketmq.client.errors import ClosedError
from pocketmq.client.instance.instance import NamesrvList
from pocketmq.client.settings import InstanceSettings, take_settings
from pocketmq.protocol.errors import ContentError
from pocketmq.protocol.messages.delay_levels import retry_delay_s
from pocketmq.protocol.messages.message import ReceivedMessage
from pocketmq.protocol.names.names import check_group, check_topic
from pocketmq.runtime.clock import Clock
from pocketmq.taskiq.delivery import Delivery, put_off
from pocketmq.taskiq.link import Link
from pocketmq.taskiq.messages import body_of, packed, unpacked
from pocketmq.taskiq.options import Options

log = logging.getLogger("pocketmq.taskiq")

recall_handle: ContextVar[str | None] = ContextVar("pocketmq_taskiq_recall_handle", default=None)
"""Of the timer message that was sent last in this context."""


class PocketMQBroker(AsyncBroker):
    """A broker of Taskiq on a topic of RocketMQ, which a group of workers pops from::

        broker = PocketMQBroker("127.0.0.1:9876", "orders")

        @broker.task
        async def pay(order: int) -> None: ...

    Workers (``taskiq worker module:broker``) get each task at least once: a task is acknowledged
    when it has run, and while it runs others do not get it.

    Args:
        namesrv: the name servers, as ``"a:9876;b:9876"`` or a list; by default NAMESRV_ADDR.
        topic: where the tasks are; it is created if it is not there.
        group: of the workers; by default as the topic is called.
        clock: the source of time.
        settings: fields of `Options` and `InstanceSettings`.

    Raises:
        IllegalNameError, ConfigError.
    """

    def __init__(
        self,
        namesrv: NamesrvList = None,
        topic: str = "taskiq",
        group: str | None = None,
        *,
        clock: Clock | None = None,
        **settings: Any,
    ) -> None:
        super().__init__()
        check_topic(topic)
        check_group(group or topic)
        self.topic, self.group = topic, group or topic
        self.options, self._settings = take_settings(Options, settings, InstanceSettings)
        self._namesrv, self._clock = namesrv, clock
        self._link: Link | None = None

    async def startup(self) -> None:
        """Connects, creates topics that are not there, and calls Taskiq's handlers. Idempotent.

        Raises:
            NoNameServerError, BrokerDownError: nobody answers.
        """
        if self._link is None:
            link = Link(
                self._namesrv, self.topic, self.group, self.options, self._settings, self._clock
            )
            await link.start()
            self._link = link
        await super().startup()

    async def shutdown(self) -> None:
        """Acknowledges what was handled, gives back the rest, and disconnects. Idempotent."""
        await super().shutdown()
        link, self._link = self._link, None
        if link is not None:
            await link.close()

    def running(self) -> Link:
        """Returns what the broker has of the client.

        Raises:
            ClosedError: the broker was not started.
        """
        if self._link is None:
            raise ClosedError(f"Taskiq broker of topic {self.topic}")
        return self._link

    async def kick(self, message: BrokerMessage) -> None:
        """Sends a task.

        Raises:
            UsageError: the broker was not started, or a label is not of its kind.
            What `Producer.send` raises.
        """
        sent = await self.running().producer.send(packed(self.topic, message, self.options))
        recall_handle.set(sent.recall_handle)

    async def listen(self) -> AsyncGenerator[AckableMessage, None]:
        """Yields tasks, highest priority first; what is not asked for goes back to the others.

        Raises:
            UsageError: the broker was not started.
        """
        work = await self.running().work()
        while True:
            messages = await work.receive(self.options.pop_batch_size)
            try:
                while messages:
                    task = await self._opened(messages.pop(0), work)
                    if task is not None:
                        yield task
            finally:
                if messages:
                    await work.give_back(messages)

    async def _opened(self, message: ReceivedMessage, work: WorkQueue) -> AckableMessage | None:
        """Reads a message; one that no task can be run of is settled."""
        times, times_max = message.reconsume_times, self.options.redeliveries_max
        reason = ""
        if times > times_max:
            reason = f"delivered {times} times and never acknowledged"
        else:
            try:
                task = unpacked(message, self.formatter)
            except ContentError as e:
                reason = str(e)
        if reason:
            log.warning("group %s: message %s: dead letter: %s", self.group, message.msg_id, reason)
            await work.give_up(message, reason)
            return None
        if self.find_task(task.task_name) is None:
            await self._leave_to_others(message, work, task.task_name)
            return None
        delivery = Delivery(message, work, times_max)
        return AckableMessage(data=body_of(message, task, self.formatter), ack=delivery.settle)

    async def _leave_to_others(
        self, message: ReceivedMessage, work: WorkQueue, task_name: str
    ) -> None:
        """Lets a task come again, perhaps to a worker that knows it; in the end a dead letter."""
        text = f"no worker that had it knows a task {task_name!r}: is its module imported?"
        log.warning("group %s: message %s: %s", self.group, message.msg_id, text)
        if message.reconsume_times == self.options.redeliveries_max:
            await work.give_up(message, text)
        else:
            await put_off(work, message, retry_delay_s(message.reconsume_times) * 1000)
