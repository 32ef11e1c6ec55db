"""Orders of faults, carried out on the cluster's loop: `faults` is what tests have of it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from pocketmq.client import SendStatus
from pocketmq.protocol.codes import RequestCode
from pocketmq.protocol.errors import ConfigError
from pocketmq.protocol.names.namespaces import Namespace
from pocketmq.testing.broker_slot import BrokerSlot
from pocketmq.testing.core import Core
from pocketmq.testing.injection import points as fault_points
from pocketmq.testing.injection.points import Action
from pocketmq.testing.injection.rules import Fired, Rule, response_code, where_of

REGISTRATIONS = ("REGISTER_BROKER", "QUERY_DATA_VERSION", "BROKER_HEARTBEAT", "UNREGISTER_BROKER")
"""What a broker says to a name server."""

LOOK_PERIOD_S = 0.001
"""So often it is looked whether the name server has noticed a partition."""

STATUSES = tuple(status.name for status in SendStatus if status is not SendStatus.SEND_OK)

ORDERED = "a fault was ordered"


class OrderedFault:
    """A fault in force.

    Args:
        text: what was ordered.
        end: makes everything right again.
        rule: which requests it is for, if it is for requests.

    Attributes:
        text: the same.
    """

    def __init__(self, text: str, end: Callable[[], Awaitable[object]], rule: Rule | None) -> None:
        self.text, self.rule = text, rule
        self._end: Callable[[], Awaitable[object]] | None = end

    async def remove(self) -> None:
        """Ends it. Idempotent."""
        end, self._end = self._end, None
        if end is not None:
            await end()

    @property
    def count(self) -> int:
        """How often it fired."""
        return 0 if self.rule is None else self.rule.count

    @property
    def fired(self) -> list[Fired]:
        """What for, oldest first."""
        return [] if self.rule is None else list(self.rule.fired)

    @property
    def is_unused(self) -> bool:
        """Whether it waits for requests, and none has fitted so far."""
        return self.rule is not None and not self.rule.count


class FaultOrders:
    """Carries out orders; topics and groups are in a namespace.

    Args:
        core: the cluster.
        names: the namespace.
    """

    def __init__(self, core: Core, names: Namespace) -> None:
        self._core, self._names = core, names

    async def answer(self, code: str | int, remark: str = ORDERED, **where: Any) -> OrderedFault:
        """Requests are refused with a `ResponseCode`, by name or number, and not carried out.

        Raises:
            ConfigError: the code or a condition does not exist.
        """
        action = fault_points.answer(response_code(code), remark)
        return self._order(f"answer({code!r}", action, where)

    async def delay(self, milliseconds: float, **where: Any) -> OrderedFault:
        """Requests are carried out so much later."""
        action = fault_points.wait(self._core.machine, milliseconds / 1000)
        return self._order(f"delay({milliseconds!r}", action, where)

    async def drop_request(self, **where: Any) -> OrderedFault:
        """Requests are neither carried out nor answered."""
        return self._order("drop_request(", fault_points.drop_request, where)

    async def drop_reply(self, **where: Any) -> OrderedFault:
        """Requests are carried out and not answered."""
        return self._order("drop_reply(", fault_points.drop_reply, where)

    async def close_connection(self, **where: Any) -> OrderedFault:
        """The connection of a request is cut instead."""
        return self._order("close_connection(", fault_points.close_connection, where)

    async def send_status(self, status: str | SendStatus, **where: Any) -> OrderedFault:
        """Messages are stored, and their senders get this `SendStatus` instead of SEND_OK.

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
        """A broker takes requests and carries none out before the fault ends: it hangs."""
        self._core.slot(broker)
        resumed = asyncio.Event()
        action = fault_points.after(resumed.wait)
        fault = self._order(f"pause({broker!r}", action, {"broker": broker})

        async def end() -> None:
            await fault.remove()
            resumed.set()

        return OrderedFault(fault.text, end, fault.rule)

    async def kill(self, broker: str) -> OrderedFault:
        """A broker is gone at once, without a word to anybody; it is back when the fault ends.

        As after a killed process the name server and the clients see broken connections. What the
        broker had acknowledged is there when it is back.
        """
        slot = self._core.slot(broker)
        await slot.kill()
        return OrderedFault(f"kill({broker!r})", slot.start, None)

    async def partition(self, broker: str) -> OrderedFault:
        """A broker cannot reach the name server, which takes it for gone; clients reach both."""
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

        return OrderedFault(f"{text})", end, None)

    async def _part(self, slot: BrokerSlot) -> None:
        """Cuts the broker's connection, and waits until the name server has noticed."""
        if slot.broker is None:
            return
        slot.broker.registration.disconnect("a partition was ordered")
        routes = self._core.name_server.routes
        while slot.name in routes.cluster_info().broker_addr_table:
            await self._core.machine.sleep(LOOK_PERIOD_S)

    async def disk_full(self, broker: str | None = None) -> OrderedFault:
        """A broker, or all, cannot write: sends are refused, and what is there can be read."""
        slots = [self._core.slot(broker)] if broker else list(self._core.slots.values())

        def fill(is_full: bool) -> None:
            for slot in slots:
                slot.files.is_full = is_full

        async def end() -> None:
            fill(False)

        fill(True)
        return OrderedFault(f"disk_full({broker!r})" if broker else "disk_full()", end, None)

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

        return OrderedFault(joined, end, rule)
