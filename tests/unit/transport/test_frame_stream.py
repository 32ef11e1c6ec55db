from __future__ import annotations

import asyncio
import logging
import struct
from collections.abc import Awaitable, Callable
from typing import cast

import pytest
from support.peers.transport import RawPeer, Stage, connection_of, echo, until

from pocketmq.protocol.messages.hosts import join_address
from pocketmq.protocol.wire import frames
from pocketmq.protocol.wire.command import FLAG_ONEWAY, Command
from pocketmq.testing.clock import VirtualClock, settle
from pocketmq.transport.connection import Connection, ConnectionOptions
from pocketmq.transport.errors import CallTimeoutError, ConnectionClosedError
from pocketmq.transport.frame_share import FrameShare
from pocketmq.transport.limits import Limits
from pocketmq.transport.reading_state import Hold
from pocketmq.transport.server import Server
from pocketmq.transport.slow_readers import SLOW_READER_TIMEOUT_S

ECHO = 1
ANSWER_SIZE = 100_000
SOON_PAUSED = Limits(write_pause_size=64 * 1024)
SMALL_LIMITS = Limits(write_pause_size=64 * 1024, write_buffer_max=1024 * 1024)


class TestReads:
    """Requests that come together are handled together, and their answers leave together."""

    class Log:
        def __init__(self) -> None:
            self.events: list[str] = []
            self.unsent_size: Callable[[], int] = lambda: 0

        def read_begins(self) -> None:
            self.events.append("begin")

        def read_ends(self) -> None:
            self.events.append(f"end, {self.unsent_size()} bytes to send")

        def replies_sent(self) -> None:
            self.events.append(f"answered, {self.unsent_size()} bytes to send")

    async def test_the_border_of_a_chunk_is_told(self, stage: Stage) -> None:
        log = self.Log()

        def note(request: Command, connection: Connection) -> Command:
            log.events.append(f"request {request.opaque}")
            log.unsent_size = lambda: connection.unsent_size
            assert connection.unsent_size == (request.opaque % 3) * answer_size
            return Command(0)

        answer_size = len(frames.encode(Command(0, 1, 1)))
        peer = await stage.dial(await stage.serve({ECHO: note}, read_events=log))
        peer.send(*(Command(ECHO, opaque) for opaque in range(3)))
        await peer.got(3)
        peer.send(Command(ECHO, 3))
        await peer.got(4)
        assert log.events == [
            *("begin", "request 0", "request 1", "request 2"),
            *(f"end, {3 * answer_size} bytes to send", "answered, 0 bytes to send"),
            *("begin", "request 3"),
            *(f"end, {answer_size} bytes to send", "answered, 0 bytes to send"),
        ]

    async def test_garbage_ends_its_chunk_too(self, stage: Stage) -> None:
        log = self.Log()
        peer = await stage.dial(await stage.serve({ECHO: echo}, read_events=log))
        peer.transport.write(frames.encode(Command(ECHO)) + b"\xff" * 8)
        await peer.gone()
        assert log.events == [
            "begin",
            *(f"{part}, 0 bytes to send" for part in ("end", "answered")),
        ]


