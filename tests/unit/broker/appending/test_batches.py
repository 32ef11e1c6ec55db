"""A batch is stored exactly as its messages one by one."""

from __future__ import annotations

from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from pocketmq.broker.appending.batches import stored_batch
from pocketmq.broker.store.disk.files import Files
from pocketmq.broker.store.log.queue_log import QueueLog
from pocketmq.broker.store.log.segment import ENTRY, physical_offset
from pocketmq.broker.store.log.tags import encoded_tags_code
from pocketmq.protocol.messages.batch import BatchEntry
from pocketmq.protocol.messages.hosts import encode_host
from pocketmq.protocol.messages.records import encode_record

HOSTS = st.sampled_from([encode_host("10.0.0.1", 50000), encode_host("fe80::1", 10911)])
ENTRIES = st.builds(
    BatchEntry,
    st.integers(-(2**31), 2**31 - 1),
    st.binary(min_size=1, max_size=50),
    st.sampled_from([b"", b"TAGS\x01a\x02", b"KEYS\x01k\x02TAGS\x01\xc3\xbc\x02"]),
)


@given(
    batch=st.lists(ENTRIES, min_size=1, max_size=5),
    born_host=HOSTS,
    store_host=HOSTS,
    sys_flag=st.integers(0, 0x7FF),
    start=st.sampled_from([(0, 0), (7, 1234), (1 << 33, (1 << 40) - 60)]),
)
def test_it_equals_its_messages_one_by_one(
    batch: list[BatchEntry],
    born_host: bytes,
    store_host: bytes,
    sys_flag: int,
    start: tuple[int, int],
) -> None:
    offset, position = start
    log = QueueLog(Files(), Path("unused"), "T", 3, 5, 1 << 20, [], position, offset)
    stored = stored_batch(
        batch,
        log,
        topic=b"T",
        sys_flag=sys_flag,
        born_timestamp=1,
        born_host=born_host,
        store_timestamp=2,
        store_host=store_host,
        reconsume_times=4,
    )
    records, entries = b"", b""
    for index, (flag, body, properties) in enumerate(batch):
        place = physical_offset(5, position + len(records))
        assert stored.physical_offsets[index] == place
        record = encode_record(
            topic=b"T",
            queue_id=3,
            flag=flag,
            queue_offset=offset + index,
            physical_offset=place,
            sys_flag=sys_flag,
            born_timestamp=1,
            born_host=born_host,
            store_timestamp=2,
            store_host=store_host,
            reconsume_times=4,
            prepared_transaction_offset=0,
            body=body,
            properties=properties,
        )
        records += record
        entries += ENTRY.pack(place, len(record), encoded_tags_code(properties))
    assert stored.records == records
    assert stored.entries == entries
