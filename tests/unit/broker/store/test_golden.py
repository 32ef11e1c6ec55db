"""Directories that earlier versions wrote can be read for ever (docs/store-format.md)."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from support.store.stores import assert_sound, messages
from unit.broker.golden import record_golden as golden

from pocketmq.broker.groups.groups import GroupTable
from pocketmq.broker.groups.offsets import ConsumerOffsets
from pocketmq.broker.store.log.segment import FORMAT_VERSION
from pocketmq.broker.store.store import MessageStore
from pocketmq.broker.topics.topics import TopicTable
from pocketmq.protocol.messages.hosts import decode_host
from pocketmq.runtime.live import Live
from pocketmq.testing.clock import VirtualClock

GOLDEN = Path(golden.__file__).parent
VERSIONS = sorted(path.name for path in GOLDEN.glob("v*") if path.is_dir())


def expected(topic: str, queue_id: int) -> list[golden.GoldenMessage]:
    sent = [*golden.MESSAGES, *golden.MESSAGES[: len(golden.MESSAGES) // 2]]
    return [m for m in sent if (m.topic, m.queue_id) == (topic, queue_id)]


def test_every_version_has_its_golden_files() -> None:
    assert [f"v{version}" for version in range(1, FORMAT_VERSION + 1)] == VERSIONS


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("end", ["stopped", "killed"])
async def test_golden_directories_are_read(
    version: str, end: str, tmp_path: Path, clock: VirtualClock
) -> None:
    shutil.copytree(GOLDEN / version / end, tmp_path / "data")
    store = MessageStore(tmp_path / "data", golden.SETTINGS, clock)
    assert store.was_clean == (end == "stopped")
    assert {t.topic_name: t.read_queue_nums for t in TopicTable(store.metadata, clock)} == (
        golden.TOPICS
    )
    groups = GroupTable(store.metadata, clock, Live(False))
    assert groups.find(golden.GROUP).retry_max_times == 3
    assert ConsumerOffsets(store.metadata).get(golden.GROUP, "Orders", 1) == 2
    for topic, queue_nums in golden.TOPICS.items():
        for queue_id in range(queue_nums):
            wanted = expected(topic, queue_id)
            found = messages(store.find_log(topic, queue_id))
            assert [m.body for m in found] == [m.body for m in wanted]
            assert [m.properties for m in found] == [m.properties for m in wanted]
            assert [m.born_host for m in found] == [decode_host(m.born_host) for m in wanted]
            assert {m.topic for m in found} <= {topic}
            for message in found:
                assert store.read_physical(message.physical_offset)
    golden.put(store, golden.MESSAGES[0])
    await store.close()
    assert_sound(tmp_path / "data")


async def test_today_s_files_are_those_of_the_newest_version(tmp_path: Path) -> None:
    """A change of the format that nobody wanted, or without a new version, is found here."""
    await golden.write(tmp_path)
    for end in ("stopped", "killed"):
        assert files_of(tmp_path / end) == files_of(GOLDEN / VERSIONS[-1] / end)


def files_of(directory: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(directory)): path.read_bytes()
        for path in directory.glob("queues/*/*/*")
    }
