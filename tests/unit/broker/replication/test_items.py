"""What a leader tells its followers, encoded and decoded."""

from __future__ import annotations

import pytest

from pocketmq.broker.replication.items import (
    Begin,
    Change,
    Item,
    Live,
    Low,
    Offsets,
    Records,
    Table,
    TablesEnd,
    decode_items,
    encode_item,
)
from pocketmq.protocol.errors import ContentError

ITEMS: list[Item] = [
    Change("set_state", ("key", "value")),
    Offsets([("group", "topic", 1, 5)]),
    Table("topics", [["Orders", "{}"]]),  # type: ignore[list-item]
    TablesEnd(),
    Begin(7, 1 << 40, 1 << 33),
    Low(7, 500),
    Live(),
]


def body(*items: Item) -> bytes:
    return b"".join(bytes(piece) for item in items for piece in encode_item(item))


def test_items_come_as_they_were_told() -> None:
    records = Records(3, 2, 1 << 41, 9, 1_700_000_000_000, b"e" * 40, b"data")
    *others, last = decode_items(body(*ITEMS, records))
    assert isinstance(last, Records)
    assert (last.number, last.epoch, last.position, last.offset, last.timestamp) == (
        3, 2, 1 << 41, 9, 1_700_000_000_000,
    )  # fmt: skip
    assert (bytes(last.entries), bytes(last.data)) == (b"e" * 40, b"data")
    assert [type(item) for item in others] == [type(item) for item in ITEMS]
    assert others[4] == Begin(7, 1 << 40, 1 << 33)


def test_what_is_cut_off_is_refused() -> None:
    whole = body(Records(3, 2, 0, 9, 0, b"e" * 20, b"data"), Live())
    for size in range(1, len(whole)):
        if size == len(body(Records(3, 2, 0, 9, 0, b"e" * 20, b"data"))):
            continue
        with pytest.raises(ContentError):
            list(decode_items(whole[:size]))


def test_an_unknown_item_is_refused() -> None:
    with pytest.raises(ContentError):
        list(decode_items(b"\x02\x00\x00\x00\x01\xc0"))
