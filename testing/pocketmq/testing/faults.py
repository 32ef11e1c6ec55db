"""Faults on order: what goes wrong in a cluster, when, for whom and how often.

::

    with cluster.faults.answer("SYSTEM_BUSY", request="SEND_MESSAGE", topic="Orders", times=2):
        producer.send(message)  # succeeds at the third attempt

Each fault lasts until its ``with`` block ends, or `Fault.remove`. The oldest rule that matches a
request decides. What a rule may ask for is in `fault_rules.Where`; times are the machine's, since
what waits for a broker does so in real time.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from typing_extensions import Self

from pocketmq.client import SendStatus
from pocketmq.protocol.codes import RequestCode
from pocketmq.protocol.errors import ConfigError
from pocketmq.protocol.namespaces import Namespace
from pocketmq.testing import fault_points
from pocketmq.testing.core import BrokerPlace, Core
from pocketmq.testing.fault_points import Action, HandlerPoint
from pocketmq.testing.fault_rules import Asked, Fired, Rule, response_code, where_of
from pocketmq.testing.loop_thread import LoopThread
from pocketmq.transport.connection import Connection

REGISTRATIONS = ("REGISTER_BROKER", "QUERY_DATA_VERSION", "BROKER_HEARTBEAT", "UNREGISTER_BROKER")
"""What a broker says to a name server."""

LOOK_PERIOD_S = 0.001
"""So often it is looked whether the name server has noticed a partition."""

STATUSES = tuple(status.name for status in SendStatus if status is not SendStatus.SEND_OK)


class FaultWarning(UserWarning):
    """A fault was ordered and never fired: its conditions fit nothing that was asked."""


class FaultTable:
    """The rules of one cluster, on its loop.

    Args:
        core: the cluster.
    """

    def __init__(self, core: Core) -> None:
        self._core = core
        self._rules: dict[Rule, Action] = {}
        self._points: dict[str, HandlerPoint] = {}
        self.ordered: list[Rule] = []
        self._namesrv = HandlerPoint(
            "namesrv", core.name_server.handlers, None, self._find, lambda c: _addresses(c, None)
        )
        for place in core.places.values():
            place.on_started = self.attach
            self.attach(place)

    def attach(self, place: BrokerPlace) -> None:
        """Gets in before the handlers of a broker that was started."""
        broker = place.broker
        if broker is not None:
            self._points[place.name] = HandlerPoint(
                place.name, broker.handlers, place.name, self._find, lambda c: _addresses(c, place)
            )
            self._guard()

    def add(self, rule: Rule, action: Action) -> None:
        """Puts a rule into force."""
        self._rules[rule] = action
        self.ordered.append(rule)
        self._guard()

    def remove(self, rule: Rule) -> None:
        """Ends a rule. Idempotent."""
        self._rules.pop(rule, None)
        self._guard()

    def take_unused(self) -> list[str]:
        """What was ordered since the last call, and never fired; all of it is ended."""
        unused = [rule.text for rule in self.ordered if not rule.count]
        self._rules.clear()
        self.ordered.clear()
        self._guard()
        return unused

    def _guard(self) -> None:
        codes: set[int] = set()
        for rule in self._rules:
            codes |= rule.codes or set()
        is_all = any(rule.codes is None for rule in self._rules)
        for point in self._points.values():
            point.guard(None if is_all else frozenset(codes))
        self._namesrv.guard(frozenset(codes))

    def _find(self, code: int, asked: Asked) -> tuple[Rule, Action] | None:
        now_ms = self._core.clock.now_ms()
        for rule, action in self._rules.items():
            if rule.takes(code, asked, now_ms):
                return rule, action
        return None


def _addresses(connection: Connection, place: BrokerPlace | None) -> frozenset[str]:
    """By which names the client of a connection goes."""
    found = {connection.remote_address}
    broker = None if place is None else place.broker
    if broker is not None:
        for _, producers in broker.producers:
            found |= {m.client_id for m in producers if m.connection is connection}
        for _, group in broker.consumers:
            if (member := group.members.get(connection)) is not None:
                found.add(member.client_id)
    return frozenset(found)


class Fault:
    """Something that goes wrong until its ``with`` block ends."""

    def __init__(self, end: Callable[[], object], rule: Rule | None = None) -> None:
        self._end: Callable[[], object] | None = end
        self._rule = rule

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.remove()

    def remove(self) -> None:
        """Ends it: from now on everything is right again. Idempotent."""
        end, self._end = self._end, None
        if end is not None:
            end()

    @property
    def count(self) -> int:
        """How often it fired."""
        return 0 if self._rule is None else self._rule.count

    @property
    def fired(self) -> list[Fired]:
        """What for, oldest first."""
        return [] if self._rule is None else list(self._rule.fired)


class Faults:
    """What a test orders; topics and groups are in the namespace of its cluster.

    Its methods block for a moment, also in coroutines; none waits for a client.

    Args:
        core, thread: the cluster.
        names: the namespace.
    """

    def __init__(self, core: Core, thread: LoopThread, names: Namespace) -> None:
        self._core, self._thread, self._names = core, thread, names

    def answer(self, code: str | int, remark: str = "a fault was ordered", **where: Any) -> Fault:
        """Requests are refused with a `ResponseCode`, by name or number, and not carried out.

        Raises:
            ConfigError: the code or a condition does not exist.
        """
        action = fault_points.answer(response_code(code), remark)
        return self._order(f"answer({code!r}", action, where)

    def delay(self, milliseconds: float, **where: Any) -> Fault:
        """Requests are carried out so much later."""
        action = fault_points.wait(self._core.machine, milliseconds / 1000)
        return self._order(f"delay({milliseconds!r}", action, where)

    def drop_request(self, **where: Any) -> Fault:
        """Requests are neither carried out nor answered."""
        return self._order("drop_request(", fault_points.drop_request, where)

    def drop_reply(self, **where: Any) -> Fault:
        """Requests are carried out and not answered."""
        return self._order("drop_reply(", fault_points.drop_reply, where)

    def close_connection(self, **where: Any) -> Fault:
        """The connection of a request is cut instead."""
        return self._order("close_connection(", fault_points.close_connection, where)

    def send_status(self, status: str | SendStatus, **where: Any) -> Fault:
        """Messages are stored, and their senders get this `SendStatus` instead of SEND_OK.

        Raises:
            ConfigError: there is no such status.
        """
        name = status.name if isinstance(status, SendStatus) else status
        if name not in STATUSES:
            raise ConfigError(f"status={name!r} must be one of {', '.join(STATUSES)}")
        action = fault_points.stored_but(SendStatus[name].value, "a fault was ordered")
        where = {"request": RequestCode.SEND_MESSAGE.name, **where}
        return self._order(f"send_status({name!r}", action, where)

    def pause(self, broker: str) -> Fault:
        """A broker takes requests and carries none out before the fault ends: it hangs."""
        self._core.place(broker)
        resumed = self._thread.call(asyncio.Event)
        fault = self._order(
            f"pause({broker!r}", fault_points.after(resumed.wait), {"broker": broker}
        )

        def end() -> None:
            fault.remove()
            self._thread.call(resumed.set)

        return Fault(end, fault._rule)

    def kill(self, broker: str) -> Fault:
        """A broker is gone at once, without a word to anybody; it is back when the fault ends.

        As after a killed process the name server and the clients see broken connections. What the
        broker had acknowledged is there when it is back.
        """
        place = self._core.place(broker)
        self._thread.run(place.kill())
        return Fault(lambda: self._thread.run(self._restart(place)))

    async def _restart(self, place: BrokerPlace) -> None:
        await place.start()

    def partition(self, broker: str) -> Fault:
        """A broker cannot reach the name server, which takes it for gone; clients reach both."""
        place = self._core.place(broker)
        faults = [
            self._order(
                f"partition({broker!r}",
                fault_points.close_connection,
                {"broker": broker, "request": request},
                is_counted=False,
            )
            for request in REGISTRATIONS
        ]
        self._thread.run(self._part(place))

        def end() -> None:
            for fault in faults:
                fault.remove()
            self._thread.run(_register(place))

        return Fault(end)

    async def _part(self, place: BrokerPlace) -> None:
        """Cuts the broker's connection, and waits until the name server has noticed."""
        if place.broker is None:
            return
        place.broker.registration.disconnect("a partition was ordered")
        routes = self._core.name_server.routes
        while place.name in routes.cluster_info().broker_addr_table:
            await self._core.machine.sleep(LOOK_PERIOD_S)

    def disk_full(self, broker: str | None = None) -> Fault:
        """A broker, or all, cannot write: sends are refused, and what is there can be read."""
        places = [self._core.place(broker)] if broker else list(self._core.places.values())

        def fill(is_full: bool) -> None:
            for place in places:
                place.files.is_full = is_full

        self._thread.call(fill, True)
        return Fault(lambda: self._thread.call(fill, False))

    def _order(
        self, text: str, action: Action, given: dict[str, Any], *, is_counted: bool = True
    ) -> Fault:
        where = where_of(given)
        if where.broker is not None:
            self._core.place(where.broker)
        shown = ", ".join(f"{name}={value!r}" for name, value in given.items())
        joined = f"{text}{', ' if shown and not text.endswith('(') else ''}{shown})"
        where.topic = self._names.wrap(where.topic or "") or None
        where.group = self._names.wrap(where.group or "") or None
        rule = Rule(joined, where)
        table = self._thread.call(self._table)
        self._thread.call(table.add, rule, action)
        if not is_counted:
            self._thread.call(table.ordered.remove, rule)
        return Fault(lambda: self._thread.call(table.remove, rule), rule)

    def _table(self) -> FaultTable:
        if self._core.faults is None:
            self._core.faults = FaultTable(self._core)
        table: FaultTable = self._core.faults
        return table


async def _register(place: BrokerPlace) -> None:
    if place.broker is not None:
        await place.broker.registration.register()
