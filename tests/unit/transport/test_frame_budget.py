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

READ_SIZE_MAX = 256 * 1024
"""Bytes that a loop reads of a socket at once."""


class Peer:
    """Somebody who sends a large frame."""

    def __init__(self, budget: FrameBudget, name: str = "a") -> None:
        self.peer_name = name
        self.holds = 0
        self.is_busy = False
        self.aborted = ""
        self._budget = budget

    @property
    def is_reading(self) -> bool:
        return not self.holds and not self.is_busy

    def hold_reading(self, reason: Hold) -> None:
        self.holds += 1

    def release_reading(self, reason: Hold) -> None:
        self.holds -= 1

    def cut_off(self, reason: str) -> None:
        self.aborted = reason
        self._budget.give_back(self)


async def test_only_what_has_arrived_takes_room(clock: VirtualClock) -> None:
    budget = FrameBudget(clock, size_max=100)
    idle = [Peer(budget) for _ in range(40)]
    for peer in idle:
        budget.begin(peer, 1000, 999)
    honest = Peer(budget)
    budget.begin(honest, 80, 79)
    assert (budget.size, budget.waiting_count, clock.pending_timers) == (41, 0, 0)
    budget.give_back(honest)
    assert budget.size == 40


async def test_room_is_given_in_order_and_never_to_more_than_there_is(clock: VirtualClock) -> None:
    budget = FrameBudget(clock, size_max=100)
    first, second, third, fourth = (Peer(budget) for _ in range(4))
    budget.begin(first, 60, 9)  # more than half is taken: from now on, room for all of a frame
    budget.begin(second, 60, 59)
    budget.begin(third, 39, 38)  # it would fit, but the second one was there before
    budget.begin(fourth, 60, 59)
    assert [p.holds for p in (first, second, third, fourth)] == [0, 1, 1, 1]
    assert (budget.size, budget.waiting_count) == (63, 3)
    budget.arrived(first, 1)
    assert budget.size == 63, "its room was kept"
    budget.give_back(first)
    assert [p.holds for p in (second, third, fourth)] == [0, 0, 0], "less than half is taken"
    assert (budget.size, clock.pending_timers) == (3, 0)
    budget.arrived(second, 1)
    assert (second.holds, budget.size) == (0, 62)
    budget.arrived(third, 30)
    assert (third.holds, budget.size) == (0, 100), "there is just room for all of it"
    budget.arrived(fourth, 50)
    assert (fourth.holds, budget.size) == (1, 109)
    budget.give_back(third)
    assert fourth.holds == 1
    budget.give_back(second)
    assert fourth.holds == 0
    budget.give_back(fourth)
    assert (budget.size, clock.pending_timers) == (0, 0)


async def test_the_first_frames_have_room_for_all_of_them_from_the_beginning(
    clock: VirtualClock,
) -> None:
    budget = FrameBudget(clock, size_max=100)
    first, second, third = (Peer(budget) for _ in range(3))
    assert budget.begin(first, 15, 10)
    assert not budget.begin(second, 15, 10), "more than a quarter would be kept"
    assert budget.begin(third, 5, 1)
    assert budget.size == 15 + 5 + 5
    budget.arrived(first, 2)
    assert budget.size == 25
    budget.give_back(first)
    budget.give_back(second)
    assert budget.size == 5
    budget.give_back(third)
    assert (budget.size, [p.holds for p in (first, second, third)]) == (0, [0, 0, 0])


async def test_a_frame_larger_than_all_room_comes_alone(clock: VirtualClock) -> None:
    budget = FrameBudget(clock, size_max=100)
    huge, small = Peer(budget), Peer(budget)
    budget.begin(huge, 1000, 900)
    budget.begin(small, 2, 1)
    assert [huge.holds, small.holds] == [0, 1]
    budget.give_back(huge)
    assert small.holds == 0


async def test_complete_frames_that_wait_to_be_handled_hold_others_up(clock: VirtualClock) -> None:
    budget = FrameBudget(clock, size_max=100)
    first, second = Peer(budget), Peer(budget)
    budget.begin(first, 60, 59)
    budget.occupy(90)
    budget.arrived(first, 30)
    budget.begin(second, 10, 5)
    assert [first.holds, second.holds] == [1, 1], "there is no room for the rest of either"
    budget.occupy(200)
    budget.vacate(90)
    assert [first.holds, second.holds] == [1, 1]
    budget.vacate(200)
    assert [first.holds, second.holds] == [0, 0]
    for peer in (first, second):
        budget.give_back(peer)
    assert (budget.size, clock.pending_timers) == (0, 0)


async def test_who_waits_may_leave(clock: VirtualClock) -> None:
    budget = FrameBudget(clock, size_max=100)
    first, second = Peer(budget), Peer(budget)
    budget.begin(first, 100, 40)
    budget.begin(second, 100, 99)
    assert (budget.size, budget.waiting_count) == (101, 1)
    budget.give_back(second)
    assert (budget.size, budget.waiting_count) == (100, 0)
    budget.give_back(second)
    assert (budget.size, clock.pending_timers) == (100, 0)


