"""What goes on when another member of a broker set leads: by a planned switch, or after a death."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable
from pathlib import Path
from typing import Any, TypeVar

import pytest
import pytest_asyncio
from support.brokers.broker_members import Members
from support.brokers.broker_parts import advance_until
from support.threads import PatientClock

from pocketmq.client import (
    ConsumeResult,
    LocalTransactionState,
    Message,
    MessageQueue,
    Producer,
    PushConsumer,
    ReceivedMessage,
    SimpleConsumer,
    TransactionProducer,
)
from pocketmq.client.results import SendStatus
from pocketmq.protocol.bodies.clients import CONSUME_FROM_FIRST_OFFSET, GroupConfig
from pocketmq.protocol.bodies.topics import TopicConfig
from pocketmq.testing.clock import VirtualClock

T = TypeVar("T")

TOPIC, GROUP = "Orders", "billing"
QUEUE = MessageQueue(TOPIC, "a", 0)
LEVELS = "1s 5s 10s"

pytestmark = pytest.mark.parametrize("how", ["switch", "death"])


@pytest.fixture
def clock() -> VirtualClock:
    return PatientClock()


@pytest_asyncio.fixture
async def pair(tmp_path: Path, clock: VirtualClock) -> AsyncIterator[Members]:
    pair = Members(
        tmp_path, clock, message_delay_level=LEVELS, transaction_check_interval=1000,
        transaction_time_out=1000, flush_delay_offset_interval=1000,
    )  # fmt: skip
    await pair.start()
    pair.leader.topics.put(TopicConfig(topic_name=TOPIC, read_queue_nums=1, write_queue_nums=1))
    yield pair
    await pair.close()


async def passing(pair: Members, work: Awaitable[T]) -> T:
    """Moves time forward until some work is done."""
    task = asyncio.ensure_future(work)
    await advance_until(pair.clock, task.done, 0.1)
    return task.result()


async def send(pair: Members, producer: Producer, *messages: Message) -> None:
    for message in messages:
        result = await passing(pair, producer.send(message))
        assert result.status is SendStatus.SEND_OK


def plain(*numbers: int) -> list[Message]:
    return [Message(TOPIC, b"%d" % number) for number in numbers]


class Taken:
    """What a listener was given, in order."""

    def __init__(self) -> None:
        self.bodies: list[bytes] = []

    def __call__(self, messages: list[ReceivedMessage]) -> None:
        self.bodies += [message.body for message in messages]

    @property
    def first_times(self) -> list[bytes]:
        return list(dict.fromkeys(self.bodies))


def consumer(pair: Members, listener: Any, **settings: Any) -> PushConsumer:
    made = PushConsumer(
        GROUP, pair.server.address, listener=listener, clock=pair.clock,
        consume_from_where=CONSUME_FROM_FIRST_OFFSET, concurrency=1, **settings,
    )  # fmt: skip
    made.subscribe(TOPIC)
    return made


async def test_a_push_consumer_goes_on_and_offsets_never_go_back(pair: Members, how: str) -> None:
    taken, seen = Taken(), [0]

    def look() -> bool:
        if pair.leader_or_none is not None and pair.leader.handlers:
            seen.append(pair.leader.offsets.get(GROUP, TOPIC, 0) or 0)
        return len(taken.first_times) == 20

    async with (
        Producer("p", pair.server.address, clock=pair.clock) as producer,
        consumer(pair, taken),
    ):
        await send(pair, producer, *plain(*range(10)))
        await advance_until(pair.clock, lambda: len(taken.bodies) == 10, 0.1)
        await advance_until(pair.clock, lambda: pair.leader.offsets.get(GROUP, TOPIC, 0) == 10, 0.5)
        look()
        await pair.lose_leader(how)
        await send(pair, producer, *plain(*range(10, 20)))
        await advance_until(pair.clock, look, 0.1)
        await advance_until(pair.clock, lambda: pair.leader.offsets.get(GROUP, TOPIC, 0) == 20, 0.5)
    assert taken.first_times == [b"%d" % number for number in range(20)]
    assert taken.bodies == taken.first_times  # all offsets were there: nothing came twice
    assert seen == sorted(seen)


async def test_orderly_consumers_keep_the_order_and_the_owner(pair: Members, how: str) -> None:
    one, other = Taken(), Taken()
    settings: dict[str, Any] = {"orderly": True, "pull_batch_size": 1}
    async with (
        Producer("p", pair.server.address, clock=pair.clock) as producer,
        consumer(pair, one, instance_name="one", **settings),
        consumer(pair, other, instance_name="other", **settings),
    ):
        await send(pair, producer, *plain(*range(10)))
        await advance_until(pair.clock, lambda: len(one.bodies) + len(other.bodies) == 10, 0.1)
        owner, idle = (one, other) if one.bodies else (other, one)
        await pair.lose_leader(how)
        await send(pair, producer, *plain(*range(10, 20)))
        await advance_until(pair.clock, lambda: len(owner.first_times) == 20, 0.1)
    assert owner.first_times == [b"%d" % number for number in range(20)]
    assert not idle.bodies  # the lock is the owner's still


class Undecided:
    """A listener that decides when it is asked for the second time."""

    def __init__(self) -> None:
        self.checked: list[bytes] = []

    async def execute_local_transaction(self, *_: object) -> LocalTransactionState:
        return LocalTransactionState.UNKNOWN

    async def check_local_transaction(self, message: ReceivedMessage) -> LocalTransactionState:
        self.checked.append(message.body)
        return LocalTransactionState.COMMIT


async def test_transactions_are_checked_back_by_the_new_leader(pair: Members, how: str) -> None:
    taken, listener = Taken(), Undecided()
    async with TransactionProducer(
        "p", pair.server.address, listener=listener, clock=pair.clock
    ) as producer:
        await passing(pair, producer.send_in_transaction(Message(TOPIC, b"half"), None))
        await pair.lose_leader(how)
        async with consumer(pair, taken):
            await advance_until(pair.clock, lambda: taken.bodies, 0.2)
            await pair.clock.advance(30)
    assert listener.checked[0] == b"half"
    assert taken.bodies == [b"half"]


async def test_delayed_messages_come_once_and_not_early(pair: Members, how: str) -> None:
    taken = Taken()
    async with Producer("p", pair.server.address, clock=pair.clock) as producer:
        begun_ms = pair.clock.now_ms()
        await send(
            pair, producer,
            Message(TOPIC, b"level", delay_level=3), Message(TOPIC, b"timer", delay_ms=20_000),
        )  # fmt: skip
        await pair.lose_leader(how)
        async with consumer(pair, taken):
            await advance_until(pair.clock, lambda: taken.bodies, 0.2)
            assert pair.clock.now_ms() - begun_ms >= 10_000
            await advance_until(pair.clock, lambda: len(taken.bodies) == 2, 0.2)
            assert pair.clock.now_ms() - begun_ms >= 20_000
            await pair.clock.advance(30)
    assert taken.bodies == [b"level", b"timer"]


async def test_what_was_delivered_before_does_not_come_again(pair: Members, how: str) -> None:
    taken = Taken()
    async with (
        Producer("p", pair.server.address, clock=pair.clock) as producer,
        consumer(pair, taken),
    ):
        await send(
            pair, producer,
            Message(TOPIC, b"level", delay_level=1), Message(TOPIC, b"timer", delay_ms=2000),
        )  # fmt: skip
        await advance_until(pair.clock, lambda: len(taken.bodies) == 2, 0.2)
        await pair.leader.store.checkpoint()  # the progress counts what is on the disk
        await pair.clock.advance(10)
        await pair.lose_leader(how)
        await pair.clock.advance(30)
    assert taken.bodies == [b"level", b"timer"]


async def test_pops_are_acknowledged_at_the_new_leader(pair: Members, how: str) -> None:
    async with (
        Producer("p", pair.server.address, clock=pair.clock) as producer,
        SimpleConsumer(
            GROUP, pair.server.address, clock=pair.clock,
            consume_from_where=CONSUME_FROM_FIRST_OFFSET,
        ) as popper,
    ):  # fmt: skip
        popper.subscribe(TOPIC)
        await send(pair, producer, *plain(*range(4)))
        popped: list[ReceivedMessage] = []
        while len(popped) < 4:
            popped += await passing(pair, popper.receive(invisible_ms=60_000, await_ms=1000))
        await passing(pair, popper.ack(popped[0]))
        await pair.lose_leader(how)
        await passing(pair, popper.ack(popped[1]))
        again: list[bytes] = []
        for _ in range(100):
            got = await passing(pair, popper.receive(invisible_ms=600_000, await_ms=5000))
            again += [message.body for message in got]
            if len(again) == 2:
                break
        assert sorted(again) == [b"2", b"3"]  # when their invisible time was over, and no others


async def test_retries_and_dead_letters_go_on(pair: Members, how: str) -> None:
    tries: list[int] = []

    def refuse(messages: list[ReceivedMessage]) -> ConsumeResult:
        tries.extend(message.reconsume_times for message in messages)
        return ConsumeResult.RETRY

    async with (
        Producer("p", pair.server.address, clock=pair.clock) as producer,
        consumer(pair, refuse, max_reconsume_times=2),
    ):
        await send(pair, producer, *plain(1))
        await advance_until(pair.clock, lambda: tries, 0.1)
        await pair.lose_leader(how)
        await advance_until(pair.clock, lambda: len(tries) >= 3, 0.5)

        def is_buried() -> bool:
            log = pair.leader.store.find_log(f"%DLQ%{GROUP}", 0)
            return log is not None and log.end_offset == 1

        await advance_until(pair.clock, is_buried, 0.5)
    assert sorted(set(tries)) == [0, 1, 2]


async def test_settings_of_topics_groups_and_the_broker_are_kept(pair: Members, how: str) -> None:
    leader = pair.leader
    leader.groups.put(GroupConfig(group_name=GROUP, retry_max_times=7))
    leader.groups.set_readable(GROUP, TOPIC, readable=False)
    leader.settings.change({"fileReservedTime": "5"})
    leader.offsets.reset(GROUP, TOPIC, {0: 3})
    await advance_until(pair.clock, lambda: pair.leading.leader.is_replicated, 0.1)
    await pair.lose_leader(how)
    now = pair.leader
    group = now.groups.get(GROUP)
    assert group is not None
    assert group.retry_max_times == 7
    assert not now.groups.may_read(GROUP, TOPIC)
    assert now.config.file_reserved_time == 5
    assert now.topics.get(TOPIC) == leader.topics.get(TOPIC)
