"""The whole cluster over the control API: its health, its emptying and its end."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from importlib.metadata import version
from typing import NamedTuple

import msgspec

from pocketmq.protocol.errors import ContentError, UsageError
from pocketmq.protocol.names.advertise import parse_advertised
from pocketmq.testing.control.clients import ControlClients
from pocketmq.testing.control.clock_calls import ClockCalls
from pocketmq.testing.control.fault_calls import FaultCalls
from pocketmq.testing.control.models import AdvertisedRequest, BrokerHealth, Done, Health
from pocketmq.testing.control.operations import Call, Operation
from pocketmq.testing.control.problems import not_found
from pocketmq.testing.core import Core
from pocketmq.testing.messages import counted


def _nothing() -> None:
    """Nobody is to be told."""


async def _no_more() -> None:
    """The cluster was started with nothing else."""


class Ends(NamedTuple):
    """What the process of a cluster does for its control API.

    Attributes:
        stop: has the process stop.
        begin_again: after a reset, brings back what the cluster was started with, besides the
            topics and groups of its settings.
    """

    stop: Callable[[], object] = _nothing
    begin_again: Callable[[], Awaitable[object]] = _no_more


class ClusterCalls:
    """The cluster as one.

    Args:
        core: the cluster.
        clock: its time.
        faults: what is in force.
        clients: are told that topics have changed.
        turn: of what must not happen during a jump.
        ends: what the process does when it is asked to begin anew or to stop.
    """

    def __init__(
        self,
        core: Core,
        clock: ClockCalls,
        faults: FaultCalls,
        clients: ControlClients,
        turn: asyncio.Lock,
        ends: Ends,
    ) -> None:
        self._core, self._clock, self._faults = core, clock, faults
        self._clients, self._turn, self._ends = clients, turn, ends

    def operations(self) -> list[Operation]:
        """What can be asked."""
        return [
            Operation(
                "GET", "/health", "health", "Whether the cluster answers, and where.",
                self.health, Health,
            ),
            Operation(
                "POST", "/reset", "reset",
                "Remove all faults, topics, groups and messages; brokers keep their addresses, and "
                "what the cluster was started with is there again.",
                self.reset, Done,
            ),
            Operation(
                "PUT", "/brokers/{broker}/advertised", "advertise",
                "Change which address of a broker clients are told, as for ports that were mapped "
                "when the container ran already.",
                self.advertise, Done, body=AdvertisedRequest,
            ),
            Operation(
                "POST", "/shutdown", "shutdown", "Stop the cluster.",
                self.shutdown, Done, status=202,
            ),
        ]  # fmt: skip

    async def health(self, _: Call) -> Health:
        """Tells how it is."""
        core, paused = self._core, self._faults.paused()
        brokers = []
        for slot in core.slots.values():
            state = "killed" if slot.broker is None else "paused" if slot.name in paused else "up"
            brokers.append(BrokerHealth(name=slot.name, address=slot.address, state=state))  # type: ignore[arg-type]
        return Health(
            status="up" if all(b.state == "up" for b in brokers) else "degraded",
            version=version("pocketmq"),
            namesrv=core.namesrv,
            brokers=brokers,
            clock=self._clock.now(),
            faults=len(self._faults),
        )

    async def reset(self, call: Call) -> Done:
        """Empties the cluster."""
        async with self._turn:
            removed = await self._faults.remove_all(call)
            await self._core.begin_anew()
            await self._clients.renew()
            await self._ends.begin_again()
        return Done(done="the cluster is as it was started", warnings=removed.warnings)

    async def advertise(self, call: Call) -> Done:
        """Changes what clients are told."""
        request = call.body
        assert isinstance(request, AdvertisedRequest)
        slot = self._core.slots.get(call.path["broker"])
        if slot is None:
            raise not_found("broker", call.path["broker"], "GET /health")
        try:
            parse_advertised(msgspec.json.encode(request.rules).decode())
        except ContentError as e:
            raise UsageError(str(e)) from e
        await slot.advertise(request.rules)
        return Done(
            done=f"callers are told of {slot.name} by {counted(len(request.rules), 'rule')}"
        )

    async def shutdown(self, _: Call) -> Done:
        """Has the process stop, once this is answered."""
        asyncio.get_running_loop().call_soon(self._ends.stop)
        return Done(done="the cluster stops", warnings=self._faults.unused())
