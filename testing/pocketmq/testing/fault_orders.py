"""Puts faults into force on the cluster's loop; tests order them through `faults`."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable
from typing import Any

from pocketmq.client import SendStatus
from pocketmq.protocol.codes import RequestCode
from pocketmq.protocol.errors import ConfigError
from pocketmq.protocol.names.namespaces import Namespace
from pocketmq.runtime.clock import within
from pocketmq.testing.broker_slot import BrokerSlot
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
        """Lets a broker hang: it takes requests and carries them out when the fault ends."""
        return self._hold(f"pause({broker!r}", asyncio.Event.wait, {"broker": broker})

    async def kill(self, broker: str) -> OrderedFault:
        """Kills a broker at once, without unregistering; starts it again when the fault ends.

        As after kill -9 the name server and the clients see broken connections. All that the
        broker had acknowledged is there when it is back.
        """
        slot = self._core.slot(broker)
        await slot.kill()
        return self._in_force(f"kill({broker!r})", slot.start)

    async def partition(self, broker: str) -> OrderedFault:
        """Cuts a broker off from the name server, which drops it; clients still reach both."""
        slot = self._core.slot(broker)
        text = f"partition({broker!r}"
        faults = [
            self._order(
                text,
                fault_points.close_connection,
                {"broker": broker, "request": request},
                is_counted=False,
            )
            for request in REGISTRATIONS
        ]
        await self._part(slot)

        async def end() -> None:
            for fault in faults:
                await fault.remove()
            if slot.broker is not None:
                await slot.broker.registration.register()

        return self._in_force(f"{text})", end)

    async def _part(self, slot: BrokerSlot) -> None:
        """Cuts the broker's connection and waits until the name server has dropped the broker."""
        if slot.broker is None:
            return
        slot.broker.registration.disconnect("a partition was ordered")
        routes = self._core.name_server.routes
        while slot.name in routes.cluster_info().broker_addr_table:
            await self._core.machine.sleep(LOOK_PERIOD_S)

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
            self._core.slot(where.broker)
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
