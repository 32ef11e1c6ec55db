"""The rules in force in one cluster, on its loop, and how they get in before its handlers."""

from __future__ import annotations

from pocketmq.testing.core import BrokerPlace, Core
from pocketmq.testing.fault_points import Action, HandlerPoint
from pocketmq.testing.fault_rules import Asked, Rule
from pocketmq.transport.connection import Connection


class FaultTable:
    """The rules of one cluster, on its loop.

    Args:
        core: the cluster.
    """

    def __init__(self, core: Core) -> None:
        self._core = core
        self._rules: dict[Rule, Action] = {}
        self._points: dict[str, HandlerPoint] = {}
        self._ordered: dict[Rule, None] = {}
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

    def add(self, rule: Rule, action: Action, *, is_counted: bool = True) -> None:
        """Puts a rule into force; one that is counted is warned of if it never fires."""
        self._rules[rule] = action
        if is_counted:
            self._ordered[rule] = None
        self._guard()

    def remove(self, rule: Rule) -> None:
        """Ends a rule. Idempotent."""
        self._rules.pop(rule, None)
        self._guard()

    def forget(self, rule: Rule) -> None:
        """Ends a rule of which `take_unused` shall not tell any more. Idempotent."""
        self._ordered.pop(rule, None)
        self.remove(rule)

    def take_unused(self) -> list[str]:
        """What was ordered since the last call, and never fired; all of it is ended."""
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


def table_of(core: Core) -> FaultTable:
    """The table of a cluster, made when the first rule asks for it."""
    if core.faults is None:
        core.faults = FaultTable(core)
    return core.faults
