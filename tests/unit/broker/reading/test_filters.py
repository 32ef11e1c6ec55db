"""What a subscription selects."""

from __future__ import annotations

import pytest

from pocketmq.broker.reading.filters import (
    EVERYTHING,
    TEXT_AT_ONCE_LENGTH_MAX,
    Selection,
    SelectionShare,
    selection_of,
)
from pocketmq.broker.work_share import WorkShare
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


def test_the_work_of_a_condition_grows_with_its_nodes_and_searches() -> None:
    def work_of(text: str) -> int:
        selection = selection_of(SQL92, text, sql_enabled=True)
        assert selection.matches is not None
        selection.matches(record(b"a\x01" + b"x" * 3200 + b"\x02"))
        work = selection.take_work(1, 0)
        assert selection.take_work(0, 0) == 0, "it was taken"
        return work

    short, long = work_of("a = 'y'"), work_of(" OR ".join(["a = 'y'"] * 100))
    assert long > 10 * short
    assert work_of("a CONTAINS 'y'") > short + 80


async def test_what_takes_everything_takes_nothing_of_the_share() -> None:
    share = WorkShare(100)
    share.took(100)
    assert SelectionShare(share).selection_now(TAG, "*", sql_enabled=True) is EVERYTHING
    assert SelectionShare(share).selection_now(None, "A", sql_enabled=True) is None


async def test_a_selection_comes_in_a_turn_of_which_something_is_left() -> None:
    share = WorkShare(100)
    selections = SelectionShare(share)
    first = selections.selection_now(TAG, "A" * 60, sql_enabled=True)
    assert first is not None
    assert selections.selection_now(TAG, "B", sql_enabled=True) is None
    waited = await selections.selection_in_turn(TAG, "B", sql_enabled=True)
    assert waited == selection_of(TAG, "B", sql_enabled=True)


async def test_a_long_expression_is_parsed_beside_the_loop() -> None:
    selections = SelectionShare(WorkShare())
    text = " OR ".join(["a = 1"] * (TEXT_AT_ONCE_LENGTH_MAX // 8))
    assert selections.selection_now(SQL92, text, sql_enabled=True) is None
    selection = await selections.selection_in_turn(SQL92, text, sql_enabled=True)
    assert selection.matches is not None
    assert selection.matches(record(b"a\x011\x02"))


async def test_errors_of_expressions_that_wait_are_the_same() -> None:
    selections = SelectionShare(WorkShare())
    for text in ("a =", "a = " * TEXT_AT_ONCE_LENGTH_MAX):
        with pytest.raises(ResponseError) as caught:
            await selections.selection_in_turn(SQL92, text, sql_enabled=True)
        assert caught.value.code == 23
