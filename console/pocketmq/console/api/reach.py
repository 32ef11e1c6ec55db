"""Looks at clusters some of whose brokers do not answer: shows the others, and tells of these."""

from __future__ import annotations

import contextlib
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Hashable, Iterable, Mapping
from contextvars import ContextVar
from typing import TypeVar

import msgspec
from msgspec import field

from pocketmq.client import Admin, MessageQueue, PullConsumer
from pocketmq.client.errors import RouteError
from pocketmq.console.api.masters import SilentBroker
from pocketmq.console.web.bodies import ResponseBody
from pocketmq.protocol.bodies.routes import BrokerData, ClusterInfo, TopicRoute
from pocketmq.protocol.errors import NoPermissionError
from pocketmq.runtime.clock import Clock
from pocketmq.transport.errors import CallTimeoutError, ConnectError, ConnectionClosedError

T = TypeVar("T")

UNREACHABLE = (CallTimeoutError, ConnectError, ConnectionClosedError)

SLOW_S = 0.5
AWAY_S = 10
"""A broker that took longer to fail is left out for so many seconds: not each page waits for it."""

GONE_S = 3600
"""Seconds for which a broker is missed that is registered no more."""

BROKERS_MAX = 1000
"""Brokers that are remembered."""

LEFT_OUT_MAX = 100
"""Brokers that one answer leaves out."""


class PartialBody(ResponseBody, kw_only=True):
    """The base of answers that may lack what some brokers hold.

    Attributes:
        silent: these brokers, and why they are missing.
    """

    silent: list[SilentBroker] = field(default_factory=list)


class _Look:
    """One request: the brokers that it has heard of, and those that it leaves out.

    Attributes:
        names: of the brokers, by their addresses.
        left_out: by their addresses.
        registered: the names of all brokers; None if nobody has asked.
        is_writing: whether it changes something.
    """

    def __init__(self, left_out: Mapping[str, SilentBroker]) -> None:
        self.names: dict[str, str] = {}
        self.left_out = dict(left_out)
        self.registered: set[str] | None = None
        self.is_writing = False

    def reaches(self, data: BrokerData) -> bool:
        """Notes a broker's addresses; tells whether it is asked."""
        self.names |= dict.fromkeys(data.broker_addrs.values(), data.broker_name)
        return data.master_address not in self.left_out


_look: ContextVar[_Look | None] = ContextVar("look", default=None)


def note_writing() -> None:
    """Notes that the request changes something: such a request leaves no broker out."""
    look = _look.get()
    if look is not None:
        look.is_writing = True


def is_writing() -> bool:
    """Tells whether the request has changed something, or has tried to."""
    look = _look.get()
    return look is not None and look.is_writing


