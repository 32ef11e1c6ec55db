from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from support.store.stores import record_of

from pocketmq.broker.reading.filters import EVERYTHING, selection_of
from pocketmq.broker.reading.held_filters import HELD_FILTERS_LENGTH_MAX
from pocketmq.broker.reading.long_polling import LongPolling
from pocketmq.broker.store.disk.files import Files
from pocketmq.broker.store.log.queue_log import QueueLog
from pocketmq.broker.work_share import WAKE_WORK, WorkShare
from pocketmq.runtime.clock import SystemClock
from pocketmq.testing.clock import VirtualClock
from pocketmq.transport.connection import Connection


class Waiting:
    """A held pull that notes what happens to it."""

    def __init__(
        self,
        connection: Connection,
        offset: int = 0,
        *,
        topic: str = "T",
        queue_id: int = 0,
        answers: bool = True,
    ) -> None:
        self.connection, self.topic_name, self.queue_id = connection, topic, queue_id
        self.offset, self.answers, self.end_tick = offset, answers, 0
        self.happened: list[str] = []
        self.selection = EVERYTHING

    def wake(self) -> bool:
        self.happened.append("woken")
        return self.answers

    def expire(self) -> None:
        self.happened.append("expired")


@pytest.fixture
def queue_log(tmp_path: Path) -> Iterator[QueueLog]:
    files = Files()
    yield QueueLog(files, tmp_path / "T" / "0", "T", 0, 1, 1000)
    files.close()


def grow(queue_log: QueueLog) -> None:
    queue_log.append(record_of(queue_log, b"x"), 0, None)
    queue_log.commit(0)


def hold(polling: LongPolling, waiting: Waiting) -> None:
    assert polling.hold(waiting, 10_000)


async def test_pulls_of_the_queue_whose_message_has_come_are_woken(
    clock: VirtualClock, queue_log: QueueLog
) -> None:
    polling, connection = LongPolling(clock, 10), Connection(clock, {})
    here, later = Waiting(connection), Waiting(connection, 1)
    other = Waiting(connection, queue_id=1)
    hold(polling, here)
    hold(polling, later)
    hold(polling, other)
    grow(queue_log)
    polling.arrived(queue_log)
    assert (here.happened, later.happened, other.happened) == (["woken"], [], [])
    assert len(polling) == 2
    grow(queue_log)
    polling.arrived(queue_log)
    assert (here.happened, later.happened) == (["woken"], ["woken"])
    assert clock.pending_timers == 1


async def test_a_pull_that_found_no_match_goes_on_waiting(
    clock: VirtualClock, queue_log: QueueLog
) -> None:
    polling = LongPolling(clock, 10)
    waiting = Waiting(Connection(clock, {}), answers=False)
    hold(polling, waiting)
    grow(queue_log)
    polling.arrived(queue_log)
    assert (waiting.happened, len(polling)) == (["woken"], 1)
    await clock.advance(10)
    assert (waiting.happened, len(polling)) == (["woken", "expired"], 0)


async def test_a_pull_ends_at_its_own_time(clock: VirtualClock) -> None:
    polling = LongPolling(clock, 10)
    waiting = Waiting(Connection(clock, {}))
    hold(polling, waiting)
    await clock.advance(9.999)
    assert waiting.happened == []
    await clock.advance(0.001)
    assert waiting.happened == ["expired"]


async def test_pulls_that_end_at_about_the_same_time_end_together(clock: VirtualClock) -> None:
    polling, connection = LongPolling(clock, 10), Connection(clock, {})
    waiting = [Waiting(connection) for _ in range(3)]
    for pull, timeout_ms in zip(waiting, (1_001, 1_099, 1_101), strict=True):
        assert polling.hold(pull, timeout_ms)
    assert clock.pending_timers == 2
    await clock.advance(1)
    assert [pull.happened for pull in waiting] == [[], [], []]
    await clock.advance(0.1)
    assert [pull.happened for pull in waiting] == [["expired"], ["expired"], []]
    await clock.advance(0.1)
    assert waiting[2].happened == ["expired"]
    assert clock.pending_timers == 0


