"""Redrives that are killed at every step, or lose their leader: each dead letter is sent once."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Callable, Sequence
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from support.brokers.broker_members import Members
from support.brokers.broker_parts import Client, Stage, advance_until
from support.brokers.redrive_parts import (
    DEAD,
    RETRY,
    changed,
    counts_of,
    die,
    ended,
    ordered,
    redrives_of,
    results_of,
    started,
)
from support.store.disks import PowerCutFiles
from support.store.stores import copy_of
from support.threads import PatientClock

from pocketmq.broker.store.disk.files import Files
from pocketmq.broker.store.metadata.metadata import Metadata
from pocketmq.protocol.bodies.topics import TopicConfig
from pocketmq.testing.clock import VirtualClock

LETTERS = 5


@pytest.fixture
def clock() -> VirtualClock:
    return PatientClock()


class WatchedFiles(Files):
    """Tells before and after each change of a log, and each sync."""

    def __init__(self) -> None:
        super().__init__()
        self.step: Callable[[], object] = lambda: None

    def write(self, path: Path | str, position: int, data: bytes | bytearray | memoryview) -> None:
        self.step()
        super().write(path, position, data)
        self.step()

    def write_parts(
        self, path: Path | str, position: int, parts: Sequence[bytes | bytearray | memoryview]
    ) -> None:
        self.step()
        super().write_parts(path, position, parts)
        self.step()

    def sync(self, path: Path) -> None:
        super().sync(path)
        self.step()


async def whole(client: Client, clock: VirtualClock) -> None:
    """Lets a redrive come to its end, and checks that each dead letter was sent exactly once."""
    for _ in range(20):
        await clock.advance(0.2)
    redrive = await ended(client)
    assert (redrive.state, redrive.sent, redrive.refused) == ("done", LETTERS, 0)
    bodies = [message.body for message in await client.everything(topic=RETRY)]
    assert bodies == [b"%d" % number for number in range(LETTERS)]
    places = {r.offset: (r.outcome, r.to_offset) for r in await results_of(client)}
    assert places == {number: ("sent", number) for number in range(LETTERS)}
    counts = await counts_of(client)
    assert (counts.open, counts.redriven) == (0, LETTERS)


@pytest.mark.parametrize("flush", ["ASYNC_FLUSH", "SYNC_FLUSH"])
async def test_a_redrive_killed_at_every_step_sends_each_dead_letter_once(
    stage: Stage, clock: VirtualClock, tmp_path: Path, flush: str
) -> None:
    files, numbers, killed = WatchedFiles(), count(), list[Path]()
    client = await stage.started_with_topic(files=files, flush_disk_type=flush)
    for number in range(LETTERS):
        await die(client, b"%d" % number)

    def step(*_: object) -> None:
        killed.append(copy_of(tmp_path / "store", f"killed-{next(numbers)}"))

    files.step = step
    client.broker.store.metadata.on_change = step
    await started(client, ordered(rate=20.0))  # two messages a turn: three turns
    for _ in range(10):
        await clock.advance(0.1)
    assert (await ended(client)).state == "done"
    files.step = lambda: None
    client.broker.store.metadata.on_change = None
    assert len(killed) >= 20
    begun = 0
    for directory in killed:
        survivor = await stage.start(store_path_root_dir=str(directory), flush_disk_type=flush)
        if await redrives_of(survivor):
            begun += 1
            await whole(survivor, clock)
        await survivor.broker.close()
    assert begun >= 15


async def test_a_power_cut_sends_nothing_twice(
    stage: Stage, clock: VirtualClock, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = PowerCutFiles()
    client = await stage.started_with_topic(files=files, flush_interval_commit_log=600_000)
    for number in range(LETTERS):
        await die(client, b"%d" % number)
    # SQLite's own promise is taken as kept: the last durable transaction is there, none after it.
    synced, write = tmp_path / "synced", Metadata.transaction
    synced.mkdir()

    def transaction(metadata: Metadata, changes: Any, *, durably: bool = False) -> None:
        write(metadata, changes, durably=durably)
        if durably:
            for path in metadata.paths[:2]:
                shutil.copy(path, synced)

    monkeypatch.setattr(Metadata, "transaction", transaction)
    await started(client, ordered(rate=20.0))
    await clock.advance(0.15)
    assert len(await client.everything(topic=RETRY)) == 4
    monkeypatch.undo()
    left = tmp_path / "left"
    files.left_after_power_cut(tmp_path / "store", left)
    for path in synced.iterdir():
        path.rename(left / path.name)
    survivor = await stage.start(store_path_root_dir=str(left))
    (redrive,) = await redrives_of(survivor)
    assert redrive.sent == 0  # nobody has written down what was sent
    await whole(survivor, clock)


async def test_a_paused_redrive_stays_paused_over_a_restart(
    stage: Stage, clock: VirtualClock
) -> None:
    client = await stage.started_with_topic()
    for number in range(LETTERS):
        await die(client, b"%d" % number)
    await started(client, ordered(rate=20.0))
    await clock.advance(0.05)
    await changed(client, "pause")
    await client.broker.close()
    client = await stage.start()
    await clock.advance(60)
    (redrive,) = await redrives_of(client)
    assert (redrive.state, redrive.sent) == ("paused", 2)
    await changed(client, "resume")
    await whole(client, clock)


@pytest.mark.parametrize("how", ["switch", "death"])
async def test_the_next_leader_goes_on_and_sends_nothing_twice(
    tmp_path: Path, clock: VirtualClock, how: str
) -> None:
    pair = Members(tmp_path, clock)
    await pair.start()
    try:
        topic = TopicConfig(topic_name="TopicTest", read_queue_nums=1, write_queue_nums=1)
        pair.leader.topics.put(topic)
        client = pair.client(pair.leader)
        for number in range(LETTERS):
            await _passing(pair, die(client, b"%d" % number))
        await _passing(pair, started(client, ordered(rate=4.0)))
        await pair.clock.advance(0.6)
        (redrive,) = await _passing(pair, redrives_of(client))
        assert 0 < redrive.sent < LETTERS
        await pair.lose_leader(how)
        client = pair.client(pair.leader)
        assert DEAD in pair.leader.topics
        await pair.clock.advance(3)
        await _passing(pair, whole(client, clock))
    finally:
        await pair.close()


async def _passing(pair: Members, work: Any) -> Any:
    task = asyncio.ensure_future(work)
    await advance_until(pair.clock, task.done, 0.1)
    return task.result()
