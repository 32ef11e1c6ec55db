from __future__ import annotations

import logging
from functools import partial

import pytest

from pocketmq.protocol.wire.command import Command
from pocketmq.testing.clock import VirtualClock
from pocketmq.transport.errors import CallTimeoutError, ConnectionClosedError, TooMuchRequestError
from pocketmq.transport.permits import Permits
from pocketmq.transport.response_table import OPAQUE_MAX, Answer, ResponseTable


@pytest.fixture
def permits() -> Permits:
    return Permits("async", 4)


@pytest.fixture
def table(clock: VirtualClock, permits: Permits) -> ResponseTable:
    return ResponseTable(clock, "broker:10911", permits)


def test_an_answer_goes_to_its_caller_once(table: ResponseTable, permits: Permits) -> None:
    first: list[Answer] = []
    second: list[Answer] = []
    one, two = table.add(first.append, 1000), table.add(second.append, 1000)
    assert (len(table), permits.taken) == (2, 2)
    answer = Command(0, two, 1)
    assert table.resolve(answer)
    assert not table.resolve(answer)
    assert not table.resolve(Command(0, 77, 1))
    assert (first, second) == ([], [answer])
    assert (len(table), permits.taken) == (1, 1)
    assert one != two


async def test_a_deadline_is_exact(
    table: ResponseTable, clock: VirtualClock, permits: Permits
) -> None:
    answers: list[Answer] = []
    table.add(answers.append, 3000)
    await clock.advance(2.999)
    assert answers == []
    await clock.advance(0.001)
    (error,) = answers
    assert isinstance(error, CallTimeoutError)
    assert str(error) == "no answer from broker:10911 in 3000 ms"
    assert (len(table), permits.taken) == (0, 0)


async def test_one_timer_serves_all_calls_in_the_order_of_their_deadlines(
    table: ResponseTable, clock: VirtualClock
) -> None:
    order: list[tuple[int, float]] = []

    def note(name: int, _: Answer) -> None:
        order.append((name, clock.monotonic()))

    for name, timeout_ms in enumerate((3000, 1000, 2000, 1000)):
        table.add(partial(note, name), timeout_ms)
    assert clock.pending_timers == 1
    await clock.advance(10)
    assert order == [(1, 1.0), (3, 1.0), (2, 2.0), (0, 3.0)]
    assert clock.pending_timers == 0


async def test_scan_ends_only_what_is_due(table: ResponseTable, clock: VirtualClock) -> None:
    answers: list[Answer] = []
    table.add(answers.append, 1000)
    table.scan_response_table()
    assert answers == []
    await clock.advance(0.5)
    table.scan_response_table()
    assert answers == []
    await clock.advance(0.5)
    assert len(answers) == 1


async def test_an_answer_after_the_deadline_is_nobody_s(
    table: ResponseTable, clock: VirtualClock
) -> None:
    answers: list[Answer] = []
    opaque = table.add(answers.append, 1000)
    await clock.advance(1)
    assert not table.resolve(Command(0, opaque, 1))
    assert len(answers) == 1


def test_too_many_calls_are_refused_clearly(table: ResponseTable, permits: Permits) -> None:
    opaques = [table.add(lambda _: None, 1000) for _ in range(4)]
    with pytest.raises(TooMuchRequestError) as caught:
        table.add(lambda _: None, 1000)
    assert str(caught.value) == (
        "too much request: all 4 async permits are taken; "
        "wait for answers before more is sent, or raise the limit"
    )
    table.resolve(Command(0, opaques[0], 1))
    table.add(lambda _: None, 1000)
    assert permits.taken == 4


def test_the_end_of_the_connection_ends_every_call(
    table: ResponseTable, clock: VirtualClock, permits: Permits
) -> None:
    answers: list[Answer] = []
    for _ in range(3):
        table.add(answers.append, 1000)
    error = ConnectionClosedError("broker:10911", "reset")
    table.fail_all(error)
    assert answers == [error, error, error]
    assert (len(table), permits.taken, clock.pending_timers) == (0, 0, 0)


def test_a_forgotten_call_gives_its_permit_back(table: ResponseTable, permits: Permits) -> None:
    answers: list[Answer] = []
    opaque = table.add(answers.append, 1000)
    table.forget(opaque)
    table.forget(opaque)
    assert permits.taken == 0
    assert not table.resolve(Command(0, opaque, 1))
    assert answers == []


def test_opaques_wrap_and_pass_over_those_in_use(table: ResponseTable) -> None:
    answers: list[Answer] = []
    assert table.add(answers.append, 1000) == 1
    table._last_opaque = OPAQUE_MAX - 1
    assert table.add(lambda _: None, 1000) == OPAQUE_MAX
    assert table.add(lambda _: None, 1000) == 0
    assert table.add(lambda _: None, 1000) == 2
    assert table.resolve(Command(0, 1, 1))
    assert len(answers) == 1


async def test_a_failing_callback_harms_nobody_else(
    table: ResponseTable,
    clock: VirtualClock,
    permits: Permits,
    caplog: pytest.LogCaptureFixture,
) -> None:
    answers: list[Answer] = []

    def fail(_: Answer) -> None:
        raise RuntimeError("mine")

    with caplog.at_level(logging.ERROR):
        table.add(fail, 1000)
        table.add(answers.append, 1000)
        table.add(answers.append, 2000)
        await clock.advance(2)
        table.resolve(Command(0, table.add(fail, 1000), 1))
        table.add(fail, 1000)
        table.add(answers.append, 1000)
        table.fail_all(ConnectionClosedError("broker:10911", "reset"))
    assert len(answers) == 3
    assert permits.taken == 0
    assert caplog.text.count("the callback of a call to broker:10911 failed") == 3


def test_a_call_made_by_a_callback_is_kept(table: ResponseTable) -> None:
    """A retry is often sent from the callback of what failed."""
    retried: list[Answer] = []
    table.add(lambda _: table.add(retried.append, 1000), 1000)
    table.fail_all(ConnectionClosedError("broker:10911", "reset"))
    assert (len(table), retried) == (1, [])
