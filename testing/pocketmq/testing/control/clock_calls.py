"""The operations of the control API that read the clock and set it forward."""

from __future__ import annotations

import asyncio

from pocketmq.console.web.operations import Call, Operation
from pocketmq.console.web.problems import ProblemError
from pocketmq.protocol.errors import UsageError
from pocketmq.protocol.names.names import dlq_topic
from pocketmq.testing.cluster_clock import Steps, in_seconds
from pocketmq.testing.control.jumps import Jump, came_since, ends, to_next
from pocketmq.testing.control.message_calls import did_not_come
from pocketmq.testing.control.models import AdvanceRequest, ClockInfo, Until
from pocketmq.testing.core import Core
from pocketmq.testing.inspection.inspection import Inspection

ADVANCE_MAX_S = 366 * 86_400
"""The longest jump: what is longer is a slip of the pen."""


class ClockCalls:
    """Reads and advances the cluster's time.

    Args:
        core: the cluster.
        inspection: reads the messages that a jump waits for.
        turn: the lock of operations that must not run during a jump.
    """

    def __init__(self, core: Core, inspection: Inspection, turn: asyncio.Lock) -> None:
        self._core, self._inspection, self._turn = core, inspection, turn

    def operations(self) -> list[Operation]:
        """Returns the operations of this family."""
        return [
            Operation("GET", "/clock", "getClock", "The cluster's time.", self.read, ClockInfo),
            Operation(
                "POST", "/clock/advance", "advanceClock",
                "Set the clock forward: delays, timers, retries, transaction checks, order locks "
                "and retention come at their own moments, in order, and are done on return.",
                self.advance, ClockInfo, body=AdvanceRequest,
            ),
            Operation(
                "POST", "/clock/next", "advanceClockToNext",
                "Set the clock forward to the next moment at which a waiting message is due, a "
                "retry among them, or a transaction is checked; tells what came.",
                self.to_next, Jump,
            ),
        ]  # fmt: skip

    async def read(self, _: Call) -> ClockInfo:
        """Answers with the time."""
        return self.now()

    def now(self) -> ClockInfo:
        """Returns the time and the number of messages that wait."""
        core, mode = self._core, self._core.settings.clock
        assert mode in ("offset", "virtual", "system")
        now_ms = core.clock.now_ms()
        return ClockInfo(
            mode=mode,  # type: ignore[arg-type]
            now_ms=now_ms,
            ahead_ms=now_ms - core.machine.now_ms(),
            waiting=core.waiting(),
        )

    async def to_next(self, _: Call) -> Jump:
        """Sets the clock forward to what is due next."""
        self._check_movable()
        core, before_ms, before = self._core, self._core.clock.now_ms(), ends(self._core)
        async with self._turn:
            waited = core.waiting()
            if await to_next(core) is None:
                raise ProblemError(
                    409,
                    "Nothing waits for its time",
                    "no message waits for its time, and no transaction is open",
                    "send one with a delay, or set the clock forward by a time of your choice",
                )
        return self._jump(before_ms, before, waited)

    async def jump(self, call: Call) -> Jump:
        """Sets the clock forward as `advance` does, and tells what came."""
        core, before_ms, before = self._core, self._core.clock.now_ms(), ends(self._core)
        waited = core.waiting()
        await self.advance(call)
        return self._jump(before_ms, before, waited)

    def _jump(self, before_ms: int, before: dict[str, int], waited: int) -> Jump:
        now = self.now()
        came = came_since(self._core, before)
        return Jump(clock=now, jumped_ms=now.now_ms - before_ms, waited=waited, came=came)

    def _check_movable(self) -> None:
        if self._core.travel is None:
            raise ProblemError(
                409,
                "This cluster's clock cannot be advanced",
                "it was started with the machine's clock",
                "start it with `pocketmq up --control PORT --clock offset`, which is the default",
            )

    async def advance(self, call: Call) -> ClockInfo:
        """Sets the clock forward."""
        request = call.body
        assert isinstance(request, AdvanceRequest)
        self._check_movable()
        jump_s = in_seconds(
            request.seconds, request.days, request.hours, request.minutes, request.milliseconds
        )
        if not jump_s <= ADVANCE_MAX_S:
            raise UsageError(f"the clock can be advanced by up to 366 days at once, not {jump_s} s")
        async with self._turn:
            if request.until is None:
                await self._core.advance(jump_s)
            else:
                await self._advance_until(jump_s, request.until, request.timeout_ms)
        return self.now()

    async def _advance_until(self, jump_s: float, until: Until, timeout_ms: int) -> None:
        if (until.topic is None) == (until.dead_letters_of is None):
            raise UsageError("until: give one of topic and deadLettersOf")
        topic = until.topic or dlq_topic(until.dead_letters_of or "")
        steps = Steps(self._core, self._inspection, jump_s, timeout_ms / 1000)
        while self._inspection.count(topic) < until.count:
            if not await steps.go_on():
                raise did_not_come(topic, until.count, self._inspection.count(topic), timeout_ms)
