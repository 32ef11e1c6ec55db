"""Large frames over real sockets, received in their places, on both kinds of event loop."""

from __future__ import annotations

import random

import pytest
from support.peers.transport import Stage, until

from pocketmq.protocol.wire import frames
from pocketmq.protocol.wire.command import Command
from pocketmq.testing.clock import VirtualClock, settle
from pocketmq.transport.connection import Connection
from pocketmq.transport.frame_budget import FrameBudget
from pocketmq.transport.limits import Limits
from pocketmq.transport.reading_state import Hold

SIZE = 600_000
VIEW, COPY, ANSWER = 1, 2, 3


class Taken:
    """What a server was asked."""

    def __init__(self) -> None:
        self.bodies: list[bytes] = []
        self.kinds: list[type] = []
        self.handlers = {VIEW: self.take, COPY: self.take, ANSWER: self.answer}
        self.connection: Connection | None = None

    def take(self, request: Command, connection: Connection) -> Command:
        self.connection = connection
        self.kinds.append(type(request.body))
        self.bodies.append(bytes(request.body))
        return Command(0)

    def answer(self, request: Command, _: Connection) -> Command:
        return Command(0, body=bytes(request.body) * 2)


@pytest.fixture
def taken() -> Taken:
    return Taken()


async def test_frames_of_any_size_come_whole_one_behind_the_other(
    stage: Stage, taken: Taken
) -> None:
    chance = random.Random(1)
    server = await stage.serve(taken.handlers, view_codes=frozenset({VIEW}))
    peer = await stage.dial(server)
    bodies = [chance.randbytes(chance.choice([3, 70_000, SIZE, 3 * SIZE])) for _ in range(30)]
    for number, body in enumerate(bodies):
        peer.send(Command(VIEW if number % 2 else COPY, number, body=body))
    answers = await peer.got(len(bodies))
    assert [a.opaque for a in answers] == list(range(len(bodies)))
    assert taken.bodies == bodies
    assert set(taken.kinds[::2]) == {bytes}
    assert memoryview in taken.kinds[1::2]


async def test_many_senders_of_large_frames_share_the_room(
    stage: Stage, clock: VirtualClock, taken: Taken
) -> None:
    """Some receive in places, the others as far as there is room."""
    budget = FrameBudget(clock, size_max=4 * SIZE)
    server = await stage.serve(taken.handlers, view_codes=frozenset({VIEW}), budget=budget)
    frame = frames.encode(Command(VIEW, body=random.Random(2).randbytes(SIZE)))
    peers = [await stage.dial(server) for _ in range(12)]
    for _ in range(3):
        for peer in peers:
            peer.transport.write(frame)
    for peer in peers:
        await peer.got(3)
    assert {len(body) for body in taken.bodies} == {SIZE}
    assert len(taken.bodies) == 36
    await until(lambda: budget.size == 0)


async def test_a_peer_may_go_in_the_midst_of_a_frame(
    stage: Stage, clock: VirtualClock, taken: Taken
) -> None:
    budget = FrameBudget(clock)
    server = await stage.serve(taken.handlers, budget=budget)
    for ends_orderly in (True, False):
        peer = await stage.dial(server)
        peer.transport.write(frames.encode(Command(VIEW, body=bytes(SIZE)))[: SIZE // 2])
        await until(lambda: budget.size > SIZE // 2)
        if ends_orderly:
            peer.transport.write_eof()
        else:
            peer.transport.abort()
        await until(lambda: not server.connections)
        assert budget.size == 0
    assert taken.bodies == []


async def test_a_frame_in_its_place_waits_while_its_peer_is_held(
    stage: Stage, taken: Taken
) -> None:
    server = await stage.serve(taken.handlers, view_codes=frozenset({VIEW}))
    peer = await stage.dial(server)
    frame = frames.encode(Command(VIEW, 7, body=bytes(SIZE)))
    peer.send(Command(VIEW, 1, body=b"first"))
    await peer.got(1)
    connection = taken.connection
    assert connection is not None
    peer.transport.write(frame[: SIZE // 3])
    await settle()
    connection.hold_reading(Hold.WORK_SHARE)
    peer.transport.write(frame[SIZE // 3 :])
    await settle()
    assert taken.bodies == [b"first"]
    connection.release_reading(Hold.WORK_SHARE)
    await peer.got(2)
    assert taken.bodies[1:] == [bytes(SIZE)]


async def test_a_sender_that_stops_in_the_midst_of_a_frame_is_idle(
    stage: Stage, clock: VirtualClock, taken: Taken
) -> None:
    server = await stage.serve(taken.handlers, limits=Limits(idle_timeout_s=10))
    peer = await stage.dial(server)
    peer.transport.write(frames.encode(Command(VIEW, body=bytes(SIZE)))[: SIZE // 2])
    await settle()
    await clock.advance(10)
    await peer.gone()


async def test_large_answers_come_whole_between_small_ones(stage: Stage, taken: Taken) -> None:
    server = await stage.serve(taken.handlers)
    peer = await stage.dial(server)
    sizes = [1, 40_000, 9, SIZE, 100, 2 * SIZE]
    for number, size in enumerate(sizes):
        peer.send(Command(ANSWER, number, body=bytes([number]) * size))
    answers = await peer.got(len(sizes))
    assert [(a.opaque, a.body) for a in answers] == [
        (number, bytes([number]) * size * 2) for number, size in enumerate(sizes)
    ]
