"""Clients that do not read, do not finish, or are too many."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable

import pytest
import pytest_asyncio
from support.brokers.broker_parts import Client, Stage, pull_request, send_request
from support.peers.transport import until
from support.store.disks import SlowFiles

from pocketmq.broker import Broker
from pocketmq.protocol.bodies.topics import KVTable
from pocketmq.protocol.codes import ResponseCode
from pocketmq.protocol.messages.hosts import split_address
from pocketmq.protocol.requests.topics import RuntimeInfoRequest
from pocketmq.protocol.wire import frames
from pocketmq.protocol.wire.command import Command
from pocketmq.testing.clock import VirtualClock, settle

MIB = 1024 * 1024


class Socket:
    """A bare socket to a broker, that reads only when it is asked to."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader, self.writer = reader, writer
        self.address = "{}:{}".format(*writer.get_extra_info("sockname"))

    async def answers(self, count: int) -> list[Command]:
        """The next answers."""
        parser, out = frames.FrameParser(), list[Command]()
        while len(out) < count:
            parser.feed(await self.reader.read(MIB))
            while (command := parser.next_command()) is not None:
                out.append(command)
        return out

    async def ended(self) -> None:
        """Returns when the broker has closed the connection."""
        with contextlib.suppress(ConnectionError):
            while await self.reader.read(MIB):
                pass


Dial = Callable[[Broker], Awaitable[Socket]]


@pytest_asyncio.fixture
async def dial() -> AsyncIterator[Dial]:
    """Connects bare sockets to a broker, with so little room that the broker soon has to wait."""
    dialled: list[Socket] = []

    async def one(broker: Broker) -> Socket:
        reader, writer = await asyncio.open_connection(*split_address(broker.address), limit=1024)
        dialled.append(Socket(reader, writer))
        return dialled[-1]

    yield one
    for socket in dialled:
        socket.writer.close()
        with contextlib.suppress(ConnectionError):
            await socket.writer.wait_closed()


async def figures(client: Client) -> dict[str, str]:
    answer = await client.ask(RuntimeInfoRequest())
    return dict(KVTable.decode(answer.body).table)


async def test_a_consumer_that_does_not_read_is_paused_then_closed(
    stage: Stage, dial: Dial, clock: VirtualClock, caplog: pytest.LogCaptureFixture
) -> None:
    client = await stage.started_with_topic(
        max_transfer_bytes_on_message_in_memory=4 * MIB, slow_reader_timeout=20_000
    )
    for _ in range(4):
        await client.send(bytes(MIB - 1000))
    deaf = await dial(client.broker)
    header = pull_request(0)
    for number in range(100):
        deaf.writer.write(frames.encode(Command(header.code, number, header=header)))
    pressure = client.broker.parts.back_pressure
    await until(lambda: pressure.slow_readers.count == 1)
    unsent = pressure.slow_readers.size
    assert 0 < unsent < 16 * MIB
    table = await figures(client)
    assert table["slowReaders"] == "1"
    assert (await client.pull()).code == 0, "others are served"
    await clock.advance(20)
    await until(lambda: len(client.broker.server.connections) == 1)
    assert f"closing the connection of {deaf.address}: it read 0 bytes in 20 s" in caplog.text
    assert pressure.slow_readers.size == 0


async def test_large_requests_that_stall_leave_room_for_others(
    stage: Stage, dial: Dial, clock: VirtualClock, caplog: pytest.LogCaptureFixture
) -> None:
    client = await stage.started_with_topic(unread_size_max=3 * MIB)
    header = send_request()
    frame = frames.encode(Command(header.code, 1, header=header, body=bytes(2 * MIB)))
    stalled, second = await dial(client.broker), await dial(client.broker)
    stalled.writer.write(frame[:-1])
    budget = client.broker.parts.back_pressure.budget
    await until(lambda: budget.size)
    second.writer.write(frame)
    await until(lambda: budget.waiting_count)
    assert (await figures(client))["largeFramesWaiting"] == "1"
    await client.send(b"small ones need no room")
    await clock.advance(30)
    await stalled.ended()
    assert f"closing the connection of {stalled.address}: its frame of" in caplog.text
    assert (await second.reader.read(4)) != b""
    assert await client.max_offset() == 2


async def test_half_a_frame_and_then_nothing_ends_by_the_idle_limit(
    stage: Stage, dial: Dial, clock: VirtualClock
) -> None:
    client = await stage.started_with_topic(connection_idle_timeout=5000)
    socket = await dial(client.broker)
    socket.writer.write(b"\0\0")
    await until(lambda: len(client.broker.server.connections) == 2)
    await clock.advance(5)
    await socket.ended()


async def test_more_connections_than_allowed_are_refused_with_a_log_line(
    stage: Stage, dial: Dial, caplog: pytest.LogCaptureFixture
) -> None:
    client = await stage.started_with_topic(connections_max=2)
    await dial(client.broker)
    second = await dial(client.broker)
    await second.ended()
    assert f"refusing {second.address}: 2 connections are open, which is the limit" in caplog.text
    await client.send()


async def test_a_stalled_disk_makes_the_broker_busy(stage: Stage, clock: VirtualClock) -> None:
    """Under SYNC_FLUSH; clients send to another broker then (see the client's RETRY_CODES)."""
    files = SlowFiles()
    client = await stage.started_with_topic(flush_disk_type="SYNC_FLUSH", files=files)
    files.gate.clear()
    first = asyncio.ensure_future(client.send(b"first"))
    flusher = client.broker.store.flusher
    await until(lambda: flusher.waiting_size)
    await clock.advance(1.5)
    code, remark = await client.refusal(send_request(), b"second")
    assert code == ResponseCode.SYSTEM_BUSY
    assert remark.startswith("[PCBUSY_CLEAN_QUEUE]broker busy: the disk has been flushing for 1500")
    assert (await figures(client))["busyRefusals"] == "1"
    files.gate.set()
    await first
    await client.send(b"third")
    assert await client.max_offset() == 2


async def test_a_fast_sender_waits_for_a_slow_disk(stage: Stage, dial: Dial) -> None:
    files = SlowFiles()
    client = await stage.started_with_topic(
        flush_disk_type="SYNC_FLUSH", flush_backlog_size_max=64 * 1024, files=files
    )
    files.gate.clear()
    fast, header = await dial(client.broker), send_request()
    sends = 64
    for number in range(sends):
        command = Command(header.code, number, header=header, body=bytes(256 * 1024))
        fast.writer.write(frames.encode(command))
    backlog, flusher = client.broker.parts.back_pressure.backlog, client.broker.store.flusher
    await until(lambda: backlog.held_count)
    await settle(500)
    assert flusher.waiting_size < sends * 256 * 1024 // 2, "most is still in the sender's hands"
    assert (await figures(client))["heldSenders"] == "1"
    files.gate.set()
    assert [answer.code for answer in await fast.answers(sends)] == [0] * sends
    assert backlog.held_count == 0
