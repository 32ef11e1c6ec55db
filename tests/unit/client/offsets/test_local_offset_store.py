"""Offsets in a file: what is stored is found again, and nothing unreadable is passed over."""

from __future__ import annotations

import logging
import os
from pathlib import Path

import pytest
from support.peers.client import Cluster, done, offset

from pocketmq.client import MessageQueue, OffsetFileError
from pocketmq.client.instance.queue_offsets import QueueOffsets
from pocketmq.client.offsets.local_offset_store import LocalFileOffsetStore, default_path
from pocketmq.client.offsets.offset_store import ConsumeFromWhere
from pocketmq.protocol.codes import RequestCode

FIRST, SECOND = MessageQueue("T", "a", 0), MessageQueue("T", "a", 1)


async def offsets_in(
    cluster: Cluster, path: Path, name: str | None = "main", old_path: Path | None = None
) -> LocalFileOffsetStore:
    """Opened offsets of a group that begins at 50 where nothing is stored."""
    if not cluster.brokers:
        await cluster.add_namesrv()
        broker = await cluster.add_broker("a")
        broker.answers[RequestCode.GET_MAX_OFFSET] = offset(50)
        cluster.topic("T", "a")
    client = cluster.client()
    await client.start()
    asked = QueueOffsets(client.pool, client.routes, 3000)
    from_where = ConsumeFromWhere("CONSUME_FROM_LAST_OFFSET", 0)
    made = LocalFileOffsetStore("cg", path, asked, from_where, lambda _: name, old_path)
    await made.open()
    return made


async def test_what_was_stored_is_found_again(cluster: Cluster, tmp_path: Path) -> None:
    path = tmp_path / "deep" / "down" / "cg.json"
    offsets = await offsets_in(cluster, path)
    assert not path.exists()
    assert await done(offsets.load(FIRST)) == 50
    await offsets.store([(FIRST, 7), (SECOND, 9)])
    await offsets.store([(FIRST, 8)])
    offsets.forget(FIRST)
    again = await offsets_in(cluster, path)
    assert [await again.load(q) for q in (FIRST, SECOND)] == [8, 9]
    assert await done(again.load(SECOND._replace(queue_id=2))) == 50
    assert os.listdir(path.parent) == ["cg.json"]


async def test_nothing_is_written_when_nothing_changed(cluster: Cluster, tmp_path: Path) -> None:
    path = tmp_path / "cg.json"
    offsets = await offsets_in(cluster, path)
    await offsets.store([])
    assert not path.exists()
    await offsets.store([(FIRST, 7)])
    path.unlink()
    await offsets.store([(FIRST, 7)])
    assert not path.exists()


async def test_what_cannot_be_stored_is_stored_the_next_time(
    cluster: Cluster, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "folder" / "cg.json"
    offsets = await offsets_in(cluster, path)
    path.parent.touch()
    with caplog.at_level(logging.WARNING):
        await offsets.store([(FIRST, 7)])
    assert "offsets are not stored" in caplog.text
    path.parent.unlink()
    await offsets.store([(FIRST, 7)])
    assert await (await offsets_in(cluster, path)).load(FIRST) == 7


async def test_a_write_that_fails_leaves_the_old_file(
    cluster: Cluster, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "cg.json"
    offsets = await offsets_in(cluster, path)
    path.mkdir()  # a file cannot replace a folder
    await offsets.store([(FIRST, 7)])
    assert "offsets are not stored" in caplog.text
    assert os.listdir(tmp_path) == ["cg.json"]


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"{",
        b"[]",
        b'{"group": "cg"}',
        b'{"group": "other", "offsets": {}}',
        b'{"group": "cg", "offsets": {"T": {"a": {"zero": 1}}}}',
        b'{"group": "cg", "offsets": {"T": {"a": {"0": "1"}}}}',
        b"\xff\xfe",
    ],
)
async def test_a_file_that_cannot_be_read_is_not_passed_over(
    cluster: Cluster, tmp_path: Path, content: bytes
) -> None:
    path = tmp_path / "cg.json"
    path.write_bytes(content)
    with pytest.raises(OffsetFileError, match=r"cg\.json cannot be read: .+; mend the file"):
        await offsets_in(cluster, path)
    assert path.read_bytes() == content


async def test_each_cluster_has_its_own_offsets(cluster: Cluster, tmp_path: Path) -> None:
    path = tmp_path / "cg.json"
    await (await offsets_in(cluster, path)).store([(FIRST, 7)])
    other = await offsets_in(cluster, path, "other")
    assert await done(other.load(FIRST)) == 50
    await other.store([(FIRST, 9)])
    assert await (await offsets_in(cluster, path)).load(FIRST) == 7
    assert await (await offsets_in(cluster, path, "other")).load(FIRST) == 9


async def test_a_broker_that_left_the_routes_is_still_of_its_cluster(
    cluster: Cluster, tmp_path: Path
) -> None:
    path, known = tmp_path / "cg.json", {"a": "main"}
    offsets = await offsets_in(cluster, path)
    offsets._cluster_of = known.get
    assert await done(offsets.load(FIRST)) == 50
    known.clear()
    await offsets.store([(FIRST, 51)])
    assert await (await offsets_in(cluster, path)).load(FIRST) == 51


async def test_an_old_file_is_read_once(cluster: Cluster, tmp_path: Path) -> None:
    """It says neither of which cluster its queues are nor of which namespace."""
    path, old_path = tmp_path / "space" / "cg.json", tmp_path / "cg.json"
    content = b'{"group": "cg", "offsets": {"T": {"a": {"0": 7, "1": 8}}}}'
    old_path.write_bytes(content)
    first = await offsets_in(cluster, path, old_path=old_path)
    assert await first.load(FIRST) == 7
    await first.store([(FIRST, 9)])
    assert old_path.read_bytes() == content
    again = await offsets_in(cluster, path, "other", old_path)
    assert await done(again.load(FIRST)) == 50
    assert await again.load(SECOND) == 8
    assert await (await offsets_in(cluster, path)).load(FIRST) == 9
    await (await offsets_in(cluster, old_path)).store([(FIRST, 7)])
    assert await (await offsets_in(cluster, old_path, "other")).load(SECOND) == 8


def test_the_default_path(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    path = default_path(None, "", "10.0.0.1@DEFAULT", "cg")
    assert path == tmp_path / ".pocketmq" / "offsets" / "10.0.0.1@DEFAULT" / "cg.json"
    assert default_path("/var/x", "space", "me", "cg") == Path("/var/x/space/me/cg.json")
