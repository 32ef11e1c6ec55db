"""The broker for Taskiq, under Taskiq's own receiver, in virtual time."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from pathlib import Path
from typing import Annotated, Any

import pytest
import pytest_asyncio
from support.brokers.member_parts import Stage
from taskiq import Context, SimpleRetryMiddleware, TaskiqDepends
from taskiq.acks import AcknowledgeType
from taskiq.exceptions import SendTaskError
from taskiq.receiver import Receiver

from pocketmq.client import Admin, Message, PullConsumer, ReceivedMessage, UnknownTopicError
from pocketmq.client.errors import ClosedError
from pocketmq.protocol.errors import ConfigError, PocketMQError, UsageError
from pocketmq.protocol.messages import properties as props
from pocketmq.taskiq import PocketMQBroker, RedeliveryMiddleware, TimerScheduleSource
from pocketmq.testing.clock import VirtualClock

INVISIBLE_MS = 10_000
QUIET_S = 60.0
"""Long after an invisible time is over."""


class Workplace:
    """A broker of Taskiq, with a task that notes what it does, and workers.

    Args:
        stage: the cluster.
        settings: of the broker.
    """

    def __init__(self, stage: Stage, **settings: Any) -> None:
        self.stage, self.settings = stage, {"invisible_ms": INVISIBLE_MS, **settings}
        self.ran: list[tuple[str, int]] = []
        self.at_s: list[float] = []
        self.gate = asyncio.Event()
        self.gate.set()
        self.broker = self.new_broker()
        self._workers: list[Worker] = []

    def new_broker(self) -> PocketMQBroker:
        """A broker as another process would have it."""
        broker = PocketMQBroker(
            self.stage.namesrv, "tasks", clock=self.stage.clock, **self.settings
        )

        @broker.task(task_name="note")
        async def note(text: str, context: Annotated[Context, TaskiqDepends()]) -> None:
            self.ran.append((text, context.message.labels.get("redeliveries", 0)))
            self.at_s.append(self.stage.clock.monotonic())
            await self.gate.wait()
            if text.startswith("bad"):
                raise ValueError(f"{text} is bad")

        return broker

    async def __aenter__(self) -> Workplace:
        await self.stage.done(self.broker.startup())
        return self

    async def __aexit__(self, *_: object) -> None:
        self.gate.set()
        for worker in self._workers:
            await worker.end()
        await self.stage.done(self.broker.shutdown())

    async def kiq(self, text: str, task_name: str = "note", **labels: Any) -> None:
        """Sends a task."""
        task = self.broker.find_task("note")
        assert task is not None
        kicker = task.kicker().with_labels(**labels)
        kicker.task_name = task_name
        await self.stage.done(kicker.kiq(text))

    async def worker(self, broker: PocketMQBroker | None = None, **settings: Any) -> Worker:
        """Starts a worker; by default one of a process of its own."""
        worker = Worker(self.stage, broker or self.new_broker(), settings)
        self._workers.append(worker)
        await worker.start()
        return worker

    async def until(self, count: int) -> list[tuple[str, int]]:
        """Waits until so many tasks have begun; all that have."""
        await self.stage.until(lambda: len(self.ran) >= count, 0.2)
        return self.ran

    async def assert_quiet(self) -> None:
        """Checks that no further task runs."""
        count = len(self.ran)
        for _ in range(round(QUIET_S)):
            await self.stage.clock.advance(1.0)
        assert self.ran[count:] == []

    async def dead_letters(self) -> list[ReceivedMessage]:
        """Waits for the dead letters of the workers' group."""
        async with PullConsumer("looker", self.stage.namesrv, clock=self.stage.clock) as puller:
            while True:
                try:
                    (queue,) = await self.stage.done(puller.queues("%DLQ%tasks"))
                except UnknownTopicError:
                    await self.stage.clock.advance(1.0)
                    continue
                pull = await self.stage.done(puller.pull(queue, 0, hold_ms=5_000))
                return list(pull.messages)


