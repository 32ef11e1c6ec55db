"""The machine of a broker is lost: what a backup brings back, and what it refuses."""

from __future__ import annotations

import shutil
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
from support.brokers.backup_parts import AskedBroker, backed_up
from support.brokers.broker_parts import GROUP, TOPIC, Client, Stage, advance_until
from support.brokers.delay_parts import QUIET, in_log
from support.brokers.pop_parts import ack, pop
from support.brokers.transaction_parts import COMMIT, send_half
from support.store.stores import assert_sound, damage

from pocketmq.broker.backup.checking import check_backups
from pocketmq.broker.backup.copying import BackupOptions, BackupReport, back_up
from pocketmq.broker.backup.directory import BackupDirectory
from pocketmq.broker.backup.packs import pack_path
from pocketmq.broker.backup.restoring import RestoreReport, restore
from pocketmq.broker.backup.wire import FROM_BEGINNING, WANTS_MAX, Want, encode_wants
from pocketmq.broker.store.disk.errors import FormatError
from pocketmq.protocol.errors import OperatingError, ResponseError, UsageError
from pocketmq.protocol.messages import properties as props
from pocketmq.protocol.requests.extensions.backups import (
    BackupLogsRequest,
    BackupTablesRequest,
    BackupTablesResponse,
)
from pocketmq.protocol.requests.offsets import (
    OffsetResponse,
    QueryConsumerOffsetRequest,
    UpdateConsumerOffsetRequest,
)
from pocketmq.protocol.requests.topics import DeleteTopicRequest
from pocketmq.runtime.clock import SystemClock
from pocketmq.testing.clock import VirtualClock

SMALL: dict[str, Any] = {**QUIET, "segment_size": 65_536}


@pytest_asyncio.fixture
async def stage(tmp_path: Path, clock: VirtualClock, seed: int) -> AsyncIterator[Stage]:
    async with Stage(tmp_path, clock, seed) as stage:
        yield stage


class Machine:
    """A broker whose data directory can be lost, and its backups on another disk."""

    def __init__(self, stage: Stage, clock: VirtualClock) -> None:
        self.stage, self.clock = stage, clock
        self.data = stage.directory / "store"
        self.backups = stage.directory / "elsewhere" / "backups"

    async def back_up(self, client: Client, **options: int) -> BackupReport:
        return await backed_up(
            self.backups, client.pool, client.broker.address, options=BackupOptions(**options)
        )

    async def restore(self, **options: Any) -> RestoreReport:
        report = await restore(self.backups, self.data, SystemClock(), **options)
        assert_sound(self.data)
        return report

    async def lose(self, client: Client) -> None:
        """The broker's process and its directory are gone at once."""
        shutil.rmtree(self.data)
        await client.broker.close()
        shutil.rmtree(self.data, ignore_errors=True)


@pytest.fixture
def machine(stage: Stage, clock: VirtualClock) -> Machine:
    return Machine(stage, clock)


async def commit_offset(client: Client, offset: int, queue_id: int = 0) -> None:
    await client.ask(
        UpdateConsumerOffsetRequest(
            consumer_group=GROUP, topic=TOPIC, queue_id=queue_id, commit_offset=offset
        )
    )


async def offset_of(client: Client, queue_id: int = 0) -> int:
    request = QueryConsumerOffsetRequest(
        consumer_group=GROUP, topic=TOPIC, queue_id=queue_id, set_zero_if_not_found=False
    )
    return (await client.ask(request)).read(OffsetResponse).offset


async def test_everything_of_a_broker_comes_back(
    stage: Stage, machine: Machine, clock: VirtualClock
) -> None:
    client = await stage.started_with_topic(**SMALL)
    client.make_group()
    for index in range(200):
        await client.send(b"%d" % index, queue_id=index % 4)
    for queue_id in range(4):
        await commit_offset(client, 10 + queue_id, queue_id)
    await client.send(b"late", properties=props.encode({props.DELAY: "2"}))
    due_ms = clock.now_ms() + 8000
    await client.send(b"timed", properties=props.encode({props.TIMER_DELIVER_MS: str(due_ms)}))
    half = await send_half(client, clock, b"half")
    await machine.back_up(client)
    await machine.lose(client)

    report = await machine.restore()
    assert report.records == 203
    client = await stage.start(**SMALL)
    for queue_id in range(4):
        found = await client.everything(queue_id=queue_id)
        assert [m.body for m in found] == [b"%d" % i for i in range(queue_id, 200, 4)]
        assert [m.queue_offset for m in found] == list(range(50))
        assert await offset_of(client, queue_id) == 10 + queue_id
    assert (await client.send(b"next", queue_id=1)).queue_offset == 50
    await client.ask(half.end(COMMIT))
    await advance_until(clock, lambda: len(in_log(client.broker)) == 53)
    assert {m.body for m in in_log(client.broker)[50:]} == {b"late", b"timed", b"half"}


