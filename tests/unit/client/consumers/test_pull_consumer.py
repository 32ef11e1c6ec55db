"""A pull consumer against scripted brokers, in virtual time."""

from __future__ import annotations

from typing import Any

import pytest
from support.peers.client import Cluster, Peer, code, done, ok, pulled
from support.peers.messages import received, record
from support.peers.transport import until

from pocketmq.client import (
    ClosedError,
    MessageQueue,
    MessageSelector,
    PullConsumer,
    PullStatus,
    SendFailedError,
)
from pocketmq.protocol.codes import RequestCode
from pocketmq.protocol.errors import ResponseError, UnsupportedRequestError, UsageError
from pocketmq.protocol.messages import properties as props
from pocketmq.protocol.requests.clients import ConsumerIdsChangedRequest
from pocketmq.protocol.requests.consuming import ConsumerSendMsgBackRequest
from pocketmq.protocol.requests.pulling import (
    PULL_SUBSCRIPTION,
    PULL_SUSPEND,
    PullMessageRequest,
)
from pocketmq.protocol.requests.sending import SendMessageV2Request
from pocketmq.protocol.wire.command import Command

BACK = RequestCode.CONSUMER_SEND_MSG_BACK
PULL = RequestCode.PULL_MESSAGE
SEND = RequestCode.SEND_MESSAGE_V2
QUEUE = MessageQueue("T", "a", 0)


async def stage(cluster: Cluster, **settings: Any) -> tuple[Peer, PullConsumer]:
    await cluster.add_namesrv()
    broker = await cluster.add_broker("a")
    cluster.topic("T", "a", queues=1)
    cluster.topic("%RETRY%cg", "a", queues=1)
    client = cluster.client()
    await client.start()
    made = PullConsumer("cg", instance=client, **settings)
    await made.start()
    await done(made.queues("T"))
    return broker, made


def asked(broker: Peer) -> PullMessageRequest:
    return broker.last(PULL).read(PullMessageRequest)


async def test_sql_is_the_brokers_business(cluster: Cluster) -> None:
    broker, consumer = await stage(cluster)
    tagged = props.encode({props.TAGS: "other"}).encode()
    broker.answers[PULL] = lambda request, connection: pulled(
        0, record(0, properties=tagged), next_offset=1
    )
    selector = MessageSelector.by_sql("TAGS = 'x' OR a > 5")
    result = await done(consumer.pull(QUEUE, 0, expression=selector))
    assert [m.tags for m in result.messages] == ["other"]
    request = asked(broker)
    assert (request.expression_type, request.subscription) == ("SQL92", selector.expression)
    assert request.sys_flag == PULL_SUBSCRIPTION
    assert (await done(consumer.pull(QUEUE, 0, expression="x"))).messages == []
    assert asked(broker).expression_type == "TAG"


async def test_a_blocking_pull_is_held(cluster: Cluster) -> None:
    broker, consumer = await stage(cluster, pull_hold_ms=7_000)
    broker.answers[PULL] = lambda request, connection: pulled(19, next_offset=3)
    result = await done(consumer.pull_block_if_not_found(QUEUE, 3, 5, expression="A"))
    assert result.status is PullStatus.NO_NEW_MESSAGE
    request = asked(broker)
    assert request.sys_flag == PULL_SUBSCRIPTION | PULL_SUSPEND
    assert (request.suspend_timeout_millis, request.max_msg_nums) == (7_000, 5)
    assert (request.queue_offset, request.subscription) == (3, "A")
    await done(consumer.pull(QUEUE, 3))
    assert asked(broker).sys_flag == PULL_SUBSCRIPTION


async def test_a_message_goes_back(cluster: Cluster) -> None:
    broker, consumer = await stage(cluster, max_reconsume_times=4)
    broker.answers[BACK] = lambda request, connection: ok()
    await done(consumer.send_back(received(3), 5))
    request = broker.last(BACK).read(ConsumerSendMsgBackRequest)
    assert (request.group, request.offset, request.origin_topic) == ("cg", 300, "T")
    assert (request.delay_level, request.max_reconsume_times) == (5, 4)
    broker.answers[BACK] = code(1, "not found")
    await done(consumer.send_back(received(3)))
    assert broker.last(SEND).read(SendMessageV2Request).topic == "%RETRY%cg"


async def test_who_cannot_send_back_hears_why(cluster: Cluster) -> None:
    broker, consumer = await stage(cluster)
    broker.answers[BACK] = code(1, "not found")
    broker.answers[SEND] = code(14, "disk full")
    with pytest.raises((SendFailedError, ResponseError), match="disk full"):
        await done(consumer.send_back(received(3)))
    broker.answers[BACK] = code(3, "what is that?")
    with pytest.raises(UnsupportedRequestError):
        await done(consumer.send_back(received(3)))


async def test_the_group_shares_the_queues(cluster: Cluster) -> None:
    broker, consumer = await stage(cluster)
    cluster.topic("T", "a", queues=4)
    await consumer.instance.routes.refresh()
    heard: list[list[int]] = []

    async def listener(topic: str, total: list[MessageQueue], own: list[MessageQueue]) -> None:
        assert (topic, len(total)) == ("T", 4)
        heard.append([q.queue_id for q in own])

    await done(consumer.listen_to_queues("T", listener))
    assert heard == [[0, 1, 2, 3]]
    assert len(await done(consumer.queues_in_balance("T"))) == 4
    cluster.members.append("zzz")
    for connection in broker.server.connections:
        header = ConsumerIdsChangedRequest(consumer_group="cg")
        connection.notify(Command(header.code, header=header))
    await until(lambda: len(heard) == 2)
    assert heard[1] == [0, 1]
    assert [q.queue_id for q in await done(consumer.queues_in_balance("T"))] == [0, 1]
    await done(consumer.listen_to_queues("T", None))
    cluster.members.remove("zzz")
    await cluster.clock.advance(20)
    assert len(await done(consumer.queues_in_balance("T"))) == 4
    assert len(heard) == 2
    await done(consumer.close())
    consumer.group_changed()


async def test_an_unregistered_one_has_no_share(cluster: Cluster) -> None:
    _, consumer = await stage(cluster, register=False)
    with pytest.raises(UsageError, match="register=False"):
        await consumer.queues_in_balance("T")


async def test_a_closed_one_refuses(cluster: Cluster) -> None:
    _, consumer = await stage(cluster)
    await done(consumer.close())
    with pytest.raises(ClosedError):
        await consumer.pull_block_if_not_found(QUEUE, 0)
    with pytest.raises(ClosedError):
        await consumer.send_back(received(0))
