"""Clients in languages and of versions that nobody here has heard of are served like the others."""

from __future__ import annotations

import asyncio
import json
import logging
import struct
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest
from support.brokers.broker_parts import GROUP, LOCALHOST, TOPIC, Stage
from support.peers.transport import RawPeer

from pocketmq.namesrv import NameServer, NamesrvConfig
from pocketmq.protocol.codes import RequestCode, ResponseCode
from pocketmq.protocol.messages.hosts import split_address
from pocketmq.protocol.wire.command import FLAG_RESPONSE, Command
from pocketmq.testing.clock import VirtualClock

BINARY_CODEC = 1 << 24
BINARY_HEADER = struct.Struct(">hBhiii")

JSON_CLIENTS: list[dict[str, Any]] = [
    {"language": "KLINGON", "version": 1},
    {"language": "java", "version": 453},
    {"language": 99, "version": -1},
    {"language": -7, "version": 2**31 - 1},
    {"language": None, "version": 0},
    {"version": 99999},
    {},
    {"language": "", "version": 0, "serializeTypeCurrentRPC": "MORSE", "unheardOf": [1]},
]
BINARY_CLIENTS = [(255, 32767), (128, -1), (13, 0), (77, -32768), (12, 31000)]

HEARTBEAT = json.dumps(
    {
        "clientID": "stranger",
        "producerDataSet": [{"groupName": "strangers"}],
        "consumerDataSet": [
            {
                "groupName": GROUP,
                "consumeType": "CONSUME_PASSIVELY",
                "messageModel": "CLUSTERING",
                "consumeFromWhere": "CONSUME_FROM_LAST_OFFSET",
                "subscriptionDataSet": [{"topic": TOPIC, "subString": "*"}],
            }
        ],
    }
).encode()

Frame = Callable[[int, dict[str, str], bytes], bytes]


def frame(length_of_header: int, header: bytes, body: bytes) -> bytes:
    return struct.pack(">ii", 4 + len(header) + len(body), length_of_header) + header + body


def json_frames(client: dict[str, Any]) -> Frame:
    def made(code: int, fields: dict[str, str], body: bytes) -> bytes:
        header = json.dumps(
            {"code": code, "opaque": code, "flag": 0, "extFields": fields, **client}
        ).encode()
        return frame(len(header), header, body)

    return made


def binary_frames(language: int, version: int) -> Frame:
    def made(code: int, fields: dict[str, str], body: bytes) -> bytes:
        text = b"".join(
            struct.pack(">h", len(name)) + name.encode() + struct.pack(">i", len(value))
            + value.encode()
            for name, value in fields.items()
        )  # fmt: skip
        header = BINARY_HEADER.pack(code, language, version, code, 0, 0)
        header += struct.pack(">i", len(text)) + text
        return frame(BINARY_CODEC | len(header), header, body)

    return made


STRANGERS = [
    *(pytest.param(json_frames(client), id=json.dumps(client)) for client in JSON_CLIENTS),
    *(
        pytest.param(binary_frames(language, version), id=f"binary-{language}-{version}")
        for language, version in BINARY_CLIENTS
    ),
]


@asynccontextmanager
async def stranger_at(address: str) -> AsyncIterator[RawPeer]:
    host, port = split_address(address)
    _, peer = await asyncio.get_running_loop().create_connection(RawPeer, host, port)
    try:
        yield peer
    finally:
        peer.transport.abort()


async def ask(
    peer: RawPeer, frames: Frame, code: int, fields: dict[str, str], body: bytes = b""
) -> Command:
    """The answer, after which the connection must still be open."""
    count = len(peer.received)
    peer.transport.write(frames(code, fields, body))
    while True:
        came = await peer.got(count + 1)
        if came[count].flag & FLAG_RESPONSE:
            break
        count += 1  # the broker tells of itself who is in a group
    assert not peer.is_closed
    assert came[count].opaque == code
    return came[count]


@pytest.fixture(autouse=True)
def _nothing_goes_wrong(caplog: pytest.LogCaptureFixture) -> Any:
    yield
    assert [r.getMessage() for r in caplog.records if r.levelno >= logging.WARNING] == []


@pytest.mark.parametrize("frames", STRANGERS)
async def test_broker(stage: Stage, frames: Frame) -> None:
    client = await stage.started_with_topic()
    send = {"a": "strangers", "b": TOPIC, "c": "TBW102", "d": "4", "e": "0", "f": "0", "g": "1",
            "h": "0", "i": ""}  # fmt: skip
    pull = {"consumerGroup": GROUP, "topic": TOPIC, "queueId": "0", "queueOffset": "0",
            "maxMsgNums": "32", "sysFlag": "0", "commitOffset": "0", "suspendTimeoutMillis": "0",
            "subVersion": "0", "subscription": "*"}  # fmt: skip
    async with stranger_at(client.broker.address) as peer:
        for code, fields, body in (
            (RequestCode.HEART_BEAT, {}, HEARTBEAT),
            (RequestCode.SEND_MESSAGE_V2, send, b"hello"),
            (RequestCode.PULL_MESSAGE, pull, b""),
            (RequestCode.GET_CONSUMER_LIST_BY_GROUP, {"consumerGroup": GROUP}, b""),
            (RequestCode.GET_CONSUMER_CONNECTION_LIST, {"consumerGroup": GROUP}, b""),
            (RequestCode.GET_PRODUCER_CONNECTION_LIST, {"producerGroup": "strangers"}, b""),
        ):
            answer = await ask(peer, frames, code, fields, body)
            assert answer.code == ResponseCode.SUCCESS, (code, answer.remark)
        refused = await ask(peer, frames, 29_999, {})
        assert refused.code == ResponseCode.REQUEST_CODE_NOT_SUPPORTED


@pytest.mark.parametrize("frames", STRANGERS)
async def test_name_server(clock: VirtualClock, frames: Frame) -> None:
    config = NamesrvConfig(listen_port=0, bind_address=LOCALHOST)
    async with NameServer(config, clock) as server, stranger_at(server.address) as peer:
        fields = {"topic": TOPIC}
        missing = await ask(peer, frames, RequestCode.GET_ROUTEINFO_BY_TOPIC, fields)
        assert missing.code == ResponseCode.TOPIC_NOT_EXIST
        cluster = await ask(peer, frames, RequestCode.GET_BROKER_CLUSTER_INFO, {})
        assert cluster.code == ResponseCode.SUCCESS
        refused = await ask(peer, frames, 29_999, {})
        assert refused.code == ResponseCode.REQUEST_CODE_NOT_SUPPORTED