class TestTurns:
    """What comes together is taken over several turns of the loop."""

    SHARE = 4

    class Log:
        """Which requests were handled, turn by turn."""

        def __init__(self) -> None:
            self.turns: list[list[int]] = []
            self._is_fresh = False

        @property
        def handled(self) -> list[int]:
            return [opaque for turn in self.turns for opaque in turn]

        def note(self, request: Command, _: Connection) -> Command:
            if not self._is_fresh:
                self._is_fresh = True
                self.turns.append([])
                # Behind what the loop does in this turn, and before it reads again.
                asyncio.get_running_loop().call_soon(self._end)
            self.turns[-1].append(request.opaque)
            return Command(0)

        def _end(self) -> None:
            self._is_fresh = False

    async def serve(self, stage: Stage) -> tuple[Server, Log]:
        log = self.Log()
        server = await stage.serve({ECHO: log.note}, share=FrameShare(self.SHARE))
        return server, log

    async def test_no_turn_has_more_than_its_share(self, stage: Stage) -> None:
        server, log = await self.serve(stage)
        peers = [await stage.dial(server) for _ in range(3)]
        for n, peer in enumerate(peers):
            peer.send(*(Command(ECHO, 10 * n + m) for m in range(10)))
        for n, peer in enumerate(peers):
            answers = [answer.opaque for answer in await peer.got(10)]
            assert answers == list(range(10 * n, 10 * n + 10))
        assert max(map(len, log.turns)) == self.SHARE
        assert sum(map(len, log.turns)) == 30

    async def test_nobody_is_passed_over(self, stage: Stage) -> None:
        """Who has sent little is not behind all of what another has sent."""
        server, log = await self.serve(stage)
        busy, quiet = await stage.dial(server), await stage.dial(server)
        busy.send(*(Command(ECHO, n) for n in range(20 * self.SHARE)))
        quiet.send(Command(ECHO, 999))
        await busy.got(20 * self.SHARE)
        (at,) = [number for number, turn in enumerate(log.turns) if 999 in turn]
        assert at <= 3

    async def test_who_sends_more_meanwhile_is_not_read_from(self, stage: Stage) -> None:
        server, _ = await self.serve(stage)
        peer = await stage.dial(server)
        connection = connection_of(stage, server, peer)
        data = frames.encode(Command(ECHO, 1))
        connection.data_received(3 * self.SHARE * data)
        assert connection._transport.is_reading()
        connection.data_received(self.SHARE * data)
        assert not connection._transport.is_reading()
        await peer.got(4 * self.SHARE)
        assert connection._transport.is_reading()
        peer.send(Command(ECHO, 2))
        await peer.got(4 * self.SHARE + 1)

    async def test_who_closes_behind_requests_has_them_handled(self, stage: Stage) -> None:
        server, log = await self.serve(stage)
        peer = await stage.dial(server)
        peer.send(*(Command(ECHO, n, flag=FLAG_ONEWAY) for n in range(5 * self.SHARE)))
        peer.transport.close()
        await until(lambda: not server.connections)
        assert log.handled == list(range(5 * self.SHARE))

    async def test_who_is_gone_is_not_waited_for(self, stage: Stage) -> None:
        server, log = await self.serve(stage)
        peer, other = await stage.dial(server), await stage.dial(server)
        connection = connection_of(stage, server, peer)
        connection.data_received(3 * self.SHARE * frames.encode(Command(ECHO, 1)))
        connection.abort("it is enough")
        other.send(Command(ECHO, 2))
        await other.got(1)
        assert log.handled == [1] * self.SHARE + [2]


class TestHolds:
    """Several may hold a connection: it is read from when none of them does any more."""

    async def test_the_last_release_goes_on(self, stage: Stage) -> None:
        server = await stage.serve({ECHO: echo})
        peer = await stage.dial(server)
        connection = connection_of(stage, server, peer)
        connection.hold_reading(Hold.WRITE_BACKLOG)
        connection.hold_reading(Hold.BULK_APPEND)
        peer.send(Command(ECHO, 1))
        await settle(100)
        connection.release_reading(Hold.WRITE_BACKLOG)
        await settle(100)
        assert peer.received == []
        connection.release_reading(Hold.BULK_APPEND)
        assert [answer.opaque for answer in await peer.got(1)] == [1]

    async def test_a_reason_holds_once(self, stage: Stage) -> None:
        server = await stage.serve({})
        connection = connection_of(stage, server, await stage.dial(server))
        with pytest.raises(AssertionError, match="BULK_APPEND does not hold 127"):
            connection.release_reading(Hold.BULK_APPEND)
        connection.hold_reading(Hold.BULK_APPEND)
        with pytest.raises(AssertionError, match=r"BULK_APPEND holds 127.* already"):
            connection.hold_reading(Hold.BULK_APPEND)


