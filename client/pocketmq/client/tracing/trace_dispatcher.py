"""Trace records on their way to the trace topic: gathered, bounded, never blocking."""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Iterable

from pocketmq.client.instance.instance import ClientInstance
from pocketmq.client.sending.inner_producer import InnerProducer
from pocketmq.client.settings import ProducerSettings
from pocketmq.protocol.errors import PocketMQError
from pocketmq.protocol.messages.message import Message
from pocketmq.protocol.messages.trace import TraceRecord, encode_trace, index_keys
from pocketmq.runtime.clock import Timer, within
from pocketmq.runtime.tasks import Tasks

log = logging.getLogger("pocketmq.client")

PRODUCE, CONSUME = "PRODUCE", "CONSUME"

INNER_TRACE_GROUP = "_INNER_TRACE_PRODUCER"
"""How RocketMQ's producers of traces begin their group's name."""

RECORDS_MAX = 2048
"""Records that may wait; further ones are dropped and counted, as in RocketMQ."""

FLUSH_AT = 10
"""So many records are written at once (traceMsgBatchNum)."""

FLUSH_INTERVAL_S = 5.0
"""Fewer are written after so long."""

BODY_SIZE_MAX = 128_000
"""Of one message of the trace topic, in bytes."""

KEYS_SIZE_MAX = 16_000
"""Of all the keys of such a message, of which its broker takes 32,767 with other properties."""

SEND_TIMEOUT_MS = 5_000
CLOSE_TIMEOUT_S = 5.0
"""How long a close waits for the last records to be written (WAIT_FOR_SHUTDOWN)."""

DROPS_PER_LOG = 1_000
"""The drops after which another one is logged, beside the first one."""


class TraceDispatcher:
    """Writes trace records in the background (`client/trace/AsyncTraceDispatcher`).

    Nothing of it is traced. When the trace topic cannot be written the records are lost, which is
    logged and counted: a trace must not hold up the traced message.

    Args:
        instance: the connections and routes; it must be running.
        group: the traced group, as on the wire.
        role: PRODUCE or CONSUME.
        topic: the trace topic.

    Attributes:
        topic: the trace topic.
        dropped: records that were lost, because too many waited or they could not be written.
    """

    def __init__(self, instance: ClientInstance, group: str, role: str, topic: str) -> None:
        self.topic = topic
        self.dropped = 0
        self.instance = instance
        self._group = group
        settings = ProducerSettings(
            send_timeout_ms=SEND_TIMEOUT_MS, max_message_size=2 * BODY_SIZE_MAX
        )
        inner_group = f"{INNER_TRACE_GROUP}-{group}-{role}"
        self._producer = InnerProducer(inner_group, instance, settings)
        self._waiting: deque[TraceRecord] = deque()
        self._due = asyncio.Event()
        self._timer: Timer | None = None
        self._being_written = 0
        self._is_closing = False
        self._tasks = Tasks()
        self._worker = self._tasks.spawn(self._run(), f"trace {group}")

    def append(self, records: Iterable[TraceRecord]) -> None:
        """Adds records to be written soon; those for which there is no room are dropped."""
        waiting = self._waiting
        for record in records:
            if len(waiting) >= RECORDS_MAX:
                self._drop(1, f"{RECORDS_MAX} wait already")
                continue
            waiting.append(record)
        if len(waiting) >= FLUSH_AT:
            self._due.set()
        elif waiting and self._timer is None:
            self._timer = self.instance.clock.call_later(FLUSH_INTERVAL_S, self._due.set)

    async def close(self) -> None:
        """Writes the waiting records, for some seconds at the most, and ends. Idempotent."""
        self._is_closing = True
        self._due.set()
        try:
            await within(self.instance.clock, CLOSE_TIMEOUT_S, asyncio.shield(self._worker))
        except TimeoutError:
            left = len(self._waiting) + self._being_written
            self._drop(left, f"they were not written within {CLOSE_TIMEOUT_S:g} s of the close")
        await self._tasks.close()
        self._stop_timer()

    async def _run(self) -> None:
        while not self._is_closing:
            await self._due.wait()
            self._due.clear()
            self._stop_timer()
            await self._flush()

    async def _flush(self) -> None:
        while self._waiting:
            message, self._being_written = self._next_message()
            try:
                await self._producer.send(self._producer.pack(message))
            except PocketMQError as e:
                self._drop(self._being_written, str(e))
            self._being_written = 0

    def _next_message(self) -> tuple[Message, int]:
        """Returns a message with as many records as it may hold, and their number."""
        parts: list[bytes] = []
        keys: dict[str, None] = {}
        size = keys_size = 0
        while self._waiting:
            part = encode_trace(self._waiting[0]).encode()
            fresh = [key for key in index_keys(self._waiting[0]) if key not in keys]
            keys_size += sum(len(key.encode()) + 1 for key in fresh)
            size += len(part)
            if parts and (size > BODY_SIZE_MAX or keys_size > KEYS_SIZE_MAX):
                break
            self._waiting.popleft()
            parts.append(part)
            keys.update(dict.fromkeys(fresh))
        return Message(self.topic, b"".join(parts), keys=keys), len(parts)

    def _stop_timer(self) -> None:
        timer, self._timer = self._timer, None
        if timer is not None:
            timer.cancel()

    def _drop(self, count: int, reason: str) -> None:
        before, self.dropped = self.dropped, self.dropped + count
        if count > 1 or before % DROPS_PER_LOG == 0:
            log.warning(
                "group %s: %d trace records are lost, %d in all: %s",
                self._group,
                count,
                self.dropped,
                reason,
            )
