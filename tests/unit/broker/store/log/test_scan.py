from __future__ import annotations

from pathlib import Path

import pytest
from support.store.disks import FailingFiles
from support.store.stores import BORN_MS, RECORD_OVERHEAD, damage, record_of

from pocketmq.broker.store.log import scan as scan_module
from pocketmq.broker.store.log.queue_log import QueueLog
from pocketmq.broker.store.log.scan import scan
from pocketmq.broker.store.log.segment import HEADER_SIZE
from pocketmq.protocol.messages.properties import tags_code

SIZES = [10, 200, 30]


@pytest.fixture
def path(queue_log: QueueLog) -> Path:
    """The only segment's file, with records of `SIZES`, the first of them with a tag."""
    for number, size in enumerate(SIZES):
        tags = "" if number else "red"
        queue_log.append(record_of(queue_log, bytes(size), tags), tags_code(tags), None)
    queue_log.commit(BORN_MS)
    (segment,) = queue_log.segments
    return segment.log_path


def scanned(
    files: FailingFiles, queue_log: QueueLog, position: int = 0, offset: int = 0
) -> list[int]:
    """The offsets of the records that a scan finds."""
    return [r.offset for r in scan(files, queue_log.segments[0], position, offset)]


def test_records_are_told_with_their_places(
    files: FailingFiles, queue_log: QueueLog, path: Path
) -> None:
    found = list(scan(files, queue_log.segments[0], 0, 0))
    tagged = len("TAGS\x01red\x02")
    assert [r.size for r in found] == [
        RECORD_OVERHEAD + 10 + tagged, RECORD_OVERHEAD + 200, RECORD_OVERHEAD + 30
    ]  # fmt: skip
    assert [r.position for r in found] == [0, found[0].size, found[0].size + found[1].size]
    assert [r.tags_code for r in found] == [tags_code("red"), 0, 0]
    assert {r.timestamp for r in found} == {BORN_MS}
    assert scanned(files, queue_log, found[1].position, 1) == [1, 2]


@pytest.mark.parametrize("window", [1, 100, 130, 301, 1 << 20])
def test_wherever_a_window_ends(
    files: FailingFiles,
    queue_log: QueueLog,
    path: Path,
    window: int,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(scan_module, "READ_SIZE", max(window, 4))
    assert scanned(files, queue_log) == [0, 1, 2]


def test_the_first_bad_record_ends_it(files: FailingFiles, queue_log: QueueLog, path: Path) -> None:
    (_, second, _) = scan(files, queue_log.segments[0], 0, 0)
    damage(path, HEADER_SIZE + second.position + 100)
    assert scanned(files, queue_log) == [0]


def test_so_does_one_that_belongs_elsewhere(
    files: FailingFiles, queue_log: QueueLog, path: Path
) -> None:
    assert scanned(files, queue_log, 0, offset=1) == []
    with path.open("ab") as file:
        file.write(record_of(queue_log, b"x", place=(3, 0)))
    assert scanned(files, queue_log) == [0, 1, 2]