class Reach:
    """Knows which brokers of a cluster do not answer, or are registered no more.

    Args:
        clock: tells how long ago that was seen.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._away: OrderedDict[str, tuple[SilentBroker, float]] = OrderedDict()
        self._seen: OrderedDict[str, tuple[str, float]] = OrderedDict()
        self._partial: set[Hashable] = set()

    async def look(
        self,
        function: Hashable,
        ask: Callable[[], Awaitable[T]],
        ask_cluster: Callable[[], Awaitable[object]],
    ) -> T:
        """Carries out an operation; without the brokers that do not answer, if it only looks.

        Args:
            function: which operation.
            ask: carries it out.
            ask_cluster: asks a `ReachableAdmin` which brokers are registered.
        """
        is_partial = function in self._partial
        look = _Look(self._left_out() if is_partial else {})
        token = _look.set(look)
        try:
            found = await self._without_silent(look, ask)
            if isinstance(found, PartialBody) and look.registered is None:
                with contextlib.suppress(NoPermissionError):  # then nobody is missed
                    await ask_cluster()
        finally:
            _look.reset(token)
        self._remember(look)
        if isinstance(found, PartialBody):
            self._partial.add(function)
            asked = set(look.names.values())
            told = {e.broker: e for e in self._gone(look.registered) if e.broker not in asked}
            told |= {each.broker: each for each in look.left_out.values()}
            found.silent = [told[name] for name in sorted(told)]
        return found

    async def _without_silent(self, look: _Look, ask: Callable[[], Awaitable[T]]) -> T:
        first: Exception | None = None
        while True:
            began_s = self._clock.stopwatch()
            try:
                found = await ask()
            except UNREACHABLE as e:
                if look.is_writing or e.address not in look.names or e.address in look.left_out:
                    raise
                if len(look.left_out) >= LEFT_OUT_MAX:
                    raise
                name = look.names[e.address]
                silent = SilentBroker(broker=name, address=e.address, problem=str(e))
                look.left_out[e.address] = silent
                if self._clock.stopwatch() - began_s > SLOW_S:
                    self._keep_away(silent)
                first = first or e
            except RouteError:
                if first is not None:  # no broker is left that could answer
                    raise first from None
                if not look.left_out:
                    raise
                look.left_out.clear()  # asks again those that were silent lately
            else:
                if first is not None and not isinstance(found, PartialBody):
                    raise first
                return found

    def gone(self, registered: Iterable[str]) -> list[SilentBroker]:
        """Returns the brokers that were registered lately, and are no more.

        Args:
            registered: the names of those that are.
        """
        return self._gone(set(registered))

    def _gone(self, registered: set[str] | None) -> list[SilentBroker]:
        if registered is None:
            return []
        now_s = self._clock.stopwatch()
        return [
            SilentBroker(
                broker=name,
                address=address,
                problem=f"{address} was registered up to {round(now_s - seen_s)} s ago, and is no "
                f"more: the broker is down, or cannot reach the name server",
            )
            for name, (address, seen_s) in self._seen.items()
            if name not in registered and now_s - seen_s < GONE_S
        ]

    def _left_out(self) -> dict[str, SilentBroker]:
        now_s = self._clock.stopwatch()
        return {a: silent for a, (silent, until_s) in self._away.items() if until_s > now_s}

    def _keep_away(self, silent: SilentBroker) -> None:
        self._away[silent.address] = (silent, self._clock.stopwatch() + AWAY_S)
        self._away.move_to_end(silent.address)
        while len(self._away) > BROKERS_MAX:
            self._away.popitem(last=False)

    def _remember(self, look: _Look) -> None:
        now_s = self._clock.stopwatch()
        for address, name in look.names.items():
            if look.registered is None or name in look.registered:
                self._seen[name] = (address, now_s)
                self._seen.move_to_end(name)
        while len(self._seen) > BROKERS_MAX:
            self._seen.popitem(last=False)


class ReachableAdmin(Admin):
    """An administrator who leaves out the brokers that a request leaves out."""

    async def cluster_info(self) -> ClusterInfo:
        """Returns all clusters and their brokers."""
        info = await super().cluster_info()
        look = _look.get()
        if look is None:
            return info
        look.registered = set(info.broker_addr_table)
        table = {name: data for name, data in info.broker_addr_table.items() if look.reaches(data)}
        clusters = {
            cluster: [name for name in names if name in table]
            for cluster, names in info.cluster_addr_table.items()
        }
        return ClusterInfo(broker_addr_table=table, cluster_addr_table=clusters)

    async def topic_route(self, topic: str) -> TopicRoute:
        """Returns a topic's route.

        Raises:
            UnknownTopicError: no broker has it.
        """
        route = await super().topic_route(topic)
        look = _look.get()
        if look is None:
            return route
        brokers = [data for data in route.broker_datas if look.reaches(data)]
        names = {data.broker_name for data in brokers}
        queues = [data for data in route.queue_datas if data.broker_name in names]
        return msgspec.structs.replace(route, broker_datas=brokers, queue_datas=queues)


class ReachableReader(PullConsumer):
    """A reader who leaves out the brokers that a request leaves out."""

    async def queues(self, topic: str) -> list[MessageQueue]:
        """Returns the queues that can be pulled from, sorted by broker and number.

        Raises:
            UnknownTopicError, NoPermissionRouteError, NoNameServerError.
        """
        queues = await super().queues(topic)
        look = _look.get()
        if look is None:
            return queues
        names = {queue.broker_name for queue in queues}
        addresses = {name: self.instance.routes.master_address(name) for name in names}
        look.names |= {address: name for name, address in addresses.items() if address}
        return [q for q in queues if addresses[q.broker_name] not in look.left_out]
