"""Several processes in one: their loops take turns, their time and network are simulated.

Each process has an event loop of its own, so that it can be killed or stopped as a whole. The world
chooses which loop makes its next step, and when none can, time moves to the next timer or to the
next bytes that arrive. One seed decides everything.
"""

from __future__ import annotations

import asyncio
import contextlib
import heapq
import itertools
import random
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

from support.crash.memory_parts import FIRST_PORT, Listening, PipeEnd, TurnsLoop

from pocketmq.testing.clock import START_MS, Alarm, VirtualClock

T = TypeVar("T")

STEPS_MAX = 400_000
LAST_CANCELS, LAST_STEPS = 3, 200


class SimulatedLoop(TurnsLoop):
    """The loop of one process: what would be a socket or a thread is the world's."""

    def __init__(self, process: Process) -> None:
        super().__init__(process.world.chance)
        self._process = process

    def step(self) -> None:
        """Runs what can run, once."""
        asyncio._set_running_loop(self)
        try:
            self._run_once()  # type: ignore[attr-defined]
        finally:
            asyncio._set_running_loop(None)

    async def create_server(self, factory: Any, *args: Any, **_: Any) -> Any:  # type: ignore[override]
        if self._process.is_killed:
            raise OSError(9, "the process was killed")
        return self._process.world.network.listen(self._process, factory, args[1])

    def create_connection(self, factory: Any, *args: Any, **_: Any) -> Any:  # type: ignore[override]
        if self._process.is_killed:
            raise ConnectionRefusedError("the process was killed")
        return self._process.world.network.connect(self._process, factory, args[1])


class ProcessClock(VirtualClock):
    """The world's time, whose timers fire in the loop of one process.

    Attributes:
        ahead_ms: how much the process's wall clock is ahead of the others'.
    """

    def __init__(self, process: Process) -> None:
        super().__init__()
        self._process = process
        self.ahead_ms = 0

    def now_ms(self) -> int:
        return START_MS + round(self._process.world.now_s * 1000) + self.ahead_ms

    def monotonic(self) -> float:
        return self._process.world.now_s

    def call_later(
        self, seconds: float, callback: Callable[..., object], *args: Any
    ) -> Alarm[float]:
        process, alarm = self._process, Alarm(self.monotonic() + max(0.0, seconds), callback, args)
        if seconds <= 0 or process.is_killed:  # what is cancelled is over at once
            process.loop.call_soon(alarm.fire)
        else:
            process.world.at(alarm.due, lambda: process.soon(alarm.fire))
        return alarm

    @property
    def machine(self) -> ProcessClock:
        return self


