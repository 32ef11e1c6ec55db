"""Puts faults into force on the cluster's loop; tests order them through `faults`."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable
from typing import Any

from pocketmq.client import SendStatus
from pocketmq.namesrv.route_table import RouteTable
from pocketmq.protocol.codes import RequestCode
from pocketmq.protocol.errors import ConfigError, UsageError
from pocketmq.protocol.names.namespaces import Namespace
from pocketmq.runtime.clock import within
from pocketmq.testing.brokers.broker_slot import BrokerSlot
from pocketmq.testing.brokers.links import ARBITER, Link
from pocketmq.testing.core import Core
from pocketmq.testing.injection import points as fault_points
from pocketmq.testing.injection.ordered import OrderedFault
from pocketmq.testing.injection.points import Action
from pocketmq.testing.injection.rules import Rule, response_code, where_of

REGISTRATIONS = ("REGISTER_BROKER", "QUERY_DATA_VERSION", "BROKER_HEARTBEAT", "UNREGISTER_BROKER")
"""The requests that a broker sends to a name server."""

LOOK_PERIOD_S = 0.001
"""Period of checking whether the name server has noticed a partition."""

STATUSES = tuple(status.name for status in SendStatus if status is not SendStatus.SEND_OK)

ORDERED = "a fault was ordered"


class FaultOrders:
    """Puts faults into force; topics and groups are in a namespace.

    Args:
        core: the cluster.
        names: the namespace.
    """

    def __init__(self, core: Core, names: Namespace) -> None:
        self._core, self._names = core, names

    async def answer(self, code: str | int, remark: str = ORDERED, **where: Any) -> OrderedFault:
        """Refuses requests with a `ResponseCode`, by name or number, instead of carrying them out.

        Raises:
            ConfigError: the code or a condition does not exist.
        """
        action = fault_points.answer(response_code(code), remark)
        return self._order(f"answer({code!r}", action, where)

    async def delay(self, milliseconds: float, **where: Any) -> OrderedFault:
        """Delays requests before they are carried out: at the latest when the fault ends."""

        async def wait(ended: asyncio.Event) -> None:
            with contextlib.suppress(TimeoutError):
                await within(self._core.machine, milliseconds / 1000, ended.wait())

        return self._hold(f"delay({milliseconds!r}", wait, where)

    async def drop_request(self, **where: Any) -> OrderedFault:
        """Neither carries out nor answers requests."""
        return self._order("drop_request(", fault_points.drop_request, where)

    async def drop_reply(self, **where: Any) -> OrderedFault:
        """Carries out requests without answering them."""
        return self._order("drop_reply(", fault_points.drop_reply, where)

    async def close_connection(self, **where: Any) -> OrderedFault:
        """Cuts the connection of a request instead of carrying the request out."""
        return self._order("close_connection(", fault_points.close_connection, where)

    async def send_status(self, status: str | SendStatus, **where: Any) -> OrderedFault:
        """Stores messages and answers their senders with this `SendStatus` instead of SEND_OK.

        Raises:
            ConfigError: there is no such status.
        """
        name = status.name if isinstance(status, SendStatus) else status
        if name not in STATUSES:
            raise ConfigError(f"status={name!r} must be one of {', '.join(STATUSES)}")
        action = fault_points.stored_but(SendStatus[name].value, ORDERED)
        where = {"request": RequestCode.SEND_MESSAGE.name, **where}
        return self._order(f"send_status({name!r}", action, where)

    async def pause(self, broker: str) -> OrderedFault:
        """Lets a broker hang: it takes requests and carries them out when the fault ends.

        A member of a broker set is cut off from the others, too, which elect another leader.
        """
        slot = self._core.slot(broker)
        held = self._hold(f"pause({broker!r}", asyncio.Event.wait, {"broker": slot.name})
        if not slot.config.enable_controller_mode:
            return held
        cut = self._cut(slot, self._core.links_of(slot))

        async def end() -> None:
            await held.remove()
            await cut()

        return self._in_force(held.text, end, held.rule)

    async def kill(self, broker: str) -> OrderedFault:
        """Kills a broker at once, without unregistering; starts it again when the fault ends.

        As after kill -9 the name server and the clients see broken connections. All that the
        broker had acknowledged is there when it is back. The name of a broker set stands for its
        leader; the member is in sync again when the end returns.
        """
        slot = self._core.slot(broker)
        await slot.kill()

        async def end() -> None:
            await slot.start()
            await self._until_whole(slot)

        return self._in_force(f"kill({broker!r})", end)

    async def partition(self, broker: str, other: str | None = None) -> OrderedFault:
        """Cuts a broker off from the name server, which drops it; clients still reach both.

        Args:
            broker: the broker; the name of a broker set stands for its leader.
            other: cuts the link between two members of a broker set instead.

        Raises:
            UsageError: there is no such broker, or these two have no link.
        """
        slot = self._core.slot(broker)
        if other is not None:
            links = self._core.links_of(slot, other)
            return self._in_force(f"partition({broker!r}, {other!r})", self._cut(slot, links))
        text = f"partition({broker!r}"
        faults = [
            self._order(
                text,
                fault_points.close_connection,
                {"broker": slot.name, "request": request},
                is_counted=False,
            )
            for request in REGISTRATIONS
        ]
        links = [self._core.links.between(slot.name, ARBITER)]
        heal = self._cut(slot, links if slot.config.enable_controller_mode else [])
        await self._part(slot)

        async def end() -> None:
            for fault in faults:
                await fault.remove()
            await heal()
            if slot.broker is not None and slot.is_serving:
                await slot.broker.registration.register()

        return self._in_force(f"{text})", end)

    async def slow_link(
        self, broker: str, milliseconds: float, other: str | None = None
    ) -> OrderedFault:
        """Makes the way between members of a broker set longer, in both directions.

        Args:
            broker: the member; the name of a broker set stands for its leader.
            milliseconds: how much longer bytes take, one way.
            other: between these two members only, not between the first one and all others.

        Raises:
            UsageError: there is no such broker, or these two have no link.
        """
        slot = self._core.slot(broker)
        links, delay_s = self._core.links_of(slot, other), milliseconds / 1000
        for link in links:
            link.delays_s.append(delay_s)

        async def end() -> None:
            for link in links:
                link.delays_s.remove(delay_s)

        between = broker if other is None else f"{broker} and {other}"
        return self._in_force(f"slow_link({between!r}, {milliseconds!r})", end)

    async def arbiter_away(self) -> OrderedFault:
        """Cuts all members of broker sets off from the arbiter: no member can be elected.

        Raises:
            UsageError: the cluster has no broker sets.
        """
        if self._core.settings.replicas == 1:
            raise UsageError("this cluster has no arbiter: start it with replicas=2 or more")
        slots = list(self._core.slots.values())
        heals = [self._cut(slot, [self._core.links.between(slot.name, ARBITER)]) for slot in slots]

        async def end() -> None:
            await asyncio.gather(*(heal() for heal in heals))

        return self._in_force("arbiter_away()", end)

    def _cut(self, slot: BrokerSlot, links: list[Link]) -> Callable[[], Awaitable[object]]:
        """Cuts links of a broker; returns what heals them and waits for the broker set."""
        for link in links:
            link.cut()

        async def heal() -> None:
            for link in links:
                link.heal()
            await self._until_whole(slot)

        return heal

    async def _until_whole(self, slot: BrokerSlot) -> None:
        """Waits until a broker set is whole, unless another fault disturbs it."""
        if not slot.config.enable_controller_mode:
            return
        members = self._core.sets.members(slot.set_name)
        if not any(link.is_cut for member in members for link in self._core.links_of(member)):
            await self._core.sets.until_whole(slot.set_name)

    async def _part(self, slot: BrokerSlot) -> None:
        """Cuts the broker's connection and waits until the name server has dropped the broker."""
        if slot.broker is None or not slot.is_serving:
            return
        slot.broker.registration.disconnect("a partition was ordered")
        routes = self._core.name_server.routes
        while self._is_registered(slot, routes):
            await self._core.machine.sleep(LOOK_PERIOD_S)

    @staticmethod
    def _is_registered(slot: BrokerSlot, routes: RouteTable) -> bool:
        data = routes.cluster_info().broker_addr_table.get(slot.set_name)
        return data is not None and slot.address in data.broker_addrs.values()

    async def disk_full(self, broker: str | None = None) -> OrderedFault:
        """Fills the disk of one broker, or of all: sends are refused, reads go on."""
        slots = [self._core.slot(broker)] if broker else list(self._core.slots.values())

        for slot in slots:
            slot.files.fillings += 1

        async def end() -> None:
            for slot in slots:
                slot.files.fillings -= 1
                slot.look_at_disk()

        return self._in_force(f"disk_full({broker!r})" if broker else "disk_full()", end)

    def _hold(
        self, text: str, wait: Callable[[asyncio.Event], Awaitable[object]], given: dict[str, Any]
    ) -> OrderedFault:
        """Orders a fault whose requests wait for something, and are carried out when it ends."""
        ended = asyncio.Event()
        fault = self._order(text, fault_points.after(lambda: wait(ended)), given)

        async def end() -> None:
            await fault.remove()
            ended.set()

        return self._in_force(fault.text, end, fault.rule)

    def _order(
        self, text: str, action: Action, given: dict[str, Any], *, is_counted: bool = True
    ) -> OrderedFault:
        where = where_of(given)
        if where.broker is not None:
            self._core.check_broker(where.broker)
        shown = ", ".join(f"{name}={value!r}" for name, value in given.items())
        joined = f"{text}{', ' if shown and not text.endswith('(') else ''}{shown})"
        where.topic = self._names.wrap(where.topic or "") or None
        where.group = self._names.wrap(where.group or "") or None
        rule = Rule(joined, where)
        table = self._core.faults
        table.add(rule, action, is_counted=is_counted)

        async def end() -> None:
            table.remove(rule)

        return self._in_force(joined, end, rule)

    def _in_force(
        self, text: str, end: Callable[[], Awaitable[object]], rule: Rule | None = None
    ) -> OrderedFault:
        return OrderedFault(text, end, rule, self._core.faults.in_force)
