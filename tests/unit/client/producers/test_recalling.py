"""Recalls of timer messages, against brokers that answer as told."""

from __future__ import annotations

import asyncio

import pytest
from support.peers.client import Cluster, Peer, code, done, ok, silent
from support.peers.transport import until

from pocketmq.client import BrokerDownError, ClosedError, NoNameServerError, Producer
from pocketmq.protocol.codes import RequestCode
from pocketmq.protocol.errors import IllegalNameError, ResponseError, UsageError
from pocketmq.protocol.messages.recall_handle import RecallHandle
from pocketmq.protocol.requests.sending import RecallMessageRequest, RecallMessageResponse
from pocketmq.testing.clock import VirtualClock
from pocketmq.transport.errors import CallTimeoutError

RECALL = RequestCode.RECALL_MESSAGE
HANDLE = RecallHandle("T", "b", 1_700_000_005_001, "KEY").encode()


async def stage(cluster: Cluster) -> tuple[Producer, Peer]:
    """A started producer, and broker b of topic T, which takes recalls."""
    await cluster.add_namesrv()
    await cluster.add_broker("a")
    broker = await cluster.add_broker("b")
    broker.answers[RECALL] = lambda request, connection: ok(
        RecallMessageResponse(msg_id="KEY", region="R")
    )
    cluster.topic("T", "a", "b", perm=2)
    client = cluster.client()
    await client.start()
    made = Producer("pg", instance=client)
    await made.start()
    return made, broker


async def test_the_broker_that_has_the_message_is_asked(cluster: Cluster) -> None:
    producer, broker = await stage(cluster)
    assert await done(producer.recall("T", HANDLE)) == "KEY"
    request = broker.last(RECALL).read(RecallMessageRequest)
    assert request == RecallMessageRequest(
        producer_group="pg", topic="T", recall_handle=HANDLE, broker_name="b"
    )
    assert cluster.brokers["a"].count(RECALL) == 0


async def test_a_refusal_is_an_error_with_its_code(cluster: Cluster) -> None:
    producer, broker = await stage(cluster)
    broker.answers[RECALL] = code(604, "recall failed, timestamp invalid")
    with pytest.raises(ResponseError, match="timestamp invalid") as caught:
        await done(producer.recall("T", HANDLE))
    assert caught.value.code == 604


async def test_what_cannot_be_recalled_is_not_asked_for(cluster: Cluster) -> None:
    producer, broker = await stage(cluster)
    for topic, handle, error, words in (
        ("T", "nonsense", UsageError, "recall handle is invalid"),
        ("%RETRY%g", HANDLE, UsageError, "cannot be recalled"),
        ("%DLQ%g", HANDLE, UsageError, "cannot be recalled"),
        ("a b", HANDLE, IllegalNameError, "a b"),
    ):
        with pytest.raises(error, match=words):
            await done(producer.recall(topic, handle))
    elsewhere = RecallHandle("T", "c", 1_700_000_005_001, "KEY").encode()
    with pytest.raises(BrokerDownError, match="the master of c"):
        await done(producer.recall("T", elsewhere))
    assert not broker.count(RECALL)
    await done(producer.close())
    with pytest.raises(ClosedError):
        await done(producer.recall("T", HANDLE))


async def test_a_recall_has_a_time_limit(cluster: Cluster, clock: VirtualClock) -> None:
    producer, broker = await stage(cluster)
    broker.answers[RECALL] = silent
    task = asyncio.ensure_future(producer.recall("T", HANDLE, timeout_ms=500))
    await until(lambda: broker.count(RECALL))
    await clock.advance(0.5)
    with pytest.raises(CallTimeoutError):
        await task


async def test_name_servers_that_are_silent_are_named(
    cluster: Cluster, clock: VirtualClock
) -> None:
    producer, _ = await stage(cluster)
    cluster.namesrvs[0].answers[RequestCode.GET_ROUTEINFO_BY_TOPIC] = silent
    task = asyncio.ensure_future(producer.recall("T", HANDLE, timeout_ms=500))
    await until(lambda: cluster.namesrvs[0].count(RequestCode.GET_ROUTEINFO_BY_TOPIC))
    await clock.advance(0.5)
    with pytest.raises(NoNameServerError):
        await task
