"""Runs of a broker on a simulated disk: recorded once, then crashed wherever one wants."""

from __future__ import annotations

import copy
import random
import shutil
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
from support.crash.book import Book, Crash, Logs, Queue, raise_for
from support.crash.disk_losses import Anything, Content, Everything, Loss, Metadata, Torn
from support.crash.disk_remains import Left
from support.crash.memory_loop import MemoryClock, MemoryLoop
from support.crash.memory_parts import LOCALHOST
from support.crash.simulated_disk import Fault, SimulatedDisk
from support.crash.workload import GROUP, KEYS, TOPIC, Workload, logs_of, queues_of, unserved_queues

from pocketmq.broker import Broker, BrokerConfig
from pocketmq.broker.store.disk.errors import StoreError
from pocketmq.broker.store.mending.check import check_directory
from pocketmq.protocol.messages import properties as props
from pocketmq.protocol.messages.records import decode_records
from pocketmq.protocol.requests.queries import QueryMessageRequest
from pocketmq.testing.clock import START_MS

SEGMENT_SIZE = 1500
"""Far below what a configuration may say: a few records."""

OUTAGE_MS_MAX = 3000
FINISH_S_MAX = 15
STEP_S = 0.5
FOUND_MAX = 64

SETTINGS: dict[str, Any] = {
    "listen_port": 0,
    "bind_address": LOCALHOST,
    "disk_space_free_min": 0,
    "vip_channel_enable": False,
    "flush_interval_commit_log": 200,
    "flush_consumer_offset_interval": 300,
    "flush_delay_offset_interval": 250,
    "clean_resource_interval": 3_600_000,
    "connection_idle_timeout": 86_400_000,
    "channel_expired_timeout": 86_400_000,
    "transaction_check_interval": 600,
    "transaction_time_out": 1000,
    "transaction_check_max": 1_000_000,
    "message_delay_level": "1s 2s 3s",
    "timer_precision_ms": 100,
}

LOSSES: Mapping[str, Callable[[random.Random], Loss]] = {
    "kill": lambda _: Loss(),
    "everything": lambda _: Everything(),
    "nothing": lambda _: Content(as_zeros=False),
    "zeros": lambda _: Content(as_zeros=True),
    "torn": Torn,
    "metadata": Metadata,
    "anything": Anything,
}
"""What a crash may take, by name; see `disk_losses`."""


class Recording(NamedTuple):
    """What one run left behind.

    Attributes:
        disk: with the journal of the run.
        book: what the clients knew in the end.
        first: so many points of faults there were until the broker had started.
        failed_reason: why the broker took no writes in the end.
        refused: how many requests it refused.
    """

    disk: SimulatedDisk
    book: Book
    first: int
    failed_reason: str | None
    refused: int


class Process:
    """A broker with its loop, disk and clock: ``with Process(…) as process:`` starts it.

    However the block ends, the process is killed.

    Args:
        root: `store` below it is the data directory.
        chance: decides what comes in turns.
        is_sync: SYNC_FLUSH.
        start_ms: the time.
        faults: errors of the disk, by point.
        before: the disk of a killed process that this one goes on with, and how far it came.
    """

    def __init__(
        self,
        root: Path,
        chance: random.Random,
        *,
        is_sync: bool,
        start_ms: int,
        faults: Mapping[int, Fault] | None = None,
        before: tuple[SimulatedDisk, int] | None = None,
    ) -> None:
        root.mkdir(exist_ok=True)
        self.data = root / "store"
        self.clock = MemoryClock(start_ms)
        self.disk = SimulatedDisk(root, self.clock.now_ms)
        if before is not None:
            self.disk.go_on(*before)
        self.disk.faults = dict(faults or {})
        self.loop = MemoryLoop(random.Random(chance.random()), lambda: self.disk.position)
        flush = "SYNC_FLUSH" if is_sync else "ASYNC_FLUSH"
        config = BrokerConfig(**SETTINGS, store_path_root_dir=str(self.data), flush_disk_type=flush)
        msgspec.structs.force_setattr(config, "segment_size", SEGMENT_SIZE)
        self.is_started = False
        self.broker = Broker(config, self.clock, files=self.disk, seed=chance.randrange(1 << 30))

    def __enter__(self) -> Process:
        try:
            self.start()
        except BaseException:
            self.kill()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()

    def start(self) -> None:
        """Starts the broker."""
        self.loop.run(self.broker.__aenter__())
        self.is_started = True

    def kill(self) -> None:
        """Ends everything; nothing more is done to the disk."""
        if not self.disk.is_off:
            self.disk.cut_power(self.data / "meta.db")
        self.loop.kill()
        store = getattr(self.broker, "store", None)
        if store is not None:
            store.metadata.close()
            store._directory.lock.release()
        self.disk.close()

    def stop(self) -> None:
        """A clean stop."""
        self.loop.run(self.broker.close())


