"""Attacks on the gRPC port, with frames of HTTP/2 written by hand."""

from __future__ import annotations

import asyncio
import struct

from google.protobuf.message import Message
from support.abuse.arena import TOPIC, Arena, Attack

from pocketmq.protocol.requests.topics import CreateTopicRequest
from pocketmq.proxy.rpc import messaging_pb2 as pb
from pocketmq.proxy.service import PREFIX
from pocketmq.transport.http2 import frames
from pocketmq.transport.http2.header_blocks import encode_block

GROUP = "attackers"
CHUNK_SIZE = 256 * 1024
FRAME_DATA_MAX = 16_384
WINDOW = 2**31 - 1
MANY_QUEUES = 65_536
PATIENCE_S = 120.0


class RpcConnection:
    """One connection of an attacker to the gRPC port.

    Args:
        reader, writer: the connection's streams.
    """

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader, self._writer = reader, writer
        self._data = b""
        self._stream = -1
        window = {4: WINDOW}  # SETTINGS_INITIAL_WINDOW_SIZE
        grown = frames.window_update(0, WINDOW - 65_535)
        self._writer.write(frames.PREFACE + frames.settings(window) + grown)

    @classmethod
    async def open(cls, arena: Arena) -> RpcConnection:
        """Connects to the broker of an arena, which then has loaded its endpoint."""
        connection = cls(*await arena.streams_to_grpc())
        await connection.write(connection.call(pb.HeartbeatRequest()))
        await connection.ends(1)
        return connection

    def call(self, request: Message, client_id: str = "attacker") -> bytes:
        """The frames of a whole call, on a stream of its own."""
        self._stream += 2
        name = type(request).__name__.removesuffix("Request")
        block = encode_block(
            [
                (":method", "POST"), (":scheme", "http"), (":authority", "a"),
                (":path", PREFIX + name), ("te", "trailers"),
                ("content-type", "application/grpc"), ("x-mq-client-id", client_id),
            ]
        )  # fmt: skip
        body = request.SerializeToString()
        data = struct.pack(">BI", 0, len(body)) + body
        parts = [data[i : i + FRAME_DATA_MAX] for i in range(0, len(data), FRAME_DATA_MAX)]
        out = [frames.frame(frames.HEADERS, frames.END_HEADERS, self._stream, block)]
        out += [frames.frame(frames.DATA, 0, self._stream, part) for part in parts[:-1]]
        out.append(frames.frame(frames.DATA, frames.END_STREAM, self._stream, parts[-1]))
        return b"".join(out)

    async def write(self, data: bytes) -> None:
        """Sends bytes; returns when most of them have left."""
        self._writer.write(data)
        await self._writer.drain()

    async def ends(self, count: int) -> None:
        """Reads until so many calls have ended."""
        async with asyncio.timeout(PATIENCE_S):
            while count > 0:
                chunk = await self._reader.read(CHUNK_SIZE)
                assert chunk, "the broker has closed the connection"
                self._data += chunk
                count -= self._take_frames()

    def _take_frames(self) -> int:
        ended, at = 0, 0
        while len(self._data) - at >= 9:
            high, low, kind, flags, _ = frames.HEAD.unpack_from(self._data, at)
            size = 9 + (high << 8 | low)
            if len(self._data) - at < size:
                break
            is_last = kind in (frames.HEADERS, frames.DATA) and flags & frames.END_STREAM
            ended += bool(is_last) or kind == frames.RST_STREAM
            at += size
        self._data = self._data[at:]
        return ended


async def _strike(arena: Arena, attacker: RpcConnection, *calls: bytes) -> None:
    async with arena.measured():
        await asyncio.gather(attacker.write(b"".join(calls)), attacker.ends(len(calls)))


def _message(body: bytes = b"x", topic: str = TOPIC) -> pb.Message:
    message = pb.Message(topic=pb.Resource(name=topic), body=body)
    message.system_properties.message_id = "1"
    return message


async def sends(arena: Arena) -> None:
    """A burst of calls on as many streams as may be open, each with a message."""
    await arena.create_topic()
    attacker = await RpcConnection.open(arena)
    request = pb.SendMessageRequest(messages=[_message()])
    await _strike(arena, attacker, *(attacker.call(request) for _ in range(arena.size)))


async def messages(arena: Arena) -> None:
    """One call with very many messages."""
    await arena.create_topic()
    attacker = await RpcConnection.open(arena)
    request = pb.SendMessageRequest(messages=[_message()] * arena.size)
    await _strike(arena, attacker, attacker.call(request))


async def acknowledgements(arena: Arena) -> None:
    """One call that acknowledges very many messages."""
    await arena.create_topic()
    attacker = await RpcConnection.open(arena)
    request = pb.AckMessageRequest(group=pb.Resource(name=GROUP), topic=pb.Resource(name=TOPIC))
    for offset in range(arena.size):
        handle = f"0 1700000000000 60000 0 0 broker-a 0 {offset}"
        request.entries.add(receipt_handle=handle, message_id="1")
    await _strike(arena, attacker, attacker.call(request))


async def routes(arena: Arena) -> None:
    """Routes of a topic with as many queues as a topic may have."""
    connection = await arena.connect()
    await connection.ask(
        CreateTopicRequest(
            topic=TOPIC, read_queue_nums=MANY_QUEUES, write_queue_nums=MANY_QUEUES, perm=6
        )
    )
    attacker = await RpcConnection.open(arena)
    request = pb.QueryRouteRequest(topic=pb.Resource(name=TOPIC))
    await _strike(arena, attacker, *(attacker.call(request) for _ in range(arena.size)))


async def assignments(arena: Arena) -> None:
    """Assignments of very many clients."""
    await arena.create_topic()
    attacker = await RpcConnection.open(arena)
    request = pb.QueryAssignmentRequest(
        topic=pb.Resource(name=TOPIC), group=pb.Resource(name=GROUP)
    )
    calls = (attacker.call(request, f"attacker-{n}") for n in range(arena.size))
    await _strike(arena, attacker, *calls)


ATTACKS = [
    Attack("gRPC: 20,000 sends at once", sends, 20_000, 1_000),
    Attack("gRPC: a send of 50,000 messages", messages, 50_000, 4_000),
    Attack("gRPC: 50,000 acknowledgements in one call", acknowledgements, 50_000, 50_000),
    Attack("gRPC: 4,096 acknowledgements in one call", acknowledgements, 4_096, 4_096),
    Attack("gRPC: the route of 65,536 queues", routes, 1, 1),
    Attack("gRPC: 10,000 clients", assignments, 10_000, 1_000),
]