async def test_popped_messages_come_back_as_they_were(stage: Stage, machine: Machine) -> None:
    client = await stage.started_with_topic(queues=1, **SMALL)
    client.make_group()
    for body in (b"done", b"open", b"left"):
        await client.send(body)
    first = await pop(client, max_msg_nums=2)
    await ack(client, first.messages[0])
    await machine.back_up(client)
    await machine.lose(client)
    await machine.restore()
    client = await stage.start(**SMALL)
    assert (await pop(client)).bodies == [b"left"]
    assert await client.max_offset() == 3


async def test_a_second_backup_copies_what_is_new(stage: Stage, machine: Machine) -> None:
    client = await stage.started_with_topic(**SMALL)
    for index in range(100):
        await client.send(b"%d" % index * 20, queue_id=index % 4)
    first = (await machine.back_up(client)).backup
    assert (await machine.back_up(client)).backup.copied_size == 0
    await client.send(b"new")
    third = (await machine.back_up(client)).backup
    assert 0 < third.copied_size < 300, "one message"
    assert third.size > first.size
    await machine.lose(client)
    await machine.restore()
    client = await stage.start(**SMALL)
    assert len(await client.everything()) == 26
    await client.broker.close()
    shutil.rmtree(machine.data)
    await machine.restore(number=1)
    client = await stage.start(**SMALL)
    assert len(await client.everything()) == 25


async def test_what_retention_removes_leaves_the_backup_too(
    stage: Stage, machine: Machine, clock: VirtualClock
) -> None:
    client = await stage.started_with_topic(queues=2, **SMALL, file_reserved_time=1)
    for queue_id in range(2):
        for _ in range(40):
            await client.send(b"old" * 1000, queue_id=queue_id)
    await machine.back_up(client)
    await clock.advance(7200)
    await client.send(b"young")
    await client.broker.store.checkpoints.take_all()
    while await client.broker.parts.retention.run():
        await client.broker.store.checkpoints.take_all()
    ends = [await client.max_offset(queue_id) for queue_id in range(2)]
    assert ends == [41, 40]
    backup = (await machine.back_up(client, keep=1)).backup
    assert BackupDirectory(machine.backups).numbers() == [2]
    assert len(list((machine.backups / "packs").iterdir())) == 1
    await machine.lose(client)
    await machine.restore()
    assert backup.size < 1000
    client = await stage.start(**SMALL)
    assert [await client.max_offset(queue_id) for queue_id in range(2)] == ends
    (young,) = (await client.pull(40)).messages
    assert young.body == b"young"
    assert (await client.send(b"next", queue_id=1)).queue_offset == 40


async def test_a_log_that_lost_its_end_and_went_on_is_compared_by_its_records(
    stage: Stage, machine: Machine
) -> None:
    client = await stage.started_with_topic(queues=1, **SMALL)
    await client.send(b"first")
    await client.broker.close()
    kept = machine.data.with_name("kept")
    shutil.copytree(machine.data, kept)
    client = await stage.start(**SMALL)
    await client.send(b"lost")
    await machine.back_up(client)
    await client.broker.close()
    shutil.rmtree(machine.data)
    kept.rename(machine.data)
    client = await stage.start(**SMALL)
    await client.send(b"here")
    await client.send(b"more")
    await machine.back_up(client)
    await machine.lose(client)
    await machine.restore()
    client = await stage.start(**SMALL)
    assert [m.body for m in await client.everything()] == [b"first", b"here", b"more"]


class _Deleting(AskedBroker):
    client: Client

    async def before_logs(self) -> None:
        await self.client.ask(DeleteTopicRequest(topic=TOPIC))


async def test_a_topic_that_is_deleted_meanwhile_is_empty_in_the_backup(
    stage: Stage, machine: Machine
) -> None:
    client = await stage.started_with_topic(queues=1, **SMALL)
    client.make_group()
    await client.send(b"gone")
    await commit_offset(client, 1)
    broker = _Deleting(client.pool, client.broker.address)
    broker.client = client
    report = await back_up(machine.backups, broker, SystemClock())
    assert "was deleted during the backup" in report.backup.notes[0]
    assert not report.incomplete
    await machine.lose(client)
    await machine.restore()
    client = await stage.start(**SMALL)
    assert await offset_of(client) == 0, "no message that comes is skipped"
    assert (await client.send(b"new")).queue_offset == 0


class _Restarting(AskedBroker):
    client: Client
    stage: Stage

    async def before_logs(self) -> None:
        await self.client.broker.close()
        self._address = (await self.stage.broker(**SMALL)).address


async def test_a_restart_of_the_broker_ends_a_backup(stage: Stage, machine: Machine) -> None:
    client = await stage.started_with_topic(queues=1, **SMALL)
    await client.send()
    await machine.back_up(client)
    await client.send()
    broker = _Restarting(client.pool, client.broker.address)
    broker.client, broker.stage = client, stage
    with pytest.raises(ResponseError, match="the broker was restarted"):
        await back_up(machine.backups, broker, SystemClock())
    assert BackupDirectory(machine.backups).numbers() == [1]
    assert check_backups(machine.backups).problems == []


