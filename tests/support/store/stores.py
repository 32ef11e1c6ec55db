"""Stores in tests: made, written to, read back, and compared with what was put in."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Sequence, Sized
from pathlib import Path

from pocketmq.broker.store.disk.disk import DiskUse
from pocketmq.broker.store.disk.files import Files
from pocketmq.broker.store.log.queue_log import AS_CONFIGURED, WRITTEN, Durability, QueueLog, Waiter
from pocketmq.broker.store.log.segment import HEADER_SIZE
from pocketmq.broker.store.log.tags import encoded_tags_code
from pocketmq.broker.store.mending.check import check_directory
from pocketmq.broker.store.settings import StoreSettings
from pocketmq.broker.store.store import MessageStore
from pocketmq.protocol.errors import OperatingError
from pocketmq.protocol.messages.message import ReceivedMessage
from pocketmq.protocol.messages.properties import tags_code
from pocketmq.protocol.messages.records import decode_records, encode_record
from pocketmq.runtime.clock import Clock

TOPIC = "Orders"
BORN_MS = 1_600_000_000_000
HOST = bytes((127, 0, 0, 1)) + (10911).to_bytes(4, "big")
RECORD_OVERHEAD = 88 + 1 + len(TOPIC) + 2
"""Bytes of a record of `TOPIC` beside its body and properties."""

SMALL = StoreSettings(segment_size=1000, disk_free_min=0)


class Outcome:
    """What became of one append: told at most once, which this checks."""

    def __init__(self) -> None:
        self.is_told = False
        self.error: OperatingError | None = None

    def tell(self, error: OperatingError | None) -> None:
        assert not self.is_told, "an append was answered twice"
        self.is_told, self.error = True, error

    @property
    def is_stored(self) -> bool:
        return self.is_told and self.error is None


def record_of(
    queue_log: QueueLog,
    body: bytes,
    tags: str = "",
    *,
    store_time_ms: int = BORN_MS,
    born_host: bytes = HOST,
    place: tuple[int, int] | None = None,
) -> bytes:
    """A record as it belongs at the end of a log, or at another (queue offset, physical offset)."""
    queue_offset, physical = place or (queue_log.next_offset, queue_log.next_physical_offset)
    return encode_record(
        topic=queue_log.topic.encode(),
        queue_id=queue_log.queue_id,
        flag=0,
        queue_offset=queue_offset,
        physical_offset=physical,
        sys_flag=0,
        born_timestamp=BORN_MS,
        born_host=born_host,
        store_timestamp=store_time_ms,
        store_host=HOST,
        reconsume_times=0,
        prepared_transaction_offset=0,
        body=body,
        properties=f"TAGS\x01{tags}\x02".encode() if tags else b"",
    )


def append(
    store: MessageStore,
    body: bytes,
    tags: str = "",
    *,
    topic: str = TOPIC,
    queue_id: int = 0,
    durability: Durability = AS_CONFIGURED,
) -> Outcome:
    """Appends one record as a send does; it is stored by the next `commit`."""
    outcome = Outcome()
    queue_log = store.queue_log(topic, queue_id)
    record = record_of(queue_log, body, tags, store_time_ms=store.store_time(queue_log))
    code = encoded_tags_code(f"TAGS\x01{tags}\x02".encode() if tags else b"")
    store.committer.read_begins()
    queue_log.append(record, code, Waiter(outcome.tell, durability))
    store.schedule_commit(queue_log)
    store.committer.in_read = False
    return outcome


def add(
    queue_log: QueueLog,
    *bodies: bytes,
    tags: str = "",
    time_ms: int = BORN_MS,
    born_host: bytes = HOST,
) -> None:
    """Appends records to a log without a store, in one turn."""
    for body in bodies:
        record = record_of(queue_log, body, tags, store_time_ms=time_ms, born_host=born_host)
        queue_log.append(record, tags_code(tags), None)
        queue_log.last_timestamp = time_ms
    queue_log.commit(time_ms)


def put(store: MessageStore, *bodies: bytes, topic: str = TOPIC, queue_id: int = 0) -> None:
    """Appends records and commits them one by one, each of which must succeed."""
    for body in bodies:
        outcome = append(store, body, topic=topic, queue_id=queue_id, durability=WRITTEN)
        store.commit()
        assert outcome.is_stored, outcome.error


def messages(queue_log: QueueLog | None, count_max: int = 7) -> list[ReceivedMessage]:
    """Everything that a log holds, read in several steps; offsets must follow each other."""
    out: list[ReceivedMessage] = []
    if queue_log is None:
        return out
    offset = queue_log.min_offset
    while offset < queue_log.max_offset:
        part = queue_log.read(offset, count_max, 1 << 20)
        read = list(decode_records(part.data))
        assert [m.queue_offset for m in read] == list(range(offset, part.next_offset))
        assert len(read) == part.records > 0
        out += read
        offset = part.next_offset
    return out


def bodies(store: MessageStore, topic: str = TOPIC, queue_id: int = 0) -> list[bytes]:
    """The bodies of everything in one queue."""
    return [m.body for m in messages(store.find_log(topic, queue_id))]


def measure_disk(
    store: MessageStore,
    warning_percent: float,
    clean_percent: float,
    free_min: int,
    measure: Callable[[Path], DiskUse],
) -> None:
    """Has a store judge its disk by other limits and by what a function says of it."""
    store.disk._measure = measure
    store.disk.set_limits(warning_percent, clean_percent, free_min)


def abandon(store: MessageStore) -> None:
    """Ends a store as a killed process does: nothing is written, only the system's locks go."""
    store._opened.close()


def copy_of(directory: Path, name: str) -> Path:
    """The directory as the next process finds it when this one is killed now."""
    target = directory.parent / name
    shutil.copytree(directory, target, ignore=shutil.ignore_patterns("lock"))
    return target


def open_store(
    directory: Path,
    clock: Clock,
    settings: StoreSettings = SMALL,
    files: Files | None = None,
    senders: Sized = (),
) -> MessageStore:
    """A store with small segments, unless told otherwise."""
    return MessageStore(directory, settings, clock, files, senders)


def queue_directory(directory: Path, topic: str = TOPIC, queue_id: int = 0) -> Path:
    """Where a queue's segments are."""
    return directory / "queues" / topic / str(queue_id)


def segment_files(directory: Path, suffix: str = "log") -> list[Path]:
    """The segments of the first queue, in order."""
    return sorted(queue_directory(directory).glob(f"*.{suffix}"))


def cut_file(path: Path, size: int) -> None:
    """Leaves only the first bytes of a file."""
    with path.open("r+b") as file:
        file.truncate(size)


def damage(path: Path, position: int, data: bytes | None = None) -> None:
    """Changes a byte of a file, or puts data there."""
    content = bytearray(path.read_bytes())
    if data is None:
        data = bytes((content[position] ^ 0xFF,))
    content[position : position + len(data)] = data
    path.write_bytes(content)


def body_position(sizes: Sequence[int], index: int) -> int:
    """Where, in a segment's file, the body of a record begins, from the sizes of all records."""
    return HEADER_SIZE + sum(sizes[:index]) + 88


def assert_sound(directory: Path) -> None:
    """The check of a closed store finds nothing."""
    assert check_directory(directory).problems == []
