"""The text of trace records, against lines as Apache's TraceDataEncoder writes and reads them."""

from __future__ import annotations

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pocketmq.protocol.errors import ContentError
from pocketmq.protocol.messages.trace import (
    ConsumeReturnType,
    EndTransactionTrace,
    MessageType,
    PubTrace,
    RecallTrace,
    SubAfterTrace,
    SubBeforeTrace,
    TraceRecord,
    TransactionState,
    decode_trace,
    encode_trace,
    index_keys,
)

PUB = PubTrace(
    time_ms=1700000000000, region="DefaultRegion", group="pg", topic="Orders", msg_id="7F01",
    tags="A", keys="k1 k2", store_host="127.0.0.1:10911", body_length=5, cost_ms=3,
    message_type=MessageType.DELAY, offset_msg_id="AC01",
)  # fmt: skip
BEFORE = SubBeforeTrace(
    time_ms=1700000000000, region="R", group="cg", request_id="REQ", msg_id="7F01", retry_times=2
)
AFTER = SubAfterTrace(
    request_id="REQ", msg_id="7F01", cost_ms=9, is_success=False, keys="k1",
    return_type=ConsumeReturnType.EXCEPTION, time_ms=1700000000001, group="cg",
)  # fmt: skip
END = EndTransactionTrace(
    time_ms=1, region="R", group="pg", topic="T", msg_id="7F01", store_host="h:1",
    transaction_id="TX", state=TransactionState.ROLLBACK_MESSAGE, is_from_check=True,
)  # fmt: skip
RECALL = RecallTrace(time_ms=1, region="R", group="pg", topic="T", msg_id="7F01", is_success=False)

LINES: list[tuple[TraceRecord, str]] = [
    (
        PUB,
        "Pub|1700000000000|DefaultRegion|pg|Orders|7F01|A|k1 k2|127.0.0.1:10911|5|3|3|AC01|true",
    ),
    (BEFORE, "SubBefore|1700000000000|R|cg|REQ|7F01|2|null"),
    (AFTER, "SubAfter|REQ|7F01|9|false|k1|2|1700000000001|cg"),
    (END, "EndTransaction|1|R|pg|T|7F01|null|null|h:1|2|TX|ROLLBACK_MESSAGE|true"),
    (RECALL, "Recall|1|R|pg|T|7F01|false"),
]


def text(line: str) -> str:
    return line.replace("|", "\x01") + "\x02"


@pytest.mark.parametrize(("record", "line"), LINES, ids=lambda x: getattr(x, "kind", ""))
def test_each_kind_in_its_order(record: TraceRecord, line: str) -> None:
    assert encode_trace(record) == text(line)
    assert decode_trace(text(line)) == [record]


def test_many_records_in_one_message() -> None:
    together = "".join(encode_trace(record) for record, _ in LINES)
    assert decode_trace(together) == [record for record, _ in LINES]
    assert decode_trace("") == []


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("Pub|1|R|pg|T|ID|null|null|h:1|5|3|0|true", (None, True)),
        ("Pub|1|R|pg|T|ID|null|null|h:1|5|3|0|AC|false|10.0.0.1", ("AC", False)),
    ],
)
def test_sends_of_older_and_newer_clients(line: str, expected: tuple[str | None, bool]) -> None:
    (record,) = decode_trace(text(line))
    assert isinstance(record, PubTrace)
    assert (record.offset_msg_id, record.is_success) == expected


@pytest.mark.parametrize("line", ["SubAfter|REQ|ID|9|true|k", "SubAfter|REQ|ID|9|true|k|4|"])
def test_older_consumers_tell_less(line: str) -> None:
    (record,) = decode_trace(text(line))
    assert isinstance(record, SubAfterTrace)
    assert (record.time_ms, record.group) == (None, None)


def test_unknown_kinds_are_left_out() -> None:
    assert decode_trace(text("Later|1|2") + encode_trace(PUB)) == [PUB]


@pytest.mark.parametrize("line", ["Pub|1|R", "Pub|x|R|pg|T|ID|n|n|h|5|3|0|AC|true", "Recall|1|R"])
def test_damaged_records_are_refused(line: str) -> None:
    with pytest.raises(ContentError, match="trace record"):
        decode_trace(text(line))


@given(st.text(alphabet="\x01\x02PubSubBeforeAfter019|", max_size=80))
def test_any_text_gives_records_or_a_content_error(garbage: str) -> None:
    with suppress(ContentError):
        decode_trace(garbage)


def test_by_what_a_record_is_found() -> None:
    assert index_keys(PUB) == ["7F01", "k1", "k2"]
    assert index_keys(BEFORE) == ["7F01"]
    assert index_keys(RECALL) == ["7F01"]
