from __future__ import annotations

import shutil
from pathlib import Path

import pytest
import pytest_asyncio
from support.store.keyed import indexed, put_keyed
from support.store.stores import (
    RECORD_OVERHEAD,
    TOPIC,
    cut_file,
    damage,
    open_store,
    put,
    queue_directory,
    segment_files,
)

from pocketmq.broker.store.keys import key_index
from pocketmq.broker.store.keys.key_file import RUN_HEADER_SIZE
from pocketmq.broker.store.log.segment import ENTRY_SIZE, HEADER_SIZE
from pocketmq.broker.store.mending.check import check_directory
from pocketmq.testing.clock import VirtualClock


@pytest_asyncio.fixture
async def damaged(tmp_path: Path, clock: VirtualClock) -> Path:
    """A sound directory, which the test is about to damage."""
    store = open_store(tmp_path / "data", clock)
    put(store, *[bytes(400)] * 5)
    put(store, b"x", queue_id=3)
    await store.close()
    return tmp_path / "data"


def problem(directory: Path) -> str:
    (problem,) = check_directory(directory).problems
    return problem


def test_a_sound_directory_is_counted(damaged: Path) -> None:
    size = 5 * 400 + 1 + 6 * RECORD_OVERHEAD
    assert check_directory(damaged) == (2, 4, 6, size, [], [])


def test_an_empty_directory_is_sound(tmp_path: Path) -> None:
    assert check_directory(tmp_path) == (0, 0, 0, 0, [], [])


@pytest.mark.parametrize("at", [0, 4, 8, 20, 28, 84, 90])
def test_a_damaged_record_is_found_with_what_is_behind_it(damaged: Path, at: int) -> None:
    damage(segment_files(damaged)[-1], HEADER_SIZE + at)
    problems = check_directory(damaged).problems
    assert any("from position 1988 on are no sound record" in p for p in problems)


def test_a_damaged_entry_is_found(damaged: Path) -> None:
    damage(segment_files(damaged, "idx")[1], HEADER_SIZE + ENTRY_SIZE + 3)
    assert "1 entries are wrong or missing, the first is that of offset 3" in problem(damaged)


def test_a_short_and_a_long_index_are_found(damaged: Path) -> None:
    short, long, _ = segment_files(damaged, "idx")
    cut_file(short, HEADER_SIZE + ENTRY_SIZE)
    with long.open("ab") as file:
        file.write(bytes(ENTRY_SIZE))
    problems = check_directory(damaged).problems
    assert "entries are wrong or missing, the first is that of offset 1" in problems[0]
    assert "20 bytes more than the log has records" in problems[1]


def test_a_missing_index_is_found(damaged: Path) -> None:
    segment_files(damaged, "idx")[0].unlink()
    assert "it is missing" in check_directory(damaged).problems[0]


def test_an_index_of_another_log_is_found(damaged: Path) -> None:
    damage(segment_files(damaged, "idx")[0], 20)
    assert "its header is not that of its log" in problem(damaged)


def test_a_gap_between_segments_is_found(damaged: Path) -> None:
    segment_files(damaged)[1].unlink()
    assert "begins at (1988, 4), the segment before ends at (994, 2)" in problem(damaged)


def test_a_foreign_file_is_found(damaged: Path) -> None:
    (queue_directory(damaged) / "9.log").write_text("no log")
    assert "does not begin with the mark" in problem(damaged)


async def test_a_segment_of_another_queue_is_found(damaged: Path, clock: VirtualClock) -> None:
    for suffix in ("log", "idx"):
        for path in segment_files(damaged, suffix)[:1]:
            shutil.copy(
                queue_directory(damaged, TOPIC, 3) / path.name, queue_directory(damaged) / path.name
            )
    assert any("belongs to queue log 1, not to 2" in p for p in check_directory(damaged).problems)


async def test_a_damaged_key_file_is_told_of_and_no_problem(
    tmp_path: Path, clock: VirtualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(key_index, "RUN_RECORDS", 2)
    store = open_store(tmp_path / "data", clock)
    index, _ = indexed(store)
    for n in range(5):
        put_keyed(store, f"U{n}")
    await store.checkpoint()
    await index.run()
    await store.close()
    assert check_directory(tmp_path / "data").problems == []
    (path,) = segment_files(tmp_path / "data", "keys")
    damage(path, HEADER_SIZE + RUN_HEADER_SIZE)
    report = check_directory(tmp_path / "data")
    assert report.problems == []
    (note,) = report.notes
    assert note == (
        f"{path}: block 0 of a run is damaged; it is made again from the log when a search finds "
        f"it like that"
    )


async def test_the_empty_directory_of_a_queue_is_no_queue(
    tmp_path: Path, clock: VirtualClock
) -> None:
    store = open_store(tmp_path / "data", clock)
    put(store, b"a")
    await store.close()
    queue_directory(tmp_path / "data", "New", 3).mkdir(parents=True)
    assert check_directory(tmp_path / "data").problems == []
