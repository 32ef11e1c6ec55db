from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from pocketmq.broker.store.disk.errors import DirectoryError, FormatError, WriteFailedError
from pocketmq.broker.store.log.checkpoint import Checkpoint
from pocketmq.broker.store.metadata.metadata import Metadata, QueueLogRow


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "meta.db"


@pytest.fixture
def metadata(path: Path) -> Iterator[Metadata]:
    metadata = Metadata(path)
    yield metadata
    metadata.close()


def new_log(number: int, topic: str, queue_id: int) -> QueueLogRow:
    return QueueLogRow(number, topic, queue_id, Checkpoint())


def fill_disk(metadata: Metadata) -> None:
    """Lets SQLite find no room for another page."""
    (pages,) = metadata._db.execute("PRAGMA page_count").fetchone()
    metadata._db.execute(f"PRAGMA max_page_count={pages}")


def test_everything_is_there_after_a_reopen(metadata: Metadata, path: Path) -> None:
    metadata.add_queue_logs([new_log(1, "T", 3), new_log(2, "T", 4)])
    metadata.save_checkpoints([(1, Checkpoint(10, 2, 99))])
    metadata.save_topics([("T", "{}"), ("U", "{}")])
    metadata.save_groups([("g", "{1}")])
    metadata.save_consumer_offsets([("g", "T", 3, 7), ("g", "T", 4, 0), ("h", "T", 3, 1)])
    metadata.set_state("key", "value")
    other = Metadata(path)
    try:
        assert other.queue_logs() == [
            QueueLogRow(1, "T", 3, Checkpoint(10, 2, 99)),
            QueueLogRow(2, "T", 4, Checkpoint(0, 0, 0)),
        ]
        assert other.topics() == {"T": "{}", "U": "{}"}
        assert other.groups() == {"g": "{1}"}
        assert sorted(other.consumer_offsets())[0] == ("g", "T", 3, 7)
        assert other.state("key") == "value"
        assert other.state("other") is None
    finally:
        other.close()


def test_removing_a_topic_takes_its_offsets_along(metadata: Metadata) -> None:
    metadata.save_topics([("T", "{}"), ("U", "{}")])
    metadata.save_consumer_offsets([("g", "T", 0, 7), ("g", "U", 0, 8)])
    metadata.remove_topic("T")
    assert metadata.topics() == {"U": "{}"}
    assert metadata.consumer_offsets() == [("g", "U", 0, 8)]
    metadata.remove_consumer_offsets("g")
    assert metadata.consumer_offsets() == []
    metadata.save_groups([("g", "{}")])
    metadata.remove_groups(["g"])
    assert metadata.groups() == {}


def test_the_last_number_is_kept_when_its_log_is_gone(metadata: Metadata) -> None:
    assert metadata.last_log_number() == 0
    metadata.add_queue_logs([new_log(1, "T", 0)])
    metadata.delete_topic("T", [1])
    assert metadata.deleted_logs() == {1}
    metadata.forget_deleted_logs([1])
    assert metadata.deleted_logs() == set()
    assert metadata.last_log_number() == 1
    metadata.adopt_queue_log(40, "U", 0)
    assert metadata.last_log_number() == 40


def test_new_logs_are_entered_all_or_none(metadata: Metadata) -> None:
    fill_disk(metadata)
    with pytest.raises(WriteFailedError, match="database or disk is full"):
        metadata.add_queue_logs([new_log(n, "T" * 120, n) for n in range(1, 999)])
    assert metadata.queue_logs() == []
    assert metadata.last_log_number() == 0


def test_a_number_of_another_log_is_not_adopted(metadata: Metadata) -> None:
    metadata.add_queue_logs([new_log(1, "T", 0)])
    with pytest.raises(FormatError, match="U queue 5 carry the log number 1, which is another"):
        metadata.adopt_queue_log(1, "U", 5)


@pytest.mark.parametrize("size", [100, 5000])
def test_a_damaged_file_is_named_with_the_ways_out(path: Path, size: int) -> None:
    path.write_bytes(b"no database".ljust(size, b"!"))
    with pytest.raises(FormatError) as caught:
        Metadata(path)
    assert str(caught.value).startswith(f"{path}: SQLite cannot read it")
    assert f"run `pocketmq store repair {path.parent}`" in str(caught.value)


def test_a_place_that_cannot_be_written_is_no_damage(tmp_path: Path) -> None:
    (tmp_path / "meta.db").mkdir()
    with pytest.raises(DirectoryError, match="unable to open"):
        Metadata(tmp_path / "meta.db")


def test_a_full_disk_changes_nothing(metadata: Metadata) -> None:
    metadata.save_consumer_offsets([("g", "T", 0, 1)])
    fill_disk(metadata)
    rows = [("g" * 200, "T", queue_id, 2) for queue_id in range(1000)]
    with pytest.raises(WriteFailedError, match=r"meta\.db failed: database or disk is full"):
        metadata.save_consumer_offsets(rows)
    with pytest.raises(WriteFailedError):
        metadata.set_state("k", "v" * 100_000)
    assert metadata.consumer_offsets() == [("g", "T", 0, 1)]
    metadata.save_consumer_offsets([("g", "T", 0, 2)])
    assert metadata.consumer_offsets() == [("g", "T", 0, 2)]