class Worker:
    """Taskiq's receiver, which runs tasks until it is told to end."""

    def __init__(self, stage: Stage, broker: PocketMQBroker, settings: dict[str, Any]) -> None:
        self._stage, self.broker = stage, broker
        self._settings = {"max_async_tasks": 10, "run_startup": False, **settings}
        self._finish = asyncio.Event()

    async def start(self) -> None:
        await self._stage.done(self.broker.startup())
        receiver = Receiver(self.broker, **self._settings)
        self._listening = asyncio.ensure_future(receiver.listen(self._finish))

    async def end(self) -> None:
        """Ends as a worker does that is asked to: it finishes the tasks that have begun."""
        self._finish.set()
        await self._stage.done(asyncio.wait([self._listening]))
        await self._stage.done(self.broker.shutdown())

    async def crash(self) -> None:
        """Is gone without a word."""
        await self._stage.done(self.broker.running().instance.close())
        self._listening.cancel()
        await self._stage.done(asyncio.wait([self._listening]))


@pytest_asyncio.fixture
async def stage(tmp_path: Path, clock: VirtualClock) -> AsyncIterator[Stage]:
    async with Stage(tmp_path, clock) as stage:
        yield stage


@pytest_asyncio.fixture
async def place(stage: Stage) -> AsyncIterator[Workplace]:
    async with Workplace(stage) as place:
        yield place


async def test_tasks_run_once(place: Workplace) -> None:
    worker = await place.worker()
    for number in range(20):
        await place.kiq(str(number))
    assert sorted(await place.until(20)) == sorted((str(number), 0) for number in range(20))
    await place.assert_quiet()
    await worker.end()
    await place.worker()
    await place.assert_quiet()


async def test_consoles_find_a_task_by_its_id_and_name(place: Workplace, stage: Stage) -> None:
    task = place.broker.find_task("note")
    assert task is not None
    sent = await stage.done(task.kiq("x"))
    async with Admin(stage.namesrv, clock=stage.clock) as admin:
        (found,) = await stage.done(admin.query_messages("tasks", sent.task_id))
    assert found.tags == "note"


async def test_others_do_not_get_the_task_of_a_worker_that_is_slow(place: Workplace) -> None:
    place.gate.clear()
    slow = await place.worker(max_async_tasks=1)
    await place.kiq("long")
    await place.until(1)
    await place.worker()
    await place.assert_quiet()
    place.gate.set()
    await slow.end()
    await place.assert_quiet()


async def test_tasks_of_a_worker_that_is_gone_come_again(place: Workplace) -> None:
    place.gate.clear()
    gone = await place.worker()
    await place.kiq("x")
    await place.until(1)
    await gone.crash()
    place.gate.set()
    await place.worker()
    assert await place.until(2) == [("x", 0), ("x", 1)]
    await place.assert_quiet()


async def test_a_worker_that_ends_gives_back_what_it_has_not_begun(place: Workplace) -> None:
    place.gate.clear()
    first = await place.worker(max_async_tasks=1)
    for number in range(5):
        await place.kiq(str(number))
    assert await place.until(1) == [("0", 0)]
    ending = asyncio.ensure_future(first.end())
    await place.worker()
    assert sorted(await place.until(5)) == [(str(number), 0) for number in range(5)]
    place.gate.set()
    await ending
    await place.assert_quiet()


async def test_tasks_wait_in_the_broker(place: Workplace, stage: Stage) -> None:
    await place.worker()
    start_s = stage.clock.monotonic()
    due = stage.clock.now_ms() + 40_000
    await place.kiq("at", deliver_at_ms=due)
    await place.kiq("after", delay=20)
    await place.kiq("now")
    assert await place.until(3) == [("now", 0), ("after", 0), ("at", 0)]
    assert [at_s - start_s for at_s in place.at_s[1:]] == pytest.approx([20, 40], abs=2)


