"""The operations of the control API that order, show and remove faults."""

from __future__ import annotations

import asyncio
import difflib
import itertools
from collections.abc import Iterable
from typing import Any

import msgspec

from pocketmq.console.web.operations import Call, Operation
from pocketmq.console.web.problems import ProblemError, not_found
from pocketmq.protocol.names.namespaces import Namespace
from pocketmq.runtime.text import counted
from pocketmq.testing.control.models import Done, Fault, FaultOrder, Faults, FiredFault
from pocketmq.testing.core import Core
from pocketmq.testing.fault_orders import FaultOrders
from pocketmq.testing.injection.ordered import OrderedFault
from pocketmq.testing.injection.rules import Rule, Where

FAULTS_MAX = 1000
"""Faults in force at a time; each is compared with every request of its codes."""

FIRED_SHOWN_MAX = 100
"""Firings of a fault that an answer lists."""


class FaultCalls:
    """Keeps the ordered faults by their numbers.

    Args:
        core: the cluster.
    """

    def __init__(self, core: Core) -> None:
        self._core = core
        self._orders = FaultOrders(core, Namespace(""))
        self._faults: dict[str, tuple[str, OrderedFault]] = {}
        self._numbers = itertools.count(1)
        self._turn = asyncio.Lock()

    def operations(self) -> list[Operation]:
        """Returns the operations of this family."""
        return [
            Operation(
                "GET", "/faults", "listFaults", "The faults in force, oldest first.",
                self.listed, Faults,
            ),
            Operation(
                "POST", "/faults", "orderFault",
                "Order a fault; it is in force until it is removed.",
                self.order, Fault, body=FaultOrder, status=201,
            ),
            Operation("GET", "/faults/{id}", "getFault", "One fault.", self.one, Fault),
            Operation(
                "DELETE", "/faults/{id}", "removeFault",
                "Remove a fault: from now on this is right again.", self.remove, Fault,
            ),
            Operation(
                "DELETE", "/faults", "removeFaults", "Remove all faults.", self.remove_all, Done,
            ),
        ]  # fmt: skip

    def __len__(self) -> int:
        return len(self._faults)

    def in_force(self) -> set[OrderedFault]:
        """Returns the faults in force that were ordered here."""
        return {fault for _, fault in self._faults.values()}

    def paused(self) -> set[str | None]:
        """Returns the names of the paused brokers."""
        return {
            fault.rule.where.broker
            for kind, fault in self._faults.values()
            if kind == "pause" and fault.rule is not None
        }

    async def listed(self, _: Call) -> Faults:
        """Lists the faults in force."""
        return Faults(faults=[self._shown(number) for number in self._faults])

    async def one(self, call: Call) -> Fault:
        """Shows a fault."""
        return self._shown(self._known(call))

    async def order(self, call: Call) -> Fault:
        """Puts a fault into force."""
        if len(self._faults) >= FAULTS_MAX:
            raise ProblemError(
                409,
                "There are too many faults",
                f"{FAULTS_MAX} faults are in force",
                "remove some: DELETE /faults/{id}, or all: DELETE /faults",
            )
        given = _given(call.body)
        kind = call.body.__struct_config__.tag
        fault: OrderedFault = await getattr(self._orders, kind)(**given)
        number = str(next(self._numbers))
        self._faults[number] = (kind, fault)
        return self._shown(number)

    async def remove(self, call: Call) -> Fault:
        """Ends a fault."""
        number = self._known(call)
        shown = self._shown(number)
        fault = self._faults[number][1]
        if fault.is_unused:
            shown.warnings.append(_never_fired(fault))
        await self._end(number)
        return shown

    async def remove_all(self, _: Call) -> Done:
        """Ends all faults, the youngest first."""
        faults = [fault for _, fault in self._faults.values()]
        unused = [_never_fired(fault) for fault in faults if fault.is_unused]
        for number in reversed(list(self._faults)):
            await self._end(number)
        return Done(done=f"{counted(len(faults), 'fault')} removed", warnings=unused)

    async def _end(self, number: str) -> None:
        async with self._turn:
            entry = self._faults.get(number)
            if entry is None:
                return
            await entry[1].remove()
            if (rule := entry[1].rule) is not None:
                self._core.faults.forget(rule)
            self._faults.pop(number, None)

    def unused(self) -> list[str]:
        """Returns the faults to warn of when the cluster ends: those that never fired."""
        return [_never_fired(fault) for _, fault in self._faults.values() if fault.is_unused]

    def forget(self) -> None:
        """Ends all rules at the end of the cluster; brokers that were killed stay so."""
        for _, fault in self._faults.values():
            if fault.rule is not None:
                self._core.faults.forget(fault.rule)
        self._faults.clear()

    def _known(self, call: Call) -> str:
        number = call.path["id"]
        if number not in self._faults:
            raise not_found("fault", number, "GET /faults")
        return number

    def _shown(self, number: str) -> Fault:
        fault = self._faults[number][1]
        return Fault(
            id=number,
            fault=fault.text,
            count=fault.count,
            fired=[_fired(one) for one in fault.fired[:FIRED_SHOWN_MAX]],
            warnings=[] if fault.rule is None or fault.count else self._unfit(fault.rule),
        )

    def _unfit(self, rule: Rule) -> list[str]:
        """Returns warnings for conditions that nothing in the cluster matches now."""
        where = rule.where
        topics, groups = self._core.names()
        found = []
        if where.topic is not None and where.topic not in topics:
            found.append(_nothing("topic", where.topic, topics))
        elif where.queue is not None and where.topic is not None:
            found += self._unfit_queue(where)
        if where.group is not None and where.group not in groups | self._producers():
            found.append(_nothing("group", where.group, groups | self._producers()))
        if where.client is not None and where.client not in self._clients():
            found.append(_nothing("client", where.client, self._clients()))
        if rule.codes is not None and not rule.codes & self._served():
            found.append(f"no server here carries out {where.request}")
        return found

    def _unfit_queue(self, where: Where) -> list[str]:
        configs = (broker.topics.get(where.topic or "") for broker in self._core.brokers())
        queues = max((config.queue_nums_max for config in configs if config), default=0)
        if 0 <= (where.queue or 0) < queues:
            return []
        return [f"topic {where.topic} has {counted(queues, 'queue')}, the first is 0"]

    def _producers(self) -> set[str]:
        return {
            group for broker in self._core.brokers() for group, _ in broker.parts.members.producers
        }

    def _clients(self) -> set[str]:
        found = set()
        for broker in self._core.brokers():
            found |= {c.remote_address for c in broker.server.connections}
            found |= {m.client_id for _, members in broker.parts.members.producers for m in members}
            found |= {
                m.client_id for _, g in broker.parts.members.consumers for m in g.members.values()
            }
        return found

    def _served(self) -> set[int]:
        served = set(self._core.name_server.handlers)
        for broker in self._core.brokers():
            served |= set(broker.handlers)
        return served


def _given(order: msgspec.Struct) -> dict[str, Any]:
    """Returns the fields that an order gives."""
    return {
        one.name: value
        for one in msgspec.structs.fields(order)
        if (value := getattr(order, one.name)) != one.default
    }


def _fired(fired: Any) -> FiredFault:
    return FiredFault(**fired._asdict())


def _nothing(kind: str, name: str, known: Iterable[str]) -> str:
    near = difflib.get_close_matches(name, list(known), 1)
    hint = f"; did you mean {near[0]!r}?" if near else ""
    return f"there is no {kind} {name!r} so far, so the fault fits nothing{hint}"


def _never_fired(fault: OrderedFault) -> str:
    return (
        f"the fault {fault.text} never fired: nothing was asked that fits its conditions; compare "
        "them with what `fired` shows of a fault without conditions"
    )
