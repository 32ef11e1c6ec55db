"""The operations of the control API on the whole cluster: health, reset, addresses, shutdown."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import NamedTuple

import msgspec

from pocketmq.console.web.operations import Call, Operation
from pocketmq.console.web.problems import not_found
from pocketmq.protocol.errors import ContentError, UsageError
from pocketmq.protocol.names.advertise import parse_advertised
from pocketmq.runtime import VERSION
from pocketmq.runtime.text import counted
from pocketmq.testing.control.clients import ControlClients
from pocketmq.testing.control.clock_calls import ClockCalls
from pocketmq.testing.control.fault_calls import FaultCalls
from pocketmq.testing.control.models import AdvertisedRequest, BrokerHealth, Done, Health
from pocketmq.testing.core import Core


def _nothing() -> None:
    """Does nothing: no process has to be told of a stop."""


async def _no_more() -> None:
    """Does nothing: the cluster was started without a seed."""


class Ends(NamedTuple):
    """The calls of the control API to the process that runs the cluster.

    Attributes:
        stop: stops the process.
        begin_again: after a reset, applies the seed that the cluster was started with.
    """

    stop: Callable[[], object] = _nothing
    begin_again: Callable[[], Awaitable[object]] = _no_more


NO_ENDS = Ends()


class ClusterCalls:
    """Carries out operations on the whole cluster.

    Args:
        core: the cluster.
        clock: the cluster's time.
        faults: the faults in force.
        clients: the control API's clients, which ask for routes again after a reset.
        turn: the lock of operations that must not run during a jump.
        ends: the calls to the process that runs the cluster.
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
        """Returns the operations of this family."""
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
        """Answers with the state of the cluster and its brokers."""
        core, paused = self._core, self._faults.paused()
        brokers = []
        for slot in core.slots.values():
            state = "killed" if slot.broker is None else "paused" if slot.name in paused else "up"
            set_state = core.sets.state(slot.set_name)
            in_sync = None if set_state is None else slot.config.broker_id in set_state.in_sync
            brokers.append(
                BrokerHealth(
                    name=slot.name,
                    address=slot.address,
                    state=state,  # type: ignore[arg-type]
                    role=slot.role,  # type: ignore[arg-type]
                    in_sync=in_sync,
                )
            )
        return Health(
            status="up" if all(b.state == "up" for b in brokers) else "degraded",
            version=VERSION,
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
        """Changes the addresses that clients are told of a broker."""
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
        """Stops the process once the request is answered."""
        asyncio.get_running_loop().call_soon(self._ends.stop)
        return Done(done="the cluster stops", warnings=self._faults.unused())
