"""Applications that want to hear which queues there are, and which are theirs."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping
from typing import Any

from pocketmq.client.application_code import is_coroutine_function
from pocketmq.client.instance.routes import RouteCache, readable_queues
from pocketmq.client.rebalance.assignment import Share
from pocketmq.protocol.errors import OperatingError, TopicMissingError
from pocketmq.protocol.messages.message import MessageQueue

log = logging.getLogger("pocketmq.client")

ShareListener = Callable[[str, list[MessageQueue], list[MessageQueue]], Any]
"""(topic, all its queues, this member's), sorted; called when this member's have changed
(`client/consumer/MessageQueueListener`).

A coroutine function runs on the loop, a plain function in a thread; what it raises is logged.
"""

QueuesListener = Callable[[str, list[MessageQueue]], Any]
"""(topic, all its queues), sorted; called when they have changed
(`client/consumer/TopicMessageQueueChangeListener`).

A coroutine function runs on the loop, a plain function in a thread; what it raises is logged.
"""


async def tell(listener: Callable[..., Any], *args: object) -> None:
    """Calls a listener, and waits for it; an error of it ends nothing else."""
    try:
        if is_coroutine_function(listener):
            await listener(*args)
        else:
            await asyncio.to_thread(listener, *args)
    except Exception:
        log.exception("a listener to queues failed: %r", listener)


class ShareListeners:
    """Tells of each topic when this member's queues of it have changed."""

    def __init__(self) -> None:
        self._listeners: dict[str, ShareListener] = {}
        self._told: dict[str, tuple[MessageQueue, ...]] = {}

    def set(self, topic: str, listener: ShareListener | None) -> None:
        """Who is told from now on; nobody with None."""
        if listener is None:
            self._listeners.pop(topic, None)
        else:
            self._listeners[topic] = listener

    async def shared(self, shares: Mapping[str, Share]) -> None:
        """The queues were shared out."""
        for topic, share in shares.items():
            if share.queues is None:
                continue
            own = tuple(sorted(share.queues))
            if own != self._told.get(topic, ()):
                self._told[topic] = own
                listener = self._listeners.get(topic)
                if listener is not None:
                    await tell(listener, topic, list(share.total), list(own))
        for topic in self._told.keys() - shares.keys():
            del self._told[topic]


class TopicWatch:
    """Looks at topics from time to time, and tells of each whose queues have changed.

    Args:
        routes: asks the name server.
    """

    def __init__(self, routes: RouteCache) -> None:
        self._routes = routes
        self._listeners: dict[str, QueuesListener] = {}
        self._known: dict[str, list[MessageQueue]] = {}

    async def add(self, topic: str, listener: QueuesListener) -> None:
        """Who is told of a topic from now on; its present queues are not told.

        Raises:
            NoNameServerError: the name server cannot be asked.
        """
        self._known[topic] = await self._ask(topic)
        self._listeners[topic] = listener

    async def look(self) -> None:
        """Asks for all topics now."""
        for topic, listener in list(self._listeners.items()):
            try:
                queues = await self._ask(topic)
            except OperatingError as e:
                log.warning("the queues of %s are not known: %s", topic, e)
                continue
            if queues != self._known[topic]:
                self._known[topic] = queues
                await tell(listener, topic, list(queues))

    async def _ask(self, topic: str) -> list[MessageQueue]:
        try:
            return sorted(readable_queues(topic, await self._routes.ask(topic)))
        except TopicMissingError:
            return []
