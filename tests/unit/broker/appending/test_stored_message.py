from __future__ import annotations

from pathlib import Path

import pytest
from support.store.stores import HOST, open_store

from pocketmq.broker.appending.stored_message import read_stored, with_properties
from pocketmq.protocol.messages.records import decode_records, encode_record
from pocketmq.testing.clock import VirtualClock

V6_HOST = bytes(range(16)) + (10911).to_bytes(4, "big")


@pytest.mark.parametrize("topic", ["T", "T" * 127, "%RETRY%" + "g" * 200])
@pytest.mark.parametrize("born_host", [HOST, V6_HOST])
@pytest.mark.parametrize("store_host", [HOST, V6_HOST])
async def test_a_record_comes_back_in_another_place(
    tmp_path: Path, clock: VirtualClock, topic: str, born_host: bytes, store_host: bytes
) -> None:
    store = open_store(tmp_path / "data", clock)
    queue_log = store.queue_log("Orders", 3)
    record = encode_record(
        topic=topic.encode(), queue_id=7, flag=-5, queue_offset=11, physical_offset=1 << 41,
        sys_flag=0x101, born_timestamp=123, born_host=born_host, store_timestamp=456,
        store_host=store_host, reconsume_times=2, prepared_transaction_offset=9,
        body=b"packed", properties=b"TAGS\x01a\x02",
    )  # fmt: skip
    message = read_stored(b"before" + record + b"behind", len(b"before"))
    assert (message.topic, message.size) == (topic, len(record))
    assert (message.body, message.properties) == (b"packed", b"TAGS\x01a\x02")
    assert message.physical_offset == 1 << 41
    (before,) = decode_records(record, inflate=False)
    (after,) = decode_records(message.record_for(queue_log, 789), inflate=False)
    for name in ("flag", "born_timestamp", "born_host", "store_host", "reconsume_times", "body",
                 "properties", "sys_flag"):  # fmt: skip
        assert getattr(after, name) == getattr(before, name), name
    assert (after.topic, after.queue_id, after.queue_offset) == ("Orders", 3, 0)
    assert after.store_timestamp == 789
    await store.close()


def test_changed_properties() -> None:
    text = "a\x011\x02b\x012\x02c\x013"
    assert (
        with_properties(text, {"b": None, "d": "4", "a": "5"}) == "a\x015\x02c\x013\x02d\x014\x02"
    )
    assert with_properties("", {"x": None}) == ""
