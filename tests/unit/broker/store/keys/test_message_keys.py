from __future__ import annotations

import pytest
from support.store.keyed import put_keyed
from support.store.stores import TOPIC

from pocketmq.broker.store.keys.message_keys import IndexType, has_key, hash_of, index_items
from pocketmq.broker.store.store import MessageStore
from pocketmq.protocol.flags import TRANSACTION_COMMIT, TRANSACTION_ROLLBACK

KEY, UNIQUE_KEY, TAG = IndexType


def items_of(store: MessageStore, topic: str = TOPIC) -> list[tuple[int, int]]:
    """(hash, offset) of everything in queue 0, and of nothing twice."""
    queue_log = store.queue_log(topic, 0)
    data, entries = queue_log.read_with_entries(0, 100, 1 << 20)
    items = index_items(data, entries, 0)
    return sorted((item >> 32, item & 0xFFFF_FFFF) for item in items)


def record(store: MessageStore, offset: int = 0, topic: str = TOPIC) -> bytes:
    return store.queue_log(topic, 0).read_with_entries(offset, 1, 0)[0]


@pytest.mark.parametrize("host_size", [8, 20])
@pytest.mark.parametrize("topic", [TOPIC, "long" * 40])
def test_unique_key_words_and_tags_of_each_message(
    small_store: MessageStore, topic: str, host_size: int
) -> None:
    host = bytes(host_size)
    put_keyed(small_store, "U1", ("a", "b"), "T", topic=topic, born_host=host)
    put_keyed(small_store, "", (), "", topic=topic, body=b"UNIQ_KEY\x01no\x02", born_host=host)
    put_keyed(small_store, "same", ("same", "b"), topic=topic, born_host=host)
    assert items_of(small_store, topic) == sorted(
        [
            (hash_of(b"U1", UNIQUE_KEY), 0),
            (hash_of(b"a", KEY), 0),
            (hash_of(b"b", KEY), 0),
            (hash_of(b"T", TAG), 0),
            (hash_of(b"same", KEY), 2),
            (hash_of(b"b", KEY), 2),
        ]
    )


def test_messages_of_rolled_back_transactions_are_not_found(small_store: MessageStore) -> None:
    put_keyed(small_store, "U1", ("a",), sys_flag=TRANSACTION_ROLLBACK)
    put_keyed(small_store, "U2", sys_flag=TRANSACTION_COMMIT)
    assert items_of(small_store) == [(hash_of(b"U2", KEY), 1)]
    assert not has_key(record(small_store), b"a", KEY)
    assert has_key(record(small_store, 1), b"U2", KEY)


def test_a_record_is_asked_for_the_whole_key(small_store: MessageStore) -> None:
    put_keyed(small_store, "U1", ("one", "two"), "T")
    data = record(small_store)
    assert [k for k in ("U1", "one", "two", "T", "o", "one two", "none", "") if
            has_key(data, k.encode(), KEY)] == ["U1", "one", "two"]  # fmt: skip
    assert [k for k in ("T", "one", "") if has_key(data, k.encode(), TAG)] == ["T"]


def test_tags_and_keys_do_not_meet() -> None:
    assert hash_of(b"A", TAG) != hash_of(b"A", KEY) == hash_of(b"A", UNIQUE_KEY)
