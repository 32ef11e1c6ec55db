"""What a broker knows after a restart, whatever was lost in between."""

from __future__ import annotations

import errno
import os
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio
from support.brokers.broker_parts import GROUP, TOPIC, Client, Stage, bulk_record, bulk_request
from support.brokers.transaction_parts import COMMIT, QUIET, ROLLBACK, bodies, send_half
from support.store.disks import FailingFiles

from pocketmq.broker.store.disk.errors import DirectoryInUseError, FormatError
from pocketmq.broker.store.mending.check import check_directory
from pocketmq.protocol.bodies.clients import GroupConfig, Subscription
from pocketmq.protocol.codes import ResponseCode
from pocketmq.protocol.messages import properties as props
from pocketmq.protocol.names.names import retry_topic
from pocketmq.protocol.requests.consuming import ConsumerSendMsgBackRequest
from pocketmq.protocol.requests.offsets import (
    OffsetResponse,
    QueryConsumerOffsetRequest,
    UpdateConsumerOffsetRequest,
)
from pocketmq.protocol.requests.topics import GroupConfigRequest, UpdateGroupRequest
from pocketmq.testing.clock import VirtualClock


@pytest_asyncio.fixture
async def stage(tmp_path: Path, clock: VirtualClock, seed: int) -> AsyncIterator[Stage]:
    async with Stage(tmp_path, clock, seed) as stage:
        yield stage
    assert check_directory(tmp_path / "store").problems == []


class UnreadableFiles(FailingFiles):
    """A disk that takes everything and gives nothing of the logs back, on order."""

    is_unreadable = False

    def read(self, path: Path | str, position: int, size: int) -> bytes:
        if self.is_unreadable and Path(path).suffix == ".log":
            raise OSError(errno.EIO, os.strerror(errno.EIO), str(path))
        return super().read(path, position, size)


async def offset_of(client: Client, queue_id: int) -> int:
    request = QueryConsumerOffsetRequest(
        consumer_group=GROUP, topic=TOPIC, queue_id=queue_id, set_zero_if_not_found=False
    )
    return (await client.ask(request)).read(OffsetResponse).offset


async def test_topics_groups_offsets_and_messages_outlive_a_restart(stage: Stage) -> None:
    client = await stage.started_with_topic(queues=3)
    group = GroupConfig(group_name=GROUP, retry_max_times=5, consume_broadcast_enable=False)
    await client.ask(UpdateGroupRequest(), group.encode())
    for index in range(9):
        await client.send(b"%d" % index, queue_id=index % 3)
    for queue_id in range(3):
        await client.ask(
            UpdateConsumerOffsetRequest(
                consumer_group=GROUP, topic=TOPIC, queue_id=queue_id, commit_offset=queue_id
            )
        )
    version = client.broker.topics.version
    await client.broker.close()

    client = await stage.start()
    assert client.broker.topics.version == version
    answer = await client.ask(GroupConfigRequest(group=GROUP))
    assert GroupConfig.decode(answer.body) == group
    for queue_id in range(3):
        assert await offset_of(client, queue_id) == queue_id
        found = await client.everything(queue_id=queue_id)
        assert [m.body for m in found] == [b"%d" % i for i in range(queue_id, 9, 3)]


async def test_a_lost_meta_db_costs_offsets_but_no_message(stage: Stage) -> None:
    client = await stage.started_with_topic(queues=12)
    for queue_id in (0, 11):
        await client.send(b"%d" % queue_id, queue_id=queue_id)
    await client.broker.close()
    for path in (stage.directory / "store").glob("meta.db*"):
        path.unlink()

    client = await stage.start(auto_create_topic_enable=False)
    topic = client.broker.topics.get(TOPIC)
    assert topic is not None
    assert topic.read_queue_nums == topic.write_queue_nums == 12
    for queue_id in (0, 11):
        assert [m.body for m in await client.everything(queue_id=queue_id)] == [b"%d" % queue_id]
        assert (await client.send(queue_id=queue_id)).queue_offset == 1


async def test_a_lost_meta_db_costs_nothing_that_waits(stage: Stage, clock: VirtualClock) -> None:
    client = await stage.started_with_topic(**QUIET)
    ended = await send_half(client, clock, b"ended")
    half = await send_half(client, clock, b"open")
    await client.ask(ended.end(COMMIT))
    for body, delay in (
        (b"level", {"DELAY": "3"}),
        (b"timer", {"TIMER_DELAY_SEC": "20"}),
    ):
        await client.send(body, queue_id=1, properties=props.encode(delay))
    message = (await client.pull()).messages[0]
    back = ConsumerSendMsgBackRequest(offset=message.physical_offset, group=GROUP, delay_level=4)
    await client.ask(back)
    await client.broker.close()
    for path in (stage.directory / "store").glob("meta.db*"):
        path.unlink()

    client = await stage.start(**QUIET)
    assert await client.refusal(ended.end(ROLLBACK))
    await client.ask(ended.end(COMMIT))
    await client.ask(half.end(COMMIT))
    assert bodies(client.broker) == [b"ended", b"open"]
    await clock.advance(31)
    assert bodies(client.broker, TOPIC, 1) == [b"level", b"timer"]
    assert bodies(client.broker, retry_topic(GROUP)) == [b"ended"]


