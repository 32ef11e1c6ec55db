"""A batch is stored exactly as its messages one by one."""

from __future__ import annotations

import struct
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from pocketmq.broker.appending.batches import LogEnd, StoredBatch, stored_batch
from pocketmq.broker.appending.bulk_records import complete_records, layout_of, places_in
from pocketmq.broker.handlers.sending.long_batches import Beginning
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


@given(
    batch=st.lists(ENTRIES, min_size=1, max_size=5),
    later=st.lists(ENTRIES, max_size=5),
    born_host=HOSTS,
    store_host=HOSTS,
    start=st.sampled_from([(0, 0), (7, 1234), (1 << 33, (1 << 40) - 60)]),
)
def test_records_of_portions_are_completed_to_those_of_the_whole_batch(
    batch: list[BatchEntry],
    later: list[BatchEntry],
    born_host: bytes,
    store_host: bytes,
    start: tuple[int, int],
) -> None:
    offset, position = start
    log = QueueLog(Files(), Path("unused"), "T", 3, 5, 1 << 20, [], position, offset)

    def stored(portion: list[BatchEntry], end: LogEnd, store_timestamp: int) -> StoredBatch:
        return stored_batch(
            portion, end, topic=b"T", sys_flag=0, born_timestamp=1, born_host=born_host,
            store_timestamp=store_timestamp, store_host=store_host, reconsume_times=4,
        )  # fmt: skip

    records, entries = bytearray(), bytearray()
    for portion in (batch, later):
        part = stored(portion, Beginning(3, len(records)), 0)
        records += part.records
        entries += part.entries
    whole = stored(batch + later, log, 9)
    layout = layout_of(records, entries)
    completed, index = complete_records(layout, log, 9, store_host, len(born_host))
    assert (bytes(completed), index) == (whole.records, whole.entries)
    assert places_in(index) == struct.pack(f">{len(batch + later)}q", *whole.physical_offsets)
