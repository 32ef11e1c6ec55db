"""Read and write queues that become more and fewer while clients are at work."""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio
from support.brokers.broker_parts import GROUP, TOPIC, send_request
from support.brokers.broker_parts import Stage as BrokerStage
from support.brokers.member_parts import Stage

from pocketmq.broker.store.mending.check import check_directory
from pocketmq.client import Admin, Message, MessageQueue, ReceivedMessage
from pocketmq.protocol.codes import ResponseCode
from pocketmq.protocol.requests.offsets import UpdateConsumerOffsetRequest
from pocketmq.protocol.requests.topics import CreateTopicRequest
from pocketmq.testing.clock import VirtualClock

REFRESH_S = 30.0
"""After which clients ask for routes again."""


@pytest_asyncio.fixture
async def stage(tmp_path: Path, clock: VirtualClock) -> AsyncIterator[Stage]:
    async with Stage(tmp_path, clock) as stage:
        yield stage


@pytest_asyncio.fixture
async def brokers(tmp_path: Path, clock: VirtualClock, seed: int) -> AsyncIterator[BrokerStage]:
    async with BrokerStage(tmp_path, clock, seed) as stage:
        yield stage


class Group:
    """What one member got."""

    def __init__(self) -> None:
        self.got: list[ReceivedMessage] = []

    async def __call__(self, messages: list[ReceivedMessage]) -> None:
        self.got += messages

    @property
    def bodies(self) -> list[bytes]:
        return sorted(message.body for message in self.got)

    def queues(self) -> set[int]:
        return {message.queue_id for message in self.got}


async def change(stage: Stage, read: int | None = None, write: int | None = None) -> None:
    async with Admin(stage.namesrv, clock=stage.clock) as admin:
        await stage.done(admin.update_topic("T", read_queues=read, write_queues=write))


async def send_numbered(stage: Stage, start: int, count: int) -> Counter[int]:
    """Sends so many messages; how many went to each queue."""
    queues: Counter[int] = Counter()
    for number in range(start, start + count):
        result = await stage.done(stage.producer.send(Message("T", b"%03d" % number)))
        queues[result.queue.queue_id] += 1
    return queues


async def followed(stage: Stage, listener: Group, start: int) -> None:
    """Returns when all messages were handled, and the clients have asked for routes again."""
    await stage.until(lambda: len(listener.got) == start)
    await stage.clock.advance(REFRESH_S + 1)
    await stage.clock.advance(REFRESH_S + 1)


async def test_clients_follow_a_topic_that_grows_and_shrinks_and_grows(stage: Stage) -> None:
    listener = Group()
    await stage.join("a", listener)
    assert set(await send_numbered(stage, 0, 4)) == {0}
    await change(stage, read=4)
    await change(stage, write=4)
    await followed(stage, listener, 4)
    assert set(await send_numbered(stage, 4, 16)) == {0, 1, 2, 3}
    await followed(stage, listener, 20)
    assert listener.queues() == {0, 1, 2, 3}

    await change(stage, write=2)
    await followed(stage, listener, 20)
    assert set(await send_numbered(stage, 20, 8)) == {0, 1}
    await followed(stage, listener, 28)
    await change(stage, read=2)
    await followed(stage, listener, 28)
    await stage.restart()
    await stage.clock.advance(REFRESH_S + 1)
    assert set(await send_numbered(stage, 28, 8)) == {0, 1}
    await followed(stage, listener, 36)

    await change(stage, read=4, write=4)
    await followed(stage, listener, 36)
    assert set(await send_numbered(stage, 36, 16)) == {0, 1, 2, 3}
    await followed(stage, listener, 52)
    # Everything came once: old queues go on behind what was read of them.
    assert listener.bodies == [b"%03d" % number for number in range(52)]
    offsets = [m.queue_offset for m in listener.got if m.queue_id == 3]
    assert offsets == list(range(len(offsets)))


