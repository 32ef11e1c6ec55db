from __future__ import annotations

import logging

from support.peers.messages import received

from pocketmq.client.log_fields import LOG_FIELDS, log_fields
from pocketmq.protocol.messages.message import MessageQueue


def test_a_message_says_all() -> None:
    message = received(7)
    assert log_fields("cg", message=message) == {
        "group": "cg",
        "topic": "T",
        "broker_name": "a",
        "queue_id": 0,
        "queue_offset": 7,
        "msg_id": message.msg_id,
        "reconsume_times": 0,
    }
    assert set(log_fields("cg", message=message)) == set(LOG_FIELDS)


def test_a_record_has_what_it_is_about() -> None:
    assert log_fields() == {}
    assert log_fields("cg") == {"group": "cg"}
    assert log_fields(queue=MessageQueue("T", "a", 3)) == {
        "topic": "T",
        "broker_name": "a",
        "queue_id": 3,
    }


def test_no_field_is_in_the_way_of_the_record_s_own() -> None:
    record = logging.getLogger("x").makeRecord(
        "x", logging.INFO, "f", 1, "text", (), None, extra=log_fields("cg", message=received(7))
    )
    assert [getattr(record, name) for name in ("group", "queue_offset")] == ["cg", 7]
