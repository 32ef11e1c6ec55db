from __future__ import annotations

from pathlib import Path

import pytest

from pocketmq.broker.store.disk.errors import StoreError, WriteFailedError
from pocketmq.broker.store.disk.files import Files
from pocketmq.broker.store.log.queue_log import QueueLog
from pocketmq.broker.store.log.segment import LOG_NUMBER_MAX
from pocketmq.broker.store.metadata.metadata import Metadata
from pocketmq.broker.store.metadata.new_logs import NewLogs


def log_of(new_logs: NewLogs, queue_id: int) -> QueueLog:
    return QueueLog(Files(), Path("nowhere"), "T", queue_id, new_logs.give_number(), 1024)


def entered(metadata: Metadata) -> list[tuple[int, int]]:
    return [(row.number, row.queue_id) for row in metadata.queue_logs()]


def test_numbers_count_on_from_the_last_one_ever_entered(metadata: Metadata) -> None:
    metadata.adopt_queue_log(40, "Gone", 0)
    metadata.delete_topic("Gone", [40])
    new_logs = NewLogs(metadata)
    assert [new_logs.give_number() for _ in range(3)] == [41, 42, 43]
    assert new_logs.numbers == {41, 42, 43}


def test_a_log_is_entered_once(metadata: Metadata) -> None:
    new_logs = NewLogs(metadata)
    logs = [log_of(new_logs, n) for n in range(4)]
    new_logs.enter(logs[:2])
    new_logs.enter(logs[1:3])
    assert entered(metadata) == [(1, 0), (2, 1), (3, 2)]
    assert new_logs.numbers == {4}


def test_a_number_that_was_never_entered_is_free_for_the_next_run(metadata: Metadata) -> None:
    new_logs = NewLogs(metadata)
    log_of(new_logs, 0)
    new_logs.forget([1])
    assert new_logs.give_number() == 2
    assert NewLogs(metadata).give_number() == 1


def test_logs_that_cannot_be_entered_are_as_new_as_before(metadata: Metadata) -> None:
    new_logs = NewLogs(metadata)
    (pages,) = metadata._db.execute("PRAGMA page_count").fetchone()
    metadata._db.execute(f"PRAGMA max_page_count={pages}")
    logs = [log_of(new_logs, n) for n in range(999)]
    with pytest.raises(WriteFailedError):
        new_logs.enter(logs)
    assert len(new_logs.numbers) == 999
    metadata._db.execute(f"PRAGMA max_page_count={pages + 100}")
    new_logs.enter(logs)
    assert len(entered(metadata)) == 999


def test_the_last_number_is_an_error_and_not_a_collision(metadata: Metadata) -> None:
    metadata.adopt_queue_log(LOG_NUMBER_MAX - 1, "T", 0)
    new_logs = NewLogs(metadata)
    assert new_logs.give_number() == LOG_NUMBER_MAX
    with pytest.raises(StoreError, match="new storePathRootDir"):
        new_logs.give_number()
