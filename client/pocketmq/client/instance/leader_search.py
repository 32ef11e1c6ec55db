"""Finds the new leader of a broker set when the old one is lost, instead of at the next route poll.

RocketMQ's clients poll routes every 30 s whatever happens.
"""

from __future__ import annotations

import asyncio
import logging

from pocketmq.client.instance.routes import RouteCache
from pocketmq.protocol.codes import ResponseCode
from pocketmq.protocol.errors import OperatingError, PocketMQError, ResponseError
from pocketmq.protocol.requests.popping import PollingInfoRequest
from pocketmq.runtime.clock import Clock, within
from pocketmq.runtime.tasks import Tasks
from pocketmq.transport.connection import Connection
from pocketmq.transport.errors import ConnectError, ConnectionClosedError
from pocketmq.transport.pool import ConnectionPool

log = logging.getLogger("pocketmq.client")

PAUSE_S = 0.05
"""Between two looks at the routes at first; each pause is longer than the one before."""

PAUSE_S_MAX = 1.0

SEARCH_S_MAX = 60.0
"""So long a leader is searched for; after that the ordinary polls find it."""

LOOK_PERIOD_S = 1.0
"""So often the routes are asked for when brokers fail that are known to be of no set."""

LOOK_S_MAX = 0.2
"""How long a send waits for that."""

ANSWER_S_MAX = 0.5
"""So soon a leader answers a small request. That it takes connections says little: its machine does
so for a process that is frozen, too."""

_OF_FOLLOWERS = "[REJECTREQUEST]"


def is_leader_lost(error: OperatingError) -> bool:
    """Whether an error says that a request did not reach a leader, or that it leads no more."""
    if isinstance(error, ConnectError | ConnectionClosedError):
        return True
    if not isinstance(error, ResponseError):
        return False
    if error.code in (ResponseCode.SERVICE_NOT_AVAILABLE, ResponseCode.GO_AWAY):
        return True
    return error.code == ResponseCode.SYSTEM_BUSY and _OF_FOLLOWERS in (error.remark or "")


class LeaderSearch:
    """Looks for the leaders of broker sets, one search at a time for each set.

    Args:
        routes: of the instance, which know the sets.
        pool: connects.
        clock: for pauses.
        tasks: of the instance.

    Attributes:
        searches: those that are under way, by the name of the set.
        silent: the sets whose leader has not answered a send in time, as long as it is searched
            for: a further send would wait in vain, too.
    """

    def __init__(
        self, routes: RouteCache, pool: ConnectionPool, clock: Clock, tasks: Tasks
    ) -> None:
        self._routes, self._pool, self._clock, self._tasks = routes, pool, clock, tasks
        self._looked_s = -LOOK_PERIOD_S
        self._looking: asyncio.Task[object] | None = None
        self.searches: dict[str, asyncio.Task[object]] = {}
        self.silent: set[str] = set()

    def lost(self, connection: Connection) -> None:
        """Begins a search if a connection that has ended led to the leader of a set."""
        address = connection.attributes.get("address")
        if address is not None:
            for broker_name in self._routes.sets_led_from(address):
                self._search(broker_name)

    def begin(self, broker_name: str) -> bool:
        """Begins a search that nobody waits for; False if the broker is known to be of no set."""
        if not self._routes.is_set(broker_name):
            return False
        self._search(broker_name)
        return True

    def is_silent(self, broker_name: str) -> None:
        """Begins a search if a broker is of a set: it has not answered a send in time."""
        if self._routes.is_set(broker_name):
            self.silent.add(broker_name)
            self._search(broker_name)

    async def find(self, broker_name: str, deadline_s: float) -> bool:
        """Waits for the leader of a set; False if the broker is of no set, or there is no time.

        Args:
            broker_name: of the set.
            deadline_s: of the clock's `monotonic`.
        """
        left_s = deadline_s - self._clock.monotonic()
        if left_s <= 0:
            return False
        try:
            if not self._routes.is_set(broker_name):
                await within(self._clock, min(left_s, LOOK_S_MAX), self._look_once())
                if not self._routes.is_set(broker_name):
                    return False
            await within(self._clock, left_s, asyncio.shield(self._search(broker_name)))
        except TimeoutError:
            return False
        return True

    async def _look_once(self) -> None:
        """Asks for the routes anew, at most once a second: the broker may be of a set by now."""
        now_s = self._clock.monotonic()
        if now_s - self._looked_s >= LOOK_PERIOD_S:
            self._looked_s = now_s
            self._looking = self._tasks.spawn(self._routes.refresh(), "look for broker sets")
        if self._looking is not None:
            await asyncio.shield(self._looking)

    async def find_any(self, topic: str, deadline_s: float) -> bool:
        """Waits for the leader of one of a topic's sets; False if no broker of it is of a set.

        Args:
            topic: whose brokers have no leader now.
            deadline_s: of the clock's `monotonic`.
        """
        sets = self._routes.sets_of(topic)
        for broker_name in sets:
            self._search(broker_name)
        return bool(sets) and await self.find(sets[0], deadline_s)

    def _search(self, broker_name: str) -> asyncio.Task[object]:
        task = self.searches.get(broker_name)
        if task is None:
            name = f"search for the leader of {broker_name}"
            task = self._tasks.spawn(self._look(broker_name), name)
            self.searches[broker_name] = task
            task.add_done_callback(lambda _: self._ended(broker_name))
        return task

    def _ended(self, broker_name: str) -> None:
        self.searches.pop(broker_name, None)
        self.silent.discard(broker_name)

    async def _look(self, broker_name: str) -> None:
        pause_s, until_s = PAUSE_S, self._clock.monotonic() + SEARCH_S_MAX
        await self._clock.sleep(pause_s)
        while not await self._leads(broker_name) and self._clock.monotonic() < until_s:
            await self._routes.refresh()
            if await self._leads(broker_name):
                return
            pause_s = min(2 * pause_s, PAUSE_S_MAX)
            await self._clock.sleep(pause_s)

    async def _leads(self, broker_name: str) -> bool:
        """Whether the member that the route shows as the leader answers as one."""
        address = self._routes.master_address(broker_name)
        if address is None:
            return False
        # Followers refuse to tell of pops; of no topic, so that any other answer will do.
        request = PollingInfoRequest(consumer_group="", topic="", queue_id=0)
        try:
            answer = await self._pool.call(address, request, ANSWER_S_MAX * 1000)
        except PocketMQError as e:
            log.debug("the leader of %s is not found yet: %s", broker_name, e)
            return False
        return answer.code != ResponseCode.SERVICE_NOT_AVAILABLE
