"""Which messages of which queues are in flight for which groups, and when they are due again."""

from __future__ import annotations

import heapq
import logging
from collections import Counter
from collections.abc import Callable, Iterator, Sequence

from pocketmq.broker.groups.offsets import ConsumerOffsets
from pocketmq.broker.popping import events
from pocketmq.broker.popping.in_flight import InFlight, Popped
from pocketmq.broker.popping.journal import OnWritten, PopJournal
from pocketmq.broker.popping.ordered_batch import OrderedBatch

log = logging.getLogger("pocketmq.broker")

STALE_TIMES_MAX = 10_000
"""Times of pages that are gone, beyond those of pages that are there, before they are removed."""


class PopQueue:
    """A queue as one group pops it.

    Attributes:
        group, topic, queue_id: whose it is; the topic is the real one, perhaps a retry topic.
        number: of the queue in the journal.
        next_offset: where the next pop reads.
        in_flight: what was popped and is not done.
        batch: the last batch, if the queue is popped in order.
    """

    __slots__ = ("batch", "group", "in_flight", "next_offset", "number", "queue_id", "topic")

    def __init__(
        self, group: str, topic: str, queue_id: int, number: int, next_offset: int
    ) -> None:
        self.group, self.topic, self.queue_id, self.number = group, topic, queue_id, number
        self.next_offset = next_offset
        self.in_flight = InFlight()
        self.batch: OrderedBatch | None = None

    @property
    def committed(self) -> int:
        """Everything before it is done."""
        first = self.in_flight.first
        return self.next_offset if first is None else min(first, self.next_offset)


