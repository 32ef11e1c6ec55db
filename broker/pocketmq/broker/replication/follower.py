"""Applies what a leader sends to the store of a follower."""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Iterable, Sequence
from typing import Any

from pocketmq.broker.replication.items import (
    Begin,
    Change,
    Item,
    Live,
    Low,
    OffsetRow,
    Offsets,
    Records,
    Table,
    TablesEnd,
    decode_items,
)
from pocketmq.broker.replication.peer import Place
from pocketmq.broker.store.disk.errors import StoreError
from pocketmq.broker.store.log.checkpoint import Checkpoint
from pocketmq.broker.store.log.queue_log import QueueLog
from pocketmq.broker.store.log.segment import ENTRY_SIZE
from pocketmq.broker.store.metadata.common_tables import (
    LOG_TABLE,
    NUMBER_TABLE,
    Rows,
    is_local_state,
    take_over,
)
from pocketmq.broker.store.metadata.log_epochs import LogEpochs
from pocketmq.broker.store.metadata.metadata import CHANGES, QueueLogRow
from pocketmq.broker.store.store import MessageStore
from pocketmq.protocol.errors import ContentError
from pocketmq.runtime.listeners import Listeners

log = logging.getLogger("pocketmq.replication")


class OutOfStepError(StoreError):
    """What a leader has sent does not follow what is there: the follower has to join again."""


