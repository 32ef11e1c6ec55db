"""Frames over TLS: of all sizes, to peers that do not read, before and after the end."""

from __future__ import annotations

import asyncio

import pytest
from support.peers.certificates import CertificateFiles
from support.peers.transport import Stage, echo, until

from pocketmq.protocol.wire.command import Command
from pocketmq.testing.clock import VirtualClock
from pocketmq.transport.errors import ConnectionClosedError
from pocketmq.transport.limits import Limits
from pocketmq.transport.slow_readers import SLOW_READER_TIMEOUT_S, SlowReaders

CALL_MS = 3_600_000
MIB = 1024 * 1024


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> CertificateFiles:
    return CertificateFiles(tmp_path_factory.mktemp("certificates"))


@pytest.mark.parametrize("size", [100, 70_000, 1_000_000, 15 * 1024 * 1024])
async def test_frames_of_all_sizes_both_ways(
    stage: Stage, files: CertificateFiles, size: int
) -> None:
    server = await stage.serve({1: echo}, tls=files.server())
    body = bytes(range(256)) * (size // 256)
    pool = stage.pool(tls=files.client())
    connection = await pool.get(server.address)
    commands = [Command(1, body=body), Command(1, body=b"small"), Command(1, body=body)]
    answers = await asyncio.gather(*(connection.call(one, CALL_MS) for one in commands))
    assert [answer.body == one.body for one, answer in zip(commands, answers, strict=True)] == [
        True
    ] * 3


async def test_what_came_before_the_peer_closed_is_taken(
    stage: Stage, files: CertificateFiles
) -> None:
    taken: list[bytes] = []
    server = await stage.serve({1: lambda request, _: taken.append(request.body)},
                               tls=files.server())  # fmt: skip
    connection = await stage.pool(tls=files.client()).get(server.address)
    bodies = [b"%d" % i for i in range(700)]  # more than one iteration of the loop takes
    for body in bodies:
        await connection.oneway(Command(1, body=body))
    connection.close()
    await connection.wait_closed()
    assert taken == bodies


async def test_a_peer_that_does_not_read_is_felt(stage: Stage, files: CertificateFiles) -> None:
    server = await stage.serve({1: echo}, tls=files.server())
    client = await stage.pool(tls=files.client()).get(server.address)
    client._transport.pause_reading()
    calls = [
        asyncio.ensure_future(client.call(Command(1, body=bytes(1_000_000)), CALL_MS))
        for _ in range(12)
    ]
    (connection,) = server.connections
    await until(lambda: not connection.is_reading)
    assert connection.unsent_size > 1_000_000
    client._transport.resume_reading()
    answers = await asyncio.gather(*calls)
    assert [len(answer.body) for answer in answers] == [1_000_000] * 12


async def test_abort(stage: Stage, files: CertificateFiles) -> None:
    server = await stage.serve({1: lambda *_: None}, tls=files.server())
    client = await stage.pool(tls=files.client()).get(server.address)
    call = asyncio.ensure_future(client.call(Command(1), CALL_MS))
    await until(lambda: server.connections)
    next(iter(server.connections)).abort("for the test")
    with pytest.raises(ConnectionClosedError):
        await call
    assert not server.connections


async def test_one_large_answer_that_is_not_read_is_counted(
    stage: Stage, files: CertificateFiles, clock: VirtualClock
) -> None:
    slow_readers = SlowReaders(clock)
    body = bytes(15 * MIB)
    server = await stage.serve(
        {1: lambda *_: Command(0, body=body)}, tls=files.server(), slow_readers=slow_readers
    )
    client = await stage.pool(tls=files.client()).get(server.address)
    client._transport.pause_reading()
    call = asyncio.ensure_future(client.call(Command(1), CALL_MS))
    await until(lambda: server.connections)
    (connection,) = server.connections
    await until(lambda: not connection.is_reading)
    assert slow_readers.count == 1
    assert 6 * MIB < slow_readers.size <= 15 * MIB  # the system's buffers have the others
    client._transport.resume_reading()
    assert (await call).body == body
    await until(lambda: connection.unsent_size == 0)
    assert (slow_readers.count, slow_readers.size) == (0, 0)
    assert connection.is_reading


async def test_who_reads_nothing_is_cut_off(
    stage: Stage, files: CertificateFiles, clock: VirtualClock, caplog: pytest.LogCaptureFixture
) -> None:
    slow_readers = SlowReaders(clock)
    server = await stage.serve({1: echo}, tls=files.server(), slow_readers=slow_readers)
    client = await stage.pool(tls=files.client()).get(server.address)
    call = asyncio.ensure_future(client.call(Command(1, body=bytes(15 * MIB)), CALL_MS))
    client._transport.pause_reading()
    await until(lambda: slow_readers.count)
    while server.connections:  # at first the system's buffers take more
        await clock.advance(SLOW_READER_TIMEOUT_S)
    assert "unread" in caplog.text
    client._transport.resume_reading()
    with pytest.raises(ConnectionClosedError):
        await call


async def test_too_much_unread_is_cut_off(
    stage: Stage, files: CertificateFiles, caplog: pytest.LogCaptureFixture
) -> None:
    server = await stage.serve(
        {1: echo}, tls=files.server(), limits=Limits(write_buffer_max=2 * MIB)
    )
    client = await stage.pool(tls=files.client()).get(server.address)
    call = asyncio.ensure_future(client.call(Command(1, body=bytes(15 * MIB)), CALL_MS))
    client._transport.pause_reading()
    await until(lambda: "bytes unread" in caplog.text)
    client._transport.resume_reading()
    with pytest.raises(ConnectionClosedError):
        await call


async def test_a_close_sends_what_is_left(stage: Stage, files: CertificateFiles) -> None:
    body = bytes(15 * MIB)
    server = await stage.serve({1: lambda *_: Command(0, body=body)}, tls=files.server())
    client = await stage.pool(tls=files.client()).get(server.address)
    client._transport.pause_reading()
    call = asyncio.ensure_future(client.call(Command(1), CALL_MS))
    await until(lambda: server.connections)
    (connection,) = server.connections
    await until(lambda: not connection.is_reading)
    connection.close()
    client._transport.resume_reading()
    assert (await call).body == body


async def test_many_small_answers_while_the_peer_does_not_read(
    stage: Stage, files: CertificateFiles
) -> None:
    server = await stage.serve({1: echo}, tls=files.server())
    client = await stage.pool(tls=files.client()).get(server.address)
    bodies = [b"%d" % i * 3000 for i in range(3000)]
    client._transport.pause_reading()
    calls = [asyncio.ensure_future(client.call(Command(1, body=b), CALL_MS)) for b in bodies]
    await until(lambda: server.connections and not next(iter(server.connections)).is_reading)
    client._transport.resume_reading()
    assert [answer.body for answer in await asyncio.gather(*calls)] == bodies
