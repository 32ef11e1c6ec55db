"""Messages with keys in stores, and what a search for them must find."""

from __future__ import annotations

import random
from typing import NamedTuple

from support.store.stores import HOST, TOPIC

from pocketmq.broker.store.keys.key_index import KeyIndex
from pocketmq.broker.store.keys.key_search import KeySearch, Query
from pocketmq.broker.store.keys.message_keys import IndexType
from pocketmq.broker.store.log.queue_log import QueueLog
from pocketmq.broker.store.log.tags import encoded_tags_code
from pocketmq.broker.store.store import MessageStore
from pocketmq.protocol.messages.records import encode_record

COLLIDING = ("plumless", "buckeroo")
"""Two words of one CRC-32."""

FOREVER_MS = 2**63 - 1


class Keyed(NamedTuple):
    """A message that was put into a store."""

    timestamp: int
    number: int
    queue_id: int
    offset: int
    unique_key: str
    keys: tuple[str, ...]
    tags: str

    @property
    def properties(self) -> bytes:
        """As they are stored."""
        text = "MYKEYS\x01none\x02" + (f"KEYS\x01{' '.join(self.keys)}\x02" if self.keys else "")
        text += f"UNIQ_KEY\x01{self.unique_key}\x02" if self.unique_key else ""
        return (text + (f"TAGS\x01{self.tags}" if self.tags else "")).encode()

    def is_found_by(self, query: Query) -> bool:
        """Whether a search must find it, as RocketMQ's rules have it."""
        key = query.key.decode()
        if query.index_type is IndexType.TAG:
            has_it = self.tags == key
        else:
            has_it = key in (self.unique_key, *self.keys)
        return bool(key) and has_it and query.begin_ms <= self.timestamp <= query.end_ms


def query(key: str, **fields: object) -> Query:
    """A search for all messages with a key, but for the fields given."""
    given = Query(TOPIC, key.encode(), IndexType.KEY, 64, 0, FOREVER_MS)
    return given._replace(**fields)  # type: ignore[arg-type]


def put_keyed(
    store: MessageStore,
    unique_key: str = "",
    keys: tuple[str, ...] = (),
    tags: str = "",
    *,
    queue_id: int = 0,
    topic: str = TOPIC,
    body: bytes = b"x",
    sys_flag: int = 0,
    born_host: bytes = HOST,
) -> Keyed:
    """Stores a message."""
    queue_log = store.queue_log(topic, queue_id)
    message = Keyed(
        store.store_time(queue_log),
        queue_log.number,
        queue_id,
        queue_log.next_offset,
        unique_key,
        keys,
        tags,
    )
    record = encode_record(
        topic=topic.encode(),
        queue_id=queue_id,
        flag=0,
        queue_offset=queue_log.next_offset,
        physical_offset=queue_log.next_physical_offset,
        sys_flag=sys_flag,
        born_timestamp=message.timestamp,
        born_host=born_host,
        store_timestamp=message.timestamp,
        store_host=HOST,
        reconsume_times=0,
        prepared_transaction_offset=0,
        body=body,
        properties=message.properties,
    )
    store.committer.read_begins()
    queue_log.append(record, encoded_tags_code(message.properties), None)
    store.schedule_commit(queue_log)
    store.committer.in_read = False
    store.commit()
    return message


def random_keyed(store: MessageStore, chance: random.Random, queue_id: int) -> Keyed:
    """Stores a message with some of few keys."""
    words = [f"k{n}" for n in range(5)] + list(COLLIDING)
    return put_keyed(
        store,
        chance.choice(["", *(f"U{n}" for n in range(40)), *COLLIDING]),
        tuple(chance.sample(words, chance.randrange(4))),
        chance.choice(["", "A", "B", "k1"]),
        queue_id=queue_id,
        body=bytes(chance.randrange(200)) + b"k1 KEYS\x01k2\x02UNIQ_KEY\x01U1\x02",
    )


def random_query(chance: random.Random, from_ms: int, to_ms: int) -> Query:
    """A search for something that is there, perhaps."""
    key = chance.choice(["k1", "k2", "U1", "U2", "U7", "A", "B", "nothing", "", *COLLIDING])
    begin_ms, end_ms = sorted((chance.randint(from_ms, to_ms), chance.randint(from_ms, to_ms)))
    return query(
        key,
        index_type=chance.choice(list(IndexType)),
        count_max=chance.choice([0, 1, 3, 64]),
        begin_ms=chance.choice([0, begin_ms]),
        end_ms=chance.choice([FOREVER_MS, end_ms]),
    )


def expected(messages: list[Keyed], wanted: Query) -> list[tuple[int, int]]:
    """(queue, offset) of what a search must find."""
    found = sorted(m for m in messages if m.is_found_by(wanted))
    return [(m.queue_id, m.offset) for m in found[len(found) - min(wanted.count_max, len(found)) :]]


async def found(search: KeySearch, wanted: Query) -> list[tuple[int, int]]:
    """(queue, offset) of what a search finds."""
    return [(log.queue_id, match.offset) for log, match in await search.find(wanted)]


def indexed(store: MessageStore) -> tuple[KeyIndex, KeySearch]:
    """The index of a store, which is told of its checkpoints, and searches in it."""
    index = KeyIndex(store)
    store.checkpointed.add(index.want)
    return index, KeySearch(store, index)


def indexed_to(index: KeyIndex, queue_log: QueueLog) -> list[int]:
    """Up to which offset each segment's records are indexed."""
    return [index.key_file(queue_log, segment).end_offset for segment in queue_log.segments]
