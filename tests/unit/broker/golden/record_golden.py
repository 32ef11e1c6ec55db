"""Writes the golden data directories: `python tests/unit/broker/golden/record_golden.py v1`.

Run it once for each format version, with the code of that version; see docs/store-format.md.
"""

from __future__ import annotations

import asyncio
import shutil
import sys
from pathlib import Path
from typing import NamedTuple

from pocketmq.broker.groups.groups import GroupTable
from pocketmq.broker.groups.offsets import ConsumerOffsets
from pocketmq.broker.store.log.queue_log import WRITTEN, Waiter
from pocketmq.broker.store.log.tags import encoded_tags_code
from pocketmq.broker.store.settings import StoreSettings
from pocketmq.broker.store.store import MessageStore
from pocketmq.broker.topics.topics import TopicTable
from pocketmq.protocol.bodies.clients import GroupConfig
from pocketmq.protocol.bodies.topics import TopicConfig
from pocketmq.protocol.messages.hosts import encode_host
from pocketmq.protocol.messages.properties import encode
from pocketmq.protocol.messages.records import encode_record
from pocketmq.runtime.live import Live
from pocketmq.testing.clock import VirtualClock

HERE = Path(__file__).parent
SETTINGS = StoreSettings(segment_size=700, disk_free_min=0)
TOPICS = {"Orders": 4, "%RETRY%" + "g" * 120: 1}
GROUP = "g" * 120
V4, V6 = encode_host("192.0.2.7", 40000), encode_host("2001:db8::7", 40000)
STORE_HOST = encode_host("192.0.2.1", 10911)


class GoldenMessage(NamedTuple):
    """One message of the golden directories."""

    topic: str
    queue_id: int
    body: bytes
    properties: dict[str, str]
    born_host: bytes


MESSAGES = [
    GoldenMessage(
        topic,
        index % 3 if topic == "Orders" else 0,
        f"message {index} · ".encode() * (index + 1),
        {"TAGS": ("red", "größe")[index % 2], "KEYS": f"key{index}"} if index % 4 else {},
        V6 if index % 5 == 4 else V4,
    )
    for index in range(12)
    for topic in list(TOPICS)[: 1 + (index % 6 == 1)]
]


def fill(store: MessageStore, clock: VirtualClock) -> None:
    """Puts everything into a new store."""
    topics = TopicTable(store.metadata, clock)
    topics.put(
        *(
            TopicConfig(topic_name=n, read_queue_nums=q, write_queue_nums=q)
            for n, q in TOPICS.items()
        )
    )
    GroupTable(store.metadata, clock, Live(True)).put(
        GroupConfig(group_name=GROUP, retry_max_times=3)
    )
    offsets = ConsumerOffsets(store.metadata)
    offsets.commit(GROUP, "Orders", 1, 2)
    offsets.save()
    for message in MESSAGES:
        clock._elapsed_s += 1
        put(store, message)


def put(store: MessageStore, message: GoldenMessage) -> None:
    """Stores one message, each in a turn of its own."""
    queue_log = store.queue_log(message.topic, message.queue_id)
    properties = encode(message.properties).encode()
    time_ms = store.store_time(queue_log)
    record = encode_record(
        topic=message.topic.encode(),
        queue_id=message.queue_id,
        flag=0,
        queue_offset=queue_log.next_offset,
        physical_offset=queue_log.next_physical_offset,
        sys_flag=0,
        born_timestamp=time_ms - 1,
        born_host=message.born_host,
        store_timestamp=time_ms,
        store_host=STORE_HOST,
        reconsume_times=0,
        prepared_transaction_offset=0,
        body=message.body,
        properties=properties,
    )
    store.committer.read_begins()
    queue_log.append(record, encoded_tags_code(properties), Waiter(lambda _: None, WRITTEN))
    store.schedule_commit(queue_log)
    store.committer.read_ends()


async def write(target: Path) -> None:
    """Writes `stopped`, after a clean stop, and `killed`, of which half was checkpointed."""
    clock = VirtualClock()
    store = MessageStore(target / "stopped", SETTINGS, clock)
    fill(store, clock)
    await store.checkpoint()
    for message in MESSAGES[: len(MESSAGES) // 2]:
        put(store, message)
    store.metadata.sync()
    skip = shutil.ignore_patterns("lock", "*-wal", "*-shm")
    shutil.copytree(target / "stopped", target / "killed", ignore=skip)
    await store.close()
    (target / "stopped" / "lock").unlink()


if __name__ == "__main__":
    asyncio.run(write(HERE / sys.argv[1]))