async def test_what_was_not_read_before_shrinking_comes_when_the_topic_grows_again(
    stage: Stage,
) -> None:
    await change(stage, read=2, write=2)
    for number in range(3):
        queue = MessageQueue("T", stage.broker.config.broker_name, 1)
        await stage.done(stage.producer.send(Message("T", b"%03d" % number), queue=queue))
    await change(stage, read=1, write=1)
    listener = Group()
    await stage.join("a", listener)
    await stage.clock.advance(REFRESH_S + 1)
    assert listener.got == []
    async with Admin(stage.namesrv, clock=stage.clock) as admin:
        left, hidden = await stage.done(admin.topic_queues("T"))
    assert (left.is_readable, left.is_hidden) == (True, False)
    assert (hidden.is_hidden, hidden.stats.count, hidden.unread) == (True, 3, {"cg": 3})
    await stage.restart()
    await change(stage, read=2)
    await followed(stage, listener, 3)
    assert [(m.queue_id, m.queue_offset) for m in listener.got] == [(1, 0), (1, 1), (1, 2)]


async def test_shrinking_names_what_nobody_gets_any_more(
    brokers: BrokerStage, caplog: pytest.LogCaptureFixture
) -> None:
    client = await brokers.started_with_topic(queues=4)
    client.make_group()
    for queue_id in (1, 2, 3, 3, 3):
        await client.send(queue_id=queue_id)
    for queue_id, offset in ((2, 1), (3, 1)):
        await client.ask(
            UpdateConsumerOffsetRequest(
                consumer_group=GROUP, topic=TOPIC, queue_id=queue_id, commit_offset=offset
            )
        )

    def request(read: int, write: int) -> CreateTopicRequest:
        return CreateTopicRequest(topic=TOPIC, read_queue_nums=read, write_queue_nums=write, perm=6)

    assert (await client.ask(request(4, 2))).remark is None
    held = await client.hold(3, queue_id=3)
    answer = await client.ask(request(2, 2))
    expected = (
        f"topic {TOPIC} has 2 read queues now, and nobody gets what is behind them until they are "
        f"raised again: queue 2 holds 1 messages; queue 3 holds 3 messages, unread 2 by {GROUP}"
    )
    assert answer.remark == expected
    assert expected in caplog.text
    assert (await held).code == ResponseCode.PULL_NOT_FOUND
    await client.broker.close()
    notes = check_directory(brokers.directory / "store").notes
    assert [note.split(":")[0] for note in notes] == [
        f"queue 2 of {TOPIC} holds 1 messages that nobody can read",
        f"queue 3 of {TOPIC} holds 3 messages that nobody can read",
    ]


async def test_queues_beyond_the_counts_are_refused_in_rocketmqs_words(
    brokers: BrokerStage,
) -> None:
    client = await brokers.started_with_topic(queues=2)
    await client.send(queue_id=1)
    await client.create_topic(TOPIC, read=2, write=1)
    # RocketMQ's check is the larger count: what was sent by an old route is not lost.
    assert (await client.send(queue_id=1)).queue_offset == 1
    await client.create_topic(TOPIC, read=1, write=1)
    refusal = await client.refusal(send_request(queue_id=1), b"x")
    assert refusal.code == ResponseCode.INVALID_PARAMETER
    assert refusal.remark.startswith(
        f"queueId[1] is illegal, topic:[{TOPIC}] topicConfig.writeQueueNums:[1]"
    )
    pull = await client.pull(queue_id=1)
    assert pull.code == ResponseCode.INVALID_PARAMETER
    assert str(pull.status).startswith(
        f"queueId[1] is illegal, topic:[{TOPIC}] topicConfig.readQueueNums:[1]"
    )
    assert (await client.stats())[1].max_offset == 2
    await client.broker.close()
    client = await brokers.start()
    await client.create_topic(TOPIC, read=2, write=2)
    assert [m.queue_offset for m in await client.everything(queue_id=1)] == [0, 1]
    assert (await client.send(queue_id=1)).queue_offset == 2