class PopQueues:
    """The queues that are popped, by group, topic and queue id; each change goes to the journal.

    Args:
        journal: of the broker.
        offsets: gets what each group has done.

    Attributes:
        count: messages in flight, of all groups.
        armed: called when a queue has messages that are due before any other.
    """

    def __init__(self, journal: PopJournal, offsets: ConsumerOffsets) -> None:
        self._journal, self._offsets = journal, offsets
        self._uncommitted: set[PopQueue] = set()
        journal.before_write = self._commit_all
        self._queues: dict[tuple[str, str, int], PopQueue] = {}
        self._by_number: dict[int, PopQueue] = {}
        self._next_number = 0
        self._of_group: Counter[str] = Counter()
        self._due: list[tuple[int, int, int]] = []
        self.count = 0
        self.armed: Callable[[], object] = lambda: None

    def __iter__(self) -> Iterator[PopQueue]:
        return iter(list(self._queues.values()))

    def __len__(self) -> int:
        return len(self._queues)

    def get(self, group: str, topic: str, queue_id: int) -> PopQueue | None:
        """Returns a queue; None if the group does not pop it."""
        return self._queues.get((group, topic, queue_id))

    def enter(self, group: str, topic: str, queue_id: int, next_offset: int) -> PopQueue:
        """Enters a queue that a group begins to pop at an offset."""
        event = events.Named(self._next_number, group, topic, queue_id)
        queue = self._named(event, next_offset)
        self._journal.note(event)
        self._journal.note(events.Moved(queue.number, next_offset))
        self._offsets.commit(group, topic, queue_id, next_offset)
        return queue

    def count_of_group(self, group: str) -> int:
        """Messages in flight of a group."""
        return self._of_group[group]

    # -- what happens -------------------------------------------------------------------------

    def take(
        self,
        queue: PopQueue,
        offsets: Sequence[int],
        next_offset: int,
        pop_ms: int,
        invisible_ms: int,
        on_written: OnWritten,
    ) -> None:
        """Puts popped messages in flight."""
        event = events.taken(queue.number, pop_ms, invisible_ms, next_offset, offsets)
        self._taken(queue, event)
        self._commit(queue)
        self._journal.note(event, on_written)

    def skip(self, queue: PopQueue, next_offset: int) -> None:
        """Reads on behind messages that the group does not want."""
        queue.next_offset = next_offset
        self._commit(queue)
        self._journal.note(events.Skipped(queue.number, next_offset))

    def move(self, queue: PopQueue, next_offset: int) -> None:
        """Forgets what is in flight, and reads on elsewhere."""
        self._moved(queue, next_offset)
        self._offsets.commit(queue.group, queue.topic, queue.queue_id, next_offset)
        self._journal.note(events.Moved(queue.number, next_offset))

    def acknowledge(
        self, queue: PopQueue, offsets: Sequence[int], on_written: OnWritten | None
    ) -> int:
        """Takes messages out that are done; returns how many of them were in flight."""
        done = [offset for offset in offsets if self._discard(queue, offset)]
        if done:
            self._commit(queue)
            self._journal.note(events.Done(queue.number, done), on_written)
        return len(done)

    def acknowledge_one(self, queue: PopQueue, offset: int, on_written: OnWritten) -> bool:
        """Takes a message out that is done; False if it was not in flight.

        The group's offset is committed once for all messages of this turn of the loop.
        """
        if not self._discard(queue, offset):
            return False
        self._uncommitted.add(queue)
        self._journal.note_done(queue.number, offset, on_written)
        return True

    def renew(
        self,
        queue: PopQueue,
        offset: int,
        pop_ms: int,
        due_ms: int,
        on_written: OnWritten,
        *,
        is_suspended: bool = False,
    ) -> bool:
        """Sets the invisible time of a message anew; False if it is not in flight."""
        if offset not in queue.in_flight:
            return False
        self._put(queue, offset, due_ms, pop_ms, is_suspended)
        event = events.Renewed(queue.number, offset, due_ms, pop_ms, is_suspended)
        self._journal.note(event, on_written)
        return True

    def put_off(self, queue: PopQueue, popped: Popped, due_ms: int) -> None:
        """Lets a message be due later, while it is copied or cannot be; the journal is not told."""
        if popped.offset in queue.in_flight:
            self._put(queue, popped.offset, due_ms, popped.pop_ms, popped.is_suspended)

    def copied(
        self, queue: PopQueue, offset: int, topic: str, queue_id: int, copy_offset: int
    ) -> None:
        """Takes a message out of which the group's retry topic has a copy."""
        if self._discard(queue, offset):
            self._commit(queue)
            event = events.Copied(queue.number, offset, topic, queue_id, copy_offset)
            self._journal.note(event)

    def put_batch(
        self, queue: PopQueue, batch: OrderedBatch | None, on_written: OnWritten | None
    ) -> None:
        """Keeps the state of a queue that is popped in order."""
        queue.batch = batch
        if batch is not None:
            queue.next_offset = batch.committed
            self._offsets.commit(queue.group, queue.topic, queue.queue_id, batch.committed)
        self._journal.note(events.Ordered(queue.number, batch), on_written)

    def remove_topic(self, topic: str) -> None:
        """Forgets the queues of a deleted topic."""
        self._remove([queue for queue in self._queues.values() if queue.topic == topic])

    def remove_group(self, group: str) -> None:
        """Forgets the queues of a deleted group."""
        self._remove([queue for queue in self._queues.values() if queue.group == group])

    def groups_of(self, topic: str) -> set[str]:
        """The groups that pop a topic."""
        return {group for group, name, _ in self._queues if name == topic}

    def _remove(self, queues: list[PopQueue]) -> None:
        for queue in queues:
            self._forget(queue)
            self._journal.note(events.Removed(queue.number))

    # -- due messages -------------------------------------------------------------------------

    def next_due_ms(self) -> int | None:
        """When the next messages are due, at the earliest; None if none are in flight."""
        return self._due[0][0] if self._due else None

    def due(self, now_ms: int) -> tuple[PopQueue, list[Popped]] | None:
        """Takes the next page with due messages; `rearm` must follow, when those are put off."""
        while self._due and self._due[0][0] <= now_ms:
            due_ms, number, page = heapq.heappop(self._due)
            queue = self._by_number.get(number)
            if queue is None or not queue.in_flight.disarm(page, due_ms):
                continue
            found = [popped for popped in queue.in_flight.of_page(page) if popped.due_ms <= now_ms]
            if not found:
                self._arm(queue, page)
                continue
            return queue, found
        return None

    def rearm(self, queue: PopQueue, offset: int) -> None:
        """Arms the page of an offset again."""
        if self._by_number.get(queue.number) is queue:
            self._arm(queue, InFlight.page_of(offset))

    def _put(
        self, queue: PopQueue, offset: int, due_ms: int, pop_ms: int, is_suspended: bool
    ) -> None:
        before = queue.in_flight.count
        must_arm = queue.in_flight.put(offset, due_ms, pop_ms, is_suspended=is_suspended)
        self._counted(queue, queue.in_flight.count - before)
        if must_arm:
            self._arm(queue, InFlight.page_of(offset))

    def _arm(self, queue: PopQueue, page: int) -> None:
        due_ms = queue.in_flight.arm(page)
        if due_ms is None:
            return
        heapq.heappush(self._due, (due_ms, queue.number, page))
        if self._due[0][0] == due_ms:
            self.armed()
        if len(self._due) % STALE_TIMES_MAX == 0:
            self._drop_stale()

    def _drop_stale(self) -> None:
        pages = sum(queue.in_flight.page_count for queue in self._queues.values())
        if len(self._due) > 2 * pages + STALE_TIMES_MAX:
            self._due = [
                entry
                for entry in set(self._due)
                if (queue := self._by_number.get(entry[1])) is not None
                and queue.in_flight.is_armed(entry[2], entry[0])
            ]
            heapq.heapify(self._due)

    # -- the state in memory ------------------------------------------------------------------

    def _named(self, event: events.Named, next_offset: int) -> PopQueue:
        self._next_number = max(self._next_number, event.number + 1)
        key = event.group, event.topic, event.queue_id
        queue = PopQueue(*key, event.number, next_offset)
        self._queues[key] = self._by_number[event.number] = queue
        return queue

    def _taken(self, queue: PopQueue, event: events.Taken) -> None:
        due_ms, page, must_arm = event.pop_ms + event.invisible_ms, -1, False
        flight, before = queue.in_flight, queue.in_flight.count
        for offset in event.offsets:
            if InFlight.page_of(offset) != page:
                if must_arm:
                    self._arm(queue, page)
                page, must_arm = InFlight.page_of(offset), False
            must_arm |= flight.put(offset, due_ms, event.pop_ms)
        if must_arm:
            self._arm(queue, page)
        self._counted(queue, flight.count - before)
        queue.next_offset = event.next_offset

    def _discard(self, queue: PopQueue, offset: int) -> bool:
        if not queue.in_flight.discard(offset):
            return False
        self._counted(queue, -1)
        return True

    def _moved(self, queue: PopQueue, next_offset: int) -> None:
        self._counted(queue, -queue.in_flight.count)
        queue.in_flight.clear()
        queue.batch = None
        queue.next_offset = next_offset

    def _forget(self, queue: PopQueue) -> None:
        self._moved(queue, 0)
        del self._queues[queue.group, queue.topic, queue.queue_id]
        del self._by_number[queue.number]

    def _counted(self, queue: PopQueue, change: int) -> None:
        self.count += change
        self._of_group[queue.group] += change
        if not self._of_group[queue.group]:
            del self._of_group[queue.group]

    def _commit_all(self) -> None:
        if self._uncommitted:
            for queue in self._uncommitted:
                if self._by_number.get(queue.number) is queue:  # else it was removed
                    self._commit(queue)
            self._uncommitted.clear()

    def _commit(self, queue: PopQueue) -> None:
        self._offsets.commit(queue.group, queue.topic, queue.queue_id, queue.committed)

    # -- the start ----------------------------------------------------------------------------

    def replay(self, event: events.Event) -> None:
        """Does again what an event of the journal says; a copy has survived the stop."""
        if isinstance(event, events.Named):
            known = self._queues.get((event.group, event.topic, event.queue_id))
            if known is not None and known.number != event.number:
                self._forget(known)
                known = None
            if known is None:
                self._named(event, 0)
            return
        queue = self._by_number.get(event.number)
        if queue is None:
            return  # it was removed, or a snapshot names it later on
        match event:
            case events.Taken():
                self._taken(queue, event)
            case events.Done(_, offsets):
                for offset in offsets:
                    self._discard(queue, offset)
            case events.Copied(_, offset):
                self._discard(queue, offset)
            case events.Renewed(_, offset, due_ms, pop_ms, is_suspended):
                self._put(queue, offset, due_ms, pop_ms, is_suspended)
            case _:
                self._replay_state(queue, event)

    def _replay_state(self, queue: PopQueue, event: events.Event) -> None:
        match event:
            case events.State(_, next_offset, entries, is_first):
                if is_first:
                    self._moved(queue, next_offset)
                for entry in entries:
                    self._put(queue, *entry)
            case events.Moved(_, next_offset):
                self._moved(queue, next_offset)
            case events.Skipped(_, next_offset):
                queue.next_offset = next_offset
            case events.Ordered(_, batch):
                queue.batch = batch
                if batch is not None:
                    queue.next_offset = batch.committed
            case events.Removed():
                self._forget(queue)

    def settle(self, end_of: Callable[[str, int], int | None]) -> None:
        """Fits what the journal said to the committed offsets and to the ends of the queues.

        A power cut may have taken the last events of the journal, or the last messages of a queue.

        Args:
            end_of: behind the last message of a topic's queue; None if nobody knows.
        """
        for queue in self:
            committed = self._offsets.get(queue.group, queue.topic, queue.queue_id) or 0
            end = end_of(queue.topic, queue.queue_id)
            before = queue.in_flight.count
            queue.in_flight.discard_before(committed)
            next_offset = max(queue.next_offset, committed)
            if end is not None and next_offset > end:
                for popped in list(queue.in_flight):
                    if popped.offset >= end:
                        queue.in_flight.discard(popped.offset)
                next_offset, queue.batch = end, None
            queue.next_offset = next_offset
            self._counted(queue, queue.in_flight.count - before)
            if queue.batch is None:
                self._commit(queue)

    def start_again(self) -> None:
        """Forgets what is in flight: groups get what they have not committed once more."""
        for queue in self:
            committed = self._offsets.get(queue.group, queue.topic, queue.queue_id) or 0
            self._moved(queue, committed)
