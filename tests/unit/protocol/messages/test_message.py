from __future__ import annotations

import copy
import pickle
from typing import Any

import pytest
from unit.protocol.messages.test_records import GOLDEN

from pocketmq.protocol.errors import UsageError
from pocketmq.protocol.messages import properties as props
from pocketmq.protocol.messages.message import Message, MessageQueue, ReceivedMessage
from pocketmq.protocol.messages.records import decode_records


def test_what_is_given_becomes_properties() -> None:
    message = Message(
        "T",
        "é",
        tags="TagA",
        keys=["k1", "k2"],
        properties={"colour": "blue"},
        sharding_key="s",
        delay_level=3,
        flag=7,
    )
    assert message.body == b"\xc3\xa9"
    assert message.properties == {
        "colour": "blue",
        "TAGS": "TagA",
        "KEYS": "k1 k2",
        "__SHARDINGKEY": "s",
        "DELAY": "3",
        "WAIT": "true",
    }
    assert (message.tags, message.keys, message.sharding_key) == ("TagA", ("k1", "k2"), "s")
    assert (message.flag, message.wait_store_ok, message.unique_key) == (7, True, None)


@pytest.mark.parametrize("level", [-1, 19, 99])
def test_a_level_that_is_not_on_the_ladder_is_refused(level: int) -> None:
    with pytest.raises(UsageError, match=rf"is {level}: it must be between 1 and 18 .* DELAY"):
        Message("T", delay_level=level)
    assert Message("T", properties={"DELAY": "19"}).properties["DELAY"] == "19"
    assert Message("T", delay_level=18).properties["DELAY"] == "18"


def test_a_tag_that_no_subscription_can_name_is_refused() -> None:
    with pytest.raises(UsageError, match=r"'a\|\|b' holds \|\|"):
        Message("T", tags="a||b")
    assert Message("T", tags="a|b").tags == "a|b"


def test_what_is_not_given_is_absent() -> None:
    message = Message("T", wait_store_ok=False)
    assert message.properties == {"WAIT": "false"}
    assert (message.body, message.tags, message.keys) == (b"", None, ())
    assert not message.wait_store_ok


def test_one_key_may_be_given_plainly() -> None:
    assert Message("T", keys="k1").keys == ("k1",)


@pytest.mark.parametrize("key", ["", "a b", " a", "a\t", "a\nb"])
def test_keys_with_blanks_are_refused(key: str) -> None:
    with pytest.raises(UsageError, match="a key is empty or holds a space"):
        Message("T", keys=["ok", key])


def test_the_properties_given_are_not_changed() -> None:
    given = {"a": "b"}
    Message("T", properties=given, tags="x")
    assert given == {"a": "b"}


@pytest.mark.parametrize(
    ("given", "properties"),
    [
        ({}, {}),
        ({"delay_ms": 0, "deliver_at_ms": 0}, {}),
        ({"delay_ms": 1500}, {"TIMER_DELAY_MS": "1500"}),
        ({"deliver_at_ms": 1_700_000_000_000}, {"TIMER_DELIVER_MS": "1700000000000"}),
    ],
)
def test_a_message_asks_for_a_time(given: dict[str, Any], properties: dict[str, str]) -> None:
    assert Message("T", **given).properties == {"WAIT": "true", **properties}


@pytest.mark.parametrize(
    "given",
    [
        {"delay_ms": 1, "deliver_at_ms": 1},
        {"delay_ms": 1, "delay_level": 1},
        {"deliver_at_ms": 1, "delay_level": 1},
        {"delay_ms": -1},
        {"deliver_at_ms": -1},
    ],
)
def test_a_message_asks_for_one_delay(given: dict[str, Any]) -> None:
    with pytest.raises(UsageError, match="give one of them"):
        Message("T", **given)


def test_received_message() -> None:
    (message,) = decode_records(GOLDEN, "broker-a")
    assert message.queue == MessageQueue("TopicA", "broker-a", 1)
    assert str(message.queue) == "TopicA@broker-a:1"
    assert message.msg_id == message.offset_msg_id
    message.properties["UNIQ_KEY"] = "U"
    assert message.msg_id == "U"
    assert repr(message) == "ReceivedMessage(TopicA@broker-a:1+9, id=U, body=<5 bytes>)"


def test_messages_travel_between_processes() -> None:
    (received,) = decode_records(GOLDEN, "broker-a")
    made: ReceivedMessage = pickle.loads(pickle.dumps(received))
    assert (made.body, made.queue, made.properties) == (
        received.body,
        received.queue,
        received.properties,
    )
    sent = pickle.loads(pickle.dumps(Message("T", b"x", tags="a")))
    assert (sent.topic, sent.body, sent.tags) == ("T", b"x", "a")


def test_a_copy_is_what_is_shown_of_a_message_that_nobody_has_looked_at() -> None:
    looked_at, untouched = (next(decode_records(GOLDEN, "broker-a")) for _ in range(2))
    shown = {name: getattr(looked_at, name) for name in vars(ReceivedMessage) if name[0] != "_"}
    for made in (copy.copy(untouched), pickle.loads(pickle.dumps(untouched))):
        assert {name: getattr(made, name) for name in shown} == shown
    assert pickle.dumps(untouched) == pickle.dumps(looked_at)


def test_what_is_set_in_a_message_stays() -> None:
    (message,) = decode_records(GOLDEN, "broker-a", added=props.appended({"MAX_OFFSET": 7}))
    message.properties["a"] = "b"
    assert message.properties == {"TAGS": "TagA", "KEYS": "k1", "MAX_OFFSET": "7", "a": "b"}
    message.store_host, message.born_host = "127.0.0.1:1", "127.0.0.1:2"
    assert (message.store_host, message.born_host) == ("127.0.0.1:1", "127.0.0.1:2")
    assert message.offset_msg_id == next(decode_records(GOLDEN)).offset_msg_id
    message.offset_msg_id, message.properties = "id", {}
    assert (message.offset_msg_id, message.msg_id, message.properties) == ("id", "id", {})
    assert not hasattr(ReceivedMessage(), "properties")


def test_repr_shows_no_content() -> None:
    assert repr(Message("T", b"secret")) == "Message(topic='T', body=<6 bytes>)"
