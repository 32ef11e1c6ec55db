"""The ends of a topic's queues, asked again and again at little cost."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Iterable

from pocketmq.client import MessageQueue
from pocketmq.client.errors import UnknownTopicError
from pocketmq.console.api.callers import Clients
from pocketmq.console.web.problems import ProblemError
from pocketmq.protocol.errors import NoPermissionError, PocketMQError, TopicMissingError

_Rows = list[tuple[MessageQueue, int]]

LOOKS_OF_A_ROUTE = 20
"""Looks after which the topic's route is asked for again: brokers and queues come and go."""

QUEUES_ASKED_MAX = 64
"""Queues that are asked for one by one, where the caller may read a topic, not see its figures."""


class Ends:
    """Asks each broker of a topic where its queues end.

    Args:
        clients: of the caller.
        topic: its name.
    """

    def __init__(self, clients: Clients, topic: str) -> None:
        self._admin, self._reader, self._topic = clients.admin, clients.reader, topic
        self._addresses: list[str] = []
        self._looks = 0
        self._is_one_by_one = False

    async def now(self) -> tuple[dict[MessageQueue, int], list[str]]:
        """Returns where queues end, and which brokers could not be asked, and why.

        Raises:
            UnknownTopicError: no broker has the topic.
            NoPermissionError: the caller may not read the topic.
        """
        problems: list[str] = []
        if not self._looks % LOOKS_OF_A_ROUTE:
            await self._renew_route(problems)
        self._looks += 1
        if not self._is_one_by_one:
            try:
                return await self._gathered(map(self._on, self._addresses), problems)
            except NoPermissionError:
                self._is_one_by_one = True
        queues = await self._reader.queues(self._topic)
        if len(queues) > QUEUES_ASKED_MAX:
            raise ProblemError(
                403,
                "The user may not see the topic's figures",
                f"{self._topic} has {len(queues)} queues, too many to be asked one by one",
                "allow the user the action Get on the topic",
            )
        return await self._gathered(map(self._of, queues), problems)

    async def _renew_route(self, problems: list[str]) -> None:
        try:
            route = await self._admin.topic_route(self._topic)
        except UnknownTopicError:
            raise
        except PocketMQError as e:
            if not self._addresses:
                raise
            problems.append(str(e))
            return
        found = sorted(route.broker_datas, key=lambda broker: broker.broker_name)
        self._addresses = [one.master_address for one in found if one.master_address]

    async def _gathered(
        self, asked: Iterable[Awaitable[_Rows]], problems: list[str]
    ) -> tuple[dict[MessageQueue, int], list[str]]:
        ends: dict[MessageQueue, int] = {}
        for rows in await asyncio.gather(*asked, return_exceptions=True):
            if isinstance(rows, TopicMissingError):
                self._looks = 0  # the route is old
            elif isinstance(rows, NoPermissionError):
                raise rows
            elif isinstance(rows, PocketMQError):
                problems.append(str(rows))
            elif isinstance(rows, BaseException):
                raise rows
            else:
                ends.update(rows)
        return ends, problems

    async def _on(self, address: str) -> _Rows:
        rows = await self._admin.topic_stats(self._topic, broker_addr=address)
        return [(row.queue, row.max_offset) for row in rows]

    async def _of(self, queue: MessageQueue) -> _Rows:
        return [(queue, await self._reader.max_offset(queue))]