async def test_who_sends_too_slowly_is_cut_off_once_others_wait(clock: VirtualClock) -> None:
    budget = FrameBudget(clock, size_max=100, patience_s=2, rate_min=5)
    stalled, slow, busy = Peer(budget, "stalled"), Peer(budget), Peer(budget)
    budget.begin(stalled, 50, 20)
    budget.begin(slow, 50, 45)
    budget.begin(busy, 50, 35)
    await clock.advance(3600)
    assert not stalled.aborted, "nobody waits"
    fast, waiting = Peer(budget), Peer(budget)
    busy.is_busy = True  # it is this side that does not read
    budget.begin(fast, 50, 49)
    budget.begin(waiting, 50, 49)
    assert [fast.holds, waiting.holds] == [0, 1]
    await clock.advance(1.9)
    assert not stalled.aborted
    budget.arrived(fast, 39)
    await clock.advance(0.1)
    assert "frame of 50 bytes grew by 0 bytes in 2 s, and 1 others wait" in stalled.aborted
    assert "at least 5 bytes a second" in stalled.aborted
    assert (waiting.holds, fast.aborted, busy.aborted) == (0, "", "")
    await clock.advance(3600)
    assert not waiting.aborted, "nobody waits"


async def test_the_rate_of_one_that_waited_is_measured_from_its_release(
    clock: VirtualClock,
) -> None:
    budget = FrameBudget(clock, size_max=100, patience_s=2, rate_min=5)
    first, second, third = Peer(budget), Peer(budget), Peer(budget)
    budget.begin(first, 100, 40)
    budget.begin(second, 100, 10)
    budget.begin(third, 100, 10)
    await clock.advance(1.5)
    budget.give_back(first)
    assert [second.holds, third.holds] == [0, 1]
    await clock.advance(1)
    assert second.aborted == ""
    await clock.advance(2)
    assert second.aborted != ""
    assert (third.holds, third.aborted) == (0, "")


async def test_half_frames_of_many_peers_are_bounded(
    stage: Stage, clock: VirtualClock, caplog: pytest.LogCaptureFixture
) -> None:
    """Over real sockets: who stalls in the middle of a frame keeps the room only for a while."""
    bodies: list[int] = []

    def take(request: Command, _: Connection) -> Command:
        bodies.append(len(request.body))
        return Command(0)

    budget = FrameBudget(clock, size_max=2 * LARGE)
    server = await stage.serve({1: take}, budget=budget)
    frame = frames.encode(Command(1, 7, body=bytes(LARGE)))
    peers = [await stage.dial(server) for _ in range(5)]
    for peer in peers:
        peer.transport.write(frame[: len(frame) // 2])
    await until(lambda: budget.waiting_count)
    await settle()
    assert LARGE < budget.size < 2 * LARGE + len(peers) * READ_SIZE_MAX
    small = await stage.dial(server)
    small.send(Command(1, 1, body=b"small"))
    await small.got(1)
    assert bodies == [5]
    while budget.waiting_count:
        await clock.advance(FRAME_PATIENCE_S)
        await settle()
    cut_off = caplog.text.count("closing the connection")
    assert 1 <= cut_off < len(peers)
    await until(lambda: len(server.connections) == 1 + len(peers) - cut_off)
    for peer in peers:
        if not peer.is_closed:
            peer.transport.write(frame[len(frame) // 2 :])
    await until(lambda: bodies.count(LARGE) == len(peers) - cut_off)
    await until(lambda: budget.size == 0)


async def test_frames_one_after_the_other_are_each_counted(
    stage: Stage, clock: VirtualClock
) -> None:
    """A peer that always is in the middle of a frame is not one that sends too slowly."""
    budget = FrameBudget(clock, size_max=LARGE)
    server = await stage.serve({1: lambda _, __: Command(0)}, budget=budget)
    frame = frames.encode(Command(1, 7, body=bytes(LARGE)))
    busy, waiting = await stage.dial(server), await stage.dial(server)
    busy.transport.write(frame[:LARGE])
    await until(lambda: budget.size == len(frame))
    waiting.transport.write(frame[:LARGE])
    await until(lambda: budget.waiting_count == 1)
    await clock.advance(FRAME_PATIENCE_S - 0.5)
    busy.transport.write(frame[LARGE:] + frame[:LARGE])
    await busy.got(1)
    await until(lambda: budget.waiting_count == 1)  # whichever of them
    await clock.advance(FRAME_PATIENCE_S - 0.5)
    assert len(server.connections) == 2
    for peer in (busy, waiting):
        peer.transport.write(frame[LARGE:])
    await busy.got(2)
    await waiting.got(1)
    await settle()
    assert (budget.size, len(server.connections)) == (0, 2)
