"""A meta.db that is damaged or knows something else than the logs, and what is made of it."""

from __future__ import annotations

import shutil
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest
from support.store.repairs import BODIES, contents, enter_topic, filled, left, repaired
from support.store.stores import TOPIC, cut_file, open_store, put, queue_directory

from pocketmq.broker.store.mending.check import check_directory
from pocketmq.broker.store.mending.repair import repair_directory
from pocketmq.broker.store.metadata.features import GAPS
from pocketmq.broker.store.metadata.metadata import Metadata
from pocketmq.broker.store.metadata.schema import SCHEMA_VERSION
from pocketmq.testing.clock import VirtualClock

GROUP = "group-a"


def change(directory: Path, *statements: str) -> None:
    with closing(sqlite3.connect(directory / "meta.db")) as database:
        for statement in statements:
            database.execute(statement)
        database.commit()


def garbage(directory: Path) -> None:
    (directory / "meta.db").write_bytes(b"no database" * 1000)


def empty(directory: Path) -> None:
    cut_file(directory / "meta.db", 0)


def half(directory: Path) -> None:
    path = directory / "meta.db"
    cut_file(path, path.stat().st_size // 2)


def damaged_page(directory: Path) -> None:
    """The page that holds the consumer offsets."""
    with closing(sqlite3.connect(directory / "meta.db")) as database:
        (page,) = database.execute(
            "SELECT rootpage FROM sqlite_schema WHERE name = 'consumer_offsets'"
        ).fetchone()
        (size,) = database.execute("PRAGMA page_size").fetchone()
    content = bytearray((directory / "meta.db").read_bytes())
    content[(page - 1) * size : page * size] = b"\xff" * size
    (directory / "meta.db").write_bytes(content)


def broken_topic(directory: Path) -> None:
    change(directory, "UPDATE topics SET config = '{'")


def broken_state(directory: Path) -> None:
    change(directory, "INSERT OR REPLACE INTO state VALUES ('topic_version', '{')")


@pytest.mark.parametrize("harm", [garbage, empty, half, damaged_page, broken_topic, broken_state])
async def test_one_that_cannot_be_read_is_made_again(
    tmp_path: Path, clock: VirtualClock, harm: Callable[[Path], object]
) -> None:
    directory = await filled(tmp_path / "data", clock)
    harm(directory)
    damaged = (directory / "meta.db").read_bytes()
    assert "meta.db" in check_directory(directory).problems[0]
    report = repaired(directory)
    assert "make it again with the" in report.steps[0]
    assert (report.folder / "meta.db").read_bytes() == damaged
    assert await left(directory, clock) == BODIES
    with closing(sqlite3.connect(directory / "meta.db")) as database:
        assert [name for (name,) in database.execute("SELECT name FROM topics")] == [TOPIC]


async def test_a_repaired_log_of_a_broker_set_is_no_copy_any_more(
    tmp_path: Path, clock: VirtualClock
) -> None:
    directory = await filled(tmp_path / "data", clock)
    change(
        directory,
        "INSERT INTO state VALUES ('member_set_id', 'abc')",
        "INSERT INTO log_epochs VALUES (1, 1, 0), (1, 4, 500), (2, 1, 0)",
    )
    assert check_directory(directory).problems == []
    segment = next(iter(sorted(queue_directory(directory).glob("*.log"))))
    content = bytearray(segment.read_bytes())
    content[200] ^= 0xFF
    segment.write_bytes(content)
    report = repaired(directory)
    assert any("copied anew" in step for step in report.steps)
    with closing(sqlite3.connect(directory / "meta.db")) as database:
        rows = database.execute("SELECT * FROM log_epochs ORDER BY number").fetchall()
    assert [(number, position) for number, _, position in rows] == [(1, 0), (2, 0)]
    assert rows[0][1] < 0
    assert rows[1][1] == 1


async def test_what_can_be_read_of_it_is_kept(tmp_path: Path, clock: VirtualClock) -> None:
    directory = await filled(tmp_path / "data", clock)
    change(
        directory,
        f"INSERT INTO consumer_offsets VALUES ('{GROUP}', '{TOPIC}', 0, 2)",
        """INSERT INTO state VALUES ('owner', '"me"')""",
    )
    with closing(Metadata(directory / "meta.db")) as metadata:
        metadata.use_features([GAPS])
    broken_topic(directory)
    repaired(directory)
    with closing(sqlite3.connect(directory / "meta.db")) as database:
        assert database.execute("PRAGMA user_version").fetchone() == (SCHEMA_VERSION,)
    store = open_store(directory, clock)
    assert store.metadata.features == {GAPS}
    assert store.metadata.consumer_offsets() == [(GROUP, TOPIC, 0, 2)]
    assert store.metadata.state("owner") == '"me"'
    assert not store.was_clean
    await store.close()


async def test_what_a_later_release_wrote_is_left_as_it_is(
    tmp_path: Path, clock: VirtualClock
) -> None:
    directory = await filled(tmp_path / "data", clock)
    text = """[["tiers","0.3.0","logs in an object store"]]"""
    change(directory, f"INSERT INTO state VALUES ('features', '{text}')", "PRAGMA user_version=2")
    before = contents(directory)
    (problem,) = check_directory(directory).problems
    assert "logs in an object store (tiers, since 0.3.0): run PocketMQ 0.3.0" in problem
    report = repair_directory(directory, directory / "set-aside", dry_run=False)
    assert report.steps == []
    assert "(tiers, since 0.3.0)" in report.refusals[0]
    assert contents(directory) == before


async def test_groups_are_put_back_to_the_end_of_a_log(tmp_path: Path, clock: VirtualClock) -> None:
    directory = await filled(tmp_path / "data", clock)
    change(directory, f"INSERT INTO consumer_offsets VALUES ('{GROUP}', '{TOPIC}', 0, 77)")
    assert check_directory(directory).problems == []
    assert "stands at offset 77" in check_directory(directory).notes[0]
    report = repaired(directory)
    assert f"put group {GROUP} back from offset 77 to 5" in report.steps[0]
    assert check_directory(directory).notes == []


async def test_a_log_that_it_does_not_know_is_entered(tmp_path: Path, clock: VirtualClock) -> None:
    directory = await filled(tmp_path / "data", clock)
    change(directory, "DELETE FROM queue_logs WHERE queue_id = 3")
    assert "meta.db does not know it" in check_directory(directory).problems[0]
    assert "enter queue 3" in repaired(directory).steps[0]
    assert await left(directory, clock, queue_id=3) == [b"x"]


async def test_a_copied_queue_is_moved_aside(tmp_path: Path, clock: VirtualClock) -> None:
    directory = await filled(tmp_path / "data", clock)
    shutil.copytree(queue_directory(directory), queue_directory(directory, queue_id=1))
    report = repaired(directory)
    assert "carry the number 1 of another queue" in report.steps[0]
    assert await left(directory, clock) == BODIES


async def test_a_number_that_is_not_its_own_is_corrected(
    tmp_path: Path, clock: VirtualClock
) -> None:
    directory = await filled(tmp_path / "data", clock)
    change(directory, "UPDATE queue_logs SET number = 9 WHERE queue_id = 0")
    assert "it is queue log 1, meta.db says 9" in check_directory(directory).problems[0]
    repaired(directory)
    assert await left(directory, clock) == BODIES


async def test_a_deleted_topic_does_not_come_back(tmp_path: Path, clock: VirtualClock) -> None:
    """A crash came when its files were gone, and its log numbers were not."""
    directory = await filled(tmp_path / "data", clock)
    change(
        directory, "DELETE FROM topics", "UPDATE state SET value = 'no' WHERE key = 'clean_stop'"
    )
    shutil.rmtree(directory / "queues" / TOPIC)
    assert check_directory(directory).problems == []
    assert repaired(directory).steps == []
    store = open_store(directory, clock)
    assert len(store.damaged) == 0
    enter_topic(store)
    put(store, b"again")
    await store.close()