async def test_one_changed_byte_is_found(stage: Stage, machine: Machine) -> None:
    client = await stage.started_with_topic(queues=1, **SMALL)
    await client.send(b"precious" * 100)
    await machine.back_up(client)
    pack = pack_path(machine.backups, 1)
    size = pack.stat().st_size
    assert check_backups(machine.backups).problems == []
    for position in (0, 9, 12, 14, 40, size // 2, size - 1):
        damage(pack, position)
        (problem,) = check_backups(machine.backups).problems
        assert str(pack) in problem
        with pytest.raises(FormatError, match=r"00000001\.pack"):
            await restore(machine.backups, machine.data.with_name("new"), SystemClock())
        assert not machine.data.with_name("new").exists()
        damage(pack, position)
    pack.rename(pack.with_suffix(".away"))
    (problem,) = check_backups(machine.backups).problems
    assert "is missing" in problem
    pack.with_suffix(".away").rename(pack)
    listed = BackupDirectory(machine.backups).backup_path(1)
    for position in (0, 10, 14, 100):
        damage(listed, position)
        with pytest.raises(FormatError, match=r"00000001\.backup"):
            await restore(machine.backups, machine.data.with_name("new"), SystemClock())
        assert check_backups(machine.backups).problems
        damage(listed, position)
    assert check_backups(machine.backups).problems == []


async def test_a_restore_changes_nothing_that_is_there(stage: Stage, machine: Machine) -> None:
    client = await stage.started_with_topic(queues=1, **SMALL)
    await client.send()
    await machine.back_up(client)
    with pytest.raises(UsageError, match="is there and not empty"):
        await restore(machine.backups, machine.data, SystemClock())
    with pytest.raises(UsageError, match="there are: 1"):
        await restore(machine.backups, machine.data.with_name("new"), SystemClock(), 7)
    with pytest.raises(UsageError, match="no directory of backups"):
        await restore(machine.data, machine.data.with_name("new"), SystemClock())
    with pytest.raises(UsageError, match="no directory of backups"):
        await backed_up(machine.data, client.pool, client.broker.address)


async def test_a_directory_is_of_one_broker_and_one_process(stage: Stage, machine: Machine) -> None:
    client = await stage.started_with_topic(queues=1, **SMALL)
    await machine.back_up(client)
    directory = BackupDirectory(machine.backups)
    with (
        directory.held(changes=True),
        pytest.raises(OperatingError, match="works with the backups"),
    ):
        await machine.back_up(client)
    other = stage.client(
        await stage.broker(
            broker_name="other", store_path_root_dir=str(stage.directory / "other"), **SMALL
        )
    )
    with pytest.raises(UsageError, match="has backups of broker"):
        await machine.back_up(other)


async def test_a_damaged_queue_keeps_what_the_last_backup_has(
    stage: Stage, machine: Machine
) -> None:
    client = await stage.started_with_topic(queues=2, **QUIET)
    for queue_id in range(2):
        await client.send(b"sound", queue_id=queue_id)
    await machine.back_up(client)
    await client.send(b"rotten" * 100)
    await client.broker.store.checkpoints.take_all()
    log = machine.data / "queues" / TOPIC / "0" / f"{0:020d}.log"
    damage(log, log.stat().st_size - 200)
    report = await machine.back_up(client)
    assert report.incomplete
    assert "queue 0 cannot be copied" in report.backup.notes[0]
    await machine.lose(client)
    await machine.restore()
    client = await stage.start(**SMALL)
    assert [m.body for m in await client.everything()] == [b"sound"]
    assert [m.body for m in await client.everything(queue_id=1)] == [b"sound"]


async def test_wrong_requests_are_refused(stage: Stage) -> None:
    client = await stage.started_with_topic(queues=1, **SMALL)
    await client.send()
    answer = (await client.ask(BackupTablesRequest())).read(BackupTablesResponse)
    assert answer.pages > 1
    beyond = BackupTablesRequest(snapshot=answer.snapshot, page=answer.pages)
    assert f"the snapshot has {answer.pages}" in (await client.refusal(beyond)).remark
    for unknown in (BackupTablesRequest(snapshot="x-1"), BackupLogsRequest(snapshot="x-1")):
        refused = await client.refusal(unknown, encode_wants([]))
        assert "run the backup again" in refused.remark
    logs = BackupLogsRequest(snapshot=answer.snapshot)
    assert "cannot be read" in (await client.refusal(logs, b"\xff")).remark
    many = encode_wants([Want(1, 0, FROM_BEGINNING, 1, None)] * (WANTS_MAX + 1))
    assert f"at most {WANTS_MAX}" in (await client.refusal(logs, many)).remark
    for _ in range(2):
        await client.ask(BackupTablesRequest())
    assert "run the backup again" in (await client.refusal(logs, encode_wants([]))).remark
