"""Namespaces on the wire: what brokers and name servers are told, and what applications see."""

from __future__ import annotations

import pytest
from support.peers.client import Cluster, done, pulled
from support.peers.messages import record
from support.peers.transport import until

from pocketmq.client import Admin, Message, MessageQueue, Producer, PullConsumer, PushConsumer
from pocketmq.client.instance.namespacing import namespacing
from pocketmq.protocol.bodies.clients import Heartbeat
from pocketmq.protocol.codes import RequestCode
from pocketmq.protocol.errors import ConfigError, IllegalNameError
from pocketmq.protocol.names.namespaces import Namespace
from pocketmq.protocol.requests.consuming import ConsumerSendMsgBackRequest
from pocketmq.protocol.requests.nameserver import RouteRequest
from pocketmq.protocol.requests.offsets import UpdateConsumerOffsetRequest
from pocketmq.protocol.requests.pulling import PullMessageRequest
from pocketmq.protocol.requests.sending import SendMessageV2Request
from pocketmq.protocol.wire.command import Command
from pocketmq.transport.connection import Connection

SEND, PULL = RequestCode.SEND_MESSAGE_V2, RequestCode.PULL_MESSAGE


async def started(cluster: Cluster) -> None:
    await cluster.add_namesrv()
    await cluster.add_broker("a")
    cluster.topic("shop%T", "a")
    cluster.topic("T", "a")


async def test_a_producers_names(cluster: Cluster) -> None:
    await started(cluster)
    client = cluster.client(namespace="shop", namespace_v2="mall")
    await client.start()
    producer = Producer("pg", instance=client)
    await producer.start()
    message = Message("T", b"x")
    result = await done(producer.send(message))
    assert (message.topic, result.queue.topic) == ("T", "T")
    assert {q.topic for q in await done(producer.queues("T"))} == {"T"}
    sent = cluster.brokers["a"].last(SEND)
    header = sent.read(SendMessageV2Request)
    assert (header.topic, header.producer_group, header.default_topic) == (
        "shop%T", "shop%pg", "TBW102"
    )  # fmt: skip
    asked = cluster.namesrvs[0].last(RequestCode.GET_ROUTEINFO_BY_TOPIC)
    assert asked.read(RouteRequest).topic == "shop%T"
    for command in (sent, asked):
        assert (command.fields["nsd"], command.fields["ns"]) == ("true", "mall")
    await until(lambda: cluster.brokers["a"].count(RequestCode.HEART_BEAT))
    told = Heartbeat.decode(cluster.brokers["a"].last(RequestCode.HEART_BEAT).body)
    assert [p.group_name for p in told.producer_data_set] == ["shop%pg"]


async def test_a_consumers_names(cluster: Cluster) -> None:
    await started(cluster)
    asked: list[PullMessageRequest] = []

    def pull(request: Command, connection: Connection) -> Command:
        asked.append(request.read(PullMessageRequest))
        body = record(0, topic="shop%T", properties=b"RETRY_TOPIC\x01shop%Old\x02")
        return pulled(0, body, next_offset=1, high=1)

    cluster.brokers["a"].answers[PULL] = pull
    client = cluster.client(namespace="shop")
    await client.start()
    consumer = PullConsumer("cg", instance=client)
    await consumer.start()
    queue = MessageQueue("T", "a", 0)
    assert queue in await done(consumer.queues("T"))
    (message,) = (await done(consumer.pull(queue, 0))).messages
    assert (message.topic, message.queue, message.properties["RETRY_TOPIC"]) == ("T", queue, "Old")
    assert (asked[0].topic, asked[0].consumer_group) == ("shop%T", "shop%cg")
    await done(consumer.commit(queue, 1))
    committed = cluster.brokers["a"].last(RequestCode.UPDATE_CONSUMER_OFFSET)
    stored = committed.read(UpdateConsumerOffsetRequest)
    assert (stored.topic, stored.consumer_group) == ("shop%T", "shop%cg")


async def test_a_push_consumers_subscriptions(cluster: Cluster) -> None:
    await started(cluster)
    client = cluster.client(namespace="shop")
    await client.start()
    consumer = PushConsumer("cg", instance=client, listener=print)
    consumer.subscribe("T")
    await done(consumer.start())
    await until(lambda: cluster.brokers["a"].count(PULL))
    assert {q.topic for q in consumer.queues} == {"T"}
    told = Heartbeat.decode(cluster.brokers["a"].last(RequestCode.HEART_BEAT).body)
    (data,) = told.consumer_data_set
    assert data.group_name == "shop%cg"
    assert {s.topic for s in data.subscription_data_set} == {"shop%T", "%RETRY%shop%cg"}
    await done(consumer.close())


def test_one_header_may_be_sent_twice() -> None:
    (before_request,) = namespacing(Namespace("shop"), "")
    header = ConsumerSendMsgBackRequest(
        offset=1, group="cg", delay_level=0, origin_topic="T", broker_name="a"
    )
    for _ in range(2):
        command = Command(header.code, header=header)
        before_request(command)
        changed = command.header
        assert isinstance(changed, ConsumerSendMsgBackRequest)
        assert (changed.group, changed.origin_topic, changed.broker_name) == (
            "shop%cg", "shop%T", "a"
        )  # fmt: skip
    assert (header.group, header.origin_topic) == ("cg", "T")


def test_without_namespaces_nothing_is_done() -> None:
    assert namespacing(Namespace(), "") == ()


async def test_names_that_are_too_long_with_their_namespace(cluster: Cluster) -> None:
    await started(cluster)
    client = cluster.client(namespace="s" * 100)
    await client.start()
    with pytest.raises(IllegalNameError, match="longer"):
        await Producer("g" * 30, instance=client).start()


def test_an_admin_takes_names_as_they_are() -> None:
    with pytest.raises(ConfigError, match="shop%Orders"):
        Admin("127.0.0.1:1", namespace="shop")
