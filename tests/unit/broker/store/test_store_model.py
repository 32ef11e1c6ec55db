"""The store against a model: whatever is done to it, and however it ends, it is what was told."""

from __future__ import annotations

import asyncio
import errno
import random
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
)
from support.store.disks import FailingFiles
from support.store.stores import (
    SMALL,
    Outcome,
    abandon,
    append,
    assert_sound,
    cut_file,
    damage,
    messages,
    record_of,
)

from pocketmq.broker.store.log import queue_log as queue_log_module
from pocketmq.broker.store.log.queue_log import AS_CONFIGURED, QueueLog, Waiter
from pocketmq.broker.store.log.segment import ENTRY, HEADER_SIZE
from pocketmq.broker.store.retention import Retention
from pocketmq.broker.store.store import MessageStore
from pocketmq.protocol.messages.message import ReceivedMessage
from pocketmq.protocol.messages.properties import tags_code
from pocketmq.protocol.messages.records import decode_records
from pocketmq.runtime.live import Live
from pocketmq.testing.clock import VirtualClock

QUEUES = [("A", 0), ("A", 1), ("B", 0)]
TAGS = ["", "x", "y", "Aa", "BB"]  # the last two have the same code
RESERVED_MS = 50_000
Queue = tuple[str, int]


class Message(NamedTuple):
    body: bytes
    tags: str
    time_ms: int


class Place(NamedTuple):
    """Where a record stands in its file."""

    offset: int
    at: int
    size: int


def message_of(found: ReceivedMessage) -> Message:
    return Message(found.body, found.properties.get("TAGS", ""), found.store_timestamp)


class JumpingClock(VirtualClock):
    """A clock that is set by hand, also backwards."""

    def __init__(self) -> None:
        super().__init__()
        self.jump_ms = 0

    def now_ms(self) -> int:
        return super().now_ms() + self.jump_ms


APPEND = st.tuples(
    st.sampled_from(QUEUES),
    st.tuples(st.binary(min_size=1, max_size=300), st.sampled_from(TAGS), st.integers(1, 4)),
)


