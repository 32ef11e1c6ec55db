"""The page that lists, orders and ends the faults of a test cluster."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import msgspec
from msgspec import field
from starlette.routing import BaseRoute

from pocketmq.console.api.callers import Clients
from pocketmq.console.api.reach import note_writing
from pocketmq.console.pages.forms import Done as FormDone
from pocketmq.console.pages.forms import Form, Names
from pocketmq.console.pages.pages import Pages
from pocketmq.console.pages.typed import Typed
from pocketmq.console.pages.visits import Notice
from pocketmq.console.web.bodies import ResponseBody
from pocketmq.console.web.operations import Call
from pocketmq.protocol.codes import RequestCode, ResponseCode
from pocketmq.protocol.errors import UsageError
from pocketmq.testing.control.calls import ControlCalls
from pocketmq.testing.control.models import BrokerHealth, Done, Fault, FaultOrder, FiredFault
from pocketmq.testing.core import Core
from pocketmq.testing.fault_orders import STATUSES

KINDS = {
    "answer": ("code", "remark"),
    "delay": ("milliseconds",),
    "drop_request": (),
    "drop_reply": (),
    "close_connection": (),
    "send_status": ("status",),
    "pause": ("broker",),
    "kill": ("broker",),
    "partition": ("broker", "other"),
    "slow_link": ("broker", "other", "milliseconds"),
    "arbiter_away": (),
    "disk_full": ("broker",),
}
"""The kinds of faults with their own fields."""

OF_REQUESTS = tuple(KINDS)[:6]
CONDITIONS = ("request", "topic", "queue", "group", "client", "broker", "times", "probability")
"""What further fields the first six kinds have: the requests that they are for."""

NUMBERS = frozenset({"queue", "times", "probability", "milliseconds"})


class FaultView(ResponseBody):
    """What the page shows.

    Attributes:
        faults: that were ordered here, or over the control API, and are in force.
        others: that the test itself has ordered.
        brokers: whether they run.
        topics, groups: names to choose from.
        requests, codes: names of RocketMQ's request and response codes.
    """

    faults: list[Fault]
    others: list[Fault]
    brokers: list[BrokerHealth]
    topics: list[str]
    groups: list[str]
    requests: list[str] = field(default_factory=lambda: sorted(RequestCode.__members__))
    codes: list[str] = field(default_factory=lambda: sorted(ResponseCode.__members__))
    kinds: list[str] = field(default_factory=lambda: list(KINDS))
    statuses: list[str] = field(default_factory=lambda: list(STATUSES))


class FaultPages:
    """Makes the paths of the page.

    Args:
        core: the cluster.
        calls: order and end faults.
    """

    def __init__(self, core: Core, calls: ControlCalls) -> None:
        self._core, self._calls = core, calls

    def __call__(self, pages: Pages) -> Iterable[BaseRoute]:
        """Returns the paths."""
        page = "faults.html"
        forms = (
            Form("/faults/order", page, self.order, _read, _ordered, show=self.shown),
            Form("/faults/removal", page, self.remove_all, _nothing, _all_removed, show=self.shown),
            Form("/faults/{id}/removal", page, self.remove, _nothing, _removed, show=self.shown),
        )
        return [
            pages.page("/faults", page, self.shown),
            *(route for form in forms for route in pages.forms.routes(form)),
        ]

    async def shown(self, clients: Clients, call: Call) -> FaultView:
        """Shows the faults in force, and the brokers."""
        faults = await self._calls.faults.listed(call)
        health = await self._calls.cluster.health(call)
        topics, groups = self._core.names()
        return FaultView(
            faults=faults.faults,
            others=self._others(),
            brokers=health.brokers,
            topics=sorted(topics),
            groups=sorted(groups),
        )

    def _others(self) -> list[Fault]:
        ours = self._calls.faults.in_force()
        return [
            Fault(
                id="",
                fault=fault.text,
                count=fault.count,
                fired=[FiredFault(**one._asdict()) for one in fault.fired[-1:]],
                warnings=[],
            )
            for fault in self._core.faults.in_force
            if fault not in ours
        ]

    async def order(self, clients: Clients, call: Call) -> Fault:
        """Puts a fault into force."""
        note_writing()
        return await self._calls.faults.order(call)

    async def remove(self, clients: Clients, call: Call) -> Fault:
        """Ends a fault."""
        note_writing()
        return await self._calls.faults.remove(call)

    async def remove_all(self, clients: Clients, call: Call) -> Done:
        """Ends all faults that were ordered here."""
        note_writing()
        return await self._calls.faults.remove_all(call)


def _read(typed: Typed, names: Names) -> Any:
    """Reads an order of a fault."""
    kind = typed["kind"]
    if kind not in KINDS:
        raise UsageError(f"the fault is {kind!r}: choose one of {', '.join(KINDS)}")
    fields = {*KINDS[kind], *(CONDITIONS if kind in OF_REQUESTS else ())}
    given: dict[str, Any] = {"kind": kind}
    for name in (*CONDITIONS, "code", "remark", "status", "milliseconds", "other"):
        text = typed.text(name)
        if text is None:
            continue
        if name not in fields:
            usable = ", ".join(sorted(fields)) or "none"
            raise UsageError(f"{kind} takes no {name}, which is {text!r}; its fields: {usable}")
        is_number = name in NUMBERS or (name in ("request", "code") and text.isdigit())
        given[name] = _number(name, text) if is_number else text
    try:
        return msgspec.convert(given, FaultOrder)
    except msgspec.ValidationError as e:
        raise UsageError(f"the fault does not fit: {e}") from e


def _number(name: str, text: str) -> int | float:
    try:
        return int(text) if name not in ("probability", "milliseconds") else float(text)
    except ValueError:
        raise UsageError(f"{name} is {text!r}: write a number") from None


def _nothing(typed: Typed, names: Names) -> None:
    """Reads nothing: the path says which fault."""


def _ordered(fault: Fault, names: Names) -> FormDone:
    return FormDone("/faults", Notice(_sentence("In force", fault)))


def _removed(fault: Fault, names: Names) -> FormDone:
    return FormDone("/faults", Notice(_sentence("Ended", fault)))


def _sentence(what: str, fault: Fault) -> str:
    return "; ".join([f"{what}: {fault.fault}", *fault.warnings])


def _all_removed(done: Done, names: Names) -> FormDone:
    return FormDone("/faults", Notice("; ".join([done.done, *done.warnings])))
