"""Requests and their replies, against brokers that push as told."""

from __future__ import annotations

import asyncio
import logging
from typing import Any

import pytest
from support.peers.client import Answer, Cluster, code, done, hang_up, stored
from support.peers.transport import until

from pocketmq.client import Message, Producer, RequestTimeoutError, SendFailedError, reply_message
from pocketmq.client.instance.requests import REQUESTS_MAX
from pocketmq.protocol.codes import RequestCode, ResponseCode
from pocketmq.protocol.errors import UsageError
from pocketmq.protocol.messages import properties as props
from pocketmq.protocol.messages.compression import compress
from pocketmq.protocol.messages.message import ReceivedMessage
from pocketmq.protocol.requests.sending import PushReplyRequest, SendMessageV2Request
from pocketmq.protocol.wire.command import Command
from pocketmq.transport.connection import Connection
from pocketmq.transport.errors import TooMuchRequestError

SEND = RequestCode.SEND_MESSAGE_V2
HEARTBEAT = RequestCode.HEART_BEAT


class Replier:
    """Answers a send as stored, and pushes a reply over the same connection."""

    def __init__(self, body: bytes = b"42", **changes: Any) -> None:
        self.body, self.changes = body, changes
        self.requests: list[dict[str, str]] = []
        self.answers: list[asyncio.Task[Command]] = []

    def __call__(self, request: Command, connection: Connection) -> Command:
        sent = request.read(SendMessageV2Request)
        properties = props.decode(sent.properties or "")
        self.requests.append(properties)
        given: dict[str, Any] = {
            "producer_group": "repliers",
            "topic": "C_REPLY_TOPIC",
            "queue_id": 3,
            "born_timestamp": 1,
            "properties": props.encode({"CORRELATION_ID": properties["CORRELATION_ID"]}),
            "born_host": "10.0.0.1:5",
            "store_host": "10.0.0.2:6",
            "store_timestamp": 2,
        }
        push = PushReplyRequest(**(given | self.changes))
        call = connection.call(Command(push.code, header=push, body=self.body), 3_600_000)
        self.answers.append(asyncio.ensure_future(call))
        return stored(request, connection)


async def producer(cluster: Cluster, answer: Answer, *brokers: str) -> Producer:
    await cluster.add_namesrv()
    for name in brokers or ("a",):
        (await cluster.add_broker(name)).answers[SEND] = answer
    cluster.topic("T", *(brokers or ("a",)))
    client = cluster.client()
    await client.start()
    made = Producer("pg", instance=client)
    await made.start()
    return made


async def test_a_request_gets_its_reply(cluster: Cluster) -> None:
    replier = Replier()
    asker = await producer(cluster, replier)
    reply = await done(asker.request(Message("T", b"6*7"), 5_000))
    assert (reply.body, reply.topic, reply.queue_id) == (b"42", "C_REPLY_TOPIC", 3)
    assert (reply.born_host, reply.store_host, reply.store_timestamp) == (
        "10.0.0.1:5", "10.0.0.2:6", 2
    )  # fmt: skip
    assert reply.properties["ARRIVE_TIME"] == str(cluster.clock.now_ms())
    (sent,) = replier.requests
    assert sent["REPLY_TO_CLIENT"] == asker.instance.client_id
    assert sent["TTL"] == "5000"
    assert (await done(replier.answers[0])).code == ResponseCode.SUCCESS
    assert len(asker.instance.requests) == 0


async def test_the_broker_knows_the_requester_first(cluster: Cluster) -> None:
    asker = await producer(cluster, Replier())
    await done(asker.request(Message("T", b"x")))
    codes = [r.code for r in cluster.brokers["a"].requests]
    assert codes.index(HEARTBEAT) < codes.index(SEND)
    heartbeats = cluster.brokers["a"].count(HEARTBEAT)
    await done(asker.request(Message("T", b"x")))
    assert cluster.brokers["a"].count(HEARTBEAT) == heartbeats
    asker.instance.pool.drop(cluster.brokers["a"].address, "as if it was lost")
    await done(asker.request(Message("T", b"x")))
    assert cluster.brokers["a"].count(HEARTBEAT) == heartbeats + 1


async def test_a_broker_that_is_down_is_not_asked_again_and_again(cluster: Cluster) -> None:
    asker = await producer(cluster, Replier(), "a", "b")
    cluster.brokers["b"].answers[HEARTBEAT] = hang_up
    cluster.brokers["b"].answers[SEND] = hang_up
    for _ in range(3):
        await done(asker.request(Message("T", b"x")))
    assert cluster.brokers["b"].count(HEARTBEAT) <= 4


