from __future__ import annotations

import pytest
from support.peers.transport import Stage, until

from pocketmq.protocol.wire import frames
from pocketmq.protocol.wire.command import Command
from pocketmq.testing.clock import VirtualClock, settle
from pocketmq.transport.connection import Connection
from pocketmq.transport.frame_budget import FRAME_PATIENCE_S, FrameBudget
from pocketmq.transport.reading_state import Hold

LARGE = 1024 * 1024


class Peer:
    """Somebody who sends a large frame."""

    def __init__(self, budget: FrameBudget, name: str = "a") -> None:
        self.peer_name = name
        self.holds = 0
        self.aborted = ""
        self._budget = budget

    def hold_reading(self, reason: Hold) -> None:
        self.holds += 1

    def release_reading(self, reason: Hold) -> None:
        self.holds -= 1

    def cut_off(self, reason: str) -> None:
        self.aborted = reason
        self._budget.give_back(self)


async def test_room_is_given_in_order_and_never_to_more_than_there_is(clock: VirtualClock) -> None:
    budget = FrameBudget(clock, size_max=100)
    first, second, third, fourth = (Peer(budget) for _ in range(4))
    budget.reserve(first, 60)
    budget.reserve(second, 60)
    budget.reserve(third, 40)  # it would fit, but the second one was there before
    budget.reserve(fourth, 60)
    assert [p.holds for p in (first, second, third, fourth)] == [0, 1, 1, 1]
    assert (budget.size, budget.waiting_count) == (60, 3)
    budget.give_back(first)
    assert [p.holds for p in (second, third, fourth)] == [0, 0, 1]
    assert budget.size == 100
    budget.give_back(third)
    assert fourth.holds == 1
    budget.give_back(second)
    assert fourth.holds == 0
    budget.give_back(fourth)
    assert (budget.size, clock.pending_timers) == (0, 0)


async def test_a_frame_larger_than_all_room_comes_alone(clock: VirtualClock) -> None:
    budget = FrameBudget(clock, size_max=100)
    huge, small = Peer(budget), Peer(budget)
    budget.reserve(huge, 1000)
    budget.reserve(small, 1)
    assert [huge.holds, small.holds] == [0, 1]
    budget.give_back(huge)
    assert small.holds == 0


async def test_who_waits_may_leave(clock: VirtualClock) -> None:
    budget = FrameBudget(clock, size_max=100)
    first, second = Peer(budget), Peer(budget)
    budget.reserve(first, 100)
    budget.reserve(second, 100)
    budget.give_back(second)
    assert (budget.size, budget.waiting_count, clock.pending_timers) == (100, 0, 0)


async def test_who_does_not_finish_is_cut_off_once_others_wait(clock: VirtualClock) -> None:
    budget = FrameBudget(clock, size_max=100)
    stalled, later, waiting = Peer(budget, "stalled"), Peer(budget, "later"), Peer(budget)
    budget.reserve(stalled, 50)
    await clock.advance(FRAME_PATIENCE_S - 10)
    budget.reserve(later, 50)
    await clock.advance(9)
    budget.reserve(waiting, 50)
    await clock.advance(0.9)
    assert not stalled.aborted
    await clock.advance(0.1)
    assert "is not complete after 30 s, and 1 others wait" in stalled.aborted
    assert not later.aborted
    assert waiting.holds == 0
    await clock.advance(3600)
    assert not later.aborted, "nobody waits"


async def test_half_frames_of_many_peers_are_bounded(
    stage: Stage, clock: VirtualClock, caplog: pytest.LogCaptureFixture
) -> None:
    """Over real sockets: who stalls in the middle of a frame keeps the room only for a while."""
    bodies: list[int] = []

    def take(request: Command, _: Connection) -> Command:
        bodies.append(len(request.body))
        return Command(0)

    budget = FrameBudget(clock, size_max=2 * LARGE + 10_000)
    server = await stage.serve({1: take}, budget=budget)
    frame = frames.encode(Command(1, 7, body=bytes(LARGE)))
    peers = [await stage.dial(server) for _ in range(5)]
    for peer in peers:
        peer.transport.write(frame[: len(frame) // 2])
    await until(lambda: budget.waiting_count == 3)
    assert budget.size == 2 * len(frame)
    small = await stage.dial(server)
    small.send(Command(1, 1, body=b"small"))
    await small.got(1)
    assert bodies == [5]
    await clock.advance(FRAME_PATIENCE_S)
    await until(lambda: len(server.connections) == 4)
    assert caplog.text.count("is not complete after 30 s") == 2
    assert (budget.size, budget.waiting_count) == (2 * len(frame), 1)
    for peer in peers:
        if not peer.is_closed:
            peer.transport.write(frame[len(frame) // 2 :])
    await until(lambda: bodies.count(LARGE) == 3)
    await until(lambda: budget.size == 0)


async def test_frames_one_after_the_other_are_each_counted(
    stage: Stage, clock: VirtualClock
) -> None:
    """A peer that always is in the middle of a frame is not one that does not finish."""
    budget = FrameBudget(clock, size_max=LARGE)
    server = await stage.serve({1: lambda _, __: Command(0)}, budget=budget)
    frame = frames.encode(Command(1, 7, body=bytes(LARGE)))
    busy, waiting = await stage.dial(server), await stage.dial(server)
    busy.transport.write(frame[:LARGE])
    await until(lambda: budget.size == len(frame))
    waiting.transport.write(frame[:LARGE])
    await until(lambda: budget.waiting_count == 1)
    rest = frame[LARGE:] + frame[:LARGE]
    busy.transport.write(rest)
    await busy.got(1)
    await until(lambda: budget.waiting_count == 1)  # now it is the busy one that waits
    await clock.advance(FRAME_PATIENCE_S / 2)
    waiting.transport.write(frame[LARGE:])
    await waiting.got(1)
    await until(lambda: budget.waiting_count == 0)
    await clock.advance(FRAME_PATIENCE_S - 1)
    assert len(server.connections) == 2
    busy.transport.write(frame[LARGE:])
    await busy.got(2)
    await settle()
    assert budget.size == 0
