from __future__ import annotations

import pytest

from pocketmq.protocol.bodies.clients import (
    ConsumerConnection,
    ConsumerIdList,
    GroupConfig,
    Heartbeat,
    ProducerConnection,
    Subscription,
)

SUBSCRIPTION = (
    b'{"classFilterMode":false,"codeSet":[2598919,2598920],"expressionType":"TAG",'
    b'"subString":"TagA || TagB","subVersion":1700000000000,"tagsSet":["TagA","TagB"],"topic":"T"}'
)
HEARTBEAT = (
    b'{"clientID":"127.0.0.1@1234#1","consumerDataSet":[{"consumeFromWhere":'
    b'"CONSUME_FROM_LAST_OFFSET","consumeType":"CONSUME_PASSIVELY","groupName":"CG",'
    b'"messageModel":"CLUSTERING","subscriptionDataSet":[%b],"unitMode":false}],'
    b'"heartbeatFingerprint":0,"producerDataSet":[{"groupName":"PG"}],"withoutSub":false}'
) % SUBSCRIPTION
CONSUMERS = (
    b'{"connectionSet":[{"clientAddr":"127.0.0.1:50000","clientId":"127.0.0.1@1234#1",'
    b'"language":"JAVA","version":513}],"consumeFromWhere":"CONSUME_FROM_LAST_OFFSET",'
    b'"consumeType":"CONSUME_PASSIVELY","messageModel":"CLUSTERING",'
    b'"subscriptionTable":{"T":%b}}'
) % SUBSCRIPTION
PRODUCERS = (
    b'{"connectionSet":[{"clientAddr":"127.0.0.1:50000","clientId":"127.0.0.1@1234#1",'
    b'"language":"JAVA","version":513}]}'
)
GROUP = (
    b'{"attributes":{},"brokerId":0,"consumeBroadcastEnable":true,"consumeEnable":true,'
    b'"consumeFromMinEnable":true,"consumeMessageOrderly":false,"consumeTimeoutMinute":15,'
    b'"groupName":"CG","groupRetryPolicy":{"type":"CUSTOMIZED"},"groupSysFlag":0,'
    b'"notifyConsumerIdsChangedEnable":true,"retryMaxTimes":16,"retryQueueNums":1,'
    b'"whichBrokerWhenConsumeSlowly":1}'
)


@pytest.mark.parametrize(
    ("cls", "data"),
    [
        (Subscription, SUBSCRIPTION),
        (Heartbeat, HEARTBEAT),
        (ConsumerConnection, CONSUMERS),
        (ProducerConnection, PRODUCERS),
        (GroupConfig, GROUP),
        (ConsumerIdList, b'{"consumerIdList":["c1","c2"]}'),
    ],
    ids=lambda value: value.__name__ if isinstance(value, type) else "",
)
def test_reads_and_writes_the_bytes_of_the_real_client(cls: type[Heartbeat], data: bytes) -> None:
    assert cls.decode(data).encode() == data


def test_defaults_of_a_group_are_those_of_the_real_broker() -> None:
    assert GroupConfig(group_name="CG").encode() == GROUP


def test_subscription_by_tags() -> None:
    made = Subscription.of_tags("T", "TagA || TagB", 1_700_000_000_000)
    assert made.encode() == SUBSCRIPTION
    assert not made.takes_all


@pytest.mark.parametrize("expression", ["*", "", " ", "||", "a || *"])
def test_subscription_to_all(expression: str) -> None:
    made = Subscription.of_tags("T", expression, 5)
    assert made.takes_all
    assert (made.sub_string, made.tags_set, made.code_set) == ("*", [], [])


def test_other_clients_may_write_codes_as_text_and_null_for_nothing() -> None:
    read = Subscription.decode(
        b'{"topic":"T","codeSet":["2598919"],"tagsSet":null,"expressionType":null}'
    )
    assert (read.code_set, read.tags_set, read.takes_all) == ([2598919], [], True)
