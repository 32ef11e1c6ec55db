"""Keys of many records together are those of one record after the other."""

from __future__ import annotations

from array import array
from typing import Any

from hypothesis import example, given
from hypothesis import strategies as st

from pocketmq.broker.store.keys.bulk_keys import RESTS_SIZE_MAX, bulk_index_items
from pocketmq.broker.store.keys.message_keys import index_items
from pocketmq.broker.store.log.segment import ENTRY
from pocketmq.protocol.flags import TRANSACTION_ROLLBACK
from pocketmq.protocol.messages.records import encode_record

KEY = st.text("ABC", min_size=3, max_size=3)
WORDS = st.lists(st.sampled_from(["a", "b", "ABC", "", "plumless", "buckeroo"]), max_size=3)
REST = st.builds(
    lambda words, tags, end: f"KEYS\x01{' '.join(words)}\x02MYTAGS\x01no\x02TAGS\x01{tags}{end}",
    WORDS,
    st.sampled_from(["", "red", "blau"]),
    st.sampled_from(["", "\x02"]),
)
ALIKE = st.builds("UNIQ_KEY\x01{}\x02{}".format, KEY, REST | st.just("WAIT\x01true\x02"))
SINGLE = st.builds(
    "UNIQ_KEY\x01{}\x02KEYS\x01{}{}".format,
    KEY,
    st.sampled_from(["", "a", "ABC", "BCA", "plumless", "w" * RESTS_SIZE_MAX]),
    st.sampled_from(["", "\x02", "\x02TAGS\x01red", "\x02WAIT\x01true\x02"]),
)
ODD = st.sampled_from(
    ["", "UNIQ_KEY\x01\x02", "UNIQ_KEY\x01long\x02", "UNIQ_KEY\x01AB", "UNIQ_KEY\x01ABC",
     "KEYS\x01a\x02UNIQ_KEY\x01ABC\x02", "UNIQ_KEY\x01A\x02K\x01", "TAGS\x01red\x02"]
)  # fmt: skip
FIELDS = st.fixed_dictionaries(
    {},
    optional={
        "sys_flag": st.just(TRANSACTION_ROLLBACK),
        "born_host": st.just(bytes(20)),
        "topic": st.just(b"t" * 200),
    },
)
PLAIN: dict[str, Any] = {
    "topic": b"T", "queue_id": 0, "flag": 0, "queue_offset": 0, "physical_offset": 0,
    "sys_flag": 0, "born_timestamp": 1, "born_host": bytes(8), "store_timestamp": 1,
    "store_host": bytes(8), "reconsume_times": 0, "prepared_transaction_offset": 0,
    "body": b"TAGS\x01body\x02",
}  # fmt: skip


def both(texts: list[str], fields: dict[str, Any]) -> tuple[array[int], list[int]]:
    records = [encode_record(**PLAIN, properties=text.encode()) for text in texts[:-1]]
    records += [encode_record(**{**PLAIN, **fields}, properties=t.encode()) for t in texts[-1:]]
    entries = b"".join(ENTRY.pack(0, len(record), 0) for record in records)
    data = b"".join(records)
    return bulk_index_items(data, entries, 7), index_items(data, entries, 7)


@given(
    st.lists(ALIKE, min_size=1, max_size=9)
    | st.lists(SINGLE, min_size=1, max_size=9)
    | st.lists(ALIKE | SINGLE | ODD, min_size=1, max_size=5),
    FIELDS,
)
@example(["UNIQ_KEY\x01ABC\x02WAIT\x01true\x02"] * 3, {})
def test_items_are_those_of_each_record(texts: list[str], fields: dict[str, Any]) -> None:
    together, one_by_one = both(texts, fields)
    assert sorted(together) == sorted(one_by_one)
