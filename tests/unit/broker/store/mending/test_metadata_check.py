from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

from support.store.repairs import contents, enter_topic, filled
from support.store.stores import TOPIC, abandon, copy_of, open_store, put

from pocketmq.broker.replication.member import DIRECTORY_ID, EPOCH
from pocketmq.broker.store.mending.metadata_check import survey_metadata
from pocketmq.broker.store.metadata.metadata import SET_ID
from pocketmq.testing.clock import VirtualClock


async def test_all_rows_are_read_and_nothing_is_changed(
    tmp_path: Path, clock: VirtualClock
) -> None:
    directory = await filled(tmp_path / "data", clock)
    before = contents(directory)
    survey = survey_metadata(directory)
    assert contents(directory) == before
    assert survey.problems == []
    assert [row[:3] for row in survey.rows["queue_logs"]] == [(1, TOPIC, 0), (2, TOPIC, 3)]
    assert survey.topics()[TOPIC].read_queue_nums == 8
    assert survey.state("clean_stop") == "yes"
    assert survey.state("nothing") is None


async def test_what_is_only_in_the_write_ahead_log_is_read(
    tmp_path: Path, clock: VirtualClock
) -> None:
    store = open_store(tmp_path / "data", clock)
    enter_topic(store)
    put(store, b"x")
    copy = copy_of(tmp_path / "data", "copy")
    abandon(store)
    assert (copy / "meta.db-wal").stat().st_size
    survey = survey_metadata(copy)
    assert survey.problems == []
    assert [row[1] for row in survey.rows["queue_logs"]] == [TOPIC]


def test_a_missing_file_is_no_problem(tmp_path: Path) -> None:
    survey = survey_metadata(tmp_path)
    assert (survey.is_there, survey.problems) == (False, [])


async def test_what_a_member_of_a_broker_set_knows_of_itself_is_sound(
    tmp_path: Path, clock: VirtualClock
) -> None:
    store = open_store(tmp_path / "data", clock)
    store.metadata.set_state(SET_ID, "0a1b")
    store.metadata.set_state(DIRECTORY_ID, "7f")
    store.metadata.set_state(EPOCH, "12")
    await store.close()
    survey = survey_metadata(tmp_path / "data")
    assert survey.problems == []
    assert survey.state(SET_ID) == "0a1b"


async def test_rows_of_the_wrong_kind_are_named_and_left_out(
    tmp_path: Path, clock: VirtualClock
) -> None:
    directory = await filled(tmp_path / "data", clock)
    with closing(sqlite3.connect(directory / "meta.db")) as database:
        database.execute("INSERT INTO consumer_offsets VALUES ('g', 'T', 0, 'many')")
        database.execute("INSERT INTO groups VALUES ('h', '[]')")
        database.commit()
    survey = survey_metadata(directory)
    assert survey.rows["consumer_offsets"] == survey.rows["groups"] == []
    assert survey.problems == [
        "the row 'h' of groups holds what does not belong there",
        "the row 'g' of consumer_offsets holds what does not belong there",
    ]


def test_a_foreign_database_is_told_of(tmp_path: Path) -> None:
    with closing(sqlite3.connect(tmp_path / "meta.db")) as database:
        database.execute("CREATE TABLE t (x)")
    problems = survey_metadata(tmp_path).problems
    assert problems[0] == "it is not PocketMQ's, or was never finished"
    assert "the table queue_logs cannot be read whole" in problems[1]