@pytest.fixture(scope="module", autouse=True)
def small_index_tail() -> Iterator[None]:
    """So that reads meet entries in the file and in memory."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(queue_log_module, "INDEX_TAIL_SIZE_MAX", 100)
        yield


class StoreMachine(RuleBasedStateMachine):
    """`model` holds what was acknowledged; the first `gone` of each queue were removed by age."""

    def __init__(self) -> None:
        super().__init__()
        self.loop = asyncio.new_event_loop()
        self.root = Path(tempfile.mkdtemp(prefix="store-model-"))
        self.runs = 0
        self.directory = self.root / "0"
        self.clock = JumpingClock()
        self.model: dict[Queue, list[Message]] = {queue: [] for queue in QUEUES}
        self.gone = dict.fromkeys(QUEUES, 0)
        self.on_disk = dict.fromkeys(QUEUES, 0)
        self.files = FailingFiles()
        self.store = self.open()

    def open(self) -> MessageStore:
        self.files = FailingFiles()
        return MessageStore(self.directory, SMALL, self.clock, self.files)

    def teardown(self) -> None:
        try:
            self.loop.run_until_complete(self.store.close())
            assert_sound(self.directory)
        finally:
            self.loop.close()
            shutil.rmtree(self.root)

    @initialize()
    def start(self) -> None:
        assert self.store.was_clean

    # -- writing ------------------------------------------------------------------------------

    def append(
        self, queue: Queue, body: bytes, tags: str, count: int
    ) -> tuple[Outcome, list[Message]]:
        topic, queue_id = queue
        if count == 1:
            outcome = append(self.store, body, tags, topic=topic, queue_id=queue_id)
            time_ms = self.store.queue_log(*queue).last_timestamp
            return outcome, [Message(body, tags, time_ms)]
        outcome = Outcome()
        queue_log = self.store.queue_log(*queue)
        time_ms = self.store.store_time(queue_log)
        records = entries = b""
        for index in range(count):
            place = (
                queue_log.next_offset + index,
                queue_log.next_physical_offset + len(records),
            )
            record = record_of(queue_log, body, tags, store_time_ms=time_ms, place=place)
            records += record
            entries += ENTRY.pack(place[1], len(record), tags_code(tags))
        self.store.committer.read_begins()
        queue_log.append_many(records, entries, count, Waiter(outcome.tell, AS_CONFIGURED))
        self.store.schedule_commit(queue_log)
        self.store.committer.in_read = False
        return outcome, [Message(body, tags, time_ms)] * count

    @rule(
        appends=st.lists(APPEND, min_size=1, max_size=6),
        fail_after=st.none() | st.integers(0, 6),
        error=st.sampled_from([errno.ENOSPC, errno.EIO, errno.EDQUOT]),
        part=st.sampled_from([0.0, 0.3, 0.9, 1.0]),
        failures=st.sampled_from([1, 2, None]),
    )
    def turn(
        self,
        appends: list[tuple[Queue, tuple[bytes, str, int]]],
        fail_after: int | None,
        error: int,
        part: float,
        failures: int | None,
    ) -> None:
        """One turn of appends; perhaps the disk fails in the middle of it."""
        if fail_after is not None:
            self.files.fail_after(fail_after, error, part, failures)
        done = [(queue, *self.append(queue, *what)) for queue, what in appends]
        self.store.commit()
        self.files.heal()
        for queue in QUEUES:
            outcomes = [outcome for q, outcome, _ in done if q == queue]
            assert len({outcome.is_stored for outcome in outcomes}) <= 1, "all or nothing"
        for queue, outcome, sent in done:
            assert outcome.is_told
            if outcome.is_stored:
                self.model[queue] += sent
        self.store.disk.check()

    @rule(seconds=st.integers(-20, 40))
    def pass_time(self, seconds: int) -> None:
        self.clock.jump_ms += seconds * 1000

    @rule()
    def checkpoint(self) -> None:
        self.loop.run_until_complete(self.store.checkpoint())
        assert self.store.disk.failed_reason is None
        self.on_disk = {queue: len(sent) for queue, sent in self.model.items()}

    @rule()
    def remove_old(self) -> None:
        self.loop.run_until_complete(Retention(self.store, Live(RESERVED_MS)).run())
        limit = self.clock.now_ms() - RESERVED_MS
        for queue in QUEUES:
            queue_log = self.store.find_log(*queue)
            if queue_log is not None:
                removed = self.model[queue][self.gone[queue] : queue_log.min_offset]
                assert all(message.time_ms < limit for message in removed)
                self.gone[queue] = queue_log.min_offset

    # -- reading ------------------------------------------------------------------------------

    def held(self, queue: Queue) -> tuple[QueueLog | None, list[Message]]:
        return self.store.find_log(*queue), self.model[queue][self.gone[queue] :]

    @rule(
        queue=st.sampled_from(QUEUES),
        at=st.floats(0, 1),
        count_max=st.integers(1, 20),
        size_max=st.integers(0, 3000),
        wanted=st.none() | st.sets(st.sampled_from(TAGS[1:]), min_size=1),
    )
    def read(
        self, queue: Queue, at: float, count_max: int, size_max: int, wanted: set[str] | None
    ) -> None:
        queue_log, held = self.held(queue)
        if queue_log is None or not held:
            return
        offset = self.gone[queue] + int(at * (len(held) - 1))
        codes = None if wanted is None else {tags_code(tag) for tag in wanted}
        part = queue_log.read(offset, count_max, size_max, codes)
        read = list(decode_records(part.data))
        assert offset < part.next_offset <= queue_log.max_offset
        scanned = self.model[queue][offset : part.next_offset]
        matching = [
            (index, message)
            for index, message in enumerate(scanned, offset)
            if codes is None or tags_code(message.tags) in codes
        ]
        assert [(m.queue_offset, m.body) for m in read] == [(i, m.body) for i, m in matching]
        assert part.records == len(read) <= count_max
        assert len(read) <= 1 or len(part.data) <= size_max
        assert read or codes is not None

    @rule(queue=st.sampled_from(QUEUES), at=st.floats(0, 1), shift_ms=st.integers(-1500, 1500))
    def search_time(self, queue: Queue, at: float, shift_ms: int) -> None:
        queue_log, held = self.held(queue)
        if queue_log is None or not held:
            return
        wanted = held[int(at * (len(held) - 1))].time_ms + shift_ms
        first = self.gone[queue]
        lower = next((i for i, m in enumerate(held, first) if m.time_ms >= wanted), None)
        upper = [i for i, m in enumerate(held, first) if m.time_ms <= wanted]
        assert queue_log.offset_at_time(wanted) == (first + len(held) if lower is None else lower)
        assert queue_log.offset_at_time(wanted, upper=True) == (upper[-1] if upper else first)

    @invariant()
    def ends_are_right(self) -> None:
        for queue in QUEUES:
            queue_log, _ = self.held(queue)
            if queue_log is not None:
                assert queue_log.min_offset == self.gone[queue]
                assert queue_log.max_offset == len(self.model[queue])
                assert queue_log.next_offset == queue_log.max_offset

    # -- ends ---------------------------------------------------------------------------------

    @rule()
    def stop(self) -> None:
        self.loop.run_until_complete(self.store.close())
        assert_sound(self.directory)
        self.store = self.open()
        assert self.store.was_clean
        self.on_disk = {queue: len(sent) for queue, sent in self.model.items()}
        self.compare_all()

    @precondition(lambda self: any(self.model.values()))
    @rule(seed=st.integers(0, 1 << 32), how=st.sampled_from(["kill", "cut", "flip"]))
    def crash(self, seed: int, how: str) -> None:
        """The process is killed, or the power goes and the end of each log is not what it was."""
        torn = {queue for queue in QUEUES if (q := self.held(queue)[0]) and q._is_torn}
        tails = {queue: self.unsynced_tail(queue) for queue in QUEUES}
        self.runs += 1
        directory = self.root / str(self.runs)
        shutil.copytree(self.directory, directory, ignore=shutil.ignore_patterns("lock"))
        abandon(self.store)
        shutil.rmtree(self.directory)
        self.directory = directory
        chance = random.Random(seed)
        left = {queue: len(sent) for queue, sent in self.model.items()}
        for queue, (path, tail) in tails.items():
            if tail and how != "kill":
                # Cut inside a record, or a byte of its body changed: it and what follows is lost.
                victim = chance.choice(tail)
                left[queue] = victim.offset
                if how == "cut":
                    cut_file(directory / path, victim.at + chance.randrange(victim.size))
                else:
                    damage(directory / path, victim.at + 88)
        self.store = self.open()
        assert not self.store.was_clean
        for queue in QUEUES:
            queue_log, _ = self.held(queue)
            if queue_log is None:
                assert not self.model[queue]
                continue
            assert queue_log.max_offset >= self.on_disk[queue]
            if queue in torn and left[queue] == len(self.model[queue]):
                # A write failed and could not be undone either: refused messages may be back.
                self.take_what_came_back(queue, queue_log)
            else:
                assert queue_log.max_offset == left[queue]
                del self.model[queue][left[queue] :]
        self.compare_all()

    def unsynced_tail(self, queue: Queue) -> tuple[Path, list[Place]]:
        """The records of the newest segment that only the system's memory holds for sure."""
        queue_log, _ = self.held(queue)
        if queue_log is None or not queue_log.segments:
            return Path(), []
        segment = queue_log.segments[-1]
        tail = []
        for offset in range(segment.base_offset, queue_log.end_offset):
            physical, size, _ = ENTRY.unpack(queue_log.read_entries(offset, 1))
            position = segment.position_of(physical)
            if position >= queue_log.indexed_position:
                tail.append(Place(offset, position - segment.base_position + HEADER_SIZE, size))
        return segment.log_path.relative_to(self.directory), tail

    def take_what_came_back(self, queue: Queue, queue_log: QueueLog) -> None:
        known = len(self.model[queue])
        self.model[queue] += [message_of(m) for m in messages(queue_log) if m.queue_offset >= known]

    def compare_all(self) -> None:
        for queue in QUEUES:
            queue_log = self.store.find_log(*queue)
            if queue_log is not None:
                self.compare(queue, queue_log)

    def compare(self, queue: Queue, queue_log: QueueLog) -> None:
        found = [message_of(m) for m in messages(queue_log)]
        assert queue_log.min_offset == self.gone[queue]
        assert found == self.model[queue][self.gone[queue] : queue_log.max_offset]


TestStore = StoreMachine.TestCase
TestStore.settings = settings(max_examples=30, stateful_step_count=25, deadline=None)
