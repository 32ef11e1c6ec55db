"""The fault rules in force in one cluster, and how they get in before the handlers."""

from __future__ import annotations

from collections.abc import Callable

from pocketmq.namesrv import NameServer
from pocketmq.protocol.wire.header import Header
from pocketmq.runtime.clock import Clock
from pocketmq.testing.brokers.broker_slot import BrokerSlot
from pocketmq.testing.injection.ordered import OrderedFault
from pocketmq.testing.injection.points import Action, HandlerPoint
from pocketmq.testing.injection.rules import Asked, Rule
from pocketmq.transport.connection import Connection


class RuleTable:
    """Puts the fault rules in force before the handlers of a cluster's servers, on its loop.

    Args:
        clock: the time that rules with a duration go by.

    Attributes:
        in_force: the ordered faults that have not ended, with those that are no rules.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._rules: dict[Rule, Action] = {}
        self._points: dict[str, tuple[HandlerPoint, ...]] = {}
        self._name_server: HandlerPoint | None = None
        self._ordered: dict[Rule, None] = {}
        self.in_force: dict[OrderedFault, None] = {}

    def attach_name_server(self, server: NameServer, name_of: Callable[[str], str | None]) -> None:
        """Puts the rules before the handlers of the name server.

        Args:
            server: the name server.
            name_of: the name of the broker with an address, if there is one.
        """

        def broker_of(header: Header | None) -> str | None:
            name = name_of(getattr(header, "broker_addr", None) or "")
            return name or getattr(header, "broker_name", None)

        self._name_server = HandlerPoint(
            "namesrv", server.handlers, broker_of, self._find, lambda c: _client_names(c, None)
        )
        self._guard()

    def attach(self, slot: BrokerSlot) -> None:
        """Puts the rules before the handlers that the broker in a slot has now."""
        broker = slot.broker

        def names_of(connection: Connection) -> frozenset[str]:
            return _client_names(connection, slot)

        if broker is not None:
            for point in self._points.get(slot.name, ()):
                point.guard(frozenset())
            self._points[slot.name] = tuple(
                HandlerPoint(slot.name, handlers, lambda _: slot.name, self._find, names_of)
                for handlers in broker.tables
            )
            self._guard()

    def add(self, rule: Rule, action: Action, *, is_counted: bool = True) -> None:
        """Puts a rule into force; a counted rule is warned of if it never fires."""
        self._rules[rule] = action
        if is_counted:
            self._ordered[rule] = None
        self._guard()

    def remove(self, rule: Rule) -> None:
        """Ends a rule. Idempotent."""
        self._rules.pop(rule, None)
        self._guard()

    def forget(self, rule: Rule) -> None:
        """Ends a rule that `take_unused` shall not name any more. Idempotent."""
        self._ordered.pop(rule, None)
        self.remove(rule)

    async def end_all(self) -> list[str]:
        """Ends all faults, the youngest first; returns the texts of `take_unused`."""
        for fault in reversed(list(self.in_force)):
            await fault.remove()
        return self.take_unused()

    def take_unused(self) -> list[str]:
        """Ends all rules; returns the texts of those since the last call that never fired."""
        unused = [rule.text for rule in self._ordered if not rule.count]
        self._rules.clear()
        self._ordered.clear()
        self._guard()
        return unused

    def _guard(self) -> None:
        codes: set[int] = set()
        for rule in self._rules:
            codes |= rule.codes or set()
        is_all = any(rule.codes is None for rule in self._rules)
        for point in (point for points in self._points.values() for point in points):
            point.guard(None if is_all else frozenset(codes))
        if self._name_server is not None:
            self._name_server.guard(frozenset(codes))

    def _find(self, code: int, asked: Asked) -> tuple[Rule, Action] | None:
        now_ms = self._clock.now_ms()
        for rule, action in self._rules.items():
            if rule.takes(code, asked, now_ms):
                return rule, action
        return None


def _client_names(connection: Connection, slot: BrokerSlot | None) -> frozenset[str]:
    """Returns the address and the client ids of the client of a connection."""
    found = {connection.remote_address}
    broker = None if slot is None else slot.broker
    if broker is not None and broker.is_serving:
        for _, producers in broker.parts.members.producers:
            found |= {m.client_id for m in producers if m.connection is connection}
        for _, group in broker.parts.members.consumers:
            if (member := group.members.get(connection)) is not None:
                found.add(member.client_id)
    return frozenset(found)
