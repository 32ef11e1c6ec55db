"""A broker in a process of its own that measures how much work each turn of its loop does.

    python measured_broker.py DIRECTORY work|calls

Prints its address as a line of JSON. A line `begin` on its standard input begins a measurement, a
line `end` ends it and has the longest turn printed; the end of its input ends the broker.

With `work` a turn is measured in CPU time of the loop's thread: what other processes do counts
little. With `calls` it is measured in calls of functions, Python's and C's, which depend on
neither the machine nor on what else it does. The loop then runs several times slower.
"""

from __future__ import annotations

import asyncio
import json
import logging
import sys
import time
from abc import ABC, abstractmethod
from types import FrameType
from typing import Any

from pocketmq.broker import Broker, BrokerConfig
from pocketmq.runtime.process import run_server, spare_what_stays

TICK_S = 0.001
"""Turns that end within one tick are measured together: so much too long at the most."""

CALIBRATION_ROUNDS = 30


class TurnMeter(ABC):
    """Finds the longest turn between `begin` and `end`.

    Attributes:
        longest: the work of that turn, in the meter's unit.
    """

    def __init__(self) -> None:
        self.longest = 0.0
        self._before = 0.0
        self._next: asyncio.Handle | None = None

    def begin(self) -> None:
        """Begins with the next turn."""
        self.longest, self._before = 0.0, self._done()
        self._arm()

    def end(self) -> None:
        """Ends with this turn."""
        if self._next is not None:
            self._next.cancel()

    def _tick(self) -> None:
        done = self._done()
        self.longest = max(self.longest, done - self._before)
        self._before = self._done()
        self._arm()

    @abstractmethod
    def _done(self) -> float:
        """The work that the loop's thread has done so far."""

    @abstractmethod
    def _arm(self) -> None:
        """Has `_tick` called in another turn."""


class WorkMeter(TurnMeter):
    """Measures in milliseconds of CPU time; wakes an idle loop only once a tick."""

    def _done(self) -> float:
        return time.thread_time() * 1000

    def _arm(self) -> None:
        self._next = asyncio.get_running_loop().call_later(TICK_S, self._tick)


class CallMeter(TurnMeter):
    """Measures in calls of functions; looks at every turn, and so never lets the loop rest."""

    def __init__(self) -> None:
        super().__init__()
        self._calls = 0

    def begin(self) -> None:
        """Begins with the next turn."""
        super().begin()
        sys.setprofile(self._count)

    def end(self) -> None:
        """Ends with this turn."""
        sys.setprofile(None)
        super().end()

    def _count(self, frame: FrameType, event: str, argument: Any) -> None:
        if event in ("call", "c_call"):
            self._calls += 1

    def _done(self) -> float:
        return self._calls

    def _arm(self) -> None:
        self._next = asyncio.get_running_loop().call_soon(self._tick)


def calibration_ms() -> float:
    """CPU time of a fixed piece of work of a broker's kind: the machine's speed right now."""
    text = json.dumps({str(n): [n, str(n) * 3] for n in range(500)})
    best = float("inf")
    for _ in range(CALIBRATION_ROUNDS):
        begun = time.thread_time()
        total = 0
        for key, (number, digits) in json.loads(text).items():
            total += len(key) + number + digits.count("1")
        best = min(best, time.thread_time() - begun)
    return best * 1000


def tell(figures: dict[str, object]) -> None:
    """Writes a line of JSON to standard output."""
    sys.stdout.write(json.dumps(figures) + "\n")
    sys.stdout.flush()


async def serve(directory: str, meter: TurnMeter) -> None:
    """Runs the broker until standard input ends."""
    loop, commands = asyncio.get_running_loop(), asyncio.StreamReader()
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(commands), sys.stdin)
    config = BrokerConfig(
        listen_port=0,
        grpc_server_port=0,
        bind_address="127.0.0.1",
        store_path_root_dir=directory,
        disk_space_free_min=0,  # however full the disk of the tests is
    )
    async with Broker(config) as broker:
        spare_what_stays()
        tell(
            {
                "address": broker.address,
                "grpc_port": broker.grpc_port,
                "calibration_ms": calibration_ms(),
            }
        )
        while line := await commands.readline():
            if line == b"begin\n":
                meter.begin()
            else:
                meter.end()
            tell({"longest": meter.longest})


if __name__ == "__main__":
    logging.basicConfig(level=logging.WARNING)
    run_server(serve(sys.argv[1], CallMeter() if sys.argv[2] == "calls" else WorkMeter()))