class Sniffing(asyncio.Protocol):
    """Looks at the first bytes of a peer and hands its transport over."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)

    def data_received(self, data: bytes) -> None:
        self._connection.take_over(self._transport, data)


class TestFirstBytes:
    async def test_another_protocol_may_have_read_them(
        self, stage: Stage, clock: VirtualClock
    ) -> None:
        made: list[Connection] = []

        def sniffing() -> Sniffing:
            made.append(Connection(clock, {ECHO: echo}))
            return Sniffing(made[0])

        loop = asyncio.get_running_loop()
        listening = await loop.create_server(sniffing, "127.0.0.1", 0)
        address = listening.sockets[0].getsockname()
        _, peer = await loop.create_connection(RawPeer, *address)
        data = frames.encode(Command(ECHO, 1)) + frames.encode(Command(ECHO, 2))
        peer.transport.write(data[:-3])
        await peer.got(1)
        peer.transport.write(data[-3:])
        assert [answer.opaque for answer in await peer.got(2)] == [1, 2]
        assert made[0].remote_address == peer.address
        assert made[0].local_address == join_address(*address)
        peer.transport.close()
        await made[0].wait_closed()
        listening.close()
        await listening.wait_closed()

    async def test_a_connection_that_is_refused_takes_none(
        self, stage: Stage, clock: VirtualClock
    ) -> None:
        handled: list[Command] = []

        def refuse(connection: Connection) -> None:
            connection.abort("too many connections")

        connection = Connection(
            clock, {ECHO: lambda c, _: handled.append(c)}, ConnectionOptions(on_open=refuse)
        )
        loop = asyncio.get_running_loop()
        listening = await loop.create_server(lambda: Sniffing(connection), "127.0.0.1", 0)
        _, peer = await loop.create_connection(RawPeer, *listening.sockets[0].getsockname())
        peer.send(Command(ECHO, 1))
        await peer.gone()
        assert handled == []
        listening.close()
        await listening.wait_closed()


class TestGarbage:
    @pytest.mark.parametrize(
        ("data", "reason"),
        [
            (struct.pack(">ii", -1, 0), "a frame announces -1 bytes"),
            (struct.pack(">ii", frames.FRAME_SIZE_MAX, 0), "a frame announces 16777216 bytes"),
            (struct.pack(">ii", 4, 9), "a frame of 4 bytes announces a header of 9"),
            (struct.pack(">ii", 4, 7 << 24), "unknown header codec 7"),
            (struct.pack(">ii", 8, 4) + b"null", "the JSON header cannot be read"),
            (b"GET / HTTP/1.1\r\n\r\n", "is the peer speaking RocketMQ's remoting protocol?"),
        ],
    )
    async def test_garbage_closes_its_own_connection_only(
        self, stage: Stage, caplog: pytest.LogCaptureFixture, data: bytes, reason: str
    ) -> None:
        server = await stage.serve({ECHO: echo})
        bad, good = await stage.dial(server), await stage.dial(server)
        address = bad.address
        with caplog.at_level(logging.WARNING):
            bad.transport.write(data)
            await bad.gone()
        assert f"closing the connection of {address}: " in caplog.text
        assert reason in caplog.text
        good.send(Command(ECHO, 1, body=b"x"))
        assert (await good.got(1))[0].body == b"x"
        assert len(server.connections) == 1

    async def test_a_garbled_answer_ends_the_calls_of_its_connection(self, stage: Stage) -> None:
        raw = await stage.raw_server()
        connection = await stage.pool().get(raw.address)
        call = asyncio.ensure_future(connection.call(Command(1), 3000))
        peer = await raw.peer()
        await peer.got(1)
        peer.transport.write(b"\xff" * 8)
        with pytest.raises(ConnectionClosedError, match="a frame announces -1 bytes"):
            await call


class TestIdle:
    async def test_a_quiet_connection_is_closed_after_120_s(
        self, stage: Stage, clock: VirtualClock, caplog: pytest.LogCaptureFixture
    ) -> None:
        server = await stage.serve({})
        peer = await stage.dial(server)
        await clock.advance(119.9)
        assert not peer.is_closed
        with caplog.at_level(logging.INFO):
            await clock.advance(0.1)
            await peer.gone()
        assert "idle for 120 s" in caplog.text
        assert server.connections == {}

    async def test_traffic_keeps_it_open(self, stage: Stage, clock: VirtualClock) -> None:
        server = await stage.serve({ECHO: echo})
        peer = await stage.dial(server)
        for n in range(5):
            await clock.advance(100)
            peer.send(Command(ECHO, n))
            await peer.got(n + 1)
        await clock.advance(119)
        assert not peer.is_closed
        await clock.advance(1)
        await peer.gone()

    async def test_a_time_left_that_rounds_to_nothing_is_none(
        self, stage: Stage, clock: VirtualClock
    ) -> None:
        server = await stage.serve({ECHO: echo})
        peer = await stage.dial(server)
        await clock.advance(90.89)  # 120 s later 1.4e-14 s are left, which no clock can wait for
        peer.send(Command(ECHO, 1))
        await peer.got(1)
        await clock.advance(120)
        await peer.gone()

    async def test_what_is_sent_counts_too(self, stage: Stage, clock: VirtualClock) -> None:
        server = await stage.serve({})
        peer = await stage.dial(server)
        for n in range(3):
            await clock.advance(100)
            connection_of(stage, server, peer).notify(Command(40))
            await peer.got(n + 1)
        assert not peer.is_closed

    async def test_the_dialling_side_closes_too(self, stage: Stage, clock: VirtualClock) -> None:
        raw = await stage.raw_server()
        connection = await stage.pool().get(raw.address)
        peer = await raw.peer()
        await clock.advance(120)
        await peer.gone()
        assert connection.close_reason == "idle for 120 s"

    async def test_no_timer_outlives_a_connection(self, stage: Stage, clock: VirtualClock) -> None:
        server = await stage.serve({})
        peer = await stage.dial(server)
        assert clock.pending_timers == 1
        peer.transport.close()
        await until(lambda: not server.connections)
        assert clock.pending_timers == 0


class TestBackPressure:
    """A peer that does not read cannot grow memory without bound, nor disturb others."""

    async def test_a_peer_that_does_not_read_is_paused_then_cut_off(
        self, stage: Stage, clock: VirtualClock
    ) -> None:
        handled: list[int] = []
        unsent: list[int] = []

        def answer(request: Command, connection: Connection) -> Command:
            handled.append(request.opaque)
            unsent.append(connection.unsent_size)
            return Command(0, body=bytes(ANSWER_SIZE))

        server = await stage.serve({1: answer}, limits=SMALL_LIMITS)
        deaf, other = await stage.dial(server), await stage.dial(server)
        deaf.transport.pause_reading()
        # All of them fit in one read of the server: it must stop in the middle of a chunk.
        deaf.send(*(Command(1, opaque) for opaque in range(2000)))
        await until(lambda: handled)
        await settle(500)
        assert len(handled) < 200
        assert max(unsent) <= SMALL_LIMITS.write_pause_size + ANSWER_SIZE
        assert not deaf.is_closed
        other.send(Command(1, 1))
        assert len((await other.got(1))[0].body) == ANSWER_SIZE

        connection = connection_of(stage, server, deaf)
        before = len(handled)
        await clock.advance(SLOW_READER_TIMEOUT_S)
        await until(lambda: connection not in server.connections)
        assert connection.close_reason.startswith("it read 0 bytes in 30 s and left ")
        assert connection.unsent_size == 0
        assert len(handled) == before

    async def test_a_peer_that_reads_again_gets_everything_in_order(self, stage: Stage) -> None:
        def answer(request: Command, connection: Connection) -> Command:
            return Command(0, body=bytes(ANSWER_SIZE))

        server = await stage.serve({1: answer}, limits=SMALL_LIMITS)
        peer = await stage.dial(server)
        peer.transport.pause_reading()
        peer.send(*(Command(1, opaque) for opaque in range(150)))
        await settle(300)
        peer.transport.resume_reading()
        answers = await peer.got(150)
        assert [a.opaque for a in answers] == list(range(150))
        assert {len(a.body) for a in answers} == {ANSWER_SIZE}

    async def test_answers_that_come_all_at_once_are_bounded(
        self, stage: Stage, caplog: pytest.LogCaptureFixture
    ) -> None:
        gate = asyncio.Event()
        unsent: list[int] = []

        async def wait(request: Command, connection: Connection) -> Command:
            await gate.wait()
            unsent.append(connection.unsent_size)
            return Command(0, body=bytes(ANSWER_SIZE))

        server = await stage.serve({1: wait}, limits=SMALL_LIMITS)
        deaf = await stage.dial(server)
        deaf.transport.pause_reading()
        deaf.send(*(Command(1, opaque) for opaque in range(1000)))
        connection = connection_of(stage, server, deaf)
        await settle(500)
        with caplog.at_level(logging.WARNING):
            gate.set()
            await until(lambda: connection not in server.connections)
        assert "it left more than 1048576 bytes unread" in caplog.text
        assert max(unsent) <= SMALL_LIMITS.write_buffer_max + 2 * ANSWER_SIZE

    async def test_a_call_waits_for_a_peer_that_does_not_read_only_in_its_own_time(
        self, stage: Stage, clock: VirtualClock
    ) -> None:
        raw = await stage.raw_server()
        connection = await stage.pool(limits=SMALL_LIMITS).get(raw.address)
        peer = await raw.peer()
        peer.transport.pause_reading()
        body = bytes(1_000_000)
        calls = [
            asyncio.ensure_future(connection.call(Command(1, body=body), 1000)) for _ in range(20)
        ]
        oneways = [asyncio.ensure_future(connection.oneway(Command(1, body=body)))]
        await settle(300)
        assert connection.unsent_size < 4 * len(body) + SMALL_LIMITS.write_pause_size
        await clock.advance(1)
        outcomes = await asyncio.gather(*calls, return_exceptions=True)
        assert {type(outcome) for outcome in outcomes} == {CallTimeoutError}
        peer.transport.resume_reading()
        await asyncio.gather(*oneways)
        assert connection.pending_calls == 0

    async def test_the_dialling_side_reads_its_answers_even_while_it_cannot_write(
        self, stage: Stage
    ) -> None:
        raw = await stage.raw_server()
        connection = await stage.pool(limits=SOON_PAUSED).get(raw.address)
        peer = await raw.peer()
        waiting = asyncio.ensure_future(connection.call(Command(1), 1000))
        (request,) = await peer.got(1)
        peer.transport.pause_reading()
        body = bytes(8_000_000)
        big = asyncio.ensure_future(connection.call(Command(1, body=body), 1000))
        await settle(100)
        assert connection.unsent_size > SOON_PAUSED.write_pause_size
        peer.send(Command(0, request.opaque, 1, body=b"answer"))
        assert (await waiting).body == b"answer"
        big.cancel()

    async def test_notify_skips_a_peer_that_does_not_read(self, stage: Stage) -> None:
        server = await stage.serve({ECHO: echo}, limits=SMALL_LIMITS)
        deaf = await stage.dial(server)
        deaf.transport.pause_reading()
        connection = connection_of(stage, server, deaf)
        for _ in range(300):
            connection.notify(Command(40, body=bytes(ANSWER_SIZE)))
            await settle(2)
        assert connection.unsent_size <= SMALL_LIMITS.write_pause_size + ANSWER_SIZE
        assert not connection.is_closing


class TestClose:
    async def test_close_sends_what_is_queued(self, stage: Stage) -> None:
        server = await stage.serve({})
        peer = await stage.dial(server)
        connection = connection_of(stage, server, peer)
        for n in range(50):
            connection.notify(Command(40, body=bytes(10_000 + n)))
        connection.close("a test")
        connection.close("again")
        await peer.gone()
        assert [len(c.body) for c in peer.received] == [10_000 + n for n in range(50)]
        assert connection.close_reason == "a test"
        await connection.wait_closed()

    async def test_a_peer_that_does_not_read_holds_a_close_up_only_so_long(
        self, stage: Stage, clock: VirtualClock
    ) -> None:
        server = await stage.serve({})
        peer = await stage.dial(server)
        peer.transport.pause_reading()
        connection = connection_of(stage, server, peer)
        connection.write(frames.encode(Command(0, body=bytes(8_000_000))))
        await settle(100)
        connection.close("a test")
        closed = asyncio.ensure_future(connection.wait_closed())
        await clock.advance(2.9)
        assert not closed.done()
        await clock.advance(0.1)
        await closed
        assert connection.close_reason == "a test; it did not read its last answers"

    async def test_a_peer_that_is_done_still_gets_its_answers(self, stage: Stage) -> None:
        server = await stage.serve({ECHO: echo})
        peer = await stage.dial(server)
        peer.send(*(Command(ECHO, opaque, body=bytes(50_000)) for opaque in range(20)))
        peer.transport.write_eof()
        await peer.gone()
        assert [c.opaque for c in peer.received] == list(range(20))

    async def test_a_peer_that_is_done_and_does_not_read_is_cut_off(
        self, stage: Stage, clock: VirtualClock
    ) -> None:
        never_paused = Limits(write_pause_size=16 * 1024 * 1024)
        server = await stage.serve(
            {ECHO: lambda r, c: Command(0, body=bytes(8_000_000))}, limits=never_paused
        )
        peer = await stage.dial(server)
        connection = connection_of(stage, server, peer)
        peer.transport.pause_reading()
        peer.send(Command(ECHO))
        peer.transport.write_eof()
        await until(lambda: connection.is_closing)
        await settle(100)
        assert connection.unsent_size > 0
        await clock.advance(3)
        await until(lambda: not server.connections)
        assert connection.close_reason == "closed by the peer; it did not read its last answers"

    async def test_abort_loses_what_is_queued(self, stage: Stage) -> None:
        server = await stage.serve({})
        peer = await stage.dial(server)
        connection = connection_of(stage, server, peer)
        connection.notify(Command(40))
        connection.abort("a test")
        await peer.gone()
        assert peer.received == []
        connection.abort("again")
        assert connection.close_reason == "a test"

    async def test_nothing_can_be_sent_after_a_close(self, stage: Stage) -> None:
        server = await stage.serve({ECHO: echo})
        connection = await stage.pool().get(server.address)
        connection.close("a test")
        awaitables: list[Awaitable[object]] = [
            connection.call(Command(ECHO), 1000),
            connection.oneway(Command(ECHO)),
        ]
        for awaitable in awaitables:
            with pytest.raises(ConnectionClosedError, match="was closed: a test"):
                await awaitable
        with pytest.raises(ConnectionClosedError):
            connection.send_request(Command(ECHO), 1000, lambda _: None)

    async def test_who_waits_for_the_peer_to_read_learns_of_the_end(self, stage: Stage) -> None:
        raw = await stage.raw_server()
        connection = await stage.pool(limits=SOON_PAUSED).get(raw.address)
        peer = await raw.peer()
        peer.transport.pause_reading()
        first = asyncio.ensure_future(connection.call(Command(1, body=bytes(8_000_000)), 1000))
        await settle(100)
        second = asyncio.ensure_future(connection.call(Command(1), 1000))
        third = asyncio.ensure_future(connection.oneway(Command(1)))
        await settle()
        connection.abort("a test")
        for outcome in await asyncio.gather(first, second, third, return_exceptions=True):
            assert isinstance(outcome, ConnectionClosedError)
            assert outcome.reason == "a test"

    async def test_repr(self, stage: Stage) -> None:
        server = await stage.serve({})
        connection = await stage.pool().get(server.address)
        assert repr(connection) == f"<Connection {server.address} pending=0>"
