"""Messages of kombu as messages of RocketMQ."""

from __future__ import annotations

from typing import Any

import pytest

from pocketmq.kombu.messages import delay_of, is_expired, packed, unpacked
from pocketmq.kombu.options import Options
from pocketmq.protocol.errors import ContentError
from pocketmq.protocol.messages import properties as props
from pocketmq.protocol.messages.message import ReceivedMessage

NOW_MS = 1_900_000_000_000  # 2030-03-17T17:46:40Z
ETA_IN_20_S = "2030-03-17T17:47:00+00:00"
OPTIONS = Options()


def received(body: bytes, reconsume_times: int = 0) -> ReceivedMessage:
    message = ReceivedMessage()
    message.topic, message.body, message._properties = "q", body, {props.UNIQ_KEY: "id-1"}
    message._offset_msg_id = "0A"
    message.reconsume_times, message.store_timestamp = reconsume_times, NOW_MS
    return message


def test_a_task_is_found_by_its_id_and_name() -> None:
    message = packed("q", {"headers": {"id": "4711", "task": "shop.pay"}}, OPTIONS, NOW_MS)
    assert (message.keys, message.tags) == (("4711",), "shop.pay")


def test_odd_ids_and_names_are_no_keys_and_tags() -> None:
    message = packed("q", {"headers": {"id": "a b", "task": "a||b"}}, OPTIONS, NOW_MS)
    assert (message.keys, message.tags) == ((), None)


@pytest.mark.parametrize(
    ("headers", "delay_ms"),
    [
        ({}, 0),
        ({"x-delay": 500}, 500),
        ({"x-delay": -1}, 0),
        ({"eta": ETA_IN_20_S}, 20_000),
        ({"eta": "2030-03-17T17:47:00"}, 20_000),
        ({"eta": "2029-03-17T17:47:00"}, 0),
        ({"eta": "soon"}, 0),
        ({"eta": None}, 0),
    ],
)
def test_how_long_a_message_waits(headers: dict[str, Any], delay_ms: int) -> None:
    assert delay_of(headers, OPTIONS, NOW_MS) == delay_ms


def test_an_eta_is_the_workers_affair_if_the_options_say_so() -> None:
    assert delay_of({"eta": ETA_IN_20_S}, Options(native_delay=False), NOW_MS) == 0


def test_a_delay_is_a_timer_message_and_at_most_as_long_as_brokers_allow() -> None:
    short = packed("q", {"headers": {"eta": ETA_IN_20_S}}, OPTIONS, NOW_MS)
    assert short.properties[props.TIMER_DELIVER_MS] == str(NOW_MS + 20_000)
    long = packed("q", {"headers": {"x-delay": 10_000}}, Options(delay_ms_max=9_000), NOW_MS)
    assert long.properties[props.TIMER_DELAY_MS] == "9000"
    none = packed("q", {"headers": {"x-delay": 10_000}}, Options(delay_ms_max=0), NOW_MS)
    assert none.properties.keys() == {props.WAIT}


def test_a_delivery_has_its_own_tag_and_tells_whether_it_is_the_first() -> None:
    payload = unpacked(received(b'{"properties": {"delivery_tag": "sent"}}', 1), "tag-1")
    assert payload["properties"] == {
        "delivery_tag": "tag-1",
        "delivery_info": {"redelivered": True},
    }


@pytest.mark.parametrize(
    "body",
    [b"", b"\xff", b"[1]", b"{}", b'{"properties": 1}', b'{"properties": {"delivery_info": 1}}'],
)
def test_what_is_no_message_of_kombu_is_refused(body: bytes) -> None:
    with pytest.raises(ContentError, match="is no message of kombu"):
        unpacked(received(body), "tag-1")


@pytest.mark.parametrize(
    ("expiration", "is_over"), [("1000", True), ("2000", False), (None, False), ("x", False)]
)
def test_a_message_expires(expiration: str | None, is_over: bool) -> None:
    payload = {"properties": {"expiration": expiration}}
    assert is_expired(received(b""), payload, NOW_MS + 1_500) is is_over
