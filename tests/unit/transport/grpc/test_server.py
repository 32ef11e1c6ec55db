"""The server, and grpcio's client in a thread of its own."""

from __future__ import annotations

import asyncio
import logging
import ssl
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import grpc
import pytest
import pytest_asyncio

from pocketmq.runtime.certificates import make_ca, make_certificate
from pocketmq.runtime.clock import SystemClock
from pocketmq.testing.clock import VirtualClock
from pocketmq.transport.grpc.call import Call, CallClosed
from pocketmq.transport.grpc.limits import GrpcLimits
from pocketmq.transport.grpc.server import LOOK_PERIOD_S, GrpcServer
from pocketmq.transport.grpc.service import HEALTH_CHECK, HEALTH_SERVING, Service
from pocketmq.transport.grpc.status import GrpcError, GrpcStatus
from pocketmq.transport.http2 import frames
from pocketmq.transport.http2.header_blocks import encode_block
from pocketmq.transport.tls.settings import ServerTls, TlsMode

MIB = 1024 * 1024
UNLIMITED = [("grpc.max_receive_message_length", -1), ("grpc.max_send_message_length", -1)]


class Echo:
    """A service, and what happened to its calls."""

    def __init__(self) -> None:
        self.begun = asyncio.Event()
        self.ended = asyncio.Event()
        self.calls: list[Call] = []
        self.written = 0

    @property
    def service(self) -> Service:
        return Service(
            unary={
                "/e/Echo": lambda call, message: message,
                "/e/Later": self.later,
                "/e/Never": self.never,
                "/e/Refuse": self.refuse,
                "/e/Break": lambda call, message: bytes(1 // len(message[:0])),
                "/e/Metadata": lambda call, message: call.metadata["x-name"].encode(),
            },
            streaming={
                "/e/Sixteen": self.sixteen,
                "/e/AtLast": self.at_last,
                "/e/Endless": self.endless,
            },
            bidirectional={"/e/Both": self.both},
        )

    async def later(self, call: Call, message: bytes) -> bytes:
        return message

    async def never(self, call: Call, message: bytes) -> bytes:
        self.calls.append(call)
        call.on_close(self.ended.set)
        self.begun.set()
        await asyncio.Event().wait()
        return b""

    def refuse(self, call: Call, message: bytes) -> bytes:
        raise GrpcError(GrpcStatus.FAILED_PRECONDITION, "nicht möglich: 100 %")

    async def sixteen(self, call: Call, message: bytes) -> None:
        for _ in range(16):
            await call.write(message)

    async def at_last(self, call: Call, message: bytes) -> list[bytes]:
        if message.startswith(b"begun"):
            await call.write(b"first")
        return [message, b"", b"last"]

    async def endless(self, call: Call, message: bytes) -> None:
        self.calls.append(call)
        call.on_close(self.ended.set)
        self.begun.set()
        try:
            while True:
                await call.write(message)
                self.written += len(message)
        except CallClosed:
            pass

    async def both(self, call: Call) -> None:
        async for message in call.messages():
            await call.write(message)


@pytest_asyncio.fixture
async def echo() -> Echo:
    return Echo()


@pytest_asyncio.fixture
async def server(echo: Echo, clock: VirtualClock) -> AsyncIterator[GrpcServer]:
    server = GrpcServer(clock, echo.service)
    await server.listen("127.0.0.1", 0)
    yield server
    closing = asyncio.ensure_future(server.close(0.0))
    while not closing.done():
        await clock.advance(1.0)


def channel(server: GrpcServer) -> Any:  # the stubs want serializers
    return grpc.insecure_channel(server.address, options=UNLIMITED)


async def ask(server: GrpcServer, talk: Callable[[Any], Any]) -> Any:
    """Runs a plain function with a channel in a thread."""

    def talking() -> Any:
        with channel(server) as one:
            return talk(one)

    return await asyncio.to_thread(talking)


@pytest.mark.parametrize("size", [0, 1, 20_000, 300_000])
@pytest.mark.parametrize("begun", [b"", b"begun"])
async def test_a_stream_ends_with_what_its_handler_returns(
    server: GrpcServer, begun: bytes, size: int
) -> None:
    message = begun + b"x" * size

    def talk(one: Any) -> None:
        expected = [message, b"", b"last"]
        got = list(one.unary_stream("/e/AtLast")(message, timeout=60))
        assert got == ([b"first", *expected] if begun else expected)

    await ask(server, talk)


async def test_unary_calls(server: GrpcServer) -> None:
    def talk(one: Any) -> None:
        assert one.unary_unary("/e/Echo")(b"now") == b"now"
        assert one.unary_unary("/e/Later")(b"later") == b"later"
        assert one.unary_unary("/e/Echo")(b"") == b""
        named = one.unary_unary("/e/Metadata")(b"", metadata=[("x-name", "n1"), ("y-bin", b"\xff")])
        assert named == b"n1"
        assert one.unary_unary(HEALTH_CHECK)(b"") == HEALTH_SERVING
        zipped = one.unary_unary("/e/Echo")(b"z" * 5000, compression=grpc.Compression.Gzip)
        assert zipped == b"z" * 5000

    await ask(server, talk)


async def test_many_calls_together(server: GrpcServer) -> None:
    def talk(one: Any) -> list[bytes]:
        futures = [one.unary_unary("/e/Later").future(b"%d" % n) for n in range(300)]
        return [future.result() for future in futures]

    assert await ask(server, talk) == [b"%d" % n for n in range(300)]


async def test_four_mebibytes_there_and_back(server: GrpcServer) -> None:
    big = b"b" * (4 * MIB)

    def talk(one: Any) -> None:
        assert one.unary_unary("/e/Echo")(big) == big
        assert list(one.stream_stream("/e/Both")(iter([big, b"", big]))) == [big, b"", big]

    await ask(server, talk)
    assert server.held.size == 0


async def test_streams(server: GrpcServer) -> None:
    def talk(one: Any) -> None:
        assert list(one.unary_stream("/e/Sixteen")(b"m")) == [b"m"] * 16
        many = [b"%d" % n for n in range(500)]
        assert list(one.stream_stream("/e/Both")(iter(many))) == many
        assert list(one.stream_stream("/e/Both")(iter([]))) == []

    await ask(server, talk)


async def test_errors(server: GrpcServer, caplog: pytest.LogCaptureFixture) -> None:
    def code(one: Any, path: str, message: bytes = b"m") -> tuple[str, str]:
        with pytest.raises(grpc.RpcError) as caught:
            one.unary_unary(path)(message)
        error: Any = caught.value
        return error.code().name, error.details()

    def talk(one: Any) -> None:
        assert code(one, "/e/Refuse") == ("FAILED_PRECONDITION", "nicht möglich: 100 %")
        assert code(one, "/e/Unknown") == ("UNIMPLEMENTED", "no rpc has the path /e/Unknown")
        assert code(one, "/e/Break")[0] == "INTERNAL"
        assert code(one, "/e/Echo", b"x" * (16 * MIB + 1))[0] == "RESOURCE_EXHAUSTED"
        assert one.unary_unary("/e/Echo")(b"m") == b"m"

    with caplog.at_level(logging.ERROR, "pocketmq.transport"):
        await ask(server, talk)
    assert "the handler of /e/Break failed" in caplog.text
    assert server.held.size == 0


async def test_a_cancelled_call_ends_its_handler(server: GrpcServer, echo: Echo) -> None:
    with channel(server) as one:
        future = one.unary_unary("/e/Never").future(b"")
        await echo.begun.wait()
        [call] = echo.calls
        assert call.remaining_s() is None
        future.cancel()
        await echo.ended.wait()
        assert not call.is_open
        assert call.task is not None
        await asyncio.wait([call.task])
        assert call.task.cancelled()


async def test_a_deadline_ends_the_handler(echo: Echo) -> None:
    server = GrpcServer(SystemClock(), echo.service)
    await server.listen("127.0.0.1", 0)

    def talk(one: Any) -> str:
        with pytest.raises(grpc.RpcError) as caught:
            one.unary_unary("/e/Never")(b"", timeout=0.05)
        error: Any = caught.value
        name: str = error.code().name
        return name

    assert await ask(server, talk) == "DEADLINE_EXCEEDED"
    await echo.ended.wait()
    await server.close(0.0)


async def test_a_reader_that_stops_holds_up_its_handler(server: GrpcServer, echo: Echo) -> None:
    _, writer = await raw(server)
    block = encode_block(
        [
            (":method", "POST"),
            (":scheme", "http"),
            (":path", "/e/Endless"),
            ("content-type", "application/grpc"),
        ]
    )
    writer.write(frames.frame(frames.HEADERS, frames.END_HEADERS, 1, block))
    writer.write(frames.frame(frames.DATA, frames.END_STREAM, 1, b"\0\0\0\x10\0" + b"x" * 4096))
    await echo.begun.wait()
    before = -1
    while echo.written != before:  # it stands still when its queue is full
        before = echo.written
        for _ in range(50):
            await turn()
    [call] = echo.calls
    assert call.stream.queued_size <= GrpcLimits().call_queue_max + 4101
    assert not call.write_nowait(b"x" * 4096)
    writer.close()
    await echo.ended.wait()


def begin(path: str, number: int = 1) -> bytes:
    """The head of a request."""
    block = encode_block(
        [
            (":method", "POST"),
            (":scheme", "http"),
            (":path", path),
            ("content-type", "application/grpc"),
        ]
    )
    return frames.frame(frames.HEADERS, frames.END_HEADERS, number, block)


async def test_a_request_that_is_never_complete_is_refused(
    server: GrpcServer, clock: VirtualClock
) -> None:
    reader, writer = await raw(server)
    writer.write(begin("/e/Echo") + frames.frame(frames.DATA, 0, 1, b"\0\0\0\x10\0x"))
    while not server.held.size:
        await turn()
    for _ in range(int(GrpcLimits().request_s / LOOK_PERIOD_S) + 2):
        await clock.advance(LOOK_PERIOD_S)
    await reader.readuntil(b"the request is not complete after 60 s")
    assert (server.held.size, server.held.calls) == (0, 0)
    writer.close()


async def test_calls_beyond_the_limit_are_refused(echo: Echo, clock: VirtualClock) -> None:
    server = GrpcServer(clock, echo.service, limits=GrpcLimits(calls_max=2))
    await server.listen("127.0.0.1", 0)
    reader, writer = await raw(server)
    for number in (1, 3, 5):
        writer.write(begin("/e/Both", number))
    await reader.readuntil(b"2 calls are open, which is the limit")
    assert server.held.calls == 2
    writer.close()
    while server.held.calls:
        await turn()
    await server.close(0.0)


async def test_who_leaves_the_most_unread_is_cut_off(echo: Echo, clock: VirtualClock) -> None:
    limits = GrpcLimits(unread_max=MIB)
    server = GrpcServer(clock, echo.service, limits=limits)
    await server.listen("127.0.0.1", 0)
    writers = []
    for _ in range(2):
        _, writer = await raw(server)
        writers.append(writer)
        for number in range(1, 9, 2):
            body = b"\0\0\0\x10\0" + b"x" * 4096
            writer.write(begin("/e/Endless", number))
            writer.write(frames.frame(frames.DATA, frames.END_STREAM, number, body))
    while sum(one.unsent_size for one in server.connections) <= MIB:
        await turn()
    assert len(server.connections) == 2
    await clock.advance(LOOK_PERIOD_S)
    while len(server.connections) > 1:
        await turn()
    for writer in writers:
        writer.close()
    await server.close(0.0)


async def turn() -> None:
    """Lets the loop have one turn."""
    turned = asyncio.get_running_loop().create_future()
    asyncio.get_running_loop().call_soon(turned.set_result, None)
    await turned


async def raw(server: GrpcServer) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
    writer.write(frames.PREFACE + frames.settings({}))
    return reader, writer


async def test_idle_connections_are_told_to_go(server: GrpcServer, clock: VirtualClock) -> None:
    reader, writer = await raw(server)
    await reader.readexactly(9)
    writer.write(frames.frame(frames.PING, 0, 0, b"12345678"))
    await reader.readuntil(b"12345678")
    for _ in range(int(GrpcLimits().idle_s / LOOK_PERIOD_S) + 2):
        await clock.advance(LOOK_PERIOD_S)
    assert frames.goaway(0, frames.ErrorCode.NO_ERROR) in await reader.read()
    writer.close()


async def test_whoever_does_not_greet_is_closed(server: GrpcServer, clock: VirtualClock) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
    await reader.readexactly(9)
    for _ in range(4):
        await clock.advance(LOOK_PERIOD_S)
    with pytest.raises((ConnectionError, asyncio.IncompleteReadError)):
        await reader.readexactly(1000)
    writer.close()


async def test_closing_lets_open_calls_end(echo: Echo, clock: VirtualClock) -> None:
    release = asyncio.Event()
    begun = asyncio.Event()

    async def waiting(call: Call, message: bytes) -> bytes:
        begun.set()
        await release.wait()
        return message

    server = GrpcServer(clock, Service(unary={"/e/Wait": waiting}))
    await server.listen("127.0.0.1", 0)
    talking = asyncio.ensure_future(ask(server, lambda one: one.unary_unary("/e/Wait")(b"m")))
    await begun.wait()
    closing = asyncio.ensure_future(server.close())
    await turn()
    release.set()
    assert await talking == b"m"
    await closing
    assert not server.connections


async def test_limits_of_connections(echo: Echo, clock: VirtualClock) -> None:
    server = GrpcServer(clock, echo.service, connections_max=2, connections_max_of_address=1)
    await server.listen("127.0.0.1", 0)
    first, first_writer = await raw(server)
    await first.readexactly(9)
    second, second_writer = await asyncio.open_connection("127.0.0.1", server.port)
    with pytest.raises((ConnectionError, asyncio.IncompleteReadError)):
        await second.readexactly(9)
    assert len(server.connections) == 1
    first_writer.close()
    second_writer.close()
    await server.close(0.0)


@pytest.fixture
def certificate(tmp_path: Path) -> tuple[ServerTls, bytes]:
    clock = SystemClock()
    ca = make_ca("test", clock)
    own = make_certificate(("localhost", "127.0.0.1"), ca, clock)
    (tmp_path / "cert.pem").write_bytes(own.certificate)
    (tmp_path / "key.pem").write_bytes(own.key)
    (tmp_path / "key.pem").chmod(0o600)
    return (
        ServerTls(
            mode=TlsMode.PERMISSIVE,
            cert_path=str(tmp_path / "cert.pem"),
            key_path=str(tmp_path / "key.pem"),
        ),
        ca.certificate,
    )


async def test_plain_and_tls_on_one_port(echo: Echo, certificate: tuple[ServerTls, bytes]) -> None:
    tls, ca = certificate
    server = GrpcServer(SystemClock(), echo.service, tls=tls)
    await server.listen("127.0.0.1", 0)
    big = b"b" * MIB

    def talk_tls() -> None:
        credentials = grpc.ssl_channel_credentials(ca)
        one: Any
        with grpc.secure_channel(server.address, credentials, options=UNLIMITED) as one:
            assert one.unary_unary("/e/Echo")(big) == big
            assert list(one.unary_stream("/e/Sixteen")(big)) == [big] * 16

    await asyncio.to_thread(talk_tls)
    assert await ask(server, lambda one: one.unary_unary("/e/Echo")(b"plain")) == b"plain"
    await server.close(0.0)


@pytest.mark.parametrize("is_tls", [False, True])
async def test_a_peer_that_stops_reading_is_cut_off(
    echo: Echo, clock: VirtualClock, certificate: tuple[ServerTls, bytes], is_tls: bool
) -> None:
    tls, ca = certificate
    server = GrpcServer(clock, echo.service, tls=tls)
    await server.listen("127.0.0.1", 0)
    context = None
    if is_tls:
        context = ssl.create_default_context(cadata=ca.decode())
        context.set_alpn_protocols(["h2"])
    reader, writer = await asyncio.open_connection("127.0.0.1", server.port, ssl=context)
    await turn()
    reader._transport.pause_reading()  # type: ignore[attr-defined]  # its windows stay open
    window = frames.settings({4: 2**31 - 1}) + frames.window_update(0, 2**31 - 70_000)
    body = b"\0\0\0\x10\0" + b"x" * 4096
    last = frames.frame(frames.DATA, frames.END_STREAM, 1, body)
    writer.write(frames.PREFACE + window + begin("/e/Endless") + last)
    await echo.begun.wait()
    before = -1
    while echo.written != before:  # until the buffers between the two are full
        before = echo.written
        for _ in range(200):
            await turn()
    [connection] = server.connections
    assert connection.stalled_since_s is not None
    assert connection.unsent_size <= 2 * GrpcLimits().call_queue_max
    for _ in range(int(GrpcLimits().stalled_s / LOOK_PERIOD_S) + 2):
        await clock.advance(LOOK_PERIOD_S)
    await echo.ended.wait()
    writer.transport.abort()
    await server.close(0.0)
