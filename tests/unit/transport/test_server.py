from __future__ import annotations

import asyncio
import logging

import pytest
from support.peers.transport import Stage, until

from pocketmq.protocol.errors import ConfigError
from pocketmq.protocol.wire.command import Command
from pocketmq.testing.clock import VirtualClock, settle
from pocketmq.transport.connection import Connection
from pocketmq.transport.server import Server


def echo(request: Command, _: Connection) -> Command:
    return Command(0, body=request.body)


async def test_the_system_chooses_port_0(stage: Stage) -> None:
    server = await stage.serve({})
    assert server.address == f"127.0.0.1:{server.port}"
    assert server.port > 0


@pytest.mark.parametrize("port", [-1, 99_999])
async def test_a_port_that_is_none_is_refused(clock: VirtualClock, port: int) -> None:
    with pytest.raises(ConfigError, match=f"is {port}: it must be between 0 and 65535"):
        await Server(clock, {}).listen("127.0.0.1", port)


async def test_an_address_in_use_is_an_error(stage: Stage, clock: VirtualClock) -> None:
    server = await stage.serve({})
    with pytest.raises(OSError, match="in use"):
        await Server(clock, {}).listen("127.0.0.1", server.port)


async def test_knows_its_connections_and_who_they_are(stage: Stage) -> None:
    closed: list[Connection] = []
    server = await stage.serve({}, on_close=closed.append)
    peers = [await stage.dial(server) for _ in range(3)]
    assert len(server.connections) == 3
    for connection in server.connections:
        assert connection.remote_address.startswith("127.0.0.1:")
        assert connection.remote_host[:4] == bytes((127, 0, 0, 1))
    peers[1].transport.close()
    await until(lambda: len(server.connections) == 2)
    assert [c.close_reason for c in closed] == ["closed by the peer"]


async def test_connections_over_the_limit_are_closed_at_once(
    stage: Stage, caplog: pytest.LogCaptureFixture
) -> None:
    closed: list[Connection] = []
    server = await stage.serve({1: echo}, connections_max=2, on_close=closed.append)
    first, second = await stage.dial(server), await stage.dial(server)
    raw_pool = stage.pool()
    with caplog.at_level(logging.WARNING):
        connection = await raw_pool.get(server.address)
        await connection.wait_closed()
    assert "2 connections are open, which is the limit" in caplog.text
    assert closed == []
    for peer in (first, second):
        peer.send(Command(1, 5, body=b"x"))
        await peer.got(1)
    first.transport.close()
    await until(lambda: len(server.connections) == 1)
    third = await stage.dial(server)
    third.send(Command(1, 5))
    await third.got(1)


async def test_an_address_has_its_share_of_the_connections(
    stage: Stage, caplog: pytest.LogCaptureFixture
) -> None:
    server = await stage.serve({1: echo}, connections_max_of_address=2)
    first, _second = await stage.dial(server), await stage.dial(server)
    with caplog.at_level(logging.WARNING):
        connection = await stage.pool().get(server.address)
        await connection.wait_closed()
    assert "it has 2 connections, which is the limit of an address" in caplog.text
    first.transport.close()
    await until(lambda: len(server.connections) == 1)
    third = await stage.dial(server)
    third.send(Command(1, 5))
    await third.got(1)


async def test_close_sends_what_is_queued_and_stops_listening(stage: Stage) -> None:
    server = await stage.serve({1: echo})
    peer = await stage.dial(server)
    peer.send(Command(1, 5, body=bytes(100_000)))
    await until(lambda: next(iter(server.connections)).unsent_size or peer.received)
    await server.close()
    await server.close()
    await peer.gone()
    assert [len(c.body) for c in peer.received] == [100_000]
    assert server.connections == {}
    with pytest.raises(OSError, match=r"refused|Connect call failed"):
        await asyncio.get_running_loop().create_connection(
            asyncio.Protocol, "127.0.0.1", server.port
        )


async def test_close_waits_for_a_peer_that_does_not_read_only_so_long(
    stage: Stage, clock: VirtualClock
) -> None:
    server = await stage.serve({1: lambda r, c: Command(0, body=bytes(8_000_000))})
    peer = await stage.dial(server)
    peer.transport.pause_reading()
    peer.send(Command(1))
    await settle(200)
    closing = asyncio.ensure_future(server.close())
    await clock.advance(2.9)
    assert not closing.done()
    await clock.advance(0.1)
    await closing
    assert server.connections == {}


async def test_close_before_listen(clock: VirtualClock) -> None:
    await Server(clock, {}).close()


async def test_a_connection_that_comes_while_the_server_closes_is_not_kept(stage: Stage) -> None:
    server = await stage.serve({})
    loop = asyncio.get_running_loop()
    dialling = [
        asyncio.ensure_future(loop.create_connection(asyncio.Protocol, "127.0.0.1", server.port))
        for _ in range(20)
    ]
    await settle(1)
    await server.close()
    outcomes = await asyncio.gather(*dialling, return_exceptions=True)
    assert server.connections == {}
    for outcome in outcomes:
        if not isinstance(outcome, BaseException):
            transport, _ = outcome
            transport.abort()
        else:
            assert isinstance(outcome, OSError)
    await settle()
