"""What the release before says of a directory of this one, and this one of a later one's.

A directory in which nothing new is in use can go back. Any other one is refused, by name.
"""

from __future__ import annotations

import shutil
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
from support.interop.processes import StartFailure
from support.upgrades import fill
from support.upgrades.releases import BEFORE, THIS, command, program, unpacked_or_skip
from support.upgrades.servers import broker, name_server
from upgrade.test_golden_directories import of_the_record, unpacked

from pocketmq.broker.store.metadata import features
from pocketmq.broker.store.metadata.features import Feature
from pocketmq.broker.store.metadata.metadata import Metadata
from pocketmq.runtime import VERSION

pytestmark = [pytest.mark.process, pytest.mark.timeout(600)]

BEYOND = pytest.mark.whole_upgrade

REFUSED_BY_0_1_0 = "it is of schema version 2, this broker knows 1: run the version of PocketMQ"


def files_of(directory: Path) -> dict[str, bytes]:
    """Every file of a data directory but what SQLite and locks leave behind."""
    return {
        str(path.relative_to(directory)): path.read_bytes()
        for path in sorted(directory.rglob("*"))
        if path.is_file() and path.name not in ("lock", "meta.db-shm", "meta.db-wal")
    }


@pytest.mark.parametrize(
    "end", ["stopped", pytest.param("killed", marks=BEYOND), pytest.param("torn", marks=BEYOND)]
)
def test_a_directory_without_anything_new_goes_back_and_comes_again(
    end: str, tmp_path: Path
) -> None:
    unpacked_or_skip(BEFORE)
    expected = unpacked(f"{VERSION}-{end}", tmp_path)
    directory = tmp_path / "broker-a"
    if end == "stopped":
        checked = command(BEFORE, "store", "check", str(directory))
        assert checked.returncode == 0, checked.stdout
    for release in (BEFORE, THIS):
        with (
            name_server(release, tmp_path) as namesrv,
            broker(release, directory, namesrv),
        ):
            found = tmp_path / "found.json"
            program(release, Path(fill.__file__), namesrv, str(found), "nothing")
            now = fill.read(found)
            assert now["offsets"] == expected["offsets"]
            waiting = {"%RETRY%billing 0"}  # the machine's clock: what waited may have come
            contents = of_the_record(now["contents"])
            for queue, messages in of_the_record(expected["contents"]).items():
                assert contents[queue][: len(messages)] == messages
                assert len(contents[queue]) == len(messages) or queue in waiting
        for checking in (BEFORE, THIS):
            checked = command(checking, "store", "check", str(directory))
            assert checked.returncode == 0, checked.stdout


@BEYOND
@pytest.mark.parametrize("feature", sorted(features.KNOWN), ids=lambda feature: feature.name)
def test_the_release_before_refuses_what_it_does_not_know(feature: Feature, tmp_path: Path) -> None:
    unpacked_or_skip(BEFORE)
    unpacked(f"{VERSION}-stopped", tmp_path)
    directory = tmp_path / "broker-a"
    with closing(Metadata(directory / "meta.db")) as metadata:
        metadata.use_features([feature])
    before = files_of(directory)
    with pytest.raises(StartFailure) as failed, broker(BEFORE, directory):
        raise AssertionError("it started")
    assert REFUSED_BY_0_1_0 in str(failed.value)
    assert files_of(directory) == before
    with name_server(THIS, tmp_path) as namesrv, broker(THIS, directory, namesrv):
        pass


def test_the_release_before_repairs_nothing_of_a_directory_with_pops(tmp_path: Path) -> None:
    unpacked_or_skip(BEFORE)
    unpacked(f"{VERSION}-popped", tmp_path)
    directory = tmp_path / "broker-a"
    before = files_of(directory)
    with pytest.raises(StartFailure) as failed, broker(BEFORE, directory):
        raise AssertionError("it started")
    assert REFUSED_BY_0_1_0 in str(failed.value)
    for verb in ("check", "repair"):
        refused = command(BEFORE, "store", verb, str(directory))
        assert refused.returncode == 1
        assert "run the version of PocketMQ that wrote it" in refused.stdout + refused.stderr
    assert files_of(directory) == before


LATER = {
    "a feature": (
        """INSERT OR REPLACE INTO state VALUES ('features',
        '[["tiers","0.3.0","logs in an object store"]]')""",
        "PRAGMA user_version=2",
        f"it holds what PocketMQ {VERSION} does not know: logs in an object store (tiers, since "
        "0.3.0): run PocketMQ 0.3.0 or a newer one, or restore a backup that was made before",
    ),
    "another schema": (
        """INSERT OR REPLACE INTO state VALUES ('release', '"0.3.0"')""",
        "PRAGMA user_version=3",
        f"it is of schema version 3, which PocketMQ {VERSION} does not know (2 is the newest that "
        "it knows): run the version of PocketMQ that wrote it, 0.3.0, or a newer one",
    ),
}


@pytest.mark.parametrize("case", LATER)
def test_a_directory_of_a_later_release_is_refused_and_left_alone(
    case: str, tmp_path: Path
) -> None:
    row, schema, words = LATER[case]
    unpacked(f"{VERSION}-stopped", tmp_path)
    directory = tmp_path / "broker-a"
    with closing(sqlite3.connect(directory / "meta.db")) as database:
        database.execute(row)
        database.execute(schema)
        database.commit()
    before = files_of(directory)
    with pytest.raises(StartFailure) as failed, broker(THIS, directory):
        raise AssertionError("it started")
    assert words in str(failed.value)
    assert "Traceback" not in str(failed.value)
    for verb in ("check", "repair"):
        refused = command(THIS, "store", verb, str(directory))
        assert refused.returncode == 1
        assert words in refused.stdout
    assert files_of(directory) == before
    shutil.rmtree(directory)