@pytest.mark.parametrize(
    ("label", "value"),
    [("delay", "soon"), ("delay", -1), ("delay", "nan"), ("deliver_at_ms", "x"), ("priority", "x")],
)
async def test_a_label_that_does_not_fit_is_refused(
    place: Workplace, label: str, value: object
) -> None:
    labels: dict[str, Any] = {label: value}
    with pytest.raises(SendTaskError) as refused:
        await place.kiq("x", **labels)
    assert isinstance(refused.value.__cause__, UsageError)
    assert f"the label {label}='{value}' of the task does not fit" in str(refused.value.__cause__)


async def test_higher_priorities_come_first(stage: Stage) -> None:
    async with Workplace(stage, priority_steps=(0, 5), pop_batch_size=1) as place:
        await place.kiq("low")
        await place.kiq("middle", priority=4)
        await place.kiq("high", priority=9)
        await place.worker(max_async_tasks=1)
        assert [text for text, _ in await place.until(3)] == ["high", "low", "middle"]


async def test_a_failed_task_is_done_unless_somebody_wants_it_again(place: Workplace) -> None:
    await place.worker()
    await place.kiq("bad")
    await place.until(1)
    await place.assert_quiet()


async def redelivering(place: Workplace, **settings: Any) -> None:
    """A worker with the middleware."""
    broker = place.new_broker()
    broker.add_middlewares(RedeliveryMiddleware(**settings))
    await place.worker(broker)


async def test_a_failed_task_comes_again_and_is_a_dead_letter_in_the_end(place: Workplace) -> None:
    await redelivering(place)
    await place.kiq("bad", max_retries=4)
    assert await place.until(4) == [("bad", times) for times in range(4)]
    pauses_s = [after - before for before, after in pairwise(place.at_s)]
    assert pauses_s == pytest.approx([10, 30, 60], abs=2)
    (letter,) = await place.dead_letters()
    assert letter.properties[props.LAST_ERROR] == "ValueError: bad is bad"
    assert letter.tags == "note"
    await place.assert_quiet()


async def test_redeliveries_have_an_end_that_the_broker_sets(stage: Stage) -> None:
    async with Workplace(stage, redeliveries_max=1) as place:
        await redelivering(place, delay_s=0.5, default_retry_count=10)
        await place.kiq("bad")
        await place.until(2)
        assert len(await place.dead_letters()) == 1
        await place.assert_quiet()
        assert len(place.ran) == 2


@pytest.mark.parametrize(
    ("settings", "labels"),
    [
        ({}, {"retry_on_error": False}),
        ({"default_retry_label": False}, {}),
        ({"types_of_exceptions": [KeyError]}, {}),
    ],
)
async def test_some_failures_are_not_repeated(
    place: Workplace, settings: dict[str, Any], labels: dict[str, Any]
) -> None:
    await redelivering(place, **settings)
    await place.kiq("bad", **labels)
    await place.until(1)
    await place.assert_quiet()
    with pytest.raises(UnknownTopicError):
        await place.stage.done(no_dead_letters(place.stage))


async def no_dead_letters(stage: Stage) -> None:
    async with Admin(stage.namesrv, clock=stage.clock) as admin:
        await admin.topic_route("%DLQ%tasks")


async def test_retries_of_taskiq_are_new_messages(place: Workplace) -> None:
    broker = place.new_broker()
    broker.add_middlewares(SimpleRetryMiddleware(default_retry_label=True))
    await place.worker(broker)
    await place.kiq("bad")
    assert await place.until(3) == [("bad", 0)] * 3
    await place.assert_quiet()


async def test_a_message_that_is_no_task_is_a_dead_letter(place: Workplace, stage: Stage) -> None:
    await place.worker()
    await stage.done(stage.producer.send(Message("tasks", b"{}")))
    await place.kiq("x")
    assert await place.until(1) == [("x", 0)]
    (letter,) = await place.dead_letters()
    assert "is no task of Taskiq" in letter.properties[props.LAST_ERROR]


