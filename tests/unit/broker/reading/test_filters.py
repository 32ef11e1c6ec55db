"""What a subscription selects."""

from __future__ import annotations

import pytest

from pocketmq.broker.reading.filters import Selection, selection_of
from pocketmq.protocol.bodies.clients import SQL92, TAG
from pocketmq.protocol.errors import ResponseError
from pocketmq.protocol.messages.properties import java_hash
from pocketmq.protocol.messages.records import encode_record

HOST = bytes((127, 0, 0, 1, 0, 0, 0, 1))


def record(properties: bytes) -> bytes:
    return encode_record(
        topic=b"T", queue_id=0, flag=0, queue_offset=0, physical_offset=0, sys_flag=0,
        born_timestamp=0, born_host=HOST, store_timestamp=0, store_host=HOST, reconsume_times=0,
        prepared_transaction_offset=0, body=b"x", properties=properties,
    )  # fmt: skip


def test_tags_are_chosen_by_the_index() -> None:
    assert selection_of(TAG, "*", sql_enabled=True) == Selection()
    assert selection_of(None, "A || B", sql_enabled=True) == Selection(
        frozenset({java_hash("A"), java_hash("B")})
    )


def test_sql_is_asked_of_each_record() -> None:
    selection = selection_of(SQL92, "a = 'x'", sql_enabled=True)
    assert selection.tags_codes is None
    assert selection.matches is not None
    assert selection.matches(record(b"a\x01x\x02"))
    assert not selection.matches(record(b"a\x01y\x02"))


@pytest.mark.parametrize(
    ("kind", "text", "sql_enabled", "code"),
    [(SQL92, "a =", True, 23), (SQL92, "a = 1", False, 1), ("CLASS", "a", True, 1)],
)
def test_what_cannot_be_used_is_refused(kind: str, text: str, sql_enabled: bool, code: int) -> None:
    with pytest.raises(ResponseError) as caught:
        selection_of(kind, text, sql_enabled=sql_enabled)
    assert caught.value.code == code
