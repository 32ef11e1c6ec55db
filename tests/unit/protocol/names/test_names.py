from __future__ import annotations

import pytest

from pocketmq.protocol.errors import IllegalNameError
from pocketmq.protocol.names import names


@pytest.mark.parametrize("name", ["a", "Topic_A-1", "%RETRY%group", "a|b", "t" * 127])
def test_legal_topics(name: str) -> None:
    names.check_topic(name)


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("", "is blank"),
        (" \t", "is blank"),
        ("t" * 128, "max length: 127"),
        ("a b", "illegal characters"),
        ("a.b", "illegal characters"),
        ("é", "illegal characters"),
        ("a\n", "illegal characters"),
    ],
)
def test_illegal_topics(name: str, reason: str) -> None:
    with pytest.raises(IllegalNameError, match=reason) as caught:
        names.check_topic(name)
    assert (caught.value.kind, caught.value.name) == ("topic", name)


def test_topics_made_from_a_group_may_be_longer() -> None:
    group = "g" * 120
    names.check_group(group)
    names.check_topic(names.retry_topic(group))
    names.check_topic(names.dlq_topic(group))
    with pytest.raises(IllegalNameError, match="max length: 255"):
        names.check_topic(names.RETRY_PREFIX + "g" * 249)


def test_groups_have_their_own_limit() -> None:
    with pytest.raises(IllegalNameError, match=r"The specified group: .* max length: 120"):
        names.check_group("g" * 121)


def test_system_topics() -> None:
    assert names.is_system_topic("TBW102")
    assert names.is_system_topic("rmq_sys_anything")
    assert not names.is_system_topic("Orders")
    assert all(map(names.is_system_topic, names.SEND_FORBIDDEN_TOPICS))


@pytest.mark.parametrize(
    ("properties", "topic"),
    [
        ({}, None),
        ({"RETRY_TOPIC": "T"}, "T"),
        ({"RETRY_TOPIC": "%RETRY%g_T_u"}, "T_u"),
        ({"RETRY_TOPIC": "%RETRY%g+T"}, "T"),
        ({"DLQ_ORIGIN_TOPIC": "T"}, "T"),
        ({"RETRY_TOPIC": "T", "DLQ_ORIGIN_TOPIC": "U"}, "T"),
        ({"RETRY_TOPIC": "%RETRY%other_T"}, "%RETRY%other_T"),
    ],
)
def test_a_retried_message_says_where_it_came_from(
    properties: dict[str, str], topic: str | None
) -> None:
    assert names.origin_topic("g", properties) == topic
