"""How the needs of a request are found."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from pocketmq.auth.needs.broker import BROKER_NEEDS
from pocketmq.auth.needs.namesrv import NAMESRV_NEEDS
from pocketmq.auth.needs.parts import Facts, Part
from pocketmq.auth.needs.table import described, group_if_named, key_fields, topic
from pocketmq.auth.rights.policies import Action
from pocketmq.protocol.codes import RequestCode as Code
from pocketmq.protocol.errors import ResponseError
from pocketmq.protocol.messages.hosts import encode_host
from pocketmq.protocol.messages.ids import offset_msg_id

FACTS = Facts(lambda: ("c1", "c2"), {8: "stored"}.get)
STORED_ID = offset_msg_id(encode_host("127.0.0.1", 10911), 8)


def needs(parts: Sequence[Part], texts: dict[str, str], body: bytes = b"") -> list[str]:
    """The needs of a request as text, such as ``Topic:t Pub``."""
    found = [need for part in parts for need in part.needs(texts, body, FACTS)]
    return [f"{need.resource} {'|'.join(sorted(a.value for a in need.actions))}" for need in found]


@pytest.mark.parametrize(
    ("code", "texts", "expected"),
    [
        (Code.SEND_MESSAGE, {"topic": "t"}, ["Topic:t Pub"]),
        (Code.SEND_MESSAGE, {"topic": "%RETRY%g"}, ["Group:g Sub"]),
        (Code.SEND_MESSAGE, {"topic": "%DLQ%g"}, ["Topic:%DLQ%g Pub"]),
        (Code.SEND_MESSAGE_V2, {"b": "t", "topic": "mine"}, ["Topic:t Pub"]),
        (Code.PULL_MESSAGE, {"topic": "t", "consumerGroup": "g"}, ["Topic:t Sub", "Group:g Sub"]),
        (
            Code.PULL_MESSAGE,
            {"topic": "%RETRY%g", "consumerGroup": "g"},
            ["Group:g Sub", "Group:g Sub"],
        ),
        (Code.END_TRANSACTION, {"commitLogOffset": "8", "topic": "mine"}, ["Topic:stored Pub"]),
        (Code.END_TRANSACTION, {"commitLogOffset": "9", "topic": "mine"}, ["Topic:mine Pub"]),
        (Code.END_TRANSACTION, {"commitLogOffset": "9"}, []),
        (Code.VIEW_MESSAGE_BY_ID, {"offset": "8"}, ["Topic:stored Get"]),
        (Code.CONSUME_MESSAGE_DIRECTLY, {"consumerGroup": "g", "msgId": STORED_ID},
         ["Group:g Sub", "Topic:stored Sub"]),
        (Code.CONSUME_MESSAGE_DIRECTLY, {"consumerGroup": "g", "msgId": "none"}, ["Group:g Sub"]),
        (Code.GET_CONSUME_STATS, {"consumerGroup": "g", "topicList": "a;b"},
         ["Group:g Get", "Topic:a Get", "Topic:b Get"]),
        (Code.GET_BROKER_CONFIG, {"clusterName": "mine"}, ["Cluster:c1 Get", "Cluster:c2 Get"]),
        (Code.UNREGISTER_CLIENT, {"producerGroup": "p"}, []),
    ],
)  # fmt: skip
def test_needs_are_those_of_what_the_handler_reads(
    code: int, texts: dict[str, str], expected: list[str]
) -> None:
    assert needs(BROKER_NEEDS[code], texts) == expected


@pytest.mark.parametrize(
    ("code", "body", "expected"),
    [
        (
            Code.HEART_BEAT,
            b'{"clientID":"c","producerDataSet":[{"groupName":"p"}],"consumerDataSet":'
            b'[{"groupName":"g","subscriptionDataSet":[{"topic":"t"},{"topic":"%RETRY%g"}]}]}',
            ["Group:g Sub", "Topic:t Sub"],
        ),
        (
            Code.LOCK_BATCH_MQ,
            b'{"consumerGroup":"g","clientId":"c","mqSet":'
            b'[{"topic":"t","brokerName":"b","queueId":0}]}',
            ["Group:g Sub", "Topic:t Sub"],
        ),
        (
            Code.BATCH_ACK_MESSAGE,
            b'{"acks":[{"c":"g","t":"t"},{"c":"h","t":"u"}]}',
            ["Group:g Sub", "Topic:t Sub", "Group:h Sub", "Topic:u Sub"],
        ),
    ],
)
def test_needs_of_bodies_are_asked_once_each(code: int, body: bytes, expected: list[str]) -> None:
    assert needs(BROKER_NEEDS[code], {}, body) == expected


@pytest.mark.parametrize(
    ("code", "texts"),
    [
        (Code.SEND_MESSAGE, {}),
        (Code.SEND_MESSAGE, {"topic": ""}),
        (Code.END_TRANSACTION, {"commitLogOffset": "0x8"}),
        (Code.END_TRANSACTION, {"commitLogOffset": "٨"}),
        (Code.HEART_BEAT, {}),
    ],
)
def test_what_names_nothing_is_refused(code: int, texts: dict[str, str]) -> None:
    with pytest.raises(ResponseError, match="parse authorization context error"):
        needs(BROKER_NEEDS[code], texts)


def test_routes_may_be_asked_by_all_who_use_a_topic() -> None:
    route = NAMESRV_NEEDS[Code.GET_ROUTEINFO_BY_TOPIC]
    assert needs(route, {"topic": "t"}) == ["Topic:t Get|Pub|Sub"]
    assert needs(route, {"topic": "%RETRY%g"}) == ["Group:g Get|Sub"]
    assert needs(route, {"topic": "TBW102"}) == []


def test_a_decision_is_remembered_by_all_fields_that_count() -> None:
    assert key_fields((topic(Action.PUB), group_if_named(Action.SUB))) == (
        "topic",
        "consumerGroup",
    )
    assert key_fields(BROKER_NEEDS[Code.HEART_BEAT]) is None


def test_each_entry_says_what_it_needs() -> None:
    assert described(BROKER_NEEDS[Code.PULL_MESSAGE]) == (
        "Topic (`topic`) → Sub; Group (`consumerGroup`) → Sub"
    )
    assert described(NAMESRV_NEEDS[Code.AUTH_TELL]) == "Super users only"
    assert "of the message `commitLogOffset`" in described(BROKER_NEEDS[Code.END_TRANSACTION])
