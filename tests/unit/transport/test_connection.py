from __future__ import annotations

import asyncio
import logging
import struct

import pytest
from support.peers.transport import Stage, connection_of, echo, until

from pocketmq.protocol.codes import ResponseCode
from pocketmq.protocol.errors import ContentError, MessageSizeError, TopicMissingError
from pocketmq.protocol.requests.nameserver import RouteRequest
from pocketmq.protocol.wire import frames
from pocketmq.protocol.wire.command import FLAG_ONEWAY, Codec, Command
from pocketmq.testing.clock import VirtualClock, settle
from pocketmq.transport.connection import (
    GREETING,
    UNKNOWN_CODE,
    Connection,
    Handlers,
    refuse_unknown,
)
from pocketmq.transport.errors import (
    CallTimeoutError,
    ConnectionClosedError,
    TooMuchRequestError,
)
from pocketmq.transport.limits import Limits
from pocketmq.transport.response_table import Answer

ECHO, LATER, SILENT, FAIL = 1, 2, 3, 4


class TestRequestsOfThePeer:
    async def test_an_answer_repeats_opaque_and_codec(self, stage: Stage) -> None:
        peer = await stage.dial(await stage.serve({ECHO: echo}))
        for codec in Codec:
            peer.send(Command(ECHO, 70 + codec, body=b"hello", codec=codec))
        answers = await peer.got(3)
        assert [(a.opaque, a.codec, a.flag, a.code, a.body) for a in answers] == [
            (70 + codec, codec, 1, 0, b"hello") for codec in Codec
        ]

    async def test_an_unknown_code_is_answered_with_3(
        self, stage: Stage, caplog: pytest.LogCaptureFixture
    ) -> None:
        peer = await stage.dial(await stage.serve({}))
        with caplog.at_level(logging.INFO):
            peer.send(Command(9999, 5))
            (answer,) = await peer.got(1)
        assert (answer.code, answer.opaque) == (ResponseCode.REQUEST_CODE_NOT_SUPPORTED, 5)
        assert answer.remark == " request type 9999 not supported"
        assert "request code 9999 of 127.0.0.1:" in caplog.text

    async def test_a_table_may_have_a_handler_for_unknown_codes(self, stage: Stage) -> None:
        peer = await stage.dial(await stage.serve({UNKNOWN_CODE: echo, FAIL: refuse_unknown}))
        peer.send(Command(9999, 5, body=b"hello"), Command(FAIL, 6), Command(UNKNOWN_CODE, 7))
        answers = await peer.got(3)
        assert [(a.code, a.opaque) for a in answers] == [(0, 5), (3, 6), (0, 7)]
        assert answers[0].body == b"hello"

    @pytest.mark.parametrize("is_async", [False, True])
    @pytest.mark.parametrize(
        ("error", "code", "remark"),
        [
            (TopicMissingError(17, "no topic T"), 17, "no topic T"),
            (TopicMissingError(17), 17, ""),
            (ContentError("no field"), 1, "no field"),
            (RuntimeError("broken"), 1, "RuntimeError: broken"),
            (KeyError("k"), 1, "KeyError: 'k'"),
        ],
    )
    async def test_errors_of_a_handler_become_answers(
        self, stage: Stage, error: Exception, code: int, remark: str, is_async: bool
    ) -> None:
        def fail_now(request: Command, connection: Connection) -> Command:
            raise error

        async def fail_later(request: Command, connection: Connection) -> Command:
            await settle(1)
            raise error

        peer = await stage.dial(
            await stage.serve({FAIL: fail_later if is_async else fail_now, ECHO: echo})
        )
        peer.send(Command(FAIL, 1), Command(ECHO, 2))
        answers = {a.opaque: a for a in await peer.got(2)}
        assert (answers[1].code, answers[1].remark or "") == (code, remark)
        assert answers[2].code == 0
        assert not peer.is_closed

    async def test_only_unexpected_errors_are_logged_as_such(
        self, stage: Stage, caplog: pytest.LogCaptureFixture
    ) -> None:
        errors = [TopicMissingError(17), ContentError("no field"), RuntimeError("broken")]

        def fail(request: Command, connection: Connection) -> Command:
            raise errors[request.opaque]

        peer = await stage.dial(await stage.serve({FAIL: fail}))
        with caplog.at_level(logging.INFO):
            peer.send(*(Command(FAIL, opaque) for opaque in range(3)))
            await peer.got(3)
        seen = [(r.levelname, r.getMessage()) for r in caplog.records]
        address = peer.address
        assert [entry for entry in seen if "request 4" in entry[1]] == [
            ("INFO", f"unreadable request 4 of {address}: no field"),
            ("ERROR", f"request 4 of {address} failed"),
        ]

    async def test_a_missing_field_is_answered(self, stage: Stage) -> None:
        def read(request: Command, connection: Connection) -> Command:
            return Command(0, remark=request.read(RouteRequest).topic)

        peer = await stage.dial(await stage.serve({ECHO: read}))
        peer.send(Command(ECHO, 1, extra={"topic": "T"}), Command(ECHO, 2, extra={"x": "y"}))
        good, bad = await peer.got(2)
        assert (good.code, good.remark) == (0, "T")
        assert bad.code == ResponseCode.SYSTEM_ERROR
        assert "RouteRequest cannot be read" in (bad.remark or "")
        assert "`topic`" in (bad.remark or "")

    async def test_an_answer_that_cannot_be_written_is_an_error_too(self, stage: Stage) -> None:
        def huge(request: Command, connection: Connection) -> Command:
            return Command(0, body=bytes(frames.FRAME_SIZE_MAX))

        async def huge_later(request: Command, connection: Connection) -> Command:
            return huge(request, connection)

        peer = await stage.dial(await stage.serve({ECHO: huge, LATER: huge_later}))
        peer.send(Command(ECHO, 1), Command(LATER, 2))
        for answer in await peer.got(2):
            assert answer.code == ResponseCode.SYSTEM_ERROR
            assert "the limit is 16777216" in (answer.remark or "")

    async def test_answers_may_come_later_and_out_of_order(self, stage: Stage) -> None:
        gates = [asyncio.Event() for _ in range(3)]

        async def wait(request: Command, connection: Connection) -> Command:
            await gates[request.opaque].wait()
            return Command(0)

        async def nothing(request: Command, connection: Connection) -> None:
            await gates[2].wait()

        peer = await stage.dial(await stage.serve({LATER: wait, SILENT: nothing}))
        peer.send(*(Command(LATER, opaque) for opaque in range(3)), Command(SILENT, 9))
        await settle()
        for opaque in (2, 0, 1):
            gates[opaque].set()
            await peer.got(len(peer.received) + 1)
        assert [a.opaque for a in peer.received] == [2, 0, 1]

    async def test_a_handler_may_answer_on_its_own(self, stage: Stage) -> None:
        parked: list[tuple[Command, Connection]] = []

        def park(request: Command, connection: Connection) -> None:
            parked.append((request, connection))

        peer = await stage.dial(await stage.serve({SILENT: park}))
        peer.send(Command(SILENT, 8))
        await until(lambda: parked)
        request, connection = parked[0]
        connection.respond(request, Command(0, body=b"at last"))
        (answer,) = await peer.got(1)
        assert (answer.opaque, answer.body) == (8, b"at last")

    async def test_an_answer_that_fits_no_frame_says_so(
        self, stage: Stage, caplog: pytest.LogCaptureFixture
    ) -> None:
        def large(request: Command, connection: Connection) -> Command:
            return Command(0, body=bytes(frames.FRAME_SIZE_MAX))

        async def large_later(request: Command, connection: Connection) -> Command:
            return large(request, connection)

        peer = await stage.dial(await stage.serve({ECHO: large, LATER: large_later}))
        peer.send(Command(ECHO, 1), Command(LATER, 2))
        for answer in await peer.got(2):
            assert answer.code == ResponseCode.SYSTEM_ERROR
            assert "the answer does not fit into a frame" in (answer.remark or "")
        assert "Traceback" not in caplog.text

    async def test_one_way_requests_are_never_answered(self, stage: Stage) -> None:
        seen: list[int] = []

        def fail(request: Command, connection: Connection) -> Command:
            seen.append(request.code)
            raise RuntimeError("broken")

        async def fail_later(request: Command, connection: Connection) -> Command:
            return fail(request, connection)

        def note(request: Command, connection: Connection) -> Command:
            seen.append(request.code)
            return Command(0)

        handlers: Handlers = {FAIL: fail, LATER: fail_later, SILENT: note, ECHO: echo}
        peer = await stage.dial(await stage.serve(handlers))
        codes = (FAIL, LATER, SILENT, 9999)
        peer.send(*(Command(code, 1, FLAG_ONEWAY) for code in codes))
        await until(lambda: len(seen) == 3)
        await settle()
        peer.send(Command(ECHO, 2))
        assert [a.opaque for a in await peer.got(1)] == [2]

    async def test_too_many_waiting_requests_are_refused(self, stage: Stage) -> None:
        gate = asyncio.Event()

        async def wait(request: Command, connection: Connection) -> Command:
            await gate.wait()
            return Command(0)

        peer = await stage.dial(await stage.serve({LATER: wait}, limits=Limits(tasks_max=3)))
        peer.send(*(Command(LATER, opaque) for opaque in range(5)))
        refused = await peer.got(2)
        assert [a.opaque for a in refused] == [3, 4]
        assert {a.code for a in refused} == {ResponseCode.SYSTEM_BUSY}
        assert "[OVERLOAD]system busy" in (refused[0].remark or "")
        gate.set()
        await peer.got(5)
        peer.send(Command(LATER, 9))
        assert (await peer.got(6))[5].code == 0

    async def test_handlers_of_a_lost_connection_are_cancelled(self, stage: Stage) -> None:
        ended: list[bool] = []

        async def wait(request: Command, connection: Connection) -> Command:
            try:
                await asyncio.Event().wait()
            finally:
                ended.append(True)
            return Command(0)

        peer = await stage.dial(await stage.serve({LATER: wait}))
        peer.send(Command(LATER, 1))
        await settle()
        assert ended == []
        peer.transport.abort()
        await until(lambda: ended)


