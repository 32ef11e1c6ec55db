from __future__ import annotations

import asyncio
import socket

import pytest
from support.peers.transport import Stage, until

from pocketmq.protocol.errors import ContentError, TopicMissingError, UsageError
from pocketmq.protocol.requests.nameserver import RouteRequest
from pocketmq.protocol.requests.offsets import MaxOffsetRequest, OffsetResponse
from pocketmq.protocol.wire.command import Command
from pocketmq.testing.clock import VirtualClock, settle
from pocketmq.transport.connection import Connection
from pocketmq.transport.errors import CallTimeoutError, ConnectError, ConnectionClosedError
from pocketmq.transport.response_table import Answer

ROUTE = RouteRequest(topic="T")
MAX_OFFSET = MaxOffsetRequest(topic="T", queue_id=0)


def route(request: Command, _: Connection) -> Command:
    return Command(0, body=request.read(RouteRequest).topic.encode() + request.body)


def free_port() -> int:
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        port: int = sock.getsockname()[1]
        return port


class FullListener:
    """A listening socket whose queue is full: the system neither accepts nor refuses."""

    def __init__(self) -> None:
        self._sockets = [socket.socket()]
        self._sockets[0].bind(("127.0.0.1", 0))
        self._sockets[0].listen(0)
        host, port = self._sockets[0].getsockname()
        self.address = f"{host}:{port}"
        for _ in range(4):
            filler = socket.socket()
            filler.setblocking(False)
            filler.connect_ex((host, port))
            self._sockets.append(filler)

    def close(self) -> None:
        for sock in self._sockets:
            sock.close()


async def test_callers_share_one_connection_and_one_attempt(stage: Stage) -> None:
    server = await stage.serve({105: route})
    pool = stage.pool()
    assert pool.peek(server.address) is None
    connections = await asyncio.gather(*(pool.get(server.address) for _ in range(10)))
    assert len(set(connections)) == 1
    assert await pool.get(server.address) is connections[0]
    assert pool.peek(server.address) is connections[0]
    await until(lambda: len(server.connections) == 1)


async def test_call_ask_and_ask_for(stage: Stage) -> None:
    def max_offset(request: Command, _: Connection) -> Command:
        return Command(0, header=OffsetResponse(offset=7))

    server = await stage.serve({105: route, 30: max_offset})
    pool = stage.pool()
    answer = await pool.call(server.address, ROUTE, 1000, b"+body")
    assert (answer.code, answer.body) == (0, b"T+body")
    assert (await pool.ask(server.address, ROUTE, 1000)).body == b"T"
    assert (await pool.ask_for(server.address, MAX_OFFSET, OffsetResponse, 1000)).offset == 7
    with pytest.raises(ContentError, match="OffsetResponse cannot be read"):
        await pool.ask_for(server.address, ROUTE, OffsetResponse, 1000)


async def test_a_refusal_names_who_refused(stage: Stage) -> None:
    def refuse(request: Command, _: Connection) -> Command:
        raise TopicMissingError(17, "no topic T")

    server = await stage.serve({105: refuse})
    pool = stage.pool()
    assert (await pool.call(server.address, ROUTE, 1000)).code == 17
    with pytest.raises(TopicMissingError) as caught:
        await pool.ask(server.address, ROUTE, 1000)
    assert str(caught.value) == f"code 17 (TOPIC_NOT_EXIST) from {server.address}: no topic T"


async def test_send_and_oneway(stage: Stage) -> None:
    seen: list[Command] = []

    def note(request: Command, connection: Connection) -> Command:
        seen.append(request)
        return route(request, connection)

    server = await stage.serve({105: note})
    pool = stage.pool()
    answers: list[Answer] = []
    await pool.send(server.address, ROUTE, 1000, answers.append, b"!")
    await until(lambda: answers)
    assert isinstance(answers[0], Command)
    assert answers[0].body == b"T!"
    await pool.oneway(server.address, ROUTE, b"?")
    await until(lambda: len(seen) == 2)
    assert (seen[1].is_oneway, seen[1].body) == (True, b"?")


async def test_a_lost_connection_is_dialled_again(stage: Stage) -> None:
    closed: list[Connection] = []
    server = await stage.serve({105: route})
    pool = stage.pool(on_close=closed.append)
    first = await pool.get(server.address)
    await pool.call(server.address, ROUTE, 1000)
    for connection in list(server.connections):
        connection.abort("a test")
    await first.wait_closed()
    assert pool.peek(server.address) is None
    assert (await pool.call(server.address, ROUTE, 1000)).body == b"T"
    assert await pool.get(server.address) is not first
    assert closed == [first]


