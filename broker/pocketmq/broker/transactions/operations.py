"""Op records: what became of half messages, written down (`TransactionalOpBatchService`)."""

from __future__ import annotations

import asyncio
import logging
from collections import defaultdict
from collections.abc import Callable, Iterator
from functools import partial
from typing import NamedTuple

from pocketmq.broker.appending.appender import Appender, is_stored
from pocketmq.broker.appending.stored_message import new_message, stored_in
from pocketmq.broker.store.disk.errors import StoreError
from pocketmq.broker.store.log.queue_log import AS_CONFIGURED, WRITTEN, QueueLog
from pocketmq.broker.store.store import MessageStore
from pocketmq.protocol.errors import OperatingError
from pocketmq.protocol.messages import properties as props
from pocketmq.protocol.messages.hosts import IPV4_HOST_SIZE
from pocketmq.protocol.names import names
from pocketmq.runtime.clock import Clock, Timer

log = logging.getLogger("pocketmq.broker")

OFFSETS_PER_RECORD_MAX = 400
"""Of half messages; RocketMQ's transactionOpMsgMaxSize is 4,096 bytes."""

READ_SIZE = 256 * 1024
READ_RECORDS_MAX = 4096
RETRY_MS = 1000
"""When op records are written again that could not be written."""

CUT = 100
"""In place of an outcome: half messages from this offset on are not those that stood there."""

_NOBODY = bytes(IPV4_HOST_SIZE)
_PROPERTIES = f"{props.TAGS}\x01d\x02".encode()

OnWritten = Callable[[OperatingError | None], object]


class Ended(NamedTuple):
    """A half message whose outcome is to be written down, and the callback that waits for that."""

    offset: int
    outcome: int
    on_written: OnWritten | None


class Operations:
    """Writes op records and reads them again.

    As in RocketMQ a record is tagged ``d`` and lists offsets of half messages; the outcome stands
    in the record's flag. What ends in one turn of the loop shares a record.

    Args:
        store, appender: where the op records are.
    """

    def __init__(self, store: MessageStore, clock: Clock, appender: Appender) -> None:
        self._store, self._clock, self._appender = store, clock, appender
        self._waiting: list[Ended] = []
        self._is_due = False
        self._repetition: Timer | None = None

    @property
    def log(self) -> QueueLog | None:
        """The log of the op records; None while there is none."""
        return self._store.find_log(names.OP_HALF_TOPIC, 0)

    def add(self, offset: int, outcome: int, on_written: OnWritten | None = None) -> None:
        """Adds an outcome to those that the next op record holds.

        Args:
            offset: of the half message.
            outcome: `COMMITTED`, `ROLLED_BACK`, … or `CUT`.
            on_written: called as `on_stored` of any append; without it a failed write is repeated
                until it succeeds.
        """
        self._waiting.append(Ended(offset, outcome, on_written))
        if not self._is_due:
            self._is_due = True
            asyncio.get_running_loop().call_soon(self.write)

    def write(self) -> None:
        """Appends op records of all outcomes that were added; the next commit stores them."""
        self._is_due = False
        self._cancel_repetition()
        waiting, self._waiting = self._waiting, []
        by_outcome: dict[int, list[Ended]] = defaultdict(list)
        for ended in waiting:
            by_outcome[ended.outcome].append(ended)
        for outcome, group in by_outcome.items():
            for start in range(0, len(group), OFFSETS_PER_RECORD_MAX):
                self._append(outcome, group[start : start + OFFSETS_PER_RECORD_MAX])

    def _append(self, outcome: int, group: list[Ended]) -> None:
        try:
            queue_log = self._store.queue_log(names.OP_HALF_TOPIC, 0)
        except StoreError as e:
            self._stored(group, e)
            return
        body = "".join([f"{ended.offset}," for ended in group]).encode()
        now_ms = self._clock.now_ms()
        record = new_message(now_ms, _NOBODY, _NOBODY, body, _PROPERTIES, flag=outcome)
        durability = AS_CONFIGURED if any(ended.on_written for ended in group) else WRITTEN
        self._appender.append_message(queue_log, record, partial(self._stored, group), durability)

    def _stored(self, group: list[Ended], error: OperatingError | None) -> None:
        again = []
        if is_stored(error):
            error = None
        for ended in group:
            if ended.on_written is not None:
                ended.on_written(error)
            elif error is not None:
                again.append(ended)
        if again:
            log.warning("what became of %d half messages cannot be written: %s", len(again), error)
            self._waiting += again
            # What ends meanwhile does not wait for that: a client does.
            if not self._is_due and self._repetition is None:
                self._repetition = self._clock.call_later(RETRY_MS / 1000, self.write)

    def close(self) -> None:
        """Stops repeating failed writes: the store is about to be closed."""
        self._cancel_repetition()

    def _cancel_repetition(self) -> None:
        if self._repetition is not None:
            self._repetition.cancel()
            self._repetition = None

    def replay(self, offset: int) -> Iterator[tuple[int, list[int]]]:
        """(outcome, offsets of half messages) of each op record from an offset on.

        One that cannot be read is left out: its half messages are open again, which may store a
        message twice but loses none.
        """
        queue_log = self.log
        if queue_log is None:
            return
        offset = max(offset, queue_log.min_offset)
        while offset < queue_log.end_offset:
            part = queue_log.read(offset, READ_RECORDS_MAX, READ_SIZE)
            for record in stored_in(part, offset):
                try:
                    offsets = [int(word) for word in record.body.split(b",") if word]
                except ValueError:
                    break
                yield record.flag, offsets
                offset += 1
            if offset < part.next_offset:
                log.error("the op record at %d cannot be read: left out", offset)
                offset += 1
