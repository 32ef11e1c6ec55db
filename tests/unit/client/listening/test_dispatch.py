"""Handing messages to listeners: order, limits, failures, the end."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import threading
from collections.abc import AsyncIterator, Callable, Sequence
from contextvars import ContextVar
from typing import Any

import pytest
import pytest_asyncio
from support.peers.client import done
from support.peers.messages import received
from support.peers.transport import until

from pocketmq.client import (
    ConsumeHooks,
    ConsumeMessageContext,
    ConsumeResult,
    OrderlyResult,
    ReceivedMessage,
    RetryLater,
    SuspendQueue,
)
from pocketmq.client.listening.dispatch import Dispatcher, Listener
from pocketmq.client.listening.hooked_listener import hooks_around
from pocketmq.client.queues.process_queue import ProcessQueue
from pocketmq.protocol.messages.message import MessageQueue
from pocketmq.testing.clock import VirtualClock, settle

Make = Callable[..., Dispatcher]


@pytest_asyncio.fixture
async def make(clock: VirtualClock) -> AsyncIterator[Make]:
    """Makes started dispatchers, closed after the test."""
    made: list[Dispatcher] = []

    def make_one(
        listener: Listener, *, concurrency: int = 1, batch_max: int = 1, **options: Any
    ) -> Dispatcher:
        options.setdefault("on_finished", lambda queue: None)
        dispatcher = Dispatcher(
            listener,
            clock,
            concurrency=concurrency,
            batch_max=batch_max,
            retry_delay_ms=1000,
            **options,
        )
        dispatcher.start()
        made.append(dispatcher)
        return dispatcher

    yield make_one
    for dispatcher in made:
        await done(dispatcher.close(0, clock))


def queue_of(count: int, *, concurrency: int = 0, number: int = 0) -> ProcessQueue:
    queue = ProcessQueue(MessageQueue("T", "a", number), 0, concurrency)
    queue.put([received(i, b"%d.%d" % (number, i)) for i in range(count)], count)
    return queue


class Gate:
    """A listener that holds every batch until it is let go."""

    def __init__(self) -> None:
        self.begun: list[int] = []
        self._held: dict[int, asyncio.Future[object]] = {}

    async def __call__(self, messages: list[ReceivedMessage]) -> object:
        offset = messages[0].queue_offset
        self.begun.append(offset)
        self._held[offset] = asyncio.get_running_loop().create_future()
        return await self._held[offset]

    async def let_go(self, offset: int, result: object = None) -> None:
        self._held.pop(offset).set_result(result)
        await settle()


async def test_messages_come_in_order_one_at_a_time(make: Make) -> None:
    seen: list[int] = []

    async def listener(messages: list[ReceivedMessage]) -> None:
        seen.extend(m.queue_offset for m in messages)

    queue = queue_of(100)
    make(listener).offer(queue)
    await until(lambda: queue.commit_offset == 100)
    assert seen == list(range(100))


async def test_the_concurrency_limit(make: Make) -> None:
    gate, queue = Gate(), queue_of(10)
    make(gate, concurrency=3).offer(queue)
    await settle()
    assert gate.begun == [0, 1, 2]
    await gate.let_go(1)
    assert gate.begun == [0, 1, 2, 3]
    assert queue.commit_offset == 0
    await gate.let_go(0)
    assert queue.commit_offset == 2


async def test_one_batch_of_a_queue_at_a_time(make: Make) -> None:
    gate = Gate()
    dispatcher = make(gate, concurrency=5)
    first = queue_of(3, concurrency=1)
    dispatcher.offer(first)
    await settle()
    assert gate.begun == [0]
    await gate.let_go(0)
    assert gate.begun == [0, 1]


async def test_queues_are_served_in_turn(make: Make) -> None:
    seen: list[bytes] = []

    async def listener(messages: list[ReceivedMessage]) -> None:
        seen.extend(m.body for m in messages)

    dispatcher = make(listener)
    for number in range(2):
        dispatcher.offer(queue_of(3, number=number))
    await until(lambda: len(seen) == 6)
    assert seen == [b"0.0", b"1.0", b"0.1", b"1.1", b"0.2", b"1.2"]


async def test_batches(make: Make) -> None:
    sizes: list[int] = []

    async def listener(messages: list[ReceivedMessage]) -> None:
        sizes.append(len(messages))

    make(listener, batch_max=4).offer(queue_of(10))
    await until(lambda: sum(sizes) == 10)
    assert sizes == [4, 4, 2]


async def test_a_plain_function_runs_in_a_thread(make: Make) -> None:
    seen: list[int] = []
    queue = queue_of(20)
    make(lambda messages: seen.append(messages[0].queue_offset)).offer(queue)
    while queue.commit_offset < 20:
        await settle(1)
    assert seen == list(range(20))


async def test_a_thread_sees_what_hooks_around_its_listener_set(
    make: Make, clock: VirtualClock
) -> None:
    variable: ContextVar[bytes] = ContextVar("variable", default=b"nothing")
    seen: list[tuple[bytes, bytes]] = []

    def before(context: ConsumeMessageContext) -> None:
        variable.set(context.messages[0].body)

    def listener(batch: list[ReceivedMessage]) -> None:
        seen.append((batch[0].body, variable.get()))

    dispatcher = make(listener)
    dispatcher.surround(hooks_around(ConsumeHooks(before=[before]), "cg", "", clock, 0))
    queue = queue_of(3)
    dispatcher.offer(queue)
    await until(lambda: len(seen) == 3)
    assert all(body == of_hook for body, of_hook in seen)


async def test_a_plain_function_that_waits_has_a_thread_for_each_batch(make: Make) -> None:
    together = threading.Barrier(5, timeout=60)

    def listener(messages: list[ReceivedMessage]) -> None:
        together.wait()

    queue = queue_of(20)
    make(listener, concurrency=5).offer(queue)
    while queue.commit_offset < 20:
        await settle(1)
    assert not together.broken


async def test_a_plain_function_that_returns_a_coroutine(make: Make) -> None:
    seen: list[int] = []

    async def listener(messages: list[ReceivedMessage]) -> None:
        seen.append(messages[0].queue_offset)

    queue = queue_of(1)
    make(lambda messages: listener(messages)).offer(queue)  # noqa: PLW0108
    while queue.commit_offset < 1:
        await settle(1)
    assert seen == [0]


WRONG_ANSWERS: dict[str, object] = {
    "answers as Java does": "RECONSUME_LATER",
    "answers false": False,
    "answers a class": ConsumeResult,
}


class Failing:
    """A listener that fails on the first message until it is healed."""

    def __init__(self, how: str) -> None:
        self.how, self.is_ill = how, True
        self.seen: list[int] = []

    async def __call__(self, messages: list[ReceivedMessage]) -> object:
        self.seen.append(messages[0].queue_offset)
        if self.is_ill and messages[0].queue_offset == 0:
            if self.how == "raises":
                raise ValueError("ill")
            if self.how == "is cancelled":
                raise asyncio.CancelledError
            if self.how == "gives a test up":
                raise BaseException("no Exception")  # as pytest.fail does
            if self.how in WRONG_ANSWERS:
                return WRONG_ANSWERS[self.how]
            return ConsumeResult.RETRY
        return ConsumeResult.SUCCESS


@pytest.mark.parametrize(
    "how",
    ["raises", "asks for another time", "is cancelled", "gives a test up", *WRONG_ANSWERS],
)
async def test_a_failed_batch_comes_again_and_is_never_passed(
    make: Make, clock: VirtualClock, caplog: pytest.LogCaptureFixture, how: str
) -> None:
    listener, queue = Failing(how), queue_of(3, concurrency=1)
    make(listener).offer(queue)
    with caplog.at_level(logging.WARNING):
        for attempts in range(1, 5):
            await until(lambda n=attempts: listener.seen == [0] * n)  # type: ignore[misc]
            assert queue.commit_offset == 0
            await clock.advance(0.999)
            assert len(listener.seen) == attempts
            await clock.advance(0.001)
        listener.is_ill = False
        await clock.advance(1)
    await until(lambda: queue.commit_offset == 3)
    assert listener.seen == [0] * 6 + [1, 2]
    logged = [r for r in caplog.records if "did not handle" in r.message]
    assert len(logged) == 1
    assert received(0).msg_id in logged[0].message
    if how in WRONG_ANSWERS:
        assert f"answered {WRONG_ANSWERS[how]!r}, which is no answer" in caplog.text


class Taker:
    """A failure rule that takes every message but some."""

    def __init__(self, *left: int) -> None:
        self.left = left
        self.taken: list[tuple[int, int]] = []

    async def __call__(
        self, messages: Sequence[ReceivedMessage], delay_level: int, error: BaseException | None
    ) -> list[ReceivedMessage]:
        self.taken += [
            (m.queue_offset, delay_level) for m in messages if m.queue_offset not in self.left
        ]
        return [m for m in messages if m.queue_offset in self.left]


@pytest.mark.parametrize(
    ("answer", "taken"),
    [
        (ConsumeResult.RETRY, [(0, 0), (1, 0), (2, 0), (3, 0)]),
        (RetryLater(), [(0, 0), (1, 0), (2, 0), (3, 0)]),
        (RetryLater(delay_level=5), [(0, 5), (1, 5), (2, 5), (3, 5)]),
        (RetryLater(ack_index=1), [(2, 0), (3, 0)]),
        (RetryLater(-1, ack_index=2), [(3, -1)]),
        (RetryLater(ack_index=3), []),
        (RetryLater(ack_index=99), []),
        (RetryLater(ack_index=-7), [(0, 0), (1, 0), (2, 0), (3, 0)]),
        (ConsumeResult.SUCCESS, []),
        (None, []),
        ("whatever", [(0, 0), (1, 0), (2, 0), (3, 0)]),
    ],
)
async def test_what_a_listener_may_answer(
    make: Make, answer: object, taken: list[tuple[int, int]]
) -> None:
    taker, queue = Taker(), queue_of(4)

    async def listener(messages: list[ReceivedMessage]) -> object:
        return answer

    make(listener, batch_max=4, on_failure=taker).offer(queue)
    await until(lambda: queue.commit_offset == 4)
    assert taker.taken == taken
    assert (queue.at_work, queue.count, queue.size) == (0, 0, 0)


async def test_what_nobody_takes_comes_again_here_alone(make: Make, clock: VirtualClock) -> None:
    taker, queue = Taker(2), queue_of(4, concurrency=1)
    seen: list[list[int]] = []

    async def listener(messages: list[ReceivedMessage]) -> ConsumeResult | RetryLater:
        seen.append([m.queue_offset for m in messages])
        return RetryLater(ack_index=0) if len(seen) == 1 else ConsumeResult.SUCCESS

    make(listener, batch_max=4, on_failure=taker).offer(queue)
    await until(lambda: queue.commit_offset == 2)
    assert taker.taken == [(1, 0), (3, 0)]
    await clock.advance(1)
    await until(lambda: queue.commit_offset == 4)
    assert seen == [[0, 1, 2, 3], [2]]
    assert (queue.at_work, queue.count, queue.size) == (0, 0, 0)


@pytest.mark.parametrize("result", [None, ConsumeResult.RETRY])
async def test_a_batch_that_takes_too_long_is_given_away_once(
    make: Make, clock: VirtualClock, result: object
) -> None:
    gate, taker, queue = Gate(), Taker(), queue_of(2)
    finished: list[int] = []
    make(
        gate,
        concurrency=2,
        on_failure=taker,
        consume_timeout_ms=900_000,
        on_finished=lambda queue: finished.append(queue.commit_offset),
    ).offer(queue)
    await settle()
    await gate.let_go(1)
    await clock.advance(899)
    assert taker.taken == []
    await clock.advance(61)
    assert taker.taken == [(0, 3)]
    assert (queue.commit_offset, finished) == (2, [0, 2])
    await clock.advance(900)
    await gate.let_go(0, result)
    assert taker.taken == [(0, 3)]
    assert (queue.at_work, queue.count, queue.size) == (0, 0, 0)


async def test_a_batch_that_takes_too_long_and_that_nobody_takes(
    make: Make, clock: VirtualClock
) -> None:
    gate, taker, queue = Gate(), Taker(0), queue_of(1)
    make(gate, on_failure=taker, consume_timeout_ms=1000).offer(queue)
    await clock.advance(5)
    assert queue.commit_offset == 0
    await gate.let_go(0)
    assert queue.commit_offset == 1


async def test_close_waits_until_failures_are_given_away(make: Make, clock: VirtualClock) -> None:
    queue = queue_of(1)
    answer: asyncio.Future[list[ReceivedMessage]] = asyncio.get_running_loop().create_future()

    async def rule(
        messages: Sequence[ReceivedMessage], delay_level: int, error: BaseException | None
    ) -> Any:
        return await answer

    async def listener(messages: list[ReceivedMessage]) -> ConsumeResult:
        return ConsumeResult.RETRY

    dispatcher = make(listener, on_failure=rule)
    dispatcher.offer(queue)
    await settle()
    closing = asyncio.ensure_future(dispatcher.close(30, clock))
    await settle()
    assert not closing.done()
    answer.set_result([])
    await until(closing.done)
    assert queue.commit_offset == 1


async def test_others_go_on_while_a_batch_waits(make: Make, clock: VirtualClock) -> None:
    listener, queue = Failing("raises"), queue_of(3)
    make(listener, concurrency=2).offer(queue)
    await until(lambda: len(listener.seen) == 3)
    assert queue.commit_offset == 0
    listener.is_ill = False
    await clock.advance(1)
    await until(lambda: queue.commit_offset == 3)


async def test_a_dropped_queues_failures_are_forgotten(make: Make, clock: VirtualClock) -> None:
    gate, queue = Gate(), queue_of(2, concurrency=1)
    make(gate).offer(queue)
    await settle()
    queue.dropped = True
    await gate.let_go(0, ConsumeResult.RETRY)
    await clock.advance(10)
    assert gate.begun == [0]


async def test_a_listener_that_never_waits_lets_others_through(make: Make) -> None:
    turns: list[int] = []
    handled = 0

    async def listener(messages: list[ReceivedMessage]) -> None:
        nonlocal handled
        handled += 1

    queue = queue_of(1000)
    make(listener).offer(queue)
    while handled < 1000:
        await settle(1)
        turns.append(handled)
    assert max(b - a for a, b in zip([0, *turns], turns, strict=False)) < 200


async def test_close_waits_for_what_is_at_work(make: Make, clock: VirtualClock) -> None:
    gate, queue = Gate(), queue_of(3)
    dispatcher = make(gate, concurrency=2)
    dispatcher.offer(queue)
    await settle()
    closing = asyncio.ensure_future(dispatcher.close(30, clock))
    await settle()
    await gate.let_go(0)
    assert not closing.done()
    await gate.let_go(1)
    await until(closing.done)
    assert gate.begun == [0, 1]
    assert queue.commit_offset == 2


async def test_close_does_not_wait_for_ever(make: Make, clock: VirtualClock) -> None:
    gate, queue = Gate(), queue_of(3)
    dispatcher = make(gate)
    dispatcher.offer(queue)
    await settle()
    closing = asyncio.ensure_future(dispatcher.close(30, clock))
    await clock.advance(30)
    await until(closing.done)
    assert queue.commit_offset == 0


async def test_close_leaves_a_handler_alone_that_ignores_its_cancellation(
    make: Make, clock: VirtualClock, caplog: pytest.LogCaptureFixture
) -> None:
    begun, release = asyncio.Event(), asyncio.Event()

    async def stubborn(messages: list[ReceivedMessage]) -> None:
        begun.set()
        while not release.is_set():
            with contextlib.suppress(asyncio.CancelledError):
                await release.wait()

    queue = queue_of(2)
    dispatcher = make(stubborn)
    dispatcher.offer(queue)
    await begun.wait()
    closing = asyncio.ensure_future(dispatcher.close(30, clock))
    await clock.advance(30.9)
    assert not closing.done()
    await clock.advance(0.1)
    await until(closing.done)
    assert closing.result() == [queue]
    assert "ignores its cancellation" in caplog.text
    release.set()


async def test_more_and_fewer_handlers_at_run_time(make: Make) -> None:
    gate, queue = Gate(), queue_of(20)
    dispatcher = make(gate, concurrency=2)
    dispatcher.offer(queue)
    await settle()
    assert gate.begun == [0, 1]
    dispatcher.resize(4)
    await settle()
    assert gate.begun == [0, 1, 2, 3]
    dispatcher.resize(1)
    for offset in range(3):
        await gate.let_go(offset)
    assert gate.begun == [0, 1, 2, 3]  # what was at work went on
    await gate.let_go(3)
    assert gate.begun == [0, 1, 2, 3, 4]
    dispatcher.resize(2)
    await settle()
    assert gate.begun == [0, 1, 2, 3, 4, 5]


async def test_idle_handlers_that_are_let_go_take_no_work_with_them(make: Make) -> None:
    gate, queue = Gate(), queue_of(0)
    dispatcher = make(gate, concurrency=5)
    await settle()
    dispatcher.resize(1)
    queue.put([received(0), received(1)], 2)
    dispatcher.offer(queue)
    await settle()
    assert gate.begun == [0]
    await gate.let_go(0)
    assert gate.begun == [0, 1]


async def test_more_threads_at_run_time(make: Make) -> None:
    begun: list[int] = []
    release = threading.Event()

    def listener(messages: list[ReceivedMessage]) -> None:
        begun.append(messages[0].queue_offset)
        release.wait()

    queue = queue_of(5)
    dispatcher = make(listener, concurrency=1)
    dispatcher.offer(queue)
    await until(lambda: len(begun) == 1)
    dispatcher.resize(3)
    await until(lambda: len(begun) == 3)
    release.set()
    await until(lambda: queue.commit_offset == 5)


@pytest.mark.parametrize(
    "result", [OrderlyResult.SUSPEND, OrderlyResult.ROLLBACK, SuspendQueue(10)], ids=str
)
async def test_what_is_said_as_if_in_order_loses_nothing(
    make: Make, clock: VirtualClock, result: object
) -> None:
    gate, queue = Gate(), queue_of(1)
    make(gate).offer(queue)
    await settle()
    await gate.let_go(0, result)
    assert queue.commit_offset == 0
    await clock.advance(1)
    assert gate.begun == [0, 0]