class Process:
    """A process: its loop and clock.

    Attributes:
        name: for messages.
        is_stopped: whether it makes no steps (SIGSTOP).
        is_killed: whether it is gone.
    """

    def __init__(self, world: World, name: str) -> None:
        self.world, self.name = world, name
        self.loop = SimulatedLoop(self)
        self.clock = ProcessClock(self)
        self.is_stopped = self.is_killed = False

    def soon(self, callback: Callable[[], object]) -> None:
        """Has something called in the process, unless the process is gone."""
        if not self.is_killed:
            self.loop.call_soon(callback)

    def run_in(self, function: Callable[..., object], *args: object) -> None:
        """Calls something as if the process's loop did."""
        asyncio._set_running_loop(self.loop)
        try:
            function(*args)
        finally:
            asyncio._set_running_loop(None)

    def start(self, coroutine: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
        """Runs something in the process."""
        return self.loop.create_task(coroutine)

    def kill(self, *, with_machine: bool = False) -> None:
        """Ends the process: its connections end, nothing of it runs any more.

        When its machine goes, too, nobody is told that the connections have ended, and what was
        on its way is lost.
        """
        self.is_killed = True
        self.loop.set_exception_handler(lambda *_: None)
        self.world.network.killed(self, is_told=not with_machine)
        self.world.processes.remove(self)
        for _ in range(LAST_CANCELS):
            tasks = asyncio.all_tasks(self.loop)
            for task in tasks:
                task._log_destroy_pending = False  # type: ignore[attr-defined]
                task.add_done_callback(_ignore)
                task.cancel()
            for _ in range(LAST_STEPS):
                if self.loop.is_idle:
                    break
                self.loop.step()
        for task in asyncio.all_tasks(self.loop):
            with contextlib.suppress(Exception):  # it fails because it goes on, though it is dead
                task.get_coro().close()
        self.loop.close()


def _ignore(task: asyncio.Task[Any]) -> None:
    if not task.cancelled():
        task.exception()


class World:
    """All processes, the time and the network.

    Args:
        seed: decides everything.

    Attributes:
        chance: the choices.
        now_s: seconds since the beginning.
        on_step: called after each step of a process.
    """

    def __init__(self, seed: int) -> None:
        self.chance = random.Random(seed)
        self.now_s = 0.0
        self.processes: list[Process] = []
        self.network = Network(self)
        self.on_step: Callable[[], object] = lambda: None
        self._events: list[tuple[float, int, Callable[[], object]]] = []
        self._sequence = itertools.count()
        self.steps = 0

    def process(self, name: str) -> Process:
        """Starts a process."""
        process = Process(self, name)
        self.processes.append(process)
        return process

    def at(self, when_s: float, callback: Callable[[], object]) -> None:
        """Has something happen at a time."""
        heapq.heappush(self._events, (when_s, next(self._sequence), callback))

    def run_until(self, is_over: Callable[[], bool], limit_s: float = 600.0) -> None:
        """Lets the processes run until something holds."""
        end_s = self.now_s + limit_s
        while not is_over():
            assert self.now_s < end_s, f"it does not come in {limit_s} s"
            assert self.steps < STEPS_MAX, "too many steps"
            self._step()

    def run_for(self, seconds: float) -> None:
        """Lets so much time pass."""
        end_s = self.now_s + seconds
        self.at(end_s, lambda: None)
        self.run_until(lambda: self.now_s >= end_s, seconds + 1)

    def run(self, process: Process, coroutine: Coroutine[Any, Any, T]) -> T:
        """Runs something in a process to its end."""
        task = process.start(coroutine)
        self.run_until(task.done)
        return task.result()

    def _step(self) -> None:
        ready = [p for p in self.processes if not p.is_stopped and not p.loop.is_idle]
        if ready:
            self.steps += 1
            self.chance.choice(ready).loop.step()
            self.on_step()
            return
        assert self._events, "nothing will ever happen"
        self.now_s = max(self.now_s, self._events[0][0])
        while self._events and self._events[0][0] <= self.now_s:
            heapq.heappop(self._events)[2]()


class Network:
    """Connections between processes: bytes take their time, links are cut and healed.

    Attributes:
        cut: (from, to) names between which nothing arrives.
        delay_s: the longest time that bytes take.
    """

    def __init__(self, world: World) -> None:
        self._world = world
        self.listening: dict[int, tuple[Process, Callable[[], asyncio.Protocol]]] = {}
        self.pipes: list[Pipe] = []
        self.cut: set[tuple[str, str]] = set()
        self.delay_s = 0.002
        self._port = FIRST_PORT
        self._owners: dict[int, Process] = {}
        self._gone: set[Process] = set()

    def listen(self, process: Process, factory: Callable[[], asyncio.Protocol], port: int) -> Any:
        if not port:
            self._port += 1
            port = self._port
        if port in self.listening:
            raise OSError(98, "Address already in use")
        self.listening[port] = (process, factory)
        self._owners[port] = process
        return Listening(self.listening, port)

    def reaches(self, one: Process, other: Process) -> bool:
        """Whether bytes of one process arrive at another, or at what is left of its machine."""
        return (one.name, other.name) not in self.cut and other not in self._gone

    async def connect(self, process: Process, factory: Any, port: int) -> Any:
        await process.clock.sleep(self._delay())
        owner = self._owners.get(port)
        if owner is not None and not (
            self.reaches(process, owner) and self.reaches(owner, process)
        ):
            await asyncio.get_running_loop().create_future()  # nobody answers
        found = self.listening.get(port)
        if found is None:
            raise ConnectionRefusedError(111, "Connection refused")
        server, accept = found
        near, far = Pipe(self, process), Pipe(self, server)
        near.protocol = factory()
        near.peer, far.peer = far, near
        self.pipes += [near, far]

        def accepted() -> None:
            far.protocol = accept()
            far.protocol.connection_made(far)

        server.soon(accepted)
        near.protocol.connection_made(near)
        return near, near.protocol

    def _delay(self) -> float:
        return self._world.chance.random() * self.delay_s

    def deliver(self, pipe: Pipe, data: bytes | None) -> None:
        """Brings bytes to the peer of a pipe, or its end (None), behind all that went before."""
        world, target = self._world, pipe.peer
        pipe.arrives_s = max(pipe.arrives_s, world.now_s + self._delay())

        def arrive() -> None:
            if pipe.process in self._gone:
                return  # nobody sends it again
            if not self.reaches(pipe.process, target.process):
                world.at(world.now_s + 0.2, arrive)  # it is sent again
            elif pipe.queue:
                part = pipe.queue.pop(0)
                target.process.soon(lambda: target.take(part))

        pipe.queue.append(data)
        world.at(pipe.arrives_s, arrive)

    def killed(self, process: Process, *, is_told: bool) -> None:
        """Ends the connections of a process that is gone; its machine, too, if nobody is told."""
        if not is_told:
            self._gone.add(process)
        for port, (owner, _) in list(self.listening.items()):
            if owner is process:
                del self.listening[port]
        for pipe in [p for p in self.pipes if p.process is process]:
            pipe.is_closed = True
            self.pipes.remove(pipe)
            if is_told:
                self.deliver(pipe, None)
            else:
                pipe.queue.clear()


class Pipe(PipeEnd):
    """One end of a connection."""

    protocol: asyncio.Protocol

    def __init__(self, network: Network, process: Process) -> None:
        super().__init__()
        self._network, self.process = network, process
        self.peer: Pipe = self
        self.queue: list[bytes | None] = []
        self.arrives_s = 0.0

    def write(self, data: Any) -> None:
        if not self.is_closed:
            self._network.deliver(self, bytes(data))

    def take(self, data: bytes | None) -> None:
        """Takes what has arrived."""
        if self.is_closed:
            return
        if data is None:
            self._end()
        else:
            self.protocol.data_received(data)

    def _end(self) -> None:
        self.is_closed = True
        if self in self._network.pipes:
            self._network.pipes.remove(self)
        self.protocol.connection_lost(None)

    def close(self) -> None:
        if not self.is_closed:
            self.is_closed = True
            self._network.deliver(self, None)
            if self in self._network.pipes:
                self._network.pipes.remove(self)
            self.process.soon(lambda: self.protocol.connection_lost(None))

    abort = close
