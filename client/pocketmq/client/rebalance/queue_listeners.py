"""Listeners of applications to a topic's queues, and to those allocated to a member."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping
from typing import Any

from pocketmq.client.application_code import is_coroutine_function
from pocketmq.client.instance.routes import RouteCache, readable_queues
from pocketmq.client.rebalance.allocators import Allocation
from pocketmq.protocol.errors import OperatingError, TopicMissingError
from pocketmq.protocol.messages.message import MessageQueue

log = logging.getLogger("pocketmq.client")

MessageQueueListener = Callable[[str, list[MessageQueue], list[MessageQueue]], Any]
"""(topic, all its queues, this member's), sorted; called after this member's changed
(`client/consumer/MessageQueueListener`).

A coroutine function runs on the loop, a plain function in a thread; what it raises is logged.
"""

TopicQueuesListener = Callable[[str, list[MessageQueue]], Any]
"""(topic, all its queues), sorted; called after they changed
(`client/consumer/TopicMessageQueueChangeListener`).

A coroutine function runs on the loop, a plain function in a thread; what it raises is logged.
"""


async def call_listener(listener: Callable[..., Any], *args: object) -> None:
    """Calls a listener and waits for its end; logs what the listener raises."""
    try:
        if is_coroutine_function(listener):
            await listener(*args)
        else:
            await asyncio.to_thread(listener, *args)
    except Exception:
        log.exception("a listener to queues failed: %r", listener)


class MessageQueueListeners:
    """Calls the listener of each topic whose allocated queues have changed."""

    def __init__(self) -> None:
        self._listeners: dict[str, MessageQueueListener] = {}
        self._last: dict[str, tuple[MessageQueue, ...]] = {}

    def set(self, topic: str, listener: MessageQueueListener | None) -> None:
        """Sets the listener of a topic; None removes it."""
        if listener is None:
            self._listeners.pop(topic, None)
        else:
            self._listeners[topic] = listener

    async def allocated(self, allocations: Mapping[str, Allocation]) -> None:
        """Calls the listeners of the topics whose queues differ from the last allocation."""
        for topic, allocation in allocations.items():
            if allocation.queues is None:
                continue
            own = tuple(sorted(allocation.queues))
            if own != self._last.get(topic, ()):
                self._last[topic] = own
                listener = self._listeners.get(topic)
                if listener is not None:
                    await call_listener(listener, topic, list(allocation.total), list(own))
        for topic in self._last.keys() - allocations.keys():
            del self._last[topic]


class TopicWatch:
    """Compares the queues of topics with those known before, and calls listeners.

    Args:
        routes: asks the name server.
    """

    def __init__(self, routes: RouteCache) -> None:
        self._routes = routes
        self._listeners: dict[str, TopicQueuesListener] = {}
        self._known: dict[str, list[MessageQueue]] = {}

    async def add(self, topic: str, listener: TopicQueuesListener) -> None:
        """Sets the listener of a topic, which is called at the first change from now on.

        Raises:
            NoNameServerError: the name server cannot be asked.
        """
        self._known[topic] = await self._ask(topic)
        self._listeners[topic] = listener

    async def check(self) -> None:
        """Asks the name server for the queues of all topics now."""
        for topic, listener in list(self._listeners.items()):
            try:
                queues = await self._ask(topic)
            except OperatingError as e:
                log.warning("the queues of %s are not known: %s", topic, e)
                continue
            if queues != self._known[topic]:
                self._known[topic] = queues
                await call_listener(listener, topic, list(queues))

    async def _ask(self, topic: str) -> list[MessageQueue]:
        try:
            return sorted(readable_queues(topic, await self._routes.ask(topic)))
        except TopicMissingError:
            return []