async def test_there_is_room_for_so_many(clock: VirtualClock) -> None:
    polling, connection = LongPolling(clock, 2), Connection(clock, {})
    for _ in range(2):
        hold(polling, Waiting(connection))
    assert not polling.hold(Waiting(connection), 10_000)
    polling.release_all()
    hold(polling, Waiting(connection))


async def test_a_client_that_is_gone_leaves_nothing(clock: VirtualClock) -> None:
    """Not until their time is over: a client may ask for years."""
    polling = LongPolling(clock, 10)
    gone, here = Connection(clock, {}), Connection(clock, {})
    lost, kept = [Waiting(gone, queue_id=i % 2) for i in range(3)], Waiting(here, queue_id=1)
    for waiting in [*lost, kept]:
        assert polling.hold(waiting, 10**15)
    polling.forget(gone)
    polling.forget(gone)
    assert (len(polling), clock.pending_timers) == (1, 1)
    assert [waiting.happened for waiting in lost] == [[], [], []]
    polling.forget(here)
    assert (len(polling), polling._held, polling._of_connection, polling._ends) == (0, {}, {}, {})


async def test_a_deleted_topic_and_a_stop_answer(clock: VirtualClock) -> None:
    polling, connection = LongPolling(clock, 10), Connection(clock, {})
    of_topic = [Waiting(connection, queue_id=queue_id) for queue_id in range(2)]
    other = Waiting(connection, topic="U")
    for waiting in [*of_topic, other]:
        hold(polling, waiting)
    polling.release_topic("T")
    assert [waiting.happened for waiting in of_topic] == [["expired"], ["expired"]]
    assert other.happened == []
    polling.release_all()
    assert other.happened == ["expired"]
    assert (len(polling), clock.pending_timers) == (0, 0)


async def test_all_pulls_of_a_queue_look_again_when_they_are_told(clock: VirtualClock) -> None:
    polling, connection = LongPolling(clock, 10), Connection(clock, {})
    done, waits, other = (
        Waiting(connection),
        Waiting(connection, 5, answers=False),
        Waiting(connection, queue_id=1),
    )
    hold(polling, done)
    hold(polling, waits)
    hold(polling, other)
    polling.look_again("T", 0)
    polling.look_again("Unknown", 0)
    assert (done.happened, waits.happened, other.happened) == (["woken"], ["woken"], [])
    assert len(polling) == 2


machine_clock = SystemClock()

PORTION = 3


def portioned(clock: VirtualClock) -> LongPolling:
    """Wakes three pulls in a turn of the loop."""
    return LongPolling(clock, 100, WorkShare(PORTION * WAKE_WORK))


def hold_many(polling: LongPolling, clock: VirtualClock, count: int = 10) -> list[Waiting]:
    connection = Connection(clock, {})
    waiting = [Waiting(connection) for _ in range(count)]
    for pull in waiting:
        hold(polling, pull)
    return waiting


async def portions(polling: LongPolling, left: int = 0) -> list[int]:
    """How many held pulls go in each turn of the loop, until so many are left."""
    gone = []
    while (count := len(polling)) > left:
        await machine_clock.sleep(0)
        gone.append(count - len(polling))
    return gone


async def test_one_message_wakes_many_pulls_in_portions(
    clock: VirtualClock, queue_log: QueueLog
) -> None:
    polling = portioned(clock)
    waiting = hold_many(polling, clock)
    grow(queue_log)
    polling.arrived(queue_log)
    assert len(polling) == 10 - PORTION
    assert await portions(polling) == [3, 3, 1]
    assert all(pull.happened == ["woken"] for pull in waiting)
    await machine_clock.sleep(0)
    await machine_clock.sleep(0)
    again = hold_many(polling, clock, 2)
    grow(queue_log)
    polling.arrived(queue_log)
    assert [pull.happened for pull in again] == [["woken"]] * 2