class Explorer:
    """Crashes of brokers, all decided by a seed.

    Args:
        directory: for everything.
        seed: of the run.
        is_sync: SYNC_FLUSH.
    """

    def __init__(self, directory: Path, seed: int, *, is_sync: bool) -> None:
        directory.mkdir(exist_ok=True)
        self._directory, self.seed, self.is_sync = directory, seed, is_sync
        self._count = 0
        self.states = self.starts = 0

    def _chance(self, *what: object) -> random.Random:
        return random.Random(f"{self.seed} {what}")

    def _new_root(self) -> Path:
        self._count += 1
        return self._directory / str(self._count)

    def record(self, steps: int, faults: Mapping[int, Fault] | None = None) -> Recording:
        """A run on an empty disk."""
        book = Book(self.is_sync)
        root = self._new_root()
        chance = self._chance("record")
        process = Process(root, chance, is_sync=self.is_sync, start_ms=START_MS, faults=faults)
        with process:
            first = process.disk.points
            refused = self._work(process, book, chance, steps, "a")
            reason = process.broker.store.disk.failed_reason
        return Recording(process.disk, book, first, reason, refused)

    def go_on(
        self,
        run: Recording,
        position: int,
        how: str,
        steps: int,
        faults: Mapping[int, Fault] | None = None,
    ) -> Recording:
        """Restarts a broker on what a crash left, compares, and has it work on.

        A killed process leaves the disk as it is; what was not synced may still be lost.
        """
        self.states += 1
        position = max(position, run.disk.base_position)
        chance = self._chance("go on", self.states, position, how)
        book, crash = copy.deepcopy(run.book), Crash(position, how == "kill")
        root, before = self._new_root(), (run.disk, position) if crash.is_kill else None
        with self._telling(run, position, how, root):
            run.disk.left_by(position, LOSSES[how](chance)).make(root)
            start_ms = _time_of(run, position) + chance.randrange(OUTAGE_MS_MAX)
            process = Process(
                root, chance, is_sync=self.is_sync, start_ms=start_ms, faults=faults, before=before
            )
            reason: str | None = None
            refused = 0
            try:
                process.start()
                compare_at_start(process, book, [crash])
                logs = logs_of(process.broker)
                book.go_on(logs, crash, unserved_queues(process.broker, logs))
                book.note_places(process.broker.offsets)
                refused = self._work(process, book, chance, steps, f"b{self.states}")
                reason = process.broker.store.disk.failed_reason
            except (OSError, StoreError):
                # It does not start on a disk that fails: it may do so when the disk is well.
                if not process.disk.hit or process.is_started:
                    raise
                book.go_on(None, crash)
                book.note_places(getattr(process.broker, "offsets", ()))
            finally:
                process.kill()
        return Recording(process.disk, book, 0, reason, refused)

    @contextmanager
    def _telling(self, run: Recording, position: int, how: str, root: Path) -> Iterator[None]:
        """Says with each error how to have it again."""
        try:
            yield
        except Exception as e:
            flush = "SYNC" if self.is_sync else "ASYNC"
            op = run.disk.journal[position - 1] if position else None
            raise AssertionError(
                f"{flush}_FLUSH, {how} behind op {position} ({op and op.kind} {op and op.path}), "
                f"faults {run.disk.hit}, repeat it with --seed={self.seed}, see {root}: {e}"
            ) from e

    def _work(
        self, process: Process, book: Book, chance: random.Random, steps: int, name: str
    ) -> int:
        """Has clients at work on a broker; returns how many requests were refused."""
        workload = Workload(
            chance, process.broker, process.loop, process.disk, process.clock, book, name
        )
        process.loop.run(workload.begin())
        process.loop.run(workload.run(steps))
        return workload.refused

    # -- crashes ------------------------------------------------------------------------------

    def crash(self, run: Recording, position: int, how: str) -> None:
        """Restarts a broker on what a crash left, and compares all there is.

        Raises:
            AssertionError: it says how to do that again.
        """
        self.crash_at(run, [(position, how)])

    def crash_at(self, run: Recording, points: Iterable[tuple[int, str]]) -> None:
        """The same for many crashes: behind so many ops, and how.

        Many leave the same. Then one broker is started for all of them, and is compared with what
        must hold after each.

        Raises:
            AssertionError: it says how to do that again.
        """
        alike: dict[bytes, list[tuple[int, str]]] = defaultdict(list)
        for point in points:
            position, how = max(point[0], run.disk.base_position), point[1]
            alike[self._left_by(run, position, how).digest()].append((position, how))
            self.states += 1
        for crashes in alike.values():
            self._crash(run, crashes)

    def _left_by(self, run: Recording, position: int, how: str) -> Left:
        chance = self._chance("crash", position, how)
        return run.disk.left_by(position, LOSSES[how](chance))

    def _crash(self, run: Recording, alike: list[tuple[int, str]]) -> None:
        self.starts += 1
        position, how = max(alike)
        root = self._new_root()
        with self._telling(run, position, how, root):
            self._left_by(run, position, how).make(root)
            crashes = [Crash(position, how == "kill") for position, how in alike]
            chance = self._chance("compare", position, how)
            self._compare(root, copy.deepcopy(run.book), crashes, chance, _time_of(run, position))
        shutil.rmtree(root)

    def _compare(
        self, root: Path, book: Book, crashes: list[Crash], chance: random.Random, now_ms: int
    ) -> None:
        start_ms = now_ms + chance.randrange(OUTAGE_MS_MAX)
        process = Process(root, chance, is_sync=self.is_sync, start_ms=start_ms)
        with process:
            compare_at_start(process, book, crashes)
            before = logs_of(process.broker)
            for entry in book.entries.values():
                entry.crashes += 1
            workload = Workload(
                chance, process.broker, process.loop, process.disk, process.clock, book, "z"
            )
            process.loop.run(_finish(workload, process, book, before, crashes))
            process.stop()
        deleted = process.data / "deleted"
        assert not deleted.exists() or not any(deleted.iterdir()), (
            "files of deleted topics are left"
        )
        raise_for(check_directory(process.data).problems, "the check of the directory")