class TestRequestsToThePeer:
    async def test_both_sides_may_ask(self, stage: Stage) -> None:
        async def ask_back(request: Command, connection: Connection) -> Command:
            answer = await connection.call(Command(ECHO, body=b"back"), 1000)
            return Command(0, body=b"peer said " + answer.body)

        server = await stage.serve({LATER: ask_back})
        connection = await stage.pool(handlers={ECHO: echo}).get(server.address)
        answer = await connection.call(Command(LATER), 1000)
        assert answer.body == b"peer said back"

    async def test_a_call_times_out_by_the_clock(self, stage: Stage, clock: VirtualClock) -> None:
        server = await stage.serve({SILENT: lambda request, connection: None})
        connection = await stage.pool().get(server.address)
        call = asyncio.ensure_future(connection.call(Command(SILENT), 3000))
        await clock.advance(2.9)
        assert not call.done()
        assert connection.pending_calls == 1
        await clock.advance(0.1)
        with pytest.raises(CallTimeoutError, match=f"no answer from {server.address} in 3000 ms"):
            await call
        assert connection.pending_calls == 0
        assert not connection.is_closing

    async def test_a_late_answer_is_dropped(self, stage: Stage, clock: VirtualClock) -> None:
        parked: list[Command] = []
        server = await stage.serve({SILENT: lambda r, c: parked.append(r), ECHO: echo})
        connection = await stage.pool().get(server.address)
        call = asyncio.ensure_future(connection.call(Command(SILENT), 1000))
        await until(lambda: parked)
        await clock.advance(1)
        with pytest.raises(CallTimeoutError):
            await call
        (other_side,) = server.connections
        other_side.respond(parked[0], Command(0, body=b"late"))
        assert (await connection.call(Command(ECHO, body=b"x"), 1000)).body == b"x"

    async def test_a_lost_connection_ends_every_call(self, stage: Stage) -> None:
        raw = await stage.raw_server()
        connection = await stage.pool().get(raw.address)
        calls = [asyncio.ensure_future(connection.call(Command(1), 3000)) for _ in range(3)]
        peer = await raw.peer()
        await peer.got(3)
        peer.transport.close()
        for call in calls:
            with pytest.raises(ConnectionClosedError, match=f"to {raw.address} was closed: "):
                await call
        with pytest.raises(ConnectionClosedError, match="closed by the peer"):
            await connection.call(Command(1), 3000)

    async def test_permits_come_back_whatever_ends_a_call(
        self, stage: Stage, clock: VirtualClock
    ) -> None:
        server = await stage.serve({ECHO: echo, SILENT: lambda request, connection: None})
        pool = stage.pool(async_permits=2)
        connection = await pool.get(server.address)
        silent = [asyncio.ensure_future(connection.call(Command(SILENT), 1000)) for _ in range(2)]
        await settle()
        with pytest.raises(TooMuchRequestError, match="all 2 async permits are taken"):
            await connection.call(Command(ECHO), 1000)
        await clock.advance(1)  # they time out
        await asyncio.gather(*silent, return_exceptions=True)
        for _ in range(5):  # they are answered
            await connection.call(Command(ECHO), 1000)
        cancelled = [
            asyncio.ensure_future(connection.call(Command(SILENT), 1000)) for _ in range(2)
        ]
        await settle()
        for call in cancelled:
            call.cancel()
        await asyncio.gather(*cancelled, return_exceptions=True)
        with pytest.raises(MessageSizeError):  # they cannot be written
            await connection.call(Command(ECHO, body=bytes(frames.FRAME_SIZE_MAX)), 1000)
        assert connection.pending_calls == 0
        lost = [asyncio.ensure_future(connection.call(Command(SILENT), 1000)) for _ in range(2)]
        await settle()
        for other_side in list(server.connections):
            other_side.abort("a test")
        await asyncio.gather(*lost, return_exceptions=True)
        connection = await pool.get(server.address)
        assert (await connection.call(Command(ECHO, body=b"x"), 1000)).body == b"x"

    async def test_an_answer_goes_to_a_callback(self, stage: Stage, clock: VirtualClock) -> None:
        server = await stage.serve({ECHO: echo, SILENT: lambda request, connection: None})
        connection = await stage.pool().get(server.address)
        answers: list[Answer] = []
        connection.send_request(Command(ECHO, body=b"x"), 1000, answers.append)
        await until(lambda: answers)
        assert isinstance(answers[0], Command)
        connection.send_request(Command(SILENT), 1000, answers.append)
        await clock.advance(1)
        assert isinstance(answers[1], CallTimeoutError)

    async def test_one_way_takes_a_permit_only_while_it_is_written(self, stage: Stage) -> None:
        seen: list[Command] = []
        server = await stage.serve({SILENT: lambda r, c: seen.append(r)})
        pool = stage.pool(oneway_permits=1)
        connection = await pool.get(server.address)
        for _ in range(3):
            await connection.oneway(Command(SILENT))
        await until(lambda: len(seen) == 3)
        assert all(request.is_oneway for request in seen)
        connection.close()
        with pytest.raises(ConnectionClosedError):
            await connection.oneway(Command(SILENT))
        await (await pool.get(server.address)).oneway(Command(SILENT))

    async def test_notify_says_nothing_to_the_deaf(self, stage: Stage) -> None:
        server = await stage.serve({})
        peer = await stage.dial(server)
        connection = connection_of(stage, server, peer)
        connection.notify(Command(40, extra={"consumerGroup": "G"}))
        (request,) = await peer.got(1)
        assert request.is_oneway
        assert request.fields == {"consumerGroup": "G"}
        connection.close()
        connection.notify(Command(40))
        await peer.gone()
        assert len(peer.received) == 1