async def test_packed_replies_are_unpacked(cluster: Cluster) -> None:
    body, flag = compress(b"a" * 10_000)
    asker = await producer(cluster, Replier(body, sys_flag=flag))
    assert (await done(asker.request(Message("T", b"x")))).body == b"a" * 10_000


async def test_no_reply(cluster: Cluster) -> None:
    asker = await producer(cluster, stored)
    request = asyncio.ensure_future(asker.request(Message("T", b"x"), 5_000))
    await until(lambda: cluster.brokers["a"].count(SEND))
    await cluster.clock.advance(4.9)
    assert not request.done()
    await cluster.clock.advance(0.2)
    with pytest.raises(RequestTimeoutError, match="within 5000 ms"):
        await request
    assert len(asker.instance.requests) == 0


async def test_a_request_that_cannot_be_sent(cluster: Cluster) -> None:
    asker = await producer(cluster, code(ResponseCode.SYSTEM_ERROR))
    with pytest.raises(SendFailedError):
        await done(asker.request(Message("T", b"x"), 5_000))
    assert len(asker.instance.requests) == 0


async def test_replies_find_their_requests(cluster: Cluster) -> None:
    asker = await producer(cluster, stored)
    requests = [asyncio.ensure_future(asker.request(Message("T", b"x"), 5_000)) for _ in range(3)]
    broker = cluster.brokers["a"]
    await until(lambda: broker.count(SEND) == 3)
    replier = Replier(b"late")
    connection = next(iter(broker.server.connections))
    for command in reversed([r for r in broker.requests if r.code == SEND]):
        replier.body = command.body + command.read(SendMessageV2Request).properties[-5:].encode()  # type: ignore[index]
        replier(command, connection)
    replies = await done(asyncio.gather(*requests))
    assert len({r.properties["CORRELATION_ID"] for r in replies}) == 3


async def test_a_reply_that_nobody_waits_for(
    cluster: Cluster, caplog: pytest.LogCaptureFixture
) -> None:
    replier = Replier(properties=props.encode({"CORRELATION_ID": "other"}))
    asker = await producer(cluster, replier)
    with caplog.at_level(logging.WARNING, "pocketmq.client"):
        request = asyncio.ensure_future(asker.request(Message("T", b"x"), 5_000))
        await until(lambda: replier.answers and replier.answers[0].done())
    assert "correlation id other" in caplog.text
    request.cancel()
    await until(request.done)
    assert len(asker.instance.requests) == 0


async def test_requests_are_bounded(cluster: Cluster) -> None:
    asker = await producer(cluster, stored)
    table = asker.instance.requests
    table._permits.taken = REQUESTS_MAX
    with pytest.raises(TooMuchRequestError):
        await done(asker.request(Message("T", b"x")))
    table._permits.taken = 0


def received(**properties: str) -> ReceivedMessage:
    message = ReceivedMessage()
    message.properties = properties
    return message


def test_what_a_reply_carries() -> None:
    request = received(CLUSTER="C", CORRELATION_ID="c", REPLY_TO_CLIENT="asker", TTL="5", other="x")
    reply = reply_message(request, "text")
    assert (reply.topic, reply.body) == ("C_REPLY_TOPIC", b"text")
    assert reply.properties == {
        "CORRELATION_ID": "c", "REPLY_TO_CLIENT": "asker", "TTL": "5", "MSG_TYPE": "reply",
        "WAIT": "true",
    }  # fmt: skip


def test_what_is_no_request_cannot_be_replied_to() -> None:
    with pytest.raises(UsageError, match="CORRELATION_ID, REPLY_TO_CLIENT, TTL"):
        reply_message(received(CLUSTER="C"), b"x")
    with pytest.raises(UsageError, match="CLUSTER"):
        reply_message(received(CORRELATION_ID="c", REPLY_TO_CLIENT="asker", TTL="5"), b"x")


async def test_replies_are_sent_as_such_whatever_the_namespace(cluster: Cluster) -> None:
    await cluster.add_namesrv()
    broker = await cluster.add_broker("a")
    broker.answers[RequestCode.SEND_REPLY_MESSAGE_V2] = stored
    cluster.topic("C_REPLY_TOPIC", "a")
    client = cluster.client(namespace="shop")
    await client.start()
    replier = Producer("pg", instance=client)
    await replier.start()
    request = received(CLUSTER="C", CORRELATION_ID="c", REPLY_TO_CLIENT="asker", TTL="5")
    await done(replier.send(reply_message(request, b"x")))
    sent = broker.last(RequestCode.SEND_REPLY_MESSAGE_V2).read(SendMessageV2Request)
    assert (sent.topic, sent.producer_group) == ("C_REPLY_TOPIC", "shop%pg")
