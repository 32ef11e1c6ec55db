"""What brokers say of a subscription, and who hears it."""

from __future__ import annotations

import logging
from typing import Any

import pytest
from support.peers.client import Cluster, Peer, code, done, hang_up, ok
from support.peers.transport import until

from pocketmq.client import MessageSelector, PushConsumer
from pocketmq.protocol.bodies.clients import CheckClientConfigBody, Heartbeat
from pocketmq.protocol.codes import RequestCode
from pocketmq.protocol.errors import ResponseError
from pocketmq.protocol.requests.pulling import PullMessageRequest

CHECK = RequestCode.CHECK_CLIENT_CONFIG
PULL = RequestCode.PULL_MESSAGE
SQL = MessageSelector.by_sql("a > 5")
OFF = code(1, "SQL92 is off")


async def stage(cluster: Cluster) -> tuple[Peer, Peer]:
    """Two brokers; the second one has T, too."""
    await cluster.add_namesrv()
    brokers = [await cluster.add_broker(name) for name in "ab"]
    cluster.topic("T", "a", "b", queues=1)
    cluster.topic("U", "a", queues=1)
    for broker in brokers:
        broker.answers[CHECK] = lambda request, connection: ok()
    return brokers[0], brokers[1]


async def consumer(cluster: Cluster, **settings: Any) -> PushConsumer:
    client = cluster.client()
    await client.start()
    return PushConsumer("cg", instance=client, listener=print, **settings)


async def test_each_broker_is_asked_before_the_first_pull(cluster: Cluster) -> None:
    first, second = await stage(cluster)
    c = await consumer(cluster)
    c.subscribe("T", SQL)
    c.subscribe("U", "A")
    await done(c.start())
    assert (first.count(CHECK), second.count(CHECK)) == (1, 1)
    body = CheckClientConfigBody.decode(first.last(CHECK).body)
    assert (body.group, body.client_id) == ("cg", c.instance.client_id)
    wanted = body.subscription_data
    assert (wanted.topic, wanted.sub_string, wanted.expression_type) == ("T", "a > 5", "SQL92")
    await until(lambda: second.count(PULL) == 1)
    pull = second.last(PULL).read(PullMessageRequest)
    assert (pull.subscription, pull.expression_type) == ("a > 5", "SQL92")
    (data,) = Heartbeat.decode(second.last(RequestCode.HEART_BEAT).body).consumer_data_set
    assert wanted in data.subscription_data_set
    await done(c.close())


async def test_a_refusal_ends_the_start(cluster: Cluster) -> None:
    _, second = await stage(cluster)
    second.answers[CHECK] = OFF
    c = await consumer(cluster)
    c.subscribe("T", SQL)
    with pytest.raises(ResponseError, match="SQL92 is off"):
        await done(c.start())
    assert second.count(PULL) == 0
    second.answers[CHECK] = lambda request, connection: ok()
    await done(c.start())
    await done(c.close())


async def test_a_later_refusal_is_logged_and_can_be_asked_for(
    cluster: Cluster, caplog: pytest.LogCaptureFixture
) -> None:
    first, _ = await stage(cluster)
    first.answers[CHECK] = OFF
    c = await consumer(cluster)
    await done(c.check_subscriptions())  # not started: nothing to ask
    await done(c.start())
    with caplog.at_level(logging.ERROR, "pocketmq.client"):
        c.subscribe("T", "A")
        await done(c.check_subscriptions())
        assert not caplog.messages
        c.subscribe("T", SQL)
        await until(lambda: "SQL92 is off" in caplog.text)
    with pytest.raises(ResponseError, match="SQL92 is off"):
        await done(c.check_subscriptions())
    await done(c.close())


async def test_who_cannot_be_reached_is_left_out(cluster: Cluster) -> None:
    first, second = await stage(cluster)
    first.answers[CHECK] = hang_up
    c = await consumer(cluster)
    c.subscribe("T", SQL)
    c.subscribe("missing", SQL)
    await done(c.start())
    assert second.count(CHECK) == 1
    await done(c.close())
