"""The popped messages that a consumer has and has not handled yet."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable, Sequence

from pocketmq.client.log_fields import log_fields
from pocketmq.client.popping.popper import Popper
from pocketmq.protocol.errors import OperatingError, PocketMQError
from pocketmq.protocol.messages.message import ReceivedMessage
from pocketmq.runtime.clock import Clock
from pocketmq.runtime.tasks import Tasks, repeat

log = logging.getLogger("pocketmq.client")

RENEWALS_PER_TIME = 3
"""An invisible time is renewed when a third of it is over."""

ACKS_AT_ONCE_MAX = 1_000
"""Messages that one round of acknowledgements tells of."""

ACK_ATTEMPTS = 3
ACK_PAUSE_S = 1.0
"""How often acknowledgements are tried, and the pause between; then the messages come again."""


class HeldMessages:
    """Keeps popped messages from others until they are handled, then acknowledges them.

    While a round of acknowledgements is under way those of other messages gather, and go together.

    Args:
        popper: tells the brokers.
        clock: of the consumer.
        invisible_ms: for how long a pop or a renewal hides a message.
    """

    def __init__(self, popper: Popper, clock: Clock, invisible_ms: int) -> None:
        self._popper, self._clock, self._invisible_ms = popper, clock, invisible_ms
        self._since_s: dict[int, tuple[ReceivedMessage, float]] = {}
        self._handled: list[ReceivedMessage] = []
        self._telling: asyncio.Task[None] | None = None
        self._tasks = Tasks()

    def __len__(self) -> int:
        return len(self._since_s)

    def start(self) -> None:
        """Begins to renew invisible times."""
        period_s = self._invisible_ms / 1000 / RENEWALS_PER_TIME
        self._tasks.spawn(repeat(self._clock, period_s, self._renew_due), "renew invisible times")

    def add(self, messages: Iterable[ReceivedMessage]) -> None:
        """Holds messages that were just popped."""
        now_s = self._clock.monotonic()
        self._since_s.update((id(m), (m, now_s)) for m in messages)

    def holds(self, message: ReceivedMessage) -> bool:
        """Whether a message is neither handled nor let go."""
        return id(message) in self._since_s

    def let_go(self, message: ReceivedMessage) -> None:
        """Holds a message no more; it is not acknowledged."""
        self._since_s.pop(id(message), None)

    def handled(self, message: ReceivedMessage) -> None:
        """Acknowledges a message soon, unless it was let go."""
        if self._since_s.pop(id(message), None) is None:
            return
        self._handled.append(message)
        if self._telling is None:
            self._telling = self._tasks.spawn(self._tell(), "acknowledge")

    async def _tell(self) -> None:
        try:
            while self._handled:
                told = self._handled[:ACKS_AT_ONCE_MAX]
                del self._handled[:ACKS_AT_ONCE_MAX]
                await self._acknowledge(told)
        finally:
            self._telling = None

    async def _acknowledge(self, messages: Sequence[ReceivedMessage]) -> None:
        for attempt in range(1, ACK_ATTEMPTS + 1):
            try:
                await self._popper.acknowledge(messages)
            except PocketMQError as e:
                if attempt == ACK_ATTEMPTS or not isinstance(e, OperatingError):
                    log.warning(
                        "%d messages cannot be acknowledged, some may come again: %s",
                        len(messages),
                        e,
                        extra=log_fields(message=messages[0]),
                    )
                    return
                await self._clock.sleep(ACK_PAUSE_S)
            else:
                return

    async def _renew_due(self) -> None:
        now_s = self._clock.monotonic()
        before_s = now_s - self._invisible_ms / 1000 / RENEWALS_PER_TIME
        due = [m for m, since_s in self._since_s.values() if since_s <= before_s]
        await asyncio.gather(*(self._renew(message, now_s) for message in due))

    async def _renew(self, message: ReceivedMessage, now_s: float) -> None:
        try:
            await self._popper.change_invisible_time(message, self._invisible_ms)
        except PocketMQError as e:
            log.info(
                "the invisible time of message %s is not renewed: %s",
                message.msg_id,
                e,
                extra=log_fields(message=message),
            )
        else:
            if self.holds(message):
                self._since_s[id(message)] = message, now_s

    async def close(self) -> None:
        """Acknowledges what was handled, and gives back the rest."""
        if self._telling is not None:
            await self._telling
        await self._tasks.close()
        held = [message for message, _ in self._since_s.values()]
        self._since_s.clear()
        await self._popper.give_back(held)
