"""The messages of a pop and their handles, as RocketMQ's clients make them."""

from __future__ import annotations

import pytest
from support.peers.messages import record

from pocketmq.protocol.errors import ContentError
from pocketmq.protocol.messages.receipts import ORDER_REVIVE_QID, Origin
from pocketmq.protocol.popped import Popped, popped_messages, topic_read
from pocketmq.protocol.requests.popping import PopMessageResponse


def popped(body: bytes, starts: str, *, revive_qid: int = 0, counts: str = "") -> list[Popped]:
    header = PopMessageResponse(
        pop_time=1_000,
        invisible_time=500,
        revive_qid=revive_qid,
        rest_num=0,
        start_offset_info=starts,
        order_count_info=counts or None,
    )
    return popped_messages(header, body, "G", "T", "broker-a")


def test_handles_tell_where_the_read_of_their_queue_began() -> None:
    body = record(5) + record(7) + record(0, queue_id=1)
    texts = [handle.encode() for _, handle in popped(body, "0 0 4;0 1 0")]
    assert texts == [
        "4 1000 500 0 0 broker-a 0 5",
        "4 1000 500 0 0 broker-a 0 7",
        "0 1000 500 0 0 broker-a 1 0",
    ]


def test_an_old_broker_tells_no_beginning() -> None:
    ((_, handle),) = popped(record(5), "")
    assert handle.start_offset == 5


@pytest.mark.parametrize(
    ("topic", "origin"),
    [("T", Origin.TOPIC), ("%RETRY%G_T", Origin.RETRY_V1), ("%RETRY%G+T", Origin.RETRY_V2)],
)
def test_the_origin_is_told_by_the_topic(topic: str, origin: Origin) -> None:
    ((_, handle),) = popped(record(5, topic=topic), f"{origin.value} 0 3")
    assert (handle.origin, handle.start_offset) == (origin, 3)
    assert topic_read(origin, "G", "T") == topic


def test_a_handle_that_the_broker_gives_counts() -> None:
    given = b"POP_CK\x013 900 500 2 1 broker-a 0 4\x02"
    ((_, handle),) = popped(record(5, properties=given), "0 0 5")
    assert handle.encode() == "3 900 500 2 1 broker-a 0 4"


def test_ordered_messages_tell_how_often_they_were_tried() -> None:
    found = popped(
        record(2) + record(3),
        "0 0 2",
        revive_qid=ORDER_REVIVE_QID,
        counts="0 qo0%2 4;0 0 1",
    )
    assert [message.reconsume_times for message, _ in found] == [4, 1]


@pytest.mark.parametrize(("body", "starts"), [(record(1)[:-1], ""), (record(1), "0 0")])
def test_an_answer_that_makes_no_sense_is_an_error(body: bytes, starts: str) -> None:
    with pytest.raises(ContentError):
        popped(body, starts)