class Follower:
    """Keeps the logs and the metadata of a store as the leader's are.

    Args:
        store: of this broker; nobody else appends to it.
        epochs: of its logs.

    Attributes:
        turn: up to here it has all turns of the leader; 0 while it catches up.
        is_live: whether it has caught up.
        live_turn: the turn with which it had caught up.
        shown_turn: readers see everything up to this turn.
        shown: called with each log in which readers see more.
        changed: called with each change of the metadata that was made, with offsets that groups
            have committed, and with None when all of the metadata was replaced.
    """

    def __init__(self, store: MessageStore, epochs: LogEpochs) -> None:
        self._store, self._epochs = store, epochs
        self.turn = self.live_turn = self.shown_turn = 0
        self.is_live = False
        self.shown = Listeners[[QueueLog]]()
        self.changed = Listeners[[Change | Offsets | None]]()
        self._tables: dict[str, Rows] = {}
        self._offsets: dict[tuple[str, str, int], int] = {}
        self._copied: dict[QueueLog, Place] = {}
        self._held: deque[tuple[int, QueueLog, Place]] = deque()

    def apply(self, body: bytes | memoryview, turn: int) -> list[QueueLog]:
        """Applies a frame; returns the logs that it has written to.

        Args:
            body: the frame's items.
            turn: with this frame the store has all turns up to this one.

        Raises:
            ContentError: it cannot be read.
            OutOfStepError: it does not follow what is there.
            StoreError, OSError: the disk does not take it.
        """
        grown: dict[QueueLog, None] = {}
        items = list(decode_items(body))
        self._begin_epochs(items)
        for item in items:
            if isinstance(item, Records):
                queue_log = self._write(item)
                if queue_log is None:
                    continue
                grown[queue_log] = None
                place = Place(queue_log.written_position, queue_log.written_offset)
                if self.is_live:
                    self._held.append((turn, queue_log, place))
                else:
                    self._copied[queue_log] = place
            else:
                self._take(item, turn)
        self.turn = max(self.turn, turn)
        return list(grown)

    def show(self, turn: int) -> None:
        """Shows readers everything up to a turn: all in-sync members have it."""
        self.shown_turn = turn
        shown: dict[QueueLog, None] = {}
        while self._held and self._held[0][0] <= turn:
            _, queue_log, place = self._held.popleft()
            queue_log.show(*place)
            shown[queue_log] = None
        for queue_log in shown:
            self.shown.notify(queue_log)

    @property
    def is_readable(self) -> bool:
        """Whether all that readers see here is on all in-sync members.

        Before that a log may hold records that a failover takes away: they were there when this
        member joined.
        """
        return self.is_live and self.shown_turn >= self.live_turn

    def show_all(self) -> None:
        """Shows readers everything that is there: this member leads now."""
        for queue_log in self._store.logs.open_logs():
            queue_log.show(queue_log.written_position, queue_log.written_offset)
        self._held.clear()
        self._copied.clear()

    # -- records ------------------------------------------------------------------------------

    def _begin_epochs(self, items: Sequence[Item]) -> None:
        """Notes the epochs that begin in a frame, before any of their records is written."""
        starts: dict[int, tuple[int, int, int]] = {}
        for item in items:
            if not isinstance(item, Records):
                assert not isinstance(item, Begin) or len(items) == 1  # it forgets the epochs
                continue
            number, epoch = item.number, item.epoch
            last = starts[number][1] if number in starts else self._epochs.last(number)
            if epoch != last:
                if number in starts:
                    self._epochs.begin([starts[number]])
                starts[number] = (number, epoch, item.position)
        if starts:
            self._epochs.begin(starts.values())

    def _write(self, item: Records) -> QueueLog | None:
        """Appends records to their log; None if they are there already.

        Raises:
            OutOfStepError: they do not begin where the log ends.
        """
        queue_log = self._log(item.number)
        end, size = queue_log.written_position, len(item.data)
        if item.position + size <= end:
            return None
        if item.position != end or item.offset != queue_log.written_offset:
            raise OutOfStepError(
                f"{queue_log.topic} queue {queue_log.queue_id} ends at position {end}, offset "
                f"{queue_log.written_offset}, the leader went on at {item.position}, {item.offset}"
            )
        count = len(item.entries) // ENTRY_SIZE
        queue_log.append_many(item.data, bytes(item.entries), count, None)
        try:
            queue_log.commit(item.timestamp, is_held=True)
        except OSError as e:
            queue_log.roll_back()
            raise self._store.disk.failed_write(queue_log.directory, e) from e
        queue_log.last_timestamp = max(queue_log.last_timestamp, item.timestamp)
        self._store.committer.unsynced[queue_log] = None
        return queue_log

    def _log(self, number: int) -> QueueLog:
        known = self._store.logs.table.by_number(number)
        if known is None:
            raise OutOfStepError(f"there is no log {number}")
        return self._store.queue_log(known.topic, known.queue_id)

    def _begin(self, item: Begin) -> None:
        queue_log = self._log(item.number)
        if queue_log.written_position >= item.position:
            return
        self._store.metadata.save_checkpoints([(item.number, Checkpoint())])
        self._store.logs.table.set_checkpoint(item.number, Checkpoint())
        self._store.metadata.sync()
        self._epochs.cut(item.number, 0)
        queue_log.restart_at(item.position, item.offset)
        # An empty segment says where the log begins, should no record follow.
        queue_log.begin_segment(self._store.clock.now_ms())
        self._store.committer.unsynced[queue_log] = None

    def _drop(self, item: Low) -> None:
        queue_log = self._log(item.number)
        while queue_log.has_spare_segment and queue_log.segments[1].base_position <= item.position:
            queue_log.drop_oldest_segment()

    # -- the metadata -------------------------------------------------------------------------

    def _take(self, item: Item, turn: int) -> None:
        match item:
            case Change():
                self.save_offsets()
                self._change(item)
                self.changed.notify(item)
            case Offsets():
                for group, topic, queue_id, offset in item.rows:
                    self._offsets[group, topic, queue_id] = offset
                self.changed.notify(item)
            case Table():
                self._tables.setdefault(item.name, []).extend(item.rows)
            case TablesEnd():
                tables, self._tables = self._tables, {}
                self._replace(tables)
                self.changed.notify(None)
            case Begin():
                self._begin(item)
            case Low():
                self._drop(item)
            case Live():
                self._go_live(turn)
            case Records():
                raise AssertionError(item)

    def _go_live(self, turn: int) -> None:
        """Readers see what is there when all in-sync members have what the leader has now."""
        self.is_live, self.live_turn = True, turn
        places = dict(self._copied)
        for queue_log in self._store.logs.open_logs():
            if queue_log.end_offset < queue_log.written_offset:
                places[queue_log] = Place(queue_log.written_position, queue_log.written_offset)
        self._held.extend((turn, queue_log, place) for queue_log, place in places.items())
        self._copied.clear()

    def _change(self, change: Change) -> None:
        arguments: tuple[Any, ...] = change.arguments
        metadata = self._store.metadata
        method = CHANGES.get(change.method)
        if method is None:
            raise ContentError(f"the leader made a change {change.method!r}, which nobody knows")
        if change.method == "add_queue_logs":
            self._add_logs([(row[0], row[1], row[2]) for row in arguments[0]])
        elif change.method == "delete_topic":
            self._delete_topic(arguments[0])
        elif not (change.method.endswith("_state") and is_local_state(arguments[0])):
            method(metadata, *arguments)

    def _add_logs(self, rows: Iterable[tuple[int, str, int]]) -> None:
        table = self._store.logs.table
        new = [row for row in rows if table.by_number(row[0]) is None]
        for _, topic, queue_id in new:
            if table.get(topic, queue_id) is not None:
                self._delete_topic(topic)
        self._store.metadata.add_queue_logs(QueueLogRow(*row, Checkpoint()) for row in new)
        for number, topic, queue_id in new:
            self._store.logs.enter(topic, queue_id, number)

    def _delete_topic(self, topic: str) -> None:
        numbers = self._store.logs.table.numbers(topic)
        for number in numbers:
            self._epochs.forget(number)
        gone = set(numbers)
        self._copied = {q: place for q, place in self._copied.items() if q.number not in gone}
        self._held = deque(held for held in self._held if held[1].number not in gone)
        self._store.delete_topic(topic)

    def _replace(self, tables: dict[str, Rows]) -> None:
        """Takes over the leader's metadata, and drops the logs that the leader does not have."""
        self._offsets.clear()
        logs = {row[0]: (row[1], row[2]) for row in tables.get(LOG_TABLE, [])}
        table = self._store.logs.table
        for topic in {k.topic for k in table if logs.get(k.number) != (k.topic, k.queue_id)}:
            log.warning(
                "%s has queues here that the leader does not have: it is copied anew", topic
            )
            self._delete_topic(topic)
        take_over(self._store.metadata, {k: v for k, v in tables.items() if k != LOG_TABLE})
        self._add_logs((number, *place) for number, place in logs.items())
        if not tables.get(NUMBER_TABLE):
            log.debug("the leader has given no log a number yet")

    def save_offsets(self) -> None:
        """Writes the offsets that groups have committed.

        Raises:
            WriteFailedError: they are kept, and written later.
        """
        if self._offsets:
            rows: list[OffsetRow] = [(*key, offset) for key, offset in self._offsets.items()]
            self._store.metadata.save_consumer_offsets(rows)
            self._offsets.clear()