async def test_a_server_may_come_back_at_its_address(stage: Stage) -> None:
    server = await stage.serve({105: route})
    pool = stage.pool()
    await pool.call(server.address, ROUTE, 1000)
    await server.close()
    await until(lambda: pool.peek(server.address) is None)
    with pytest.raises(ConnectError, match=f"cannot connect to {server.address}: "):
        await pool.call(server.address, ROUTE, 1000)
    again = await stage.serve({105: route})
    again_port = again.port
    assert (await pool.call(f"127.0.0.1:{again_port}", ROUTE, 1000)).body == b"T"


async def test_a_refused_connection_names_address_and_cause(stage: Stage) -> None:
    address = f"127.0.0.1:{free_port()}"
    pool = stage.pool()
    attempts = await asyncio.gather(*(pool.get(address) for _ in range(3)), return_exceptions=True)
    for error in attempts:
        assert isinstance(error, ConnectError)
        assert error.address == address
        assert "refused" in error.reason.lower() or "Connect call failed" in error.reason


async def test_a_failed_attempt_that_nobody_waits_for_is_quiet(
    stage: Stage, caplog: pytest.LogCaptureFixture
) -> None:
    pool = stage.pool()
    waiting = asyncio.ensure_future(pool.get(f"127.0.0.1:{free_port()}"))
    await settle(1)
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    await settle()
    assert caplog.text == ""


async def test_one_impatient_caller_does_not_end_the_attempt_of_others(stage: Stage) -> None:
    server = await stage.serve({105: route})
    pool = stage.pool()
    impatient = asyncio.ensure_future(pool.get(server.address))
    patient = asyncio.ensure_future(pool.get(server.address))
    await settle(1)
    impatient.cancel()
    assert (await patient).remote_address == server.address


@pytest.mark.parametrize("address", ["nowhere", "127.0.0.1:port", ""])
async def test_what_is_no_address_is_misuse(stage: Stage, address: str) -> None:
    with pytest.raises(UsageError, match="is not of the form host:port"):
        await stage.pool().get(address)


async def test_connecting_takes_3_s_at_the_most(stage: Stage, clock: VirtualClock) -> None:
    full = FullListener()
    try:
        pool = stage.pool()
        attempt = asyncio.ensure_future(pool.get(full.address))
        await clock.advance(2.9)
        assert not attempt.done()
        await clock.advance(0.1)
        with pytest.raises(ConnectError, match="no connection in 3000 ms"):
            await attempt
    finally:
        full.close()


async def test_a_call_s_time_covers_connecting(stage: Stage, clock: VirtualClock) -> None:
    full = FullListener()
    try:
        call = asyncio.ensure_future(stage.pool().call(full.address, ROUTE, 500))
        await clock.advance(0.4)
        assert not call.done()
        await clock.advance(0.1)
        with pytest.raises(CallTimeoutError, match=f"no answer from {full.address} in 500 ms"):
            await call
    finally:
        full.close()


async def test_a_closed_pool_refuses_and_ends_what_is_under_way(
    stage: Stage, clock: VirtualClock
) -> None:
    full = FullListener()
    try:
        server = await stage.serve({105: lambda request, connection: None})
        pool = stage.pool()
        calling = asyncio.ensure_future(pool.call(server.address, ROUTE, 3000))
        dialling = asyncio.ensure_future(pool.get(full.address))
        await until(lambda: server.connections)
        await settle()
        await pool.close()
        await pool.close()
        with pytest.raises(ConnectionClosedError, match="closed by this side"):
            await calling
        for attempt in (dialling, pool.get(server.address), pool.call(server.address, ROUTE, 1000)):
            with pytest.raises(ConnectError, match="this client is closed"):
                await attempt
        await until(lambda: not server.connections)
        assert clock.pending_timers == 0
    finally:
        full.close()


async def test_drop_closes_and_the_next_call_dials_again(stage: Stage) -> None:
    server = await stage.serve({105: route})
    pool = stage.pool()
    first = await pool.get(server.address)
    pool.drop(server.address, "it was slow")
    pool.drop("127.0.0.1:1", "it was never there")
    await first.wait_closed()
    assert first.close_reason == "it was slow"
    assert await pool.get(server.address) is not first


async def test_what_servers_ask_goes_to_the_pool_s_handlers(stage: Stage) -> None:
    server = await stage.serve({})
    pool = stage.pool(handlers={105: route})
    await pool.get(server.address)
    await until(lambda: server.connections)
    (connection,) = server.connections
    answer = await connection.call(Command(105, header=ROUTE), 1000)
    assert answer.body == b"T"
