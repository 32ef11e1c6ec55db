"""The faults of a run, one after the other, as a seed decides."""

from __future__ import annotations

import random
import shutil
from collections.abc import Awaitable, Callable, Sequence
from typing import NamedTuple

from support.failover.clocks import WrongClock
from support.failover.machines import ArbiterMachine, Machine, Member
from support.failover.world import World

from pocketmq.broker.replication.set_state import SetState
from pocketmq.client import Admin
from pocketmq.protocol.errors import PocketMQError
from pocketmq.runtime.clock import SystemClock, within

PAUSE_S_MAX = 4.0
"""Between two faults: a new leader is found before, or not."""

CLOCK_STEP_S_MAX = 3600.0
STOP_S_MAX = 20.0

Told = Callable[[str], object]


class Fault(NamedTuple):
    """One kind of fault.

    Attributes:
        weight: how often it is chosen, beside the others.
        strike: does it, and returns a sentence about it; None if it makes no sense now.
    """

    weight: int
    strike: Callable[[], Awaitable[str | None]]


class Faults:
    """Disturbs the machines of a broker set.

    Args:
        world: of the machines.
        members, arbiter: the machines.
        clocks: of the members that may be wrong, by name.
        leader: returns the name of the member that leads now, if that is known.
        read_state: asks the arbiter for the state of the set; None if it does not answer.
        lease_s: of the leader.
        chance: decides.
        told: gets a sentence about each fault.
    """

    def __init__(
        self,
        world: World,
        members: Sequence[Member],
        arbiter: ArbiterMachine,
        clocks: dict[str, WrongClock],
        leader: Callable[[], str | None],
        read_state: Callable[[], Awaitable[SetState | None]],
        lease_s: float,
        chance: random.Random,
        told: Told,
    ) -> None:
        self._world, self._members, self._arbiter = world, members, arbiter
        self._clocks, self._leader, self._lease_s = clocks, leader, lease_s
        self._read_state, self._is_replaced = read_state, False
        self._chance, self._told = chance, told
        self._clock = SystemClock()
        self._faults = [
            Fault(4, self._kill), Fault(4, self._start), Fault(4, self._pause),
            Fault(2, self._lose_machine), Fault(2, self._replace), Fault(2, self._stop),
            Fault(2, self._switch),
            Fault(2, self._resume), Fault(4, self._cut), Fault(3, self._isolate),
            Fault(2, self._unplug), Fault(3, self._mend), Fault(2, self._fill),
            Fault(2, self._free), Fault(2 if clocks else 0, self._step_clock),
            Fault(1, self._kill_arbiter), Fault(1, self._pause_arbiter),
        ]  # fmt: skip

    async def play(self, count: int) -> None:
        """Does so many faults."""
        for _ in range(count):
            await self._clock.sleep(self._chance.random() * PAUSE_S_MAX)
            said = None
            while said is None:  # something that can be done now
                weights = [fault.weight for fault in self._faults]
                (fault,) = self._chance.choices(self._faults, weights)
                said = await fault.strike()
            self._told(said)

    def heal(self) -> None:
        """Ends all faults."""
        self._world.mend()
        for member in self._members:
            member.disk.free()
            if member.name in self._clocks:
                self._clocks[member.name].step(0)
        for machine in (self._arbiter, *self._members):
            machine.resume()
            if not machine.is_running:
                machine.start()
        self._told("everything is healed")

    def _one(self) -> Member:
        """A member; the leader as often as all others together."""
        leading = self._leader()
        for member in self._members:
            if member.name == leading and self._chance.random() < 0.5:
                return member
        return self._chance.choice(self._members)

    # -- processes ----------------------------------------------------------------------------

    async def _kill(self) -> str | None:
        member = self._one()
        if not member.is_running:
            return None
        member.kill()
        if self._chance.random() < 0.4:
            member.start()
            return f"{member.name} is killed and started at once"
        return f"{member.name} is killed"

    async def _lose_machine(self) -> str | None:
        """Ends a process whose connections nobody ends: the others do not learn of it."""
        member = self._one()
        if not member.is_running:
            return None
        self._world.unplug(member.name)
        member.kill()
        return f"the machine of {member.name} is gone"

    async def _replace(self) -> str | None:
        """Starts a member with an empty directory, once, if another one has all messages."""
        member = self._one()
        if self._is_replaced or not member.is_running:
            return None
        member.kill()
        state = await self._read_state()
        others = () if state is None else set(state.in_sync) - {member.member_id}
        if not any(m.member_id in others and m.is_running for m in self._members):
            return f"{member.name} is killed"
        self._is_replaced = True
        shutil.rmtree(member.store_directory)
        member.start()
        return f"{member.name} is started with an empty directory"

    async def _stop(self) -> str | None:
        """Stops a member as an operator does: one that leads hands over."""
        member = self._one()
        if member.is_paused or not member.is_running:
            return None
        begun_s = self._clock.monotonic()
        try:
            await within(self._clock, STOP_S_MAX, member.stop())
        except TimeoutError:
            member.kill()
            return f"{member.name} did not stop in {STOP_S_MAX:.0f} s and is killed"
        took_s = self._clock.monotonic() - begun_s
        if self._chance.random() < 0.5:
            member.start()
            return f"{member.name} has stopped in {took_s:.1f} s and is started again"
        return f"{member.name} has stopped in {took_s:.1f} s"

    async def _switch(self) -> str | None:
        leading = next((m for m in self._members if m.name == self._leader()), None)
        if leading is None:
            return None
        try:
            async with Admin(self._arbiter.address) as admin:
                await admin.switch_leader(leading.address)
        except PocketMQError as e:
            return f"{leading.name} does not hand over: {e}"
        return f"{leading.name} has handed over"

    async def _start(self) -> str | None:
        for machine in (self._arbiter, *self._members):
            if not machine.is_running:
                machine.start()
                return f"{machine.name} is started"
        return None

    async def _pause(self) -> str | None:
        return await self._stop_for_a_while(self._one())

    async def _stop_for_a_while(self, machine: Machine) -> str | None:
        if machine.is_paused or not machine.is_running:
            return None
        machine.pause()
        if self._chance.random() < 0.3:
            return f"{machine.name} is stopped"
        seconds = self._chance.choice((0.5, 0.9, 1.1, 1.5)) * self._lease_s
        await self._clock.sleep(seconds)
        machine.resume()
        return f"{machine.name} was stopped for {seconds:.1f} s"

    async def _resume(self) -> str | None:
        for machine in (self._arbiter, *self._members):
            if machine.is_paused:
                machine.resume()
                return f"{machine.name} goes on"
        return None

    async def _kill_arbiter(self) -> str | None:
        if not self._arbiter.is_running:
            return None
        self._arbiter.kill()
        if self._chance.random() < 0.5:
            self._arbiter.start()
            return "the arbiter is killed and started at once"
        return "the arbiter is killed"

    async def _pause_arbiter(self) -> str | None:
        return await self._stop_for_a_while(self._arbiter)

    # -- links --------------------------------------------------------------------------------

    async def _cut(self) -> str | None:
        names = [self._arbiter.name, *(member.name for member in self._members)]
        one, other = self._chance.sample(names, 2)
        self._world.cut(one, other)
        if self._chance.random() < 0.6:
            self._world.cut(other, one)
            return f"{one} and {other} are cut off from each other"
        return f"what {one} sends to {other} is lost"

    async def _isolate(self) -> str | None:
        """Cuts a member off from all servers, not from clients."""
        member = self._one()
        is_deaf, is_dumb = self._chance.choice(((True, True), (True, False), (False, True)))
        for other in (self._arbiter, *self._members):
            if other is not member:
                if is_dumb:
                    self._world.cut(member.name, other.name)
                if is_deaf:
                    self._world.cut(other.name, member.name)
        how = "hears and is heard by" if is_deaf and is_dumb else "hears" if is_deaf else "reaches"
        return f"{member.name} {how} clients only"

    async def _unplug(self) -> str | None:
        member = self._one()
        self._world.unplug(member.name)
        return f"{member.name} is off the network"

    async def _mend(self) -> str | None:
        self._world.mend()
        return "all links are mended"

    # -- disks and clocks ---------------------------------------------------------------------

    async def _fill(self) -> str | None:
        member = self._one()
        left = self._chance.choice((0, 4096, 64 * 1024))
        member.disk.fill(left)
        return f"the disk of {member.name} is full"

    async def _free(self) -> str | None:
        for member in self._members:
            member.disk.free()
        return "all disks have room"

    async def _step_clock(self) -> str | None:
        name = self._chance.choice(sorted(self._clocks))
        seconds = self._chance.uniform(-CLOCK_STEP_S_MAX, CLOCK_STEP_S_MAX)
        self._clocks[name].step(seconds)
        return f"the clock of {name} is set {seconds:+.0f} s"
