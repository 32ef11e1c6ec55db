"""What a pop tells of its messages, with texts of a RocketMQ 5.5.0."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pocketmq.protocol.errors import ContentError
from pocketmq.protocol.messages.receipts import (
    OrderedMessage,
    Origin,
    QueueOrigin,
    ReceiptHandle,
    decode_offsets,
    decode_order_counts,
    decode_start_offsets,
    encode_offsets,
    encode_order_counts,
    encode_start_offsets,
)

TOPIC, V1, V2 = Origin


class TestHandle:
    @pytest.mark.parametrize(
        ("text", "handle"),
        [
            (
                "0 1795368801837 10000 0 0 broker-a 0 0",
                ReceiptHandle(0, 1795368801837, 10000, 0, TOPIC, "broker-a", 0, 0),
            ),
            (
                "0 1795368810628 60000 1 1 broker-a 0 0",
                ReceiptHandle(0, 1795368810628, 60000, 1, V1, "broker-a", 0, 0),
            ),
        ],
    )
    def test_rocketmqs_handles(self, text: str, handle: ReceiptHandle) -> None:
        assert ReceiptHandle.decode(text) == handle
        assert handle.encode() == text

    def test_a_proxys_further_part_is_left_out(self) -> None:
        handle = ReceiptHandle.decode("0 1795369009042 10000 7 0 broker-a 1 0 4222588")
        assert (handle.revive_qid, handle.queue_id, handle.queue_offset) == (7, 1, 0)
        assert not handle.is_ordered
        assert handle._replace(revive_qid=999).is_ordered

    @pytest.mark.parametrize(
        ("text", "reason"),
        [
            ("", "has 1 parts"),
            ("0 1 2", "has 3 parts"),
            ("x 1 2 3 0 b 4 5", "start offset 'x'"),
            ("0 1 2 3 7 b 4 5", "must be 0, 1 or 2"),
            ("0 1 2 3 0 b 4 ٥", "queue offset"),
            ("0 1 2 3 0 b 4 " + "9" * 30, "queue offset"),
            ("0 1 2 3 0 " + "b" * 5_000 + " 4 5", "allowed are 4096"),
        ],
    )
    def test_what_is_no_handle_is_told(self, text: str, reason: str) -> None:
        with pytest.raises(ContentError, match=reason):
            ReceiptHandle.decode(text)


class TestInfos:
    def test_rocketmqs_texts(self) -> None:
        starts = {QueueOrigin(TOPIC, 1): 0, QueueOrigin(TOPIC, 0): 0}
        assert decode_start_offsets("0 1 0;0 0 0") == starts
        assert encode_start_offsets(starts) == "0 1 0;0 0 0"
        found = {QueueOrigin(TOPIC, 1): [0], QueueOrigin(TOPIC, 0): [0, 1, 2]}
        assert decode_offsets("0 1 0;0 0 0,1,2") == found
        assert encode_offsets(found) == "0 1 0;0 0 0,1,2"
        counts = {OrderedMessage(TOPIC, 0, 5): 1, OrderedMessage(TOPIC, 0, None): 2}
        assert decode_order_counts("0 qo0%5 1;0 0 2") == counts
        assert encode_order_counts(counts) == "0 qo0%5 1;0 0 2"

    def test_nothing_is_an_empty_text(self) -> None:
        assert decode_start_offsets("") == {}
        assert decode_offsets("") == {}
        assert decode_order_counts("") == {}
        assert encode_start_offsets({}) + encode_offsets({}) + encode_order_counts({}) == ""

    @pytest.mark.parametrize("text", ["0 1", "0 1 2 3", "3 1 2", "0 x 2", "0 1 2;", "0 1 0;0 1 5"])
    def test_what_cannot_be_read_is_an_error(self, text: str) -> None:
        with pytest.raises(ContentError):
            decode_start_offsets(text)
        with pytest.raises(ContentError):
            decode_offsets(text)

    @pytest.mark.parametrize("text", ["0 qo1 2", "0 qox%1 2", "0 1 x"])
    def test_counts_that_cannot_be_read_are_errors(self, text: str) -> None:
        with pytest.raises(ContentError):
            decode_order_counts(text)


NUMBERS = st.integers(0, 2**63 - 1)
QUEUES = st.builds(QueueOrigin, st.sampled_from(Origin), st.integers(0, 65_535))
HANDLES = st.builds(
    ReceiptHandle, NUMBERS, NUMBERS, NUMBERS, st.integers(0, 999), st.sampled_from(Origin),
    st.from_regex(r"[A-Za-z0-9_.-]{1,64}", fullmatch=True), st.integers(0, 65_535), NUMBERS,
)  # fmt: skip


@given(HANDLES, st.dictionaries(QUEUES, st.lists(NUMBERS, min_size=1, max_size=32), max_size=8))
def test_what_is_written_is_read(
    handle: ReceiptHandle, offsets: dict[QueueOrigin, list[int]]
) -> None:
    """Invariant: decoding inverts encoding."""
    assert ReceiptHandle.decode(handle.encode()) == handle
    assert decode_offsets(encode_offsets(offsets)) == offsets
    starts = {queue: found[0] for queue, found in offsets.items()}
    assert decode_start_offsets(encode_start_offsets(starts)) == starts
    counts = {OrderedMessage(*queue, found[0]): 1 for queue, found in offsets.items()}
    assert decode_order_counts(encode_order_counts(counts)) == counts


@given(st.text("012 ;,%qox٥-", max_size=30))
def test_whatever_comes_is_read_or_refused(text: str) -> None:
    """Invariant: no other error than ContentError."""
    for decode in (ReceiptHandle.decode, decode_start_offsets, decode_offsets, decode_order_counts):
        assert outcome(decode, text)


def outcome(decode: Callable[[str], object], text: str) -> str:
    """Why a text is refused; another error ends the test."""
    try:
        decode(text)
    except ContentError as e:
        return str(e)
    return "it is read"