class TestGreeting:
    async def test_pocketmq_peers_change_to_their_own_codec_after_the_first_answer(
        self, stage: Stage
    ) -> None:
        codecs: list[tuple[int, bool]] = []

        def note(request: Command, connection: Connection) -> Command:
            codecs.append((request.codec, "pocketmq" in request.fields))
            return Command(0)

        server = await stage.serve({ECHO: note})
        connection = await stage.pool().get(server.address)
        assert connection.codec == Codec.JSON
        early = [connection.call(Command(ECHO), 1000) for _ in range(2)]
        await asyncio.gather(*early)
        assert connection.peer_is_pocketmq
        for _ in range(2):
            await connection.call(Command(ECHO), 1000)
        assert codecs == [
            (Codec.JSON, True),
            (Codec.JSON, True),
            (Codec.MSGPACK, False),
            (Codec.MSGPACK, False),
        ]

    async def test_what_is_called_before_a_request_sees_all_of_its_fields(
        self, stage: Stage
    ) -> None:
        seen: list[dict[str, str]] = []
        received: list[dict[str, str]] = []

        def note(request: Command, _: Connection) -> Command:
            received.append(dict(request.fields))
            return Command(0)

        def before(request: Command) -> None:
            seen.append(dict(request.fields))

        server = await stage.serve({RouteRequest.code: note})
        pool = stage.pool(before_request=(before,))
        for _ in range(2):
            await pool.call(server.address, RouteRequest(topic="T"), 1000)
        assert seen == received == [{"topic": "T"} | GREETING, {"topic": "T"}]

    async def test_a_rocketmq_server_gets_json_for_ever(self, stage: Stage) -> None:
        raw = await stage.raw_server(lambda request: Command(0, language=0, extra={"a": "b"}))
        connection = await stage.pool().get(raw.address)
        for _ in range(3):
            assert (await connection.call(Command(ECHO), 1000)).fields == {"a": "b"}
        await connection.oneway(Command(ECHO))
        connection.notify(Command(ECHO))
        requests = await (await raw.peer()).got(5)
        assert {r.codec for r in requests} == {Codec.JSON}
        assert not connection.peer_is_pocketmq
        assert ["pocketmq" in r.fields for r in requests] == [True, False, False, False, False]

    async def test_a_rocketmq_client_never_sees_the_own_codec_nor_a_greeting(
        self, stage: Stage
    ) -> None:
        server = await stage.serve({ECHO: echo})
        peer = await stage.dial(server)
        connection = connection_of(stage, server, peer)
        connection.notify(Command(40))
        peer.send(Command(ECHO, 1, language=0), Command(ECHO, 2, language=0, codec=Codec.BINARY))
        await peer.got(3)
        connection.notify(Command(40))
        call = asyncio.ensure_future(connection.call(Command(39), 1000))
        frames_seen = await peer.got(5)
        assert [c.codec for c in frames_seen] == [0, 0, Codec.BINARY, 0, 0]
        assert all("pocketmq" not in c.fields for c in frames_seen)
        assert not connection.peer_is_pocketmq
        call.cancel()

    async def test_a_greeted_server_greets_back_once(self, stage: Stage) -> None:
        server = await stage.serve({ECHO: echo})
        peer = await stage.dial(server)
        peer.send(
            Command(ECHO, 1, FLAG_ONEWAY, extra=dict(GREETING)),
            Command(ECHO, 2),
            Command(ECHO, 3),
        )
        first, second = await peer.got(2)
        assert first.fields == GREETING
        assert second.fields == {}
        assert {first.codec, second.codec} == {Codec.JSON}
        connection = connection_of(stage, server, peer)
        connection.notify(Command(40))
        assert (await peer.got(3))[2].codec == Codec.MSGPACK

    async def test_a_greeting_must_stand_in_the_first_request(self, stage: Stage) -> None:
        server = await stage.serve({ECHO: echo})
        peer = await stage.dial(server)
        peer.send(Command(ECHO, 1), Command(ECHO, 2, extra=dict(GREETING)))
        await peer.got(2)
        assert not connection_of(stage, server, peer).peer_is_pocketmq

    async def test_a_question_before_the_first_answer_does_not_end_the_greeting(
        self, stage: Stage
    ) -> None:
        """A server may ask its client something before it answers."""

        async def ask_first(request: Command, connection: Connection) -> Command:
            await connection.call(Command(ECHO), 1000)
            return Command(0)

        server = await stage.serve({LATER: ask_first})
        connection = await stage.pool(handlers={ECHO: echo}).get(server.address)
        await connection.call(Command(LATER), 1000)
        assert connection.peer_is_pocketmq
        assert connection.codec == Codec.MSGPACK

    async def test_an_unreadable_first_header_is_refused_not_fatal(self, stage: Stage) -> None:
        def read(request: Command, connection: Connection) -> Command:
            return Command(0, remark=request.read(RouteRequest).topic)

        peer = await stage.dial(await stage.serve({ECHO: read}))
        header = b'{"code":1,"opaque":5,"extFields":{"topic":["T"]}}'
        lengths = struct.pack(">ii", 4 + len(header), len(header))
        peer.transport.write(lengths + header)
        (answer,) = await peer.got(1)
        assert (answer.code, answer.opaque) == (ResponseCode.SYSTEM_ERROR, 5)
        assert not peer.is_closed