async def _finish(
    workload: Workload, process: Process, book: Book, before: Logs, crashes: list[Crash]
) -> None:
    """Lets everything come that waits; then the broker must be ready for more."""
    await workload.begin()
    passed = 0.0
    while passed < FINISH_S_MAX and _is_undelivered(book, logs_of(process.broker), crashes):
        await process.clock.advance(STEP_S)
        passed += STEP_S
    await process.clock.advance(1.5)
    logs = logs_of(process.broker)
    for crash in crashes:
        raise_for(book.compare_at_end(logs, before, crash), f"in the end, after {crash}")
    raise_for(await _compare_keys(workload, logs), "searched by key")
    for topic, queue_id in queues_of(process.broker):
        if topic == TOPIC:
            queue_log = process.broker.store.find_log(topic, queue_id)
            assert queue_log is not None
            end = queue_log.max_offset
            answer = await workload.client.send(b"next", topic=topic, queue_id=queue_id)
            assert answer.queue_offset == end
            pulled = await workload.client.pull(end, topic=topic, queue_id=queue_id)
            assert pulled.bodies == [b"next"]


def _is_undelivered(book: Book, logs: Logs, crashes: list[Crash]) -> bool:
    return any(book.undelivered(logs, crash) for crash in crashes)


async def _compare_keys(workload: Workload, logs: Logs) -> list[str]:
    """What is wrong with a search by key."""
    for number in range(KEYS):
        key = f"k{number}"
        request = QueryMessageRequest(
            topic=TOPIC, key=key, max_num=FOUND_MAX, begin_timestamp=0, end_timestamp=2**62
        )
        answer = await workload.client.call(request)
        found = {m.body for m in decode_records(answer.body)} if answer.code == 0 else set()
        held = {
            m.body
            for (topic, _), messages in logs.items()
            for m in messages
            if topic == TOPIC and m.properties.get(props.KEYS) == key
        }
        if found != held and len(held) < FOUND_MAX:
            return [f"{key} finds {len(found)} messages of {len(held)}"]
    return []


def compare_at_start(process: Process, book: Book, crashes: list[Crash]) -> None:
    """What must hold as soon as a broker runs again, whichever of these crashes it was."""
    broker = process.broker
    # Files that a failing disk keeps from being recovered are left as they are for the next start.
    logs = logs_of(broker)
    unserved = unserved_queues(broker, logs)
    assert not unserved or process.disk.hit, f"{list(broker.store.damaged)}"
    wrong = []
    for topic, queue_id in queues_of(broker):
        config = broker.topics.get(topic)
        if config is None:
            wrong.append(f"{topic} has messages and is unknown")
        elif queue_id >= config.read_queue_nums:
            wrong.append(f"{topic} has messages in queue {queue_id}, of {config.read_queue_nums}")
    raise_for(wrong, "right after the start")
    for crash in crashes:
        wrong = book.compare_at_start(logs, crash, unserved)
        wrong += _compare_offsets(broker, book, crash, unserved)
        raise_for(wrong, f"right after the start, after {crash}")


def _compare_offsets(broker: Broker, book: Book, crash: Crash, unserved: set[Queue]) -> list[str]:
    stands: list[tuple[Queue, int | None]] = [
        ((topic, queue_id), offset)
        for _, topic, offsets in broker.offsets
        for queue_id, offset in offsets.items()
    ]
    stands += [(queue, broker.offsets.get(GROUP, *queue)) for queue in book.commits]
    wrong = []
    for queue, offset in stands:
        if queue not in unserved:
            queue_log = broker.store.find_log(*queue)
            end = 0 if queue_log is None else queue_log.max_offset
            wrong += book.compare_offset(queue, offset, end, crash)
    return wrong


def _time_of(run: Recording, position: int) -> int:
    return run.disk.journal[position - 1].now_ms if position else START_MS
