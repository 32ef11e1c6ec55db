"""The journal of pops: what happened to popped messages, so that a restart knows."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterator
from functools import partial

import msgspec

from pocketmq.broker.appending.appender import Appender, is_stored
from pocketmq.broker.appending.stored_message import new_message, stored_in
from pocketmq.broker.popping.events import Done, Event, decode_events, encode_events
from pocketmq.broker.store.disk.errors import StoreError
from pocketmq.broker.store.log.queue_log import AS_CONFIGURED, WRITTEN, QueueLog
from pocketmq.broker.store.store import MessageStore
from pocketmq.protocol.errors import OperatingError
from pocketmq.protocol.messages.hosts import IPV4_HOST_SIZE
from pocketmq.protocol.names import names
from pocketmq.runtime.clock import Clock, Timer

log = logging.getLogger("pocketmq.broker")

EVENTS_PER_RECORD_MAX = 1024
READ_SIZE = 256 * 1024
READ_RECORDS_MAX = 4096
RETRY_MS = 1000
"""When events are written again that could not be written."""

_BEGIN = "pop_journal_begin"
_NOBODY = bytes(IPV4_HOST_SIZE)

OnWritten = Callable[[OperatingError | None], object]


class _DoneTogether:
    """The acknowledgements of one queue in one turn, and who waits for them."""

    __slots__ = ("offsets", "waiting")

    def __init__(self) -> None:
        self.offsets: list[int] = []
        self.waiting: list[OnWritten] = []

    def written(self, error: OperatingError | None) -> None:
        for on_written in self.waiting:
            on_written(error)


class PopJournal:
    """Writes what happens in one turn of the loop as one record of `names.POP_JOURNAL_TOPIC`.

    Events that cannot be written are written later, in their order; who waits for them hears of the
    failure at once.

    Args:
        store, appender: where the records are.
        clock: dates them, and times the repetitions.

    Attributes:
        before_write: called before the events of a turn are written.
    """

    def __init__(self, store: MessageStore, clock: Clock, appender: Appender) -> None:
        self._store, self._clock, self._appender = store, clock, appender
        self._waiting: list[tuple[Event, OnWritten | None]] = []
        self._is_due = False
        self._repetition: Timer | None = None
        self._done: dict[int, _DoneTogether] = {}
        self.before_write: Callable[[], object] = lambda: None
        state = store.metadata.state(_BEGIN)
        self._begin = 0 if state is None else int(state)

    @property
    def log(self) -> QueueLog | None:
        """The log of the journal; None while there is none."""
        return self._store.find_log(names.POP_JOURNAL_TOPIC, 0)

    def note(self, event: Event, on_written: OnWritten | None = None) -> None:
        """Adds an event; `on_written` is called as `on_stored` of any append."""
        if self._done:
            self._done.clear()
        self._waiting.append((event, on_written))
        if not self._is_due and self._repetition is None:
            self._is_due = True
            asyncio.get_running_loop().call_soon(self.write)

    def note_done(self, number: int, offset: int, on_written: OnWritten) -> None:
        """Adds an acknowledgement to the event of its queue, if nothing else has happened since.

        Consumers acknowledge message by message: a turn of the loop has many of them.

        Args:
            number: of the queue.
            offset: of the message.
            on_written: as for `note`.
        """
        done = self._done.get(number)
        if done is None:
            done = _DoneTogether()
            self.note(Done(number, done.offsets), done.written)
            self._done[number] = done
        done.offsets.append(offset)
        done.waiting.append(on_written)

    def write(self) -> None:
        """Appends the events that wait, and commits them with all else that this turn appended."""
        self._is_due = False
        self._done.clear()
        self.before_write()
        self._cancel_repetition()
        waiting, self._waiting = self._waiting, []
        for start in range(0, len(waiting), EVENTS_PER_RECORD_MAX):
            self._append(waiting[start : start + EVENTS_PER_RECORD_MAX])
        self._store.commit()

    def _append(self, events: list[tuple[Event, OnWritten | None]]) -> None:
        try:
            queue_log = self._store.queue_log(names.POP_JOURNAL_TOPIC, 0)
        except StoreError as e:
            self._stored(events, e)
            return
        body = encode_events(event for event, _ in events)
        record = new_message(self._clock.now_ms(), _NOBODY, _NOBODY, body, b"")
        durability = AS_CONFIGURED if any(on_written for _, on_written in events) else WRITTEN
        self._appender.append_message(queue_log, record, partial(self._stored, events), durability)

    def _stored(
        self, events: list[tuple[Event, OnWritten | None]], error: OperatingError | None
    ) -> None:
        if is_stored(error):
            error = None
        elif error is not None:
            log.warning("%d events of pops cannot be written: %s", len(events), error)
            self._waiting[:0] = [(event, None) for event, _ in events]
            if self._repetition is None:
                self._repetition = self._clock.machine.call_later(RETRY_MS / 1000, self.write)
        for _, on_written in events:
            if on_written is not None:
                on_written(error)

    @property
    def is_held_up(self) -> bool:
        """Whether events wait because the disk did not take them."""
        return self._repetition is not None

    def close(self) -> None:
        """Writes what waits, and stops repeating failed writes: the store is about to be closed."""
        if self._waiting:
            self.write()
        self._cancel_repetition()

    def _cancel_repetition(self) -> None:
        if self._repetition is not None:
            self._repetition.cancel()
            self._repetition = None

    # -- reading it, and where it begins ------------------------------------------------------

    def replay(self) -> Iterator[Event]:
        """Yields the events from the last snapshot on.

        Raises:
            StoreError: one cannot be read; those before it were yielded.
        """
        queue_log = self.log
        if queue_log is None:
            return
        if queue_log.min_offset > self._begin:
            raise StoreError(f"it begins at {queue_log.min_offset} instead of {self._begin}")
        offset = self._begin
        while offset < queue_log.end_offset:
            part = queue_log.read(offset, READ_RECORDS_MAX, READ_SIZE)
            for record in stored_in(part, offset):
                try:
                    yield from decode_events(record.body)
                except msgspec.DecodeError as e:
                    raise StoreError(f"its record at {offset} cannot be read: {e}") from e
                offset += 1
            if offset < part.next_offset:
                raise StoreError(f"its record at {offset} is damaged")

    @property
    def size(self) -> int:
        """Bytes from the last snapshot on."""
        queue_log = self.log
        if queue_log is None or not self._begin <= queue_log.end_offset:
            return 0
        begin = max(self._begin, queue_log.min_offset)
        return queue_log.end_position - queue_log.position_at(begin)

    @property
    def begins_behind_end(self) -> bool:
        """Whether a power cut took the records of the last snapshot."""
        queue_log = self.log
        return queue_log is not None and self._begin > queue_log.end_offset

    @property
    def next_offset(self) -> int:
        """Where the next record will stand."""
        queue_log = self.log
        return 0 if queue_log is None else queue_log.next_offset

    def begin_at(self, offset: int) -> None:
        """Forgets what is before an offset: a snapshot stands there, in records on the disk.

        Raises:
            WriteFailedError: nothing was changed.
        """
        self._store.metadata.set_state(_BEGIN, str(offset))
        self._begin = offset

    def drop_old_segments(self) -> None:
        """Removes the segments that hold nothing but what is forgotten.

        Raises:
            OSError: one is still there.
        """
        queue_log = self.log
        if queue_log is None:
            return
        while queue_log.has_spare_segment and queue_log.segment_end(0)[1] <= self._begin:
            queue_log.drop_oldest_segment()
            self._store.logs.dropped.notify(queue_log)

    def still_needs(self, queue_log: QueueLog) -> bool:
        """Whether the oldest segment of a log holds events that the next start reads."""
        if queue_log.topic != names.POP_JOURNAL_TOPIC:
            return False
        return queue_log.segment_end(0)[1] > self._begin
