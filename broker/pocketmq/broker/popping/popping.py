"""The parts of POP consumption: built at the start, kept small by snapshots, saved at the stop."""

from __future__ import annotations

import logging

from pocketmq.broker.appending.appender import Appender
from pocketmq.broker.groups.groups import GroupTable
from pocketmq.broker.groups.offsets import ConsumerOffsets
from pocketmq.broker.popping import events
from pocketmq.broker.popping.journal import PopJournal
from pocketmq.broker.popping.pop_queues import PopQueue, PopQueues
from pocketmq.broker.popping.pop_traffic import PopTraffic
from pocketmq.broker.popping.revival import Revival
from pocketmq.broker.store.disk.errors import StoreError
from pocketmq.broker.store.log.queue_log import QueueLog
from pocketmq.broker.store.store import MessageStore
from pocketmq.broker.topics.topics import TopicTable
from pocketmq.runtime.clock import Clock
from pocketmq.runtime.slices import next_slice

log = logging.getLogger("pocketmq.broker")

SNAPSHOT_SIZE_MIN = 8 * 1024 * 1024
"""Bytes of the journal after which a snapshot is due; at least twice what the last one took."""

PAGES_PER_SLICE = 64
"""Pages of messages in flight that one slice of a snapshot writes."""


class Popping:
    """What a broker knows of popped messages.

    Args:
        store, clock, appender, topics, groups, offsets: of the broker.

    Attributes:
        queues: what is in flight, of whom.
        traffic: how much that was.
        revival: gives messages another attempt.
    """

    def __init__(
        self,
        store: MessageStore,
        clock: Clock,
        appender: Appender,
        topics: TopicTable,
        groups: GroupTable,
        offsets: ConsumerOffsets,
    ) -> None:
        self._store, self._clock, self._offsets = store, clock, offsets
        self._groups = groups
        self._journal = PopJournal(store, clock, appender)
        self.queues = PopQueues(self._journal, offsets)
        self.traffic = PopTraffic(clock)
        self.revival = Revival(store, appender, topics, groups, self.queues, clock)
        self._snapshot_size = 0

    def open(self) -> None:
        """Finds in the journal what is in flight."""
        if self._journal.log is None:
            return
        try:
            for event in self._journal.replay():
                if not isinstance(event, events.Copied) or self._is_copy_there(event):
                    self.queues.replay(event)
        except (OSError, StoreError) as e:
            log.error(
                "the journal of pops cannot be read, so that groups get again what they have not "
                "committed: %s",
                e,
            )
            self.queues.start_again()
        self.queues.settle(self._store.end_offset)
        if self.queues.count:
            log.info("%d popped messages are in flight", self.queues.count)
            # A group made on its first use is saved later than its first pop is answered, and
            # without its group a message would count as done.
            self._groups.find_all({q.group for q in self.queues if q.in_flight.count})

    def _is_copy_there(self, copied: events.Copied) -> bool:
        end = self._store.end_offset(copied.copy_topic, copied.copy_queue_id)
        return end is not None and copied.copy_offset < end

    def close(self) -> None:
        """Writes down what is not written yet."""
        self.revival.close()
        self._journal.close()

    def still_needs(self, queue_log: QueueLog) -> bool:
        """Whether the oldest segment of a log must stay, however old it is."""
        return self._journal.still_needs(queue_log)

    @property
    def is_held_up(self) -> bool:
        """Whether events wait because the disk did not take them."""
        return self._journal.is_held_up

    async def keep_small(self, *, at_once: bool = False) -> None:
        """Writes a snapshot when the journal has grown, and removes what stands before it.

        Raises:
            WriteFailedError: the disk does not take it.
        """
        queue_log = self._journal.log
        if queue_log is None:
            return
        if self._journal.begins_behind_end:
            self._journal.begin_at(queue_log.end_offset)
            at_once = True
        if at_once or self._journal.size >= max(SNAPSHOT_SIZE_MIN, 2 * self._snapshot_size):
            await self._snapshot(queue_log)
        self._journal.drop_old_segments()

    async def _snapshot(self, queue_log: QueueLog) -> None:
        """Writes the state of each queue while others change: later events stand behind it."""
        self._journal.write()
        self._offsets.save()
        begin = self._journal.next_offset
        for queue in self.queues:
            if self.queues.get(queue.group, queue.topic, queue.queue_id) is queue:
                await self._write_state(queue)
        self._journal.write()
        end = self._journal.next_offset
        await self._store.flusher.sync(queue_log)
        if queue_log.end_offset < end or self._journal.is_held_up:
            return  # some of it is not written: the next call writes another one
        self._journal.begin_at(begin)
        self._snapshot_size = self._journal.size

    async def _write_state(self, queue: PopQueue) -> None:
        note, number = self._journal.note, queue.number
        note(events.Named(number, queue.group, queue.topic, queue.queue_id))
        pages = queue.in_flight.page_numbers
        for start in range(0, max(len(pages), 1), PAGES_PER_SLICE):
            entries = [
                (p.offset, p.due_ms, p.pop_ms, p.is_suspended)
                for page in pages[start : start + PAGES_PER_SLICE]
                for p in queue.in_flight.of_page(page)
            ]
            note(events.State(number, queue.next_offset, entries, start == 0))
            if not start and queue.batch is not None:
                note(events.Ordered(number, queue.batch))
            self._journal.write()
            await next_slice(self._clock.machine)
            if self.queues.get(queue.group, queue.topic, queue.queue_id) is not queue:
                return
