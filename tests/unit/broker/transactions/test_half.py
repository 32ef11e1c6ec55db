from __future__ import annotations

import pytest

from pocketmq.broker.transactions.half import (
    asks_for_transaction,
    check_times,
    half_properties,
    immunity_ms,
)


@pytest.mark.parametrize(
    ("value", "expected"), [("true", True), ("TRUE", True), ("false", False), ("1", False)]
)
def test_what_asks_for_a_transaction(value: str, expected: bool) -> None:
    assert asks_for_transaction(f"a\x01b\x02TRAN_MSG\x01{value}\x02") is expected
    assert not asks_for_transaction(f"XTRAN_MSG\x01{value}\x02")


def test_what_a_half_message_carries() -> None:
    given = "REAL_TOPIC\x01forged\x02a\x01b\x02"
    assert half_properties(given, "Orders", 3, "U") == (
        "REAL_TOPIC\x01Orders\x02a\x01b\x02__transactionId__\x01U\x02REAL_QID\x013\x02"
    )


@pytest.mark.parametrize(
    ("value", "expected"),
    [("7", 7000), ("-1", None), ("soon", None), ("9" * 5000, 999_999_999_999_999_999_000)],
)
def test_immunity(value: str, expected: int | None) -> None:
    assert immunity_ms(f"CHECK_IMMUNITY_TIME_IN_SECONDS\x01{value}\x02") == expected
    assert immunity_ms("") is None


@pytest.mark.parametrize(("value", "expected"), [("7", 7), ("-3", 0), ("x", 0)])
def test_check_times(value: str, expected: int) -> None:
    assert check_times(f"TRANSACTION_CHECK_TIMES\x01{value}\x02") == expected
    assert check_times("") == 0
