"""The calls of one connection that wait for their answers, by opaque."""

from __future__ import annotations

import logging
from collections.abc import Callable

from pocketmq.protocol.errors import OperatingError
from pocketmq.protocol.wire.command import Command
from pocketmq.runtime.clock import Clock, Timer
from pocketmq.transport.errors import CallTimeoutError
from pocketmq.transport.permits import Permits

log = logging.getLogger("pocketmq.transport")

Answer = Command | OperatingError
OnAnswer = Callable[[Answer], object]

OPAQUE_MAX = 0x7FFFFFFF


PendingCall = tuple[OnAnswer, float, float]
"""A call that waits for its answer: what is called with it, its deadline, and its timeout in ms."""


class ResponseTable:
    """Pairs answers with requests and times out what is not answered.

    One timer serves all calls: it is armed for the earliest deadline and, when it fires, scans the
    table. Deadlines are therefore exact although no call has a timer of its own.
    """

    __slots__ = ("_address", "_clock", "_last_opaque", "_pending", "_permits", "_scan_at", "_timer")

    def __init__(self, clock: Clock, address: str, permits: Permits) -> None:
        self._clock = clock
        self._address = address
        self._permits = permits
        self._pending: dict[int, PendingCall] = {}
        self._last_opaque = 0
        self._timer: Timer | None = None
        self._scan_at = float("inf")

    def __len__(self) -> int:
        return len(self._pending)

    def add(self, on_answer: OnAnswer, timeout_ms: float) -> int:
        """Registers a call, and returns its opaque.

        Args:
            on_answer: called once with the answer or with the error that ends the call.
            timeout_ms: how long the answer may take.

        Raises:
            TooMuchRequestError: too many calls are under way.
        """
        self._permits.acquire()
        opaque = self._last_opaque + 1 & OPAQUE_MAX
        while opaque in self._pending:  # after a wrap, a call from long ago may still wait
            opaque = opaque + 1 & OPAQUE_MAX
        self._last_opaque = opaque
        deadline = self._clock.monotonic() + timeout_ms / 1000
        self._pending[opaque] = (on_answer, deadline, timeout_ms)
        if deadline < self._scan_at:
            self._arm(deadline)
        return opaque

    def resolve(self, response: Command) -> bool:
        """Gives an answer to its call; returns False if no call waits for it any more."""
        call = self._pending.pop(response.opaque, None)
        if call is None:
            return False
        self._finish(call[0], response)
        return True

    def forget(self, opaque: int) -> None:
        """Drops a call without an answer: it was not sent, or its caller has gone."""
        if self._pending.pop(opaque, None) is not None:
            self._permits.release()

    def scan_response_table(self) -> None:
        """Ends every call whose deadline has passed and arms the timer for the next one."""
        self._timer, self._scan_at = None, float("inf")
        now = self._clock.monotonic()
        expired = [
            (opaque, on_answer, timeout_ms)
            for opaque, (on_answer, deadline, timeout_ms) in self._pending.items()
            if deadline <= now
        ]
        for opaque, on_answer, timeout_ms in expired:
            if self._pending.pop(opaque, None) is not None:
                self._finish(on_answer, CallTimeoutError(self._address, timeout_ms))
        if self._pending:
            earliest = min(deadline for _, deadline, _ in self._pending.values())
            if earliest < self._scan_at:
                self._arm(earliest)

    def fail_all(self, error: OperatingError) -> None:
        """Ends every call with an error, because the connection is gone."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer, self._scan_at = None, float("inf")
        pending, self._pending = self._pending, {}
        for on_answer, _, _ in pending.values():
            self._finish(on_answer, error)

    def _finish(self, on_answer: OnAnswer, answer: Answer) -> None:
        self._permits.release()
        try:
            on_answer(answer)
        except Exception:  # one caller's callback must not keep the others from their answers
            log.exception("the callback of a call to %s failed", self._address)

    def _arm(self, deadline: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._scan_at = deadline
        delay = max(0.0, deadline - self._clock.monotonic())
        self._timer = self._clock.call_later(delay, self.scan_response_table)