async def test_a_message_that_comes_meanwhile_wakes_those_that_have_not_seen_it(
    clock: VirtualClock, queue_log: QueueLog
) -> None:
    polling = portioned(clock)
    early = hold_many(polling, clock, 5)
    late = Waiting(early[0].connection, 1)
    hold(polling, late)
    grow(queue_log)
    polling.arrived(queue_log)
    grow(queue_log)
    polling.arrived(queue_log)
    await portions(polling)
    assert [pull.happened for pull in (*early, late)] == [["woken"]] * 6


async def test_a_pull_that_has_seen_a_part_of_what_came_goes_on_in_a_later_turn(
    clock: VirtualClock, queue_log: QueueLog
) -> None:
    class Partly(Waiting):
        def wake(self) -> bool:
            self.offset += 1
            return super().wake() and self.offset == 3

    polling = portioned(clock)
    waiting = Partly(Connection(clock, {}))
    hold(polling, waiting)
    for _ in range(3):
        queue_log.append(record_of(queue_log, b"x"), 0, None)
    queue_log.commit(0)
    polling.arrived(queue_log)
    assert await portions(polling) == [1]
    assert waiting.happened == ["woken"] * 3


async def test_pulls_that_end_together_are_answered_in_portions(clock: VirtualClock) -> None:
    polling = portioned(clock)
    waiting = hold_many(polling, clock)
    await clock.advance(10)
    await portions(polling)
    assert all(pull.happened == ["expired"] for pull in waiting)


async def test_a_pull_that_comes_while_those_of_its_tick_are_answered_ends_later(
    clock: VirtualClock,
) -> None:
    polling, late = portioned(clock), Waiting(Connection(clock, {}))

    class Last(Waiting):
        def expire(self) -> None:
            super().expire()
            assert polling.hold(late, 0)

    hold(polling, Last(Connection(clock, {})))
    hold_many(polling, clock)
    await clock.advance(10)
    await portions(polling, 1)
    assert late.happened == []
    await clock.advance(0.1)
    await machine_clock.sleep(0)
    assert late.happened == ["expired"]


async def test_pulls_of_a_client_that_goes_are_dropped_in_portions(clock: VirtualClock) -> None:
    polling = portioned(clock)
    waiting = hold_many(polling, clock)
    polling.forget(waiting[0].connection)
    assert len(polling) == 10 - PORTION
    assert await portions(polling) == [3, 3, 1]
    assert [pull.happened for pull in waiting] == [[]] * 10


async def test_pulls_of_a_topic_that_goes_are_answered_in_portions(clock: VirtualClock) -> None:
    polling = portioned(clock)
    waiting = hold_many(polling, clock)
    polling.release_topic("T")
    assert await portions(polling) == [3, 3, 1]
    assert all(pull.happened == ["expired"] for pull in waiting)


async def test_all_pulls_are_answered_at_once_when_the_broker_stops(clock: VirtualClock) -> None:
    polling = portioned(clock)
    waiting = hold_many(polling, clock)
    polling.release_all()
    assert all(pull.happened == ["expired"] for pull in waiting)


async def test_filters_of_held_pulls_are_bounded_and_shared(clock: VirtualClock) -> None:
    """What is compiled of 16 KB takes 3 MB: thousands of different ones would take it all."""
    polling, connection = LongPolling(clock, 1_000_000), Connection(clock, {})

    def filtered(number: int) -> Waiting:
        pull = Waiting(connection)
        text = f"a = {number}" + " " * 15_000
        pull.selection = selection_of("SQL92", text, sql_enabled=True)
        return pull

    held = [filtered(n) for n in range(HELD_FILTERS_LENGTH_MAX // 15_000 + 1)]
    results = [polling.hold(pull, 10_000) for pull in held]
    assert results == [True] * (len(held) - 1) + [False]
    again = filtered(0)
    assert polling.hold(again, 10_000)
    assert again.selection is held[0].selection
    assert polling.hold(Waiting(connection), 10_000)  # one without a filter
    polling.forget(connection)
    assert len(polling) == 0
    assert polling.hold(held[-1], 10_000)
