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


async def offsets_in(cluster: Cluster, path: Path) -> LocalFileOffsetStore:
    """Opened offsets of a group that begins at 50 where nothing is stored."""
    if not cluster.brokers:
        await cluster.add_namesrv()
        broker = await cluster.add_broker("a")
        broker.answers[RequestCode.GET_MAX_OFFSET] = offset(50)
        cluster.topic("T", "a")
    client = cluster.client()
    await client.start()
    asked = QueueOffsets(client.pool, client.routes, 3000)
    made = LocalFileOffsetStore("cg", path, asked, ConsumeFromWhere("CONSUME_FROM_LAST_OFFSET", 0))
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


def test_the_default_path(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    path = default_path("10.0.0.1@DEFAULT", "cg")
    assert path == tmp_path / ".pocketmq" / "offsets" / "10.0.0.1@DEFAULT" / "cg.json"
