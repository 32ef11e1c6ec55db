"""Runs broker sets: each member has a process, which is started again when it dies."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AsyncExitStack

from pocketmq.broker.replication.set_state import SetState
from pocketmq.cli.output import note
from pocketmq.cli.servers.broker_processes import BrokerProcess
from pocketmq.protocol.errors import OperatingError
from pocketmq.runtime.clock import Clock, SystemClock, within
from pocketmq.runtime.tasks import Tasks, all_ended

LOOK_PERIOD_S = 0.01
"""How often it is looked whether a set is complete."""

LEADER_TIMEOUT_S = 30.0
"""In this time a set has a leader, or the cluster does not start."""

IN_SYNC_TIMEOUT_S = 10.0
"""Members that need longer catch up while the cluster serves."""

RESTART_PAUSE_S, RESTART_PAUSE_S_MAX = 2.0, 60.0
"""Before a member that died is started again; twice as long each time that it does not start."""


class RunningSet:
    """One broker set.

    Args:
        name: its brokerName.
        members: of it; the first one founds the set if it is new.
        state: what the arbiter has of it; None if nothing.
        is_served: whether its leader is registered.

    Attributes:
        name, members: the same.
    """

    def __init__(
        self,
        name: str,
        members: Sequence[BrokerProcess],
        state: Callable[[], SetState | None],
        is_served: Callable[[], bool],
    ) -> None:
        self.name, self.members = name, tuple(members)
        self._state, self._is_served = state, is_served

    async def start(self, tasks: Tasks, clock: Clock) -> None:
        """Starts all members; returns when a leader serves, and the others are in sync.

        Args:
            tasks: start members again that die.
            clock: for waiting.

        Raises:
            OperatingError: a member does not start, or none leads.
        """
        founder, *others = self.members
        await founder.start()
        # Whoever comes first founds a new set: that has to be the member with the data.
        await self._until(clock, lambda: self._state() is not None)
        await all_ended(*(member.start() for member in others))
        await self._until(clock, self._is_served)
        try:
            await within(clock, IN_SYNC_TIMEOUT_S, _until(clock, lambda: not self.late))
        except TimeoutError:
            note(f"{', '.join(self.late)} not in sync yet: senders do not wait for a copy there")
        for member in self.members:
            tasks.spawn(_keep(member, clock), f"keep {member.name}")

    @property
    def late(self) -> list[str]:
        """The members that are not in sync."""
        state = self._state()
        in_sync = () if state is None else state.in_sync
        return [m.name for number, m in enumerate(self.members, 1) if number not in in_sync]

    async def _until(self, clock: Clock, is_so: Callable[[], bool]) -> None:
        try:
            await within(clock, LEADER_TIMEOUT_S, _until(clock, is_so))
        except TimeoutError:
            raise OperatingError(
                f"no member of {self.name} leads after {LEADER_TIMEOUT_S:.0f} s: what they say is "
                f"above, and docs/replication.md tells what helps"
            ) from None


async def start_sets(stack: AsyncExitStack, sets: Sequence[RunningSet]) -> None:
    """Starts broker sets side by side.

    Args:
        stack: stops them; followers first, so that no leader hands over in vain.
        sets: all of them.

    Raises:
        OperatingError: one of them does not start.
    """
    clock, tasks = SystemClock(), Tasks()
    for one in sets:
        for member in one.members:
            stack.push_async_callback(member.stop)
    stack.push_async_callback(tasks.close)
    await all_ended(*(one.start(tasks, clock) for one in sets))
    numbers = ", ".join(f"{m.name} {m.pid}" for one in sets for m in one.members)
    note(f"processes: {numbers}")


async def _until(clock: Clock, is_so: Callable[[], bool]) -> None:
    while not is_so():
        await clock.sleep(LOOK_PERIOD_S)


async def _keep(member: BrokerProcess, clock: Clock) -> None:
    """Starts a member again whenever it dies, until it ends cleanly."""
    pause_s = RESTART_PAUSE_S
    while code := await member.wait():
        note(f"{member.name} ended (exit code {code}); it is started again in {pause_s:g} s")
        await clock.sleep(pause_s)
        try:
            await member.start()
        except OperatingError as e:
            note(str(e))
            pause_s = min(2 * pause_s, RESTART_PAUSE_S_MAX)
        else:
            note(f"{member.name} is process {member.pid} now")
            pause_s = RESTART_PAUSE_S
