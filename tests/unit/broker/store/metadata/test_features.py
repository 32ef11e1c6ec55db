"""Marks of a data directory: who does not know what it holds refuses it, and says what helps."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest

from pocketmq.broker.store.disk.errors import VersionError, WriteFailedError
from pocketmq.broker.store.log.checkpoint import Checkpoint
from pocketmq.broker.store.metadata import features
from pocketmq.broker.store.metadata.common_tables import Rows, read_common_tables, take_over
from pocketmq.broker.store.metadata.features import Feature
from pocketmq.broker.store.metadata.metadata import Metadata, QueueLogRow
from pocketmq.broker.store.metadata.schema import PLAIN_SCHEMA, RELEASE_STATE, SCHEMA_VERSION
from pocketmq.protocol.names import names
from pocketmq.runtime import VERSION

TIERS = Feature("tiers", "0.10.0", "logs in an object store")
CLOUDS = Feature("clouds", "0.9.0", "clouds")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "meta.db"


@pytest.fixture
def metadata(path: Path) -> Iterator[Metadata]:
    metadata = Metadata(path)
    yield metadata
    metadata.close()


def schema_of(path: Path) -> int:
    with closing(sqlite3.connect(path)) as database:
        return int(database.execute("PRAGMA user_version").fetchone()[0])


def later(path: Path, *used: Feature) -> None:
    """Marks a directory as a later release would."""
    with closing(sqlite3.connect(path)) as database:
        text = features.encode_features(used)
        database.execute("INSERT OR REPLACE INTO state VALUES ('features', ?)", (text,))
        database.commit()


def test_an_ordinary_directory_has_no_mark(metadata: Metadata, path: Path) -> None:
    metadata.set_state("clean_stop", "yes")
    metadata.add_queue_logs([QueueLogRow(1, "Orders", 0, Checkpoint())])
    metadata.change_states([("delay_offsets", "{}")], [])
    assert (schema_of(path), metadata.features) == (PLAIN_SCHEMA, set())


@pytest.mark.parametrize(
    ("use", "feature"),
    [
        (lambda m: m.set_state("user/ann", "{}"), features.USERS),
        (lambda m: m.set_state("pop_journal_begin", "0"), features.POPS),
        (lambda m: m.change_states([("redrive_task_g_1", "{}")], []), features.REDRIVES),
        (lambda m: m.set_state("member_set_id", "a"), features.BROKER_SET),
        (lambda m: m.adopt_queue_log(1, names.POP_JOURNAL_TOPIC, 0), features.POPS),
        (
            lambda m: m.add_queue_logs([QueueLogRow(1, names.REDRIVE_TOPIC, 0, Checkpoint())]),
            features.REDRIVES,
        ),
    ],
)
def test_what_earlier_releases_cannot_read_is_marked_before_it_is_written(
    metadata: Metadata, path: Path, use: Callable[[Metadata], object], feature: Feature
) -> None:
    told: list[str] = []
    metadata.on_change = lambda name, _: told.append(name)
    use(metadata)
    use_again = sorted(metadata.features)
    assert use_again == [feature]
    assert told[0] == "use_features", "followers are told first, too"
    assert schema_of(path) == SCHEMA_VERSION
    with closing(Metadata(path)) as again:
        assert again.features == {feature}


def test_a_mark_that_cannot_be_written_keeps_the_rest_away(metadata: Metadata) -> None:
    (pages,) = metadata._db.execute("PRAGMA page_count").fetchone()
    metadata._db.execute(f"PRAGMA max_page_count={pages}")
    metadata._db.execute("INSERT INTO state VALUES ('filler', 'x')")
    with pytest.raises(WriteFailedError):
        metadata.set_state("user/" + "x" * 9999, "{}")
    assert metadata.states("user/") == {}


def test_a_lost_mark_is_made_again(metadata: Metadata, path: Path) -> None:
    metadata.set_state("pop_journal_begin", "0")
    metadata.close()
    with closing(sqlite3.connect(path)) as database:
        database.execute("DELETE FROM state WHERE key = 'features'")
        database.execute("PRAGMA user_version=1")
        database.commit()
    with closing(Metadata(path)) as again:
        assert again.features == {features.POPS}
    assert schema_of(path) == SCHEMA_VERSION


def test_features_of_later_releases_are_refused_by_name(metadata: Metadata, path: Path) -> None:
    metadata.close()
    later(path, features.USERS, TIERS, CLOUDS)
    before = path.read_bytes()
    with pytest.raises(VersionError) as refused:
        Metadata(path)
    assert refused.value.reason == (
        f"it holds what PocketMQ {VERSION} does not know: clouds (clouds, since 0.9.0), logs in an "
        f"object store (tiers, since 0.10.0): run PocketMQ 0.10.0 or a newer one, or restore a "
        f"backup that was made before"
    )
    assert path.read_bytes() == before


@pytest.mark.parametrize("writer", ["0.3.0", None])
def test_later_schemas_are_refused_with_the_release(
    metadata: Metadata, path: Path, writer: str | None
) -> None:
    if writer:
        metadata.set_state(RELEASE_STATE, f'"{writer}"')
    metadata.close()
    with closing(sqlite3.connect(path)) as database:
        database.execute("PRAGMA user_version=3")
        if writer is None:
            database.execute("DROP TABLE state")
    with pytest.raises(VersionError) as refused:
        Metadata(path)
    assert refused.value.reason == (
        f"it is of schema version 3, which PocketMQ {VERSION} does not know (2 is the newest that "
        f"it knows): run the version of PocketMQ that wrote it"
        f"{', 0.3.0' if writer else ''}, or a newer one"
    )
    assert schema_of(path) == 3


def tables_of(metadata: Metadata) -> dict[str, Rows]:
    tables: dict[str, Rows] = {}
    for name, rows in read_common_tables(metadata):
        tables.setdefault(name, []).extend(rows)
    return tables


def test_a_follower_takes_the_marks_of_its_leader_and_keeps_its_own(
    metadata: Metadata, tmp_path: Path
) -> None:
    metadata.set_state("user/ann", "{}")
    with closing(Metadata(tmp_path / "follower.db")) as follower:
        take_over(follower, tables_of(metadata) | {"state": []})
        assert schema_of(tmp_path / "follower.db") == PLAIN_SCHEMA
        follower.use_features([features.GAPS])
        take_over(follower, tables_of(metadata))
        assert follower.features == {features.USERS, features.GAPS}
        assert follower.state("user/ann") == "{}"
    with closing(Metadata(tmp_path / "follower.db")) as follower:
        assert follower.features == {features.USERS, features.GAPS}


def test_a_follower_refuses_what_it_does_not_know_before_it_is_written(
    metadata: Metadata, tmp_path: Path, path: Path
) -> None:
    metadata.set_state("user/ann", "{}")
    later(path, TIERS)
    with closing(Metadata(tmp_path / "follower.db")) as follower:
        with pytest.raises(VersionError, match=r"run PocketMQ 0\.10\.0 or a newer one"):
            take_over(follower, tables_of(metadata))
        with pytest.raises(VersionError, match=r"tiers, since 0\.10\.0"):
            follower.use_features([TIERS])
        assert follower.states("user/") == {}
        assert follower.features == set()
