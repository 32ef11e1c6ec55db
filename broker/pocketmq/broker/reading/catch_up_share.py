"""Bounds the time that reads of groups far behind take while many messages are sent."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable

from pocketmq.broker.counters.traffic import Traffic
from pocketmq.broker.work_share import WorkShare
from pocketmq.runtime.clock import Clock, Timer

BEHIND_MIN = 4096
"""Messages behind the end of its queue from which on a read is one of a group far behind."""

SHARE = 0.25
"""Part of the time for such reads and their answers while many messages are sent."""

ANSWER_S_PER_BYTE = 2e-9
"""What it takes to send a byte that was read: encoding, the system's copies, the peer's share."""

WINDOW_S = 0.1
"""Seconds over which the messages that are sent are counted."""

SENT_MIN = 20
"""Messages of a window from which on the senders' rate is kept up."""

BURST_S = 0.002
"""Seconds of reads that may be done at once after a pause."""

WAITING_MAX = 10_000
"""Reads that may wait; further ones are done at once."""


class CatchUpShare:
    """Puts reads of groups far behind off when they have taken their share of the time.

    While few or no messages are sent they take as much time as they can get.

    Args:
        clock: measures the time.
        stored: counts the messages that are sent.
        work: gives each of those that waited a turn of the loop.

    Attributes:
        is_used_up: whether the next read has to wait.
    """

    def __init__(self, clock: Clock, stored: Traffic, work: WorkShare) -> None:
        self._clock, self._stored, self._work = clock, stored, work
        self.is_used_up = False
        self._left_s = BURST_S
        self._seen_s = self._window_s = clock.monotonic()
        self._window_messages = 0
        self._is_sending = False
        self._waiting: deque[Callable[[], object]] = deque()
        self._timer: Timer | None = None  # of `_go_on`
        self._has_turn = False  # whether `_step` gets a turn

    def took(self, elapsed_s: float, size: int) -> None:
        """Takes a read off the share.

        Args:
            elapsed_s: how long it took, in seconds.
            size: the bytes that it found.
        """
        self._renew()
        self._left_s -= elapsed_s + size * ANSWER_S_PER_BYTE
        if self._left_s <= 0 and self._is_sending and not self.is_used_up:
            self._use_up()

    def put_off(self, step: Callable[[], object]) -> bool:
        """Queues a read for the time when there is a share again; False if too many wait."""
        if len(self._waiting) >= WAITING_MAX:
            return False
        self._waiting.append(step)
        return True

    async def turn(self) -> None:
        """Returns when a read far behind may be made."""
        if not self.is_used_up:
            return
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        if self.put_off(lambda: None if turn.done() else turn.set_result(None)):
            await turn

    def close(self) -> None:
        """Forgets the reads that wait."""
        self._waiting.clear()
        if self._timer is not None:
            self._timer.cancel()

    def _renew(self) -> None:
        now_s = self._clock.monotonic()
        if now_s - self._window_s >= WINDOW_S:
            messages = self._stored.messages
            self._is_sending = messages - self._window_messages >= SENT_MIN
            self._window_s, self._window_messages = now_s, messages
        renewed_s = (now_s - self._seen_s) * SHARE if self._is_sending else BURST_S
        self._left_s = min(BURST_S, self._left_s + renewed_s)
        self._seen_s = now_s

    def _use_up(self) -> None:
        self.is_used_up = True
        wait_s = (BURST_S / 2 - self._left_s) / SHARE
        self._timer = self._clock.call_later(wait_s, self._go_on)

    def _go_on(self) -> None:
        self._timer, self.is_used_up = None, False
        self._renew()
        self._take_turn()

    def _take_turn(self) -> None:
        if self._waiting and not self.is_used_up and not self._has_turn:
            self._has_turn = True
            self._work.put_off(self._step)

    def _step(self) -> None:
        self._has_turn = False
        try:
            if self._waiting and not self.is_used_up:
                self._waiting.popleft()()
        finally:  # a mistake in one read must not leave the others waiting for ever
            self._take_turn()