async def test_an_unknown_task_waits_for_a_worker_that_knows_it(
    place: Workplace, stage: Stage, caplog: pytest.LogCaptureFixture
) -> None:
    old, new = await place.worker(), place.new_broker()

    @new.task(task_name="new")
    async def note(text: str, context: Annotated[Context, TaskiqDepends()]) -> None:
        place.ran.append((text, context.message.labels["redeliveries"]))

    await place.kiq("x", "new")
    await stage.until(lambda: "knows a task 'new'" in caplog.text)
    await old.end()
    await place.worker(new)
    assert await place.until(1) == [("x", 1)]
    await place.assert_quiet()


async def test_a_task_that_nobody_knows_is_a_dead_letter(stage: Stage) -> None:
    async with Workplace(stage, redeliveries_max=2) as place:
        await place.worker()
        await place.kiq("x", "never")
        (letter,) = await place.dead_letters()
        assert "knows a task 'never'" in letter.properties[props.LAST_ERROR]


async def test_a_task_that_is_never_acknowledged_comes_again(place: Workplace) -> None:
    await place.worker()
    await place.kiq("x", ack_type=AcknowledgeType.MANUAL.value)
    await place.until(1)
    await place.kiq("y")  # Taskiq keeps the last task until the next one comes
    assert await place.until(3) == [("x", 0), ("y", 0), ("x", 1)]
    assert place.at_s[2] - place.at_s[0] == pytest.approx(INVISIBLE_MS / 1000, abs=2)


async def test_a_broker_that_restarts_is_found_again(place: Workplace, stage: Stage) -> None:
    await place.worker()
    await place.kiq("before")
    await place.until(1)
    await stage.restart()
    await place.kiq("after")
    assert [text for text, _ in await place.until(2)] == ["before", "after"]


async def test_a_namespace_keeps_tasks_apart(stage: Stage, place: Workplace) -> None:
    async with Workplace(stage, namespace="shop") as shop:
        await shop.worker()
        await place.kiq("nobody's")
        await shop.kiq("the shop's")
        assert await shop.until(1) == [("the shop's", 0)]
        await shop.assert_quiet()


async def test_a_task_is_scheduled_for_a_time_and_can_be_taken_back(
    place: Workplace, stage: Stage
) -> None:
    await place.worker()
    source = TimerScheduleSource(place.broker)
    task = place.broker.find_task("note")
    assert task is not None
    now = datetime.fromtimestamp(stage.clock.now_ms() / 1000, UTC)
    for text, after_s in (("first", 20), ("second", 30)):
        created = await stage.done(
            task.schedule_by_time(source, now + timedelta(seconds=after_s), text)
        )
    await stage.done(created.unschedule())
    assert await place.until(1) == [("first", 0)]
    await place.assert_quiet()
    with pytest.raises(PocketMQError, match="recall"):
        await stage.done(created.unschedule())
    with pytest.raises(UsageError, match="recall handle is invalid"):
        await stage.done(source.delete_schedule("x"))
    with pytest.raises(UsageError, match="crons and intervals need a source of Taskiq"):
        await stage.done(task.schedule_by_cron(source, "* * * * *", "x"))
    assert await source.get_schedules() == []


async def test_a_broker_of_taskiq_starts_and_ends_again(place: Workplace) -> None:
    await place.stage.done(place.broker.shutdown())
    with pytest.raises(SendTaskError) as refused:
        await place.kiq("x")
    assert isinstance(refused.value.__cause__, ClosedError)
    await place.stage.done(place.broker.startup())
    await place.stage.done(place.broker.startup())
    await place.kiq("y")
    await place.worker(place.broker)
    assert await place.until(1) == [("y", 0)]


@pytest.mark.parametrize(
    ("make", "text"),
    [
        (lambda: PocketMQBroker("a:1", invisble_ms=5), "did you mean 'invisible_ms'?"),
        (lambda: PocketMQBroker("a:1", pop_batch_size=33), "pop_batch_size=33 does not fit"),
        (lambda: PocketMQBroker("a:1", "a topic"), "a topic"),
    ],
)
def test_settings_that_do_not_fit_are_refused(make: Callable[[], object], text: str) -> None:
    with pytest.raises((ConfigError, UsageError), match=text.replace("?", r"\?")):
        make()
