"""The broker sets of a cluster: which member leads, who is in sync, and the start of all."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping

from pocketmq.broker.replication.arbiter import state_key
from pocketmq.broker.replication.set_state import SetState, decode_state
from pocketmq.namesrv import NameServer
from pocketmq.protocol.errors import OperatingError, UsageError
from pocketmq.runtime.clock import Clock
from pocketmq.runtime.tasks import all_ended
from pocketmq.testing.brokers.broker_slot import BrokerSlot

log = logging.getLogger("pocketmq.testing")

LOOK_PERIOD_S = 0.002
"""Period of checking whether a set is complete."""

START_TIMEOUT_S = 30.0
"""Real time in which a set gets a leader at the start of the cluster."""

IN_SYNC_TIMEOUT_S = 10.0
"""Real time that is waited for members to be in sync, when the fault that held them has ended."""


class BrokerSets:
    """The members of all sets.

    Args:
        slots: the members by name.
        name_server: has the arbiter.
        machine: real time.
    """

    def __init__(
        self, slots: Mapping[str, BrokerSlot], name_server: NameServer, machine: Clock
    ) -> None:
        self._slots, self._name_server, self._machine = slots, name_server, machine

    def members(self, set_name: str) -> list[BrokerSlot]:
        """The members of a set, in the order of their ids."""
        return [slot for slot in self._slots.values() if slot.set_name == set_name]

    def state(self, set_name: str) -> SetState | None:
        """What the arbiter has of a set; None before it is founded, and without sets."""
        arbiter = self._name_server.arbiter
        slots = self.members(set_name)
        if arbiter is None or not slots:
            return None
        value, version = arbiter.read(state_key(slots[0].config.broker_cluster_name, set_name))
        return decode_state(value) if version else None

    def leader(self, set_name: str) -> BrokerSlot:
        """The member that leads a set.

        Raises:
            UsageError: none leads at this moment.
        """
        members = self.members(set_name)
        for slot in members:
            if slot.is_serving:
                return slot
        names = ", ".join(slot.name for slot in members)
        raise UsageError(f"no member of {set_name} leads at this moment; name one: {names}")

    async def start(self) -> None:
        """Starts all members; returns when each set has a leader and all are in sync.

        Raises:
            CannotListenError, DirectoryInUseError: a port or a data directory is in use.
            OperatingError: nobody leads.
        """
        founders = {slot.set_name: slot for slot in reversed([*self._slots.values()])}
        await all_ended(*(slot.start() for slot in founders.values()))
        for name in founders:
            await self._until(
                lambda name=name: self.state(name) is not None,  # type: ignore[misc]
                START_TIMEOUT_S,
                f"{name} has no leader",
            )
        await all_ended(*(slot.start() for slot in self._slots.values()))
        for name in founders:
            await self._until(
                lambda name=name: self.is_whole(name),  # type: ignore[misc]
                START_TIMEOUT_S,
                f"{name} is not complete",
            )

    def is_whole(self, set_name: str) -> bool:
        """Whether a set has a leader that clients find, and all members that run are in sync."""
        state, members = self.state(set_name), self.members(set_name)
        data = self._name_server.routes.cluster_info().broker_addr_table.get(set_name)
        leaders = [slot for slot in members if slot.is_serving]
        running = {slot.config.broker_id for slot in members if slot.broker is not None}
        return (
            state is not None
            and data is not None
            and len(leaders) == 1
            and data.broker_addrs.get(0) == leaders[0].address
            and state.leader_id == leaders[0].config.broker_id
            and running <= set(state.in_sync)
        )

    async def until_whole(self, set_name: str) -> None:
        """Waits until a set is whole again, if nothing else is in its way; else says so."""
        try:
            await self._until(
                lambda: self.is_whole(set_name), IN_SYNC_TIMEOUT_S, f"{set_name} is not complete"
            )
        except OperatingError as e:
            log.warning("%s", e)

    async def _until(self, is_so: Callable[[], bool], timeout_s: float, or_else: str) -> None:
        end_s = self._machine.stopwatch() + timeout_s
        while not is_so():
            if self._machine.stopwatch() > end_s:
                raise OperatingError(f"{or_else} after {timeout_s:g} s")
            await self._machine.sleep(LOOK_PERIOD_S)