async def test_a_damaged_meta_db_stops_the_start_and_names_the_way_out(stage: Stage) -> None:
    client = await stage.started_with_topic()
    await client.send(b"kept")
    await client.broker.close()
    path = stage.directory / "store" / "meta.db"
    path.write_bytes(b"!" * 10_000)
    with pytest.raises(FormatError, match=r"meta\.db: SQLite cannot read it .* move it away"):
        await stage.broker()
    for found in path.parent.glob("meta.db*"):
        found.unlink()
    client = await stage.start()
    assert [m.body for m in await client.everything()] == [b"kept"]


async def test_a_second_broker_is_refused_and_disturbs_nothing(stage: Stage) -> None:
    client = await stage.started_with_topic()
    with pytest.raises(DirectoryInUseError, match=f"in use by process {os.getpid()}"):
        await stage.broker()
    await client.send()


async def test_a_pull_that_cannot_be_read_does_not_harm_the_sender_who_woke_it(
    stage: Stage,
) -> None:
    files = UnreadableFiles()
    client = await stage.started_with_topic(files=files)
    sender = stage.client(client.broker)
    held = [await client.hold(), await client.hold()]
    files.is_unreadable = True
    for index in range(3):
        assert (await sender.send(b"x")).queue_offset == index
    for task in held:
        answer = await task
        assert answer.code == ResponseCode.SYSTEM_ERROR
        assert "reading failed: [Errno 5] Input/output error" in str(answer.status)
    files.is_unreadable = False
    assert len(await client.everything()) == 3


async def test_refused_messages_of_a_batch_leave_no_trace_after_a_restart(stage: Stage) -> None:
    files = FailingFiles()
    client = await stage.started_with_topic(files=files)
    await client.send(b"kept")
    files.fail_after(0, errno.EIO, 1.0)
    records = [bulk_record(b"lost"), bulk_record(b"lost too")]
    refusal = await client.refusal(bulk_request(2), b"".join(records))
    assert refusal.code == ResponseCode.SERVICE_NOT_AVAILABLE
    await client.send(b"next")
    await client.broker.close()
    client = await stage.start()
    assert [m.body for m in await client.everything()] == [b"kept", b"next"]


async def test_offsets_that_found_no_room_are_saved_when_there_is_some(
    stage: Stage, clock: VirtualClock
) -> None:
    client = await stage.started_with_topic()
    broker = client.broker
    await client.heartbeat(Subscription(topic=TOPIC))
    database = broker.store.metadata._db
    (pages,) = database.execute("PRAGMA page_count").fetchone()
    database.execute(f"PRAGMA max_page_count={pages}")
    for number in range(400):
        for queue_id in range(4):
            broker.offsets.commit(f"{GROUP}-{number:0100}", TOPIC, queue_id, number)
    await clock.advance(6)
    assert broker.store.metadata.consumer_offsets() == []
    database.execute("PRAGMA max_page_count=100000")
    await clock.advance(6)
    assert len(broker.store.metadata.consumer_offsets()) == 1600


async def test_a_topic_that_was_expanded_has_all_its_queues_when_that_was_lost(
    stage: Stage,
) -> None:
    """The power went when neither the new queue counts nor the new queue were in meta.db."""
    client = await stage.started_with_topic(queues=2)
    await client.send(b"first")
    await client.broker.close()
    path = stage.directory / "store" / "meta.db"
    before = path.read_bytes()
    client = await stage.start()
    await client.create_topic(read=6, write=6)
    await client.send(b"in the new queue", queue_id=5)
    await client.broker.close()
    assert b"clean_stopyes" in before
    path.write_bytes(before.replace(b"clean_stopyes", b"clean_stopno "))
    for _ in range(2):  # also when the next stop comes at once
        client = await stage.start()
        topic = client.broker.topics.get(TOPIC)
        assert topic is not None
        assert (topic.read_queue_nums, topic.write_queue_nums) == (6, 6)
        assert [m.body for m in await client.everything(queue_id=5)] == [b"in the new queue"]
        await client.broker.close()
